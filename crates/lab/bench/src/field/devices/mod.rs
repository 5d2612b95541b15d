//! Simulated devices: servers of ours, in a process of their own. Each device is an address of loopback, 127.1.0.0 and up, so
//! that a node takes every one for another host.
//!
//! Every read, and every report of a device, finds other values: when it was answered, how many reads there were, and numbers
//! that follow from that.
//!
//! ```text
//! points               stamp                                   │ count       │ p02, p03, …
//! registers            0..4 µs of the monotonic clock (u64)    │ 4 reads     │ 5.. reads so far + 2, + 3, …
//! numbers of 32 bits   the same, remainder of STAMP_RANGE      │ reads       │ reads so far + 2.1, + 3.1, …
//! ```

mod bacnet;
mod modbus;
mod protocol;
mod reporting;

pub use protocol::Protocol;

use self::reporting::Pace;
use crate::process::{self, thread_cpu};
use crate::rounds::{median, number, p99};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::sleep;

/// Points of a device.
pub const POINTS: u16 = 18;
/// Their registers.
pub const REGISTERS: u16 = POINTS + 3;
const BACKLOG: u32 = 4096;
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);

/// What the devices saw between begin and end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Reads that were answered.
    pub reads: u64,
    /// How long after its due time a read came, µs: due times are an interval apart, from the earliest of a device.
    pub late_us_p50: f64,
    /// The same.
    pub late_us_p99: f64,
    /// Share of a core that the devices took.
    pub core_percent: f64,
    /// Bytes that came to a device for a read, on average.
    pub bytes_in_each: f64,
    /// Bytes that a device sent for a read, on average.
    pub bytes_out_each: f64,
    /// Messages that came to a device for a read, on average.
    pub messages_in_each: f64,
}

/// What stamps of numbers of 32 bits are the remainder of: a float is exact up to there.
pub const STAMP_RANGE: u64 = 1 << 24;

/// Which devices.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What they speak.
    pub protocol: Protocol,
    /// How many.
    pub devices: usize,
    /// How often each reports, where it is not read.
    pub every: Duration,
}

/// The address of a device.
#[must_use]
pub fn address_of(device: usize, port: u16) -> String {
    format!("127.1.{}.{}:{port}", device / 250, device % 250 + 1)
}

/// The monotonic clock, which all processes share.
pub fn now_us() -> u64 {
    u64::try_from(process::monotonic().as_micros()).unwrap_or(u64::MAX)
}

enum Ask {
    Begin,
    End(Duration),
}

/// Devices of this process.
pub struct Devices {
    port: u16,
    ask: Sender<Ask>,
    told: Receiver<Seen>,
    _thread: ShardThread,
}

impl Devices {
    /// Listens.
    pub fn start(kind: Kind) -> Result<Self> {
        let ((ask, asked), (tell, told), (bound, port)) = (channel(), channel(), channel());
        let main = move |shard: Rc<Shard>| async move {
            let board = Board::default();
            let _ = bound.send(start(&shard, &board, kind).await);
            watch(&shard, &board, &asked, &tell).await;
        };
        let thread = ShardThread::spawn("devices", Clock::start(), Arc::new(Counters::default()), main)?;
        let port = port.recv_timeout(PATIENCE).context("the devices do not listen")??;
        Ok(Self { port, ask, told, _thread: thread })
    }

    fn end(&self, every: Duration) -> Result<Seen> {
        self.ask.send(Ask::End(every)).ok().context("the devices have ended")?;
        self.told.recv_timeout(PATIENCE).context("the devices say nothing")
    }
}

async fn start(shard: &Rc<Shard>, board: &Board, kind: Kind) -> io::Result<u16> {
    let (shard, board, Kind { protocol, devices, every }) = (Rc::clone(shard), Rc::clone(board), kind);
    match protocol {
        Protocol::Modbus => modbus::start(shard, board),
        Protocol::Bacnet => bacnet::start(shard, board, devices).await,
        Protocol::Dnp3 | Protocol::Iec104 => reporting::start(shard, board, protocol, Pace { devices, every }),
    }
}

