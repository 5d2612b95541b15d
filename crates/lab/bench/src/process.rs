//! What this process has used, and what it may.

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
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
    clock(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far, user and system.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Of this machine, the same for all its processes.
#[must_use]
pub fn monotonic() -> Duration {
    clock(ClockId::Monotonic)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
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

/// Processor time of each thread of another process so far, user and system, in seconds, by its number.
pub fn threads_cpu_s_of(process: u32) -> Result<BTreeMap<u32, f64>> {
    let mut times = BTreeMap::new();
    for (thread, folder) in threads_of(process)? {
        // To the nanosecond, where the kernel counts so; a thread may end while it is looked at.
        let Ok(text) = std::fs::read_to_string(folder.join("schedstat")) else { continue };
        let on_cpu: f64 = text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_default();
        times.insert(thread, on_cpu / 1e9);
    }
    Ok(times)
}

/// Processor time of the threads of a process at a moment.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimes {
    /// Seconds by number.
    times: BTreeMap<u32, f64>,
    /// The numbers of those that are told apart.
    named: BTreeSet<u32>,
}

impl ThreadTimes {
    /// Of another process so far; its threads whose names begin so are told apart.
    pub fn of(process: u32, name: &str) -> Result<Self> {
        let (times, mut named) = (threads_cpu_s_of(process)?, BTreeSet::new());
        for (thread, folder) in threads_of(process)? {
            if std::fs::read_to_string(folder.join("comm")).is_ok_and(|known| known.starts_with(name)) {
                named.insert(thread);
            }
        }
        Ok(Self { times, named })
    }

    /// What the named threads, and all, took since `before`, in seconds. Threads that have ended are not counted.
    #[must_use]
    pub fn since(&self, before: &Self) -> (f64, f64) {
        let (mut named, mut all) = (0.0, 0.0);
        for (thread, after) in &self.times {
            // The number of a thread that has ended may be that of another.
            let took = (after - before.times.get(thread).copied().unwrap_or_default()).max(0.0);
            all += took;
            named += if self.named.contains(thread) { took } else { 0.0 };
        }
        (named, all)
    }
}

/// The threads of a process, and where the kernel tells of each.
fn threads_of(process: u32) -> Result<Vec<(u32, PathBuf)>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let thread = entry.file_name().to_string_lossy().parse().context("the number of a thread")?;
        threads.push((thread, entry.path()));
    }
    Ok(threads)
}

/// Where control groups of the processor are mounted, of version 1, whose groups may hold single threads.
const GROUPS: &str = "/sys/fs/cgroup/cpu";
/// What share of the processor is counted over.
const PERIOD_US: f64 = 10_000.0;

/// Some threads of a process, each held to a share of a processor. Dropped, they are free again.
#[derive(Debug)]
pub struct Quota {
    groups: Vec<(PathBuf, u32)>,
}

impl Quota {
    /// Holds each thread whose name begins so to a share of one processor.
    pub fn of(process: u32, name: &str, share: f64) -> Result<Self> {
        let mut quota = Self { groups: Vec::new() };
        for (thread, folder) in threads_of(process)? {
            if !std::fs::read_to_string(folder.join("comm"))?.starts_with(name) {
                continue;
            }
            let group = Path::new(GROUPS).join(format!("tieline-bench-{thread}"));
            std::fs::create_dir(&group).with_context(|| format!("{}: a control group", group.display()))?;
            quota.groups.push((group.clone(), thread));
            std::fs::write(group.join("cpu.cfs_period_us"), format!("{PERIOD_US}"))?;
            std::fs::write(group.join("cpu.cfs_quota_us"), format!("{:.0}", share * PERIOD_US))?;
            std::fs::write(group.join("tasks"), thread.to_string())?;
        }
        ensure!(!quota.groups.is_empty(), "no thread of process {process} is called {name}");
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for (group, thread) in &self.groups {
            let _ = std::fs::write(Path::new(GROUPS).join("tasks"), thread.to_string());
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// While it is there, processes that are started have no transparent huge pages: their memory grows in steps of 4 KiB, not 2 MiB.
pub struct SmallPages {
    before: bool,
}

impl SmallPages {
    /// Begins.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn begin() -> Result<Self> {
        let before = transparent_huge_pages_are_disabled()?;
        disable_transparent_huge_pages(true)?;
        Ok(Self { before })
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        let _ = disable_transparent_huge_pages(self.before);
    }
}

/// Bytes of memory that are resident, counted page by page (`/proc/self/status` lags behind by some pages a thread).
pub fn resident_bytes() -> Result<u64> {
    kilobytes("/proc/self/smaps_rollup", "Rss:")
}

/// The same of another process.
pub fn resident_bytes_of(process: u32) -> Result<u64> {
    kilobytes(&format!("/proc/{process}/smaps_rollup"), "Rss:")
}

/// The most bytes of memory that were ever resident.
pub fn peak_resident_bytes() -> Result<u64> {
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
    fn a_thread_that_ends_takes_nothing_back() {
        let at = |times: &[(u32, f64)]| ThreadTimes { times: times.iter().copied().collect(), named: [1].into() };
        let before = at(&[(1, 1.0), (2, 7.0), (3, 2.0)]);
        // The second has ended, the third is another one, the fourth is new.
        assert_eq!(at(&[(1, 1.5), (3, 0.5), (4, 0.25)]).since(&before), (0.5, 0.75));
    }

    #[test]
    fn reads_what_the_system_says() {
        assert!(cpu() > Duration::ZERO);
        assert!(resident_bytes().unwrap() > 100_000);
        assert!(resident_bytes_of(std::process::id()).unwrap() > 100_000);
        assert!(cpu_s_of(std::process::id()).unwrap() < 1e6);
        let threads = threads_cpu_s_of(std::process::id()).unwrap();
        assert!(threads.values().any(|seconds| *seconds > 0.0), "{threads:?}");
        let times = |process| ThreadTimes::of(process, "no such thread").unwrap();
        let nothing = ThreadTimes { times: BTreeMap::new(), named: BTreeSet::new() };
        let (named, all) = times(std::process::id()).since(&nothing);
        assert!(named == 0.0 && all > 0.0);
        assert!(thread_cpu() <= cpu() && monotonic() > Duration::ZERO);
        assert!(peak_resident_bytes().unwrap() > 100_000);
        let before = transparent_huge_pages_are_disabled().unwrap();
        let small = SmallPages::begin().unwrap();
        assert!(transparent_huge_pages_are_disabled().unwrap());
        drop(small);
        assert_eq!(transparent_huge_pages_are_disabled().unwrap(), before);
        assert!(reserve_descriptors(1, 2).is_ok());
        let refused = reserve_descriptors(usize::MAX / 8, 2).unwrap_err().to_string();
        assert!(refused.contains("file descriptors"), "{refused}");
    }
}
