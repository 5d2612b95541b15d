//! `[audit]`: the files of the audit log.

use super::parse;
use super::reader::{Document, Section};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// `[audit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// Bytes of a file; beyond them another is begun.
    pub file_bytes_max: u64,
    /// How long records go into one file.
    pub file_age_max: Duration,
    /// Bytes of all files; beyond them the oldest is removed.
    pub bytes_max: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file_bytes_max: 16 << 20, file_age_max: 30 * DAY, bytes_max: 4 << 30 }
    }
}

/// Reads `[audit]`.
pub fn read_audit(mut s: Section<'_>, doc: &mut Document<'_>, default: AuditConfig) -> AuditConfig {
    let config = AuditConfig {
        file_bytes_max: s.or(doc, "file_bytes_max", default.file_bytes_max, parse::bytes(64 << 10..=256 << 20)),
        file_age_max: s.or(doc, "file_age_max", default.file_age_max, parse::duration(DAY / 24..=3650 * DAY)),
        bytes_max: s.or(doc, "bytes_max", default.bytes_max, parse::bytes(1 << 20..=1 << 40)),
    };
    if config.bytes_max < config.file_bytes_max.saturating_mul(2) {
        let found = format!("{} bytes, which hold no two files", config.bytes_max);
        let expected = format!("twice audit.file_bytes_max, {} bytes, or more", config.file_bytes_max * 2);
        doc.report(s.value_at("bytes_max"), &s.key("bytes_max"), found, expected);
    }
    s.finish(doc);
    config
}