/// Loopback alone has so many addresses that no single one could be bound; others are refused where they are accepted.
fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    socket.listen(BACKLOG)
}

/// When each connection was asked since the beginning.
type Board = Rc<RefCell<Vec<Rc<RefCell<Vec<u64>>>>>>;

/// What a device says in its reads, one after the other.
struct Steps {
    reads: u16,
    times: Rc<RefCell<Vec<u64>>>,
}

impl Steps {
    /// Of a device that is on the board from here on.
    fn new(board: &Board) -> Self {
        let times = Rc::default();
        board.borrow_mut().push(Rc::clone(&times));
        Self { reads: 0, times }
    }

    /// The time, and how many reads there were, this one included.
    fn next(&mut self) -> (u64, u16) {
        let now = now_us();
        self.times.borrow_mut().push(now);
        self.reads = self.reads.wrapping_add(1);
        (now, self.reads)
    }

    /// All values as numbers of 32 bits; as of a measurement, few are whole.
    fn next_numbers(&mut self) -> impl Iterator<Item = f32> + use<> {
        let (now, reads) = self.next();
        let stamp = u32::try_from(now % STAMP_RANGE).unwrap_or(0);
        let others = (2..POINTS).map(move |point| f32::from(reads.wrapping_add(point)) + 0.1);
        // Exact below STAMP_RANGE.
        #[expect(clippy::cast_precision_loss, reason = "a stamp has 24 bits")]
        let stamp = stamp as f32;
        [stamp, f32::from(reads)].into_iter().chain(others)
    }
}

/// Bytes and messages that came in, and bytes that went out, of all devices.
fn moved(shard: &Shard) -> [u64; 3] {
    let counters = shard.counters();
    [&counters.bytes_in, &counters.bytes_out, &counters.reads].map(|counter| counter.load(Ordering::Relaxed))
}

