//! The floor of a node for protocols other than Modbus: the same bytes over bare sockets of the same runtime, which nobody
//! looks at. Streams have a connection each, datagrams one socket for all, as in a node.
//!
//! ```text
//! the node begins      request ─▶ bare device ─▶ answer                 each is due at its time
//! the device begins    report ─▶ bare node ─▶ a confirmation of every n-th
//! ```

use super::devices::{Protocol, Seen};
use super::load::Measured;
use crate::process::thread_cpu;
use crate::rounds::number;
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard, ShardThread, Target, connect as dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

const PATIENCE: Duration = Duration::from_secs(120);
/// Datagrams that one wake takes before others have their turn.
const BATCH_MAX: usize = 64;
/// What may be missing of what was due.
const MISSING_SHARE: f64 = 0.05;

/// What devices and a node exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Each message is a datagram.
    is_datagrams: bool,
    /// The node asks; else devices report.
    is_polled: bool,
    /// Bytes of a message to a device.
    to_device: usize,
    /// Bytes of a message of a device.
    from_device: usize,
    /// Reports that one message to the device confirms.
    confirms: u32,
}

impl Exchange {
    /// As devices saw it.
    pub fn of(protocol: Protocol, seen: &Seen) -> Self {
        let whole = |number: f64| format!("{number:.0}").parse::<usize>().unwrap_or(0).max(1);
        // A confirmation of several reports is that many times as long as its share.
        let confirms = if seen.messages_in_each > 0.0 { whole(1.0 / seen.messages_in_each) } else { usize::MAX };
        Self {
            is_datagrams: protocol.is_datagrams(),
            is_polled: protocol.is_polled(),
            to_device: whole(seen.bytes_in_each / seen.messages_in_each.clamp(1e-9, 1.0)),
            from_device: whole(seen.bytes_out_each),
            confirms: u32::try_from(confirms).unwrap_or(u32::MAX),
        }
    }
}

/// Exchanges of so many devices, each once in `every`: what the thread of the node took while `span` lasted.
///
/// # Errors
/// The system does not have what they need, or exchanges were lost.
pub fn measure(exchange: Exchange, devices: usize, every: Duration, span: Duration) -> Result<Measured> {
    let pace = Pace { devices: u32::try_from(devices)?, every };
    let (bound, address) = oneshot::channel();
    let main = move |_: Rc<Shard>| async move {
        let served =
            if exchange.is_datagrams { answer(exchange, bound).await } else { serve(exchange, pace, bound).await };
        if served.is_ok() {
            pending::<()>().await;
        }
    };
    let _devices = ShardThread::spawn("bare-devices", Clock::start(), Arc::new(Counters::default()), main)?;
    let to = address.blocking_recv().context("the bare devices have ended")??;
    let (tell, told) = channel();
    let main = move |_: Rc<Shard>| async move {
        let _ = tell.send(drive(exchange, pace, to, span).await);
        pending::<()>().await;
    };
    let _node = ShardThread::spawn("bare-node", Clock::start(), Arc::new(Counters::default()), main)?;
    told.recv_timeout(PATIENCE).context("the bare node says nothing")?
}

/// How many devices have their turn in which time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    devices: u32,
    every: Duration,
}

impl Pace {
    /// Calls for each device when it is due.
    async fn run(self, call: impl Fn(usize)) {
        let start = Instant::now();
        for round in 0.. {
            for place in 0..self.devices {
                let due = start + self.every * round + self.every * place / self.devices;
                if due > Instant::now() {
                    sleep_until(due).await;
                }
                call(usize::try_from(place).unwrap_or(usize::MAX));
            }
        }
    }
}

async fn drive(exchange: Exchange, pace: Pace, to: SocketAddr, span: Duration) -> Result<Measured> {
    let done = Rc::new(Cell::new(0));
    if exchange.is_datagrams {
        let socket = Rc::new(UdpSocket::bind((to.ip(), 0)).await?);
        tokio::task::spawn_local(take_datagrams(Rc::clone(&socket), Rc::clone(&done)));
        let request = vec![0; exchange.to_device];
        tokio::task::spawn_local(pace.run(move |_| drop(socket.try_send_to(&request, to))));
    } else {
        let mut outputs = Vec::new();
        for _ in 0..pace.devices {
            let (input, output) = dial(&Target::new(to.to_string())).await?.into_split();
            let output = Rc::new(output);
            tokio::task::spawn_local(take_stream(input, Rc::clone(&output), exchange, Rc::clone(&done)));
            outputs.push(output);
        }
        let request = vec![0; exchange.to_device];
        if exchange.is_polled {
            let ask =
                move |place| drop(outputs.get(place).map(|output: &Rc<OwnedWriteHalf>| output.try_write(&request)));
            tokio::task::spawn_local(pace.run(ask));
        }
    }
    sleep(pace.every + span / 4).await;
    let (began, cpu, before) = (Instant::now(), thread_cpu(), done.get());
    sleep(span).await;
    let (took, cpu, count) = (began.elapsed(), thread_cpu() - cpu, done.get() - before);
    let due = f64::from(pace.devices) * (took.as_secs_f64() / pace.every.as_secs_f64());
    let measured = Measured::new(count, cpu, took)?;
    let least = due * (1.0 - MISSING_SHARE) - f64::from(pace.devices);
    ensure!(number(count) >= least, "{count} of {due:.0} bare exchanges that were due came");
    Ok(measured)
}

