//! Resident memory of a connection that has read once and is idle, beside bare sockets of the same runtime and the peer.
//!
//! Each side's connections live in a process of their own, so that nothing that ran before counts for them: what the
//! process has grown by since its first connection has read, without transparent huge pages. Memory of the kernel is not included.
//!
//! ```text
//! parent ── starts ──▶ child: one connection, then all of them ── one line of JSON ──▶ parent, which ends it
//! ```

use super::floor::Floor;
use super::load::{Ask, Held, Memory};
use super::ours::Ours;
use super::peer::{self, Peer};
use super::responder::Responder;
use super::{Experiment, Figures, Options, Row};
use crate::process::{self, SmallPages, resident_bytes};
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryFigures {
    /// Resident memory of a connection of ours.
    pub rss_bytes_per_connection: f64,
    /// The floor's.
    pub floor_rss_bytes_per_connection: f64,
    /// That of tokio-modbus, where it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_rss_bytes_per_connection: Option<f64>,
}

/// Whose connections a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// Clients of ours.
    Ours,
    /// Bare sockets.
    Floor,
}

impl HeldBy {
    const fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
        }
    }
}

impl std::str::FromStr for HeldBy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = [Self::Ours, Self::Floor].into_iter().find(|known| known.word() == word);
        known.ok_or_else(|| "expected ours or floor".to_owned())
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Told {
    grown_bytes: u64,
}

/// The rows of memory.
pub fn rows(options: &Options, progress: &Progress) -> Vec<Row> {
    let registers = options.registers.first().copied().unwrap_or(1);
    let row = |connections: &usize| {
        progress.show(&format!("field: memory of {connections} connections"));
        let ask = Ask { connections: *connections, registers, window: 1, every: None };
        let (figures, invalid) = match measure(options, ask) {
            Ok(figures) => (Some(Figures::Memory(figures)), None),
            Err(why) => (None, Some(format!("memory of {connections} connections: {why:#}"))),
        };
        Row { connections: Some(*connections), figures, invalid, ..Row::new(Experiment::Memory) }
    };
    options.connections.iter().map(row).collect()
}

fn measure(options: &Options, ask: Ask) -> Result<MemoryFigures> {
    let program = options.program.as_deref().context("no program to start processes with")?;
    let responder = Responder::start(Duration::ZERO)?;
    let _small = SmallPages::begin()?;
    let each = |grown_bytes: u64| short(number(grown_bytes) / number(ask.connections as u64));
    let peer = peer::program().map(|peer| Peer::start(&peer, responder.address, ask)).transpose()?;
    Ok(MemoryFigures {
        rss_bytes_per_connection: each(grown(program, HeldBy::Ours, responder.address, ask)?),
        floor_rss_bytes_per_connection: each(grown(program, HeldBy::Floor, responder.address, ask)?),
        peer_rss_bytes_per_connection: peer.map(|peer| each(peer.grown_bytes)),
    })
}

fn grown(program: &Path, by: HeldBy, to: SocketAddr, ask: Ask) -> Result<u64> {
    let mut child = Command::new(program)
        .args(["bench", "field", "--hold", by.word(), "--to", &to.to_string()])
        .args(["--connections", &ask.connections.to_string(), "--registers", &ask.registers.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().context("a process without output")?).read_line(&mut line);
    let _ = child.kill();
    let ended = child.wait()?;
    read?;
    ensure!(!line.is_empty(), "a process with connections ended: {ended}");
    Ok(serde_json::from_str::<Told>(&line)?.grown_bytes)
}

/// By how much `memory` grows with so many more connections that have read once and are idle, the other end's included.
///
/// # Errors
/// The system does not have what they need, or something was lost.
pub fn grown_with(by: HeldBy, connections: usize, registers: u16, memory: Memory) -> Result<u64> {
    let responder = Responder::start(Duration::ZERO)?;
    // The first is there for what every process needs once.
    let ask = Ask { connections: connections + 1, registers, window: 1, every: None };
    grown_by(by, responder.address, ask, memory)
}

fn grown_by(by: HeldBy, to: SocketAddr, ask: Ask, memory: Memory) -> Result<u64> {
    Ok(match by {
        HeldBy::Ours => Held::start_with::<Ours>(to, ask, memory)?.grown_bytes,
        HeldBy::Floor => Held::start_with::<Floor>(to, ask, memory)?.grown_bytes,
    })
}

/// Is the process that a row starts: holds connections, and tells what they take.
///
/// # Errors
/// The system does not have what they need, or something was lost.
pub fn hold(by: HeldBy, to: SocketAddr, connections: usize, registers: u16, out: &mut dyn Write) -> Result<()> {
    process::reserve_descriptors(connections, 1)?;
    // The first is there for what every process needs once.
    let ask = Ask { connections: connections + 1, registers, window: 1, every: None };
    let grown_bytes = grown_by(by, to, ask, resident_bytes)?;
    writeln!(out, "{}", serde_json::to_string(&Told { grown_bytes })?)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_connections_says_what_they_take() {
        let responder = Responder::start(Duration::ZERO).unwrap();
        for by in [HeldBy::Ours, HeldBy::Floor] {
            let mut out = Vec::new();
            hold(by, responder.address, 3, 18, &mut out).unwrap();
            let told: Told = serde_json::from_slice(&out).unwrap();
            assert!(told.grown_bytes < 100_000_000, "{told:?}");
            assert_eq!(by.word().parse(), Ok(by));
        }
        assert!("peer".parse::<HeldBy>().is_err());
    }
}
