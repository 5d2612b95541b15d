//! Processes of a fleet: they say where they are in their first line, and end with the run.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an ordinary end may take; then it is a hard one.
const END_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command of ours that runs until it is asked to end.
pub struct Process {
    child: Child,
    /// Its first line.
    pub hello: Value,
}

impl Process {
    /// Starts it, and waits for its first line. What it logs is in a file.
    pub fn start(program: &Path, words: &[&str], log: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(log)?);
        let child = command.spawn().with_context(|| program.display().to_string())?;
        let mut process = Self { child, hello: Value::Null };
        let mut line = String::new();
        if let Some(out) = process.child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let Ok(hello) = serde_json::from_str(&line) else {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it says nothing");
            bail!("{} did not start: {last}", words.iter().take(2).copied().collect::<Vec<_>>().join(" "));
        };
        process.hello = hello;
        Ok(process)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says of itself.
    pub fn said(&self, member: &str) -> Result<&str> {
        self.hello.get(member).and_then(Value::as_str).with_context(|| format!("{member} is not said"))
    }

    /// Ends it without a word.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops it as it is, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) -> Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).context("a process with a number")?;
        Ok(kill_process(pid, if is_frozen { Signal::STOP } else { Signal::CONT })?)
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ask_to_end();
        // A process that is frozen would not hear it.
        let _ = self.freeze(false);
        let until = Instant::now() + END_MAX;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command of ours to its end; its JSON.
pub fn ask(program: &Path, words: &[&str]) -> Result<Value> {
    let done = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    let verb = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    if !done.status.success() {
        bail!("{verb}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    serde_json::from_slice(&done.stdout).with_context(|| verb)
}
