//! A peer: the proxy of libzmq in C, with a publisher and listeners of its own, where `cc` and libzmq are installed.

use super::clients::Messages;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program's source.
const SOURCE: &str = include_str!("zmq.c");

/// The program, compiled.
#[derive(Debug)]
pub struct Program(PathBuf);

impl Program {
    /// Compiles it in a folder; none where the compiler or the library is absent.
    pub fn build(folder: &Path) -> Result<Option<Self>> {
        let (source, binary) = (folder.join("zmq.c"), folder.join("zmq"));
        fs::write(&source, SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg("-o").arg(&binary).arg(&source).args(["-lzmq", "-lpthread"]);
        let built = compiler.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(built.is_ok_and(|status| status.success()).then_some(Self(binary)))
    }
}

/// The running peer.
#[derive(Debug)]
pub struct Zmq {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Zmq {
    /// Starts the proxy with its listeners, and waits until each of them gets what is published.
    pub fn start(Program(binary): &Program, folder: &Path, messages: &Messages, listeners: usize) -> Result<Self> {
        let file = folder.join("messages");
        fs::write(&file, encode(messages)?)?;
        let mut command = Command::new(binary);
        command.arg(listeners.to_string()).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the proxy of libzmq")?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut peer = Self { child, input, output };
        let line = peer.line()?;
        ensure!(line == "ready", "the proxy of libzmq says {line:?}");
        Ok(peer)
    }

    /// From the first publish until every listener has everything.
    pub fn round(&mut self) -> Result<Duration> {
        self.input.write_all(b"\n")?;
        let line = self.line()?;
        line.parse().map(Duration::from_nanos).with_context(|| format!("the proxy of libzmq says {line:?}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Zmq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The messages as the program reads them.
fn encode(messages: &Messages) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (topic, payload) in &**messages {
        let topic = topic.as_str().as_bytes();
        for part in [topic.len(), payload.len()] {
            bytes.extend_from_slice(&u32::try_from(part)?.to_ne_bytes());
        }
        bytes.extend_from_slice(topic);
        bytes.extend_from_slice(payload);
    }
    Ok(bytes)
}
