//! A part of the experiment in a process of its own, or in a thread where there is no program to start: it is told lines
//! and says lines.

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a part may take to come as far as it should.
const PATIENCE: Duration = Duration::from_secs(120);

/// A part that was started. Dropped, it is ended.
pub struct Player {
    child: Option<Child>,
    input: Option<Box<dyn Write + Send>>,
    lines: Receiver<String>,
    process: u32,
}

impl Player {
    /// Starts `role`: in a process of `program`, or in a thread that calls `play`.
    pub fn start(
        program: Option<&Path>,
        role: String,
        play: fn(&str, &mut dyn BufRead, &mut dyn Write) -> Result<()>,
    ) -> Result<Self> {
        let Some(program) = program else { return Self::start_inside(role, play) };
        let mut command = Command::new(program);
        command.args(["bench", "fanout", "--role", &role]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let input = child.stdin.take().context("standard input")?;
        let output = child.stdout.take().context("standard output")?;
        let process = child.id();
        Ok(Self { child: Some(child), input: Some(Box::new(input)), lines: listen(output), process })
    }

    fn start_inside(role: String, play: fn(&str, &mut dyn BufRead, &mut dyn Write) -> Result<()>) -> Result<Self> {
        let ((their_input, input), (output, mut their_output)) = (pipe()?, pipe()?);
        std::thread::Builder::new().name("fanout-part".to_owned()).spawn(move || {
            if let Err(why) = play(&role, &mut BufReader::new(their_input), &mut their_output) {
                let _ = writeln!(their_output, "{why:#}");
            }
        })?;
        Ok(Self { child: None, input: Some(Box::new(input)), lines: listen(output), process: std::process::id() })
    }

    /// The process that it runs in.
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Lets all others have the processor first: it plays what would be on other machines.
    pub fn stand_back(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), stand_back)
    }

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("a part that was ended")?;
        writeln!(input, "{line}").context("a part has ended")
    }

    /// What it says next.
    pub fn line(&self) -> Result<String> {
        self.lines.recv_timeout(PATIENCE).context("a part of the experiment said nothing")
    }

    /// Waits until it says this word.
    pub fn expect(&self, word: &str) -> Result<()> {
        let line = self.line()?;
        if line == word { Ok(()) } else { bail!("a part said {line:?}, expected {word:?}") }
    }

    /// What it says next, as JSON.
    pub fn told<T: DeserializeOwned>(&self) -> Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("a part said {line:.300}"))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // A thread ends with its input.
        self.input = None;
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets all other processes have the processor first: it gets what nobody else wants.
pub fn stand_back(child: &Child) -> Result<()> {
    // A thread with the lowest priority of the usual class is not always preempted at once: that of class "idle" is.
    let process = child.id().to_string();
    let set = Command::new("chrt").args(["--all-tasks", "--idle", "--pid", "0", &process]).output();
    let set = set.context("chrt (package util-linux) sets the scheduling class of a part")?;
    let why = String::from_utf8_lossy(&set.stderr);
    ensure!(set.status.success(), "the scheduling class of a part: {why}");
    Ok(())
}

fn listen(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let _ = BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line));
    });
    lines
}