async fn watch(shard: &Shard, board: &Board, asked: &Receiver<Ask>, tell: &Sender<Seen>) {
    let (mut cpu, mut began, mut before) = (thread_cpu(), now_us(), moved(shard));
    loop {
        match asked.try_recv() {
            Ok(Ask::Begin) => {
                board.borrow().iter().for_each(|times| times.borrow_mut().clear());
                (cpu, began, before) = (thread_cpu(), now_us(), moved(shard));
            }
            Ok(Ask::End(every)) => {
                let took = Duration::from_micros(now_us().saturating_sub(began)).as_secs_f64();
                let used = thread_cpu().saturating_sub(cpu).as_secs_f64();
                let all: Vec<Vec<u64>> = board.borrow().iter().map(|times| times.borrow().clone()).collect();
                let late: Vec<f64> = all.iter().flat_map(|times| lateness_us(times, every)).collect();
                let reads = late.len() as u64;
                let mut each = moved(shard).into_iter().zip(before).map(|(now, before)| now - before);
                let mut each = || number(each.next().unwrap_or(0)) / number(reads.max(1));
                let (bytes_in_each, bytes_out_each, messages_in_each) = (each(), each(), each());
                let _ = tell.send(Seen {
                    reads,
                    late_us_p50: if late.is_empty() { 0.0 } else { median(&late) },
                    late_us_p99: if late.is_empty() { 0.0 } else { p99(&late) },
                    core_percent: 100.0 * used / took.max(1e-9),
                    bytes_in_each,
                    bytes_out_each,
                    messages_in_each,
                });
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => sleep(LOOK_EVERY).await,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
        }
    }
}

/// How long after the earliest phase of its interval each of the times is.
fn lateness_us(times: &[u64], every: Duration) -> Vec<f64> {
    let Some(first) = times.first() else { return Vec::new() };
    let every = i64::try_from(every.as_micros()).unwrap_or(i64::MAX).max(1);
    let phase = |at: &u64| {
        let rest = i64::try_from(at.saturating_sub(*first)).unwrap_or(i64::MAX) % every;
        if rest > every / 2 { rest - every } else { rest }
    };
    let phases: Vec<i64> = times.iter().map(phase).collect();
    let least = phases.iter().copied().min().unwrap_or(0);
    phases.iter().map(|phase| number(phase.abs_diff(least))).collect()
}

/// Devices of this process, or of one that was started for them.
pub enum Generator {
    /// In this process, for tests.
    Here(Devices),
    /// In another.
    There(Child, BufReader<ChildStdout>, u16),
}

impl Generator {
    /// Starts the devices, in another process where there is a program for it.
    pub fn start(program: Option<&Path>, kind: Kind) -> Result<Self> {
        let Some(program) = program else { return Ok(Self::Here(Devices::start(kind)?)) };
        let mut child = Command::new(program)
            .args(["bench", "field", "--serve-devices", kind.protocol.word()])
            .args(["--devices", &kind.devices.to_string(), "--every", &kind.every.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let mut told = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut line = String::new();
        told.read_line(&mut line)?;
        let port = line.trim().parse().with_context(|| format!("the devices say {line:?}"))?;
        Ok(Self::There(child, told, port))
    }

    /// Where they all listen.
    #[must_use]
    pub const fn port(&self) -> u16 {
        match self {
            Self::Here(devices) => devices.port,
            Self::There(_, _, port) => *port,
        }
    }

    /// Forgets what was seen so far.
    pub fn begin(&mut self) -> Result<()> {
        match self {
            Self::Here(devices) => devices.ask.send(Ask::Begin).ok().context("the devices have ended"),
            Self::There(child, ..) => say(child, "begin"),
        }
    }

    /// Says what was seen.
    pub fn end(&mut self, every: Duration) -> Result<Seen> {
        match self {
            Self::Here(devices) => devices.end(every),
            Self::There(child, told, _) => {
                say(child, &format!("end {}", every.as_micros()))?;
                let mut line = String::new();
                told.read_line(&mut line)?;
                ensure!(!line.is_empty(), "the process with the devices has ended");
                Ok(serde_json::from_str(&line)?)
            }
        }
    }
}

fn say(child: &mut Child, words: &str) -> Result<()> {
    let input = child.stdin.as_mut().context("a process without input")?;
    Ok(writeln!(input, "{words}")?)
}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Self::There(child, ..) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Is the process with the devices, until its input ends.
///
/// # Errors
/// The system does not have what they need.
pub fn serve_devices(kind: Kind, input: &mut dyn BufRead, out: &mut dyn Write) -> Result<()> {
    process::sessions_max(1);
    let devices = Devices::start(kind)?;
    writeln!(out, "{}", devices.port)?;
    out.flush()?;
    for line in input.lines() {
        let line = line?;
        if line == "begin" {
            devices.ask.send(Ask::Begin).ok().context("the devices have ended")?;
        } else if let Some(every) = line.strip_prefix("end ") {
            let seen = devices.end(Duration::from_micros(every.parse()?))?;
            writeln!(out, "{}", serde_json::to_string(&seen)?)?;
            out.flush()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_counted_from_the_earliest() {
        let every = Duration::from_secs(1);
        assert_eq!(lateness_us(&[500, 1_000_600, 2_000_400, 4_000_500], every), [100.0, 200.0, 0.0, 100.0]);
        assert_eq!(lateness_us(&[], every), [0.0; 0]);
    }

    #[test]
    fn the_process_of_devices_answers_its_parent() {
        let mut out = Vec::new();
        let kind = Kind { protocol: Protocol::Modbus, devices: 1, every: Duration::from_secs(1) };
        serve_devices(kind, &mut "begin\nend 1000000\n".as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (port, seen) = out.split_once('\n').unwrap();
        assert!(port.parse::<u16>().is_ok());
        assert_eq!(serde_json::from_str::<Seen>(seen).unwrap().reads, 0);
    }

    #[test]
    fn addresses_are_different() {
        let all: std::collections::BTreeSet<String> = (0..2000).map(|device| address_of(device, 7)).collect();
        assert_eq!((all.len(), address_of(250, 7)), (2000, "127.1.1.1:7".to_owned()));
    }
}
