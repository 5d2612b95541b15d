//! What this process has used, and what it may.

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Descriptors that are not sessions: standard streams, epoll instances, listeners, files.
const DESCRIPTORS_OTHER: usize = 128;

/// Processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processor time of all threads so far, user and system.
#[must_use]
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What the clock of `/proc` counts in: USER_HZ, 100 a second on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time of another process so far, user and system, in seconds.
pub fn cpu_s_of(process: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, which may hold spaces, ends with the last parenthesis; user and system time are the 14th and 15th.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    ensure!(ticks.len() == 2, "/proc/{process}/stat has no times");
    Ok(ticks.iter().sum::<f64>() / TICKS_A_SECOND)
}

/// Octets of memory that are resident, counted page by page (`/proc/self/status` lags behind by some pages a thread).
pub fn resident_octets() -> Result<u64> {
    kilobytes("/proc/self/smaps_rollup", "Rss:")
}

/// The same of another process.
pub fn resident_octets_of(process: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{process}/smaps_rollup"), "Rss:")
}

/// The most octets of memory that were ever resident.
pub fn peak_resident_octets() -> Result<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}

fn kilobytes(file: &str, key: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file).context(file.to_owned())?;
    let found = text.lines().find_map(|line| line.strip_prefix(key));
    let line = found.with_context(|| format!("no {key} in {file}"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("{key} in {file}"))?;
    Ok(kib * 1024)
}

/// Takes all the descriptors that the system lets this process have, and says how many sessions of so many
/// descriptors each that is enough for.
pub fn sessions_max(each: usize) -> usize {
    allowed_descriptors().saturating_sub(DESCRIPTORS_OTHER) / each
}

/// Takes all the descriptors that the system lets this process have, and refuses what does not fit.
pub fn reserve_descriptors(sessions: usize, each: usize) -> Result<()> {
    let most = sessions_max(each);
    ensure!(
        sessions <= most,
        "{sessions} sessions need {} file descriptors; this process may have {} (ulimit -n), enough for {most} sessions",
        sessions * each + DESCRIPTORS_OTHER,
        allowed_descriptors()
    );
    Ok(())
}

fn allowed_descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_says() {
        assert!(cpu() > Duration::ZERO);
        assert!(resident_octets().unwrap() > 100_000);
        assert!(resident_octets_of(std::process::id()).unwrap() > 100_000);
        assert!(cpu_s_of(std::process::id()).unwrap() < 1e6);
        assert!(peak_resident_octets().unwrap() > 100_000);
        assert!(reserve_descriptors(1, 2).is_ok());
        let refused = reserve_descriptors(usize::MAX / 8, 2).unwrap_err().to_string();
        assert!(refused.contains("file descriptors"), "{refused}");
    }
}
