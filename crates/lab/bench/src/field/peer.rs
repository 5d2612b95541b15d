//! The peer: the same reads through tokio-modbus, in a process of its own, where `.ci/peers` has built it.

use super::load::{Ask, Measured};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const NAME: &str = "tieline-peer-tokio-modbus";

/// Where the peer is, if it is installed.
#[must_use]
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(NAME)).find(|file| file.is_file())
}

/// The peer, connected, each connection of which has read once. Dropped, it ends.
pub struct Peer {
    child: Child,
    told: BufReader<ChildStdout>,
    /// Resident memory that it has grown by with its connections.
    pub grown_bytes: u64,
}

impl Peer {
    /// Starts it and waits until it is connected.
    pub fn start(program: &Path, to: SocketAddr, ask: Ask) -> Result<Self> {
        let every = ask.every.unwrap_or_default().as_millis();
        let mut child = Command::new(program)
            .args([to.to_string(), ask.connections.to_string(), ask.registers.to_string(), every.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let told = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut peer = Self { child, told, grown_bytes: 0 };
        let [grown_bytes] = peer.hear("ready")?;
        peer.grown_bytes = grown_bytes;
        Ok(peer)
    }

    /// Reads for `span`.
    ///
    /// # Errors
    /// A value was wrong, or a read was lost.
    pub fn measure(mut self, span: Duration) -> Result<Measured> {
        let input = self.child.stdin.as_mut().context("a process without input")?;
        writeln!(input, "{}", span.as_millis())?;
        let [reads, cpu, took, wrong] = self.hear("reads")?;
        ensure!(wrong == 0, "{wrong} reads of tokio-modbus failed or brought other values than were asked for");
        Measured::new(reads, Duration::from_nanos(cpu), Duration::from_nanos(took))
    }

    fn hear<const N: usize>(&mut self, word: &str) -> Result<[u64; N]> {
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        parse(&line, word).with_context(|| format!("{NAME} says {line:?}"))
    }
}

/// The numbers behind a word.
fn parse<const N: usize>(line: &str, word: &str) -> Result<[u64; N]> {
    let Some(rest) = line.strip_prefix(word) else { bail!("expected {word}") };
    let numbers = rest.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    numbers.try_into().ok().with_context(|| format!("expected {N} numbers"))
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_word_and_its_numbers() {
        assert_eq!(parse::<2>("reads 12 7\n", "reads").unwrap(), [12, 7]);
        assert!(parse::<2>("reads 12\n", "reads").is_err());
        assert!(parse::<1>("ready x\n", "ready").is_err());
        assert!(parse::<1>("", "ready").is_err());
    }
}