async fn take_datagrams(socket: Rc<UdpSocket>, done: Rc<Cell<u64>>) -> io::Result<()> {
    let mut buffer = vec![0; 2048];
    loop {
        socket.readable().await?;
        for _ in 0..BATCH_MAX {
            match socket.try_recv_from(&mut buffer) {
                Ok(_) => done.set(done.get() + 1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
}

async fn take_stream(mut input: OwnedReadHalf, output: Rc<OwnedWriteHalf>, exchange: Exchange, done: Rc<Cell<u64>>) {
    // A little longer than a message: a read that fills its buffer makes the runtime ask the socket once more.
    let (mut buffer, confirmation) = (vec![0; exchange.from_device * 2 + 64], vec![0; exchange.to_device]);
    let (mut got, mut waiting) = (0, 0);
    while let Ok(count @ 1..) = input.read(&mut buffer).await {
        got += count;
        while got >= exchange.from_device {
            got -= exchange.from_device;
            done.set(done.get() + 1);
            waiting += 1;
            if !exchange.is_polled && waiting >= exchange.confirms {
                waiting = 0;
                let _ = output.try_write(&confirmation);
            }
        }
    }
}

/// Bare devices that answer datagrams.
async fn answer(exchange: Exchange, bound: oneshot::Sender<io::Result<SocketAddr>>) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let _ = bound.send(socket.local_addr());
    let (mut buffer, answer) = (vec![0; 2048], vec![0; exchange.from_device]);
    loop {
        let (_, from) = socket.recv_from(&mut buffer).await?;
        socket.send_to(&answer, from).await?;
    }
}

/// Bare devices on connections of their own.
async fn serve(exchange: Exchange, pace: Pace, bound: oneshot::Sender<io::Result<SocketAddr>>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let _ = bound.send(listener.local_addr());
    let mut outputs = Vec::new();
    for _ in 0..pace.devices {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        if exchange.is_polled {
            tokio::task::spawn_local(answer_stream(stream, exchange));
        } else {
            let (input, output) = stream.into_split();
            tokio::task::spawn_local(discard(input));
            outputs.push(output);
        }
    }
    if !exchange.is_polled {
        let report = vec![0; exchange.from_device];
        pace.run(move |place| drop(outputs.get(place).map(|output| output.try_write(&report)))).await;
    }
    Ok(())
}

async fn answer_stream(mut stream: TcpStream, exchange: Exchange) -> io::Result<()> {
    let (mut request, answer) = (vec![0; exchange.to_device], vec![0; exchange.from_device]);
    loop {
        stream.read_exact(&mut request).await?;
        stream.write_all(&answer).await?;
    }
}

async fn discard(mut input: OwnedReadHalf) {
    let mut buffer = [0; 512];
    while let Ok(1..) = input.read(&mut buffer).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exchanged_in_each_direction() {
        let seen = |messages_in_each| Seen {
            reads: 100,
            late_us_p50: 0.0,
            late_us_p99: 0.0,
            core_percent: 0.0,
            bytes_in_each: 20.0 * messages_in_each,
            bytes_out_each: 300.0,
            messages_in_each,
        };
        for protocol in Protocol::ALL {
            let each = if protocol == Protocol::Iec104 { 0.125 } else { 1.0 };
            let exchange = Exchange::of(protocol, &seen(each));
            assert_eq!((exchange.to_device, exchange.from_device), (20, 300), "{protocol:?}");
            assert_eq!(exchange.confirms, if protocol == Protocol::Iec104 { 8 } else { 1 });
            let every = Duration::from_millis(50);
            let measured = measure(exchange, 4, every, Duration::from_millis(300)).unwrap();
            assert!(measured.reads_per_s > 40.0 && measured.core_percent > 0.0, "{protocol:?} {measured:?}");
        }
    }
}
