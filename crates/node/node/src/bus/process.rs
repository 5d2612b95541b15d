//! What this process uses of the machine.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Memory, processor time and descriptors, as the system counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// Processor time of all threads since the start, user and system.
    pub cpu: Duration,
    /// File descriptors that are open.
    pub descriptors: usize,
}

impl Usage {
    /// What is used now; 0 where the system does not say.
    #[must_use]
    pub fn look() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self { resident_bytes: resident_bytes(&status), cpu, descriptors }
    }
}

/// The bytes of `VmRSS` in `/proc/self/status`.
fn resident_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_is_used() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t   1234 kB\nThreads:\t2\n"), 1234 * 1024);
        assert_eq!(resident_bytes("Name:\tx\n"), 0);
        let usage = Usage::look();
        assert!(usage.resident_bytes > 100_000 && usage.cpu > Duration::ZERO && usage.descriptors > 0, "{usage:?}");
    }
}
