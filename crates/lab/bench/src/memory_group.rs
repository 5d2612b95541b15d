//! A limit of memory that the kernel holds processes to: a control group, where this process may make one.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Where groups are made, and the file that limits one: version 2, then version 1.
const PLACES: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// A group of processes that share a limit of memory. Dropped, it is gone, if its processes are.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A group that may have so many bytes.
    pub fn new(bytes: u64) -> Result<Self> {
        for (place, file) in PLACES {
            let group = Self(Path::new(place).join(format!("tieline-bench-{}", std::process::id())));
            // Elsewhere the same path is a plain folder without the file.
            if std::fs::create_dir(&group.0).is_ok() && group.0.join(file).exists() {
                std::fs::write(group.0.join(file), bytes.to_string()).with_context(|| format!("{place}: {file}"))?;
                return Ok(group);
            }
        }
        bail!("this process may not make a memory control group (it takes root, or a delegated group)")
    }

    /// Puts a process into the group, with all that it takes from then on.
    pub fn take(&self, process: u32) -> Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).context("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
