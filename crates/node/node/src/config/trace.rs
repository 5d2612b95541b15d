//! `[device.NAME.trace]`: how much of what a device says is kept.
//!
//! ```toml
//! [device.relay1.trace]
//! enabled = true               # false: nothing is recorded
//! keep = "1m"                  # in memory, and so before the device went away
//! memory = "64KiB"             # at most; a device that says little takes little
//! disk = "16MiB"               # files below the data folder, over restarts; without it none
//! ```

use super::reader::{Document, Section};
use super::settings::{DEVICE_TRACE_DISK, DEVICE_TRACE_ENABLED, DEVICE_TRACE_KEEP, DEVICE_TRACE_MEMORY};
use std::time::Duration;

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
    fn default() -> Self {
        Self {
            enabled: DEVICE_TRACE_ENABLED.default,
            keep: DEVICE_TRACE_KEEP.default,
            memory: DEVICE_TRACE_MEMORY.default_size(),
            disk: 0,
        }
    }
}

impl TraceConfig {
    /// Reads the table.
    pub fn read(doc: &mut Document<'_>, mut s: Section<'_>) -> Self {
        let enabled = DEVICE_TRACE_ENABLED.read(&mut s, doc);
        let keep = DEVICE_TRACE_KEEP.read(&mut s, doc);
        let memory = DEVICE_TRACE_MEMORY.read_size(&mut s, doc);
        let disk = DEVICE_TRACE_DISK.optional(&mut s, doc).filter(|_| enabled).unwrap_or_default();
        s.finish(doc);
        Self { enabled, keep, memory, disk }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigError, from_text};
    use super::*;

    fn read(keys: &str) -> Result<TraceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog,0\n").unwrap();
        let device = "[device.d]\nprotocol='dnp3'\naddress='a:1'\npoints='p.csv'\ndnp3={outstation=10}";
        match from_text("n.toml", &format!("{device}\n{keys}\n"), folder.path()) {
            Ok(config) => Ok(config.devices[0].trace),
            Err(ConfigError(all)) => Err(all.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn traces_are_on_unless_the_device_says_otherwise() {
        let default = TraceConfig::default();
        assert_eq!(read(""), Ok(default));
        let keys = "trace={keep='5m', memory='1MiB', disk='16MiB'}";
        let more = TraceConfig { keep: Duration::from_secs(300), memory: 1 << 20, disk: 16 << 20, ..default };
        assert_eq!(read(keys), Ok(more));
        let off = TraceConfig { enabled: false, ..default };
        assert_eq!(read("trace={enabled=false, disk='1MiB'}"), Ok(off));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let expect = [
            "n.toml:6:13: device.d.trace.keep: found \"0s\", expected a duration like \"500ms\", from 1s to 1h",
            "n.toml:6:26: device.d.trace.memory: found \"1KiB\", expected a size like \"64MiB\", from 4KiB to 16MiB",
            "n.toml:6:39: device.d.trace.disk: found 1, expected a size like \"64MiB\", from 64KiB to 1GiB",
        ];
        let found = read("trace={keep='0s', memory='1KiB', disk=1}").unwrap_err();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (found, expect) in found.iter().zip(expect) {
            let key = |text: &str| text.split(": ").nth(1).map(str::to_owned);
            assert_eq!(key(found), key(expect));
        }
    }
}
