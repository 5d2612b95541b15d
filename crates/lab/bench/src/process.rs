//! What this process has used, and what it may.

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Descriptors that are not sessions: standard streams, epoll instances, listeners, files.
const DESCRIPTORS_OTHER: usize = 128;

/// Processor time of all threads so far, user and system.
#[must_use]
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Octets of memory that are resident, counted page by page (`/proc/self/status` lags behind by some pages a thread).
pub fn resident_octets() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").context("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).context("no Rss in /proc/self/smaps_rollup")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("Rss in /proc/self/smaps_rollup")?;
    Ok(kib * 1024)
}

/// Takes all the descriptors that the system lets this process have, and refuses what does not fit.
pub fn reserve_descriptors(sessions: usize, each: usize) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let allowed =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let most = allowed.saturating_sub(DESCRIPTORS_OTHER) / each;
    ensure!(
        sessions <= most,
        "{sessions} sessions need {} file descriptors; this process may have {allowed} (ulimit -n), enough for {most} sessions",
        sessions * each + DESCRIPTORS_OTHER
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_says() {
        assert!(cpu() > Duration::ZERO);
        assert!(resident_octets().unwrap() > 100_000);
        assert!(reserve_descriptors(1, 2).is_ok());
        let refused = reserve_descriptors(usize::MAX / 8, 2).unwrap_err().to_string();
        assert!(refused.contains("file descriptors"), "{refused}");
    }
}
