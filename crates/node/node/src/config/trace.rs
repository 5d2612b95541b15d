//! `[device.NAME.trace]`: how much of what a device says is kept.
//!
//! ```toml
//! [device.relay1.trace]
//! enabled = true               # false: nothing is recorded
//! keep = "1m"                  # in memory, and so before the device went away
//! memory = "64KiB"             # at most; a device that says little takes little
//! disk = "16MiB"               # files below the data folder, over restarts; without it none
//! ```

use super::parse;
use super::reader::{Document, Section};
use std::time::Duration;

const KIB: u64 = 1024;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// How much of what a device says is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Whether it is recorded.
    pub enabled: bool,
    /// How long a record is kept in memory.
    pub keep: Duration,
    /// Bytes of memory at most.
    pub memory: usize,
    /// Bytes on the disk at most; 0 writes none.
    pub disk: u64,
}

impl Default for TraceConfig {
    /// The last minute, in 64 KiB at most, none on the disk.
    fn default() -> Self {
        Self { enabled: true, keep: 60 * SECOND, memory: 64 * 1024, disk: 0 }
    }
}

impl TraceConfig {
    /// Reads the table.
    pub fn read(doc: &mut Document<'_>, mut s: Section<'_>) -> Self {
        let default = Self::default();
        let enabled = s.or(doc, "enabled", default.enabled, parse::boolean);
        let keep = s.or(doc, "keep", default.keep, parse::duration(SECOND..=HOUR));
        let memory = s.or(doc, "memory", 64 * KIB, parse::bytes(4 * KIB..=16 * KIB * KIB));
        let disk = s.optional(doc, "disk", parse::bytes(64 * KIB..=1024 * KIB * KIB)).unwrap_or(default.disk);
        s.finish(doc);
        Self {
            enabled,
            keep,
            memory: usize::try_from(memory).unwrap_or(default.memory),
            disk: if enabled { disk } else { 0 },
        }
    }
}
