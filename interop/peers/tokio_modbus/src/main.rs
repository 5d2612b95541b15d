//! `tieline-peer-tokio-modbus ADDRESS CONNECTIONS REGISTERS EVERY_MS`: reads as the sides of `tieline bench field` do, through
//! tokio-modbus, on one thread. EVERY_MS 0: the next read of a connection begins when the last has ended.
//!
//! ```text
//! connected, each connection has read once ──▶ "ready GROWN_BYTES"
//! "SPAN_MS" on standard input ──▶ reads for a quarter of it, then for all of it ──▶ "reads READS CPU_NS TOOK_NS WRONG"
//! ```

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_modbus::client::{Context, Reader};
use tokio_modbus::prelude::{Slave, tcp};

/// Where no read begins.
const START_END: u64 = 65_536 - 125;

#[derive(Clone, Copy)]
struct Ask {
    to: SocketAddr,
    connections: u32,
    registers: u16,
    every: Duration,
}

#[derive(Default)]
struct Tally {
    going: Cell<bool>,
    busy: Cell<u64>,
    done: Cell<u64>,
    wrong: Cell<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [to, connections, registers, every_ms] = &words[..] else {
        return Err("expected ADDRESS CONNECTIONS REGISTERS EVERY_MS".into());
    };
    let every = Duration::from_millis(every_ms.parse()?);
    let ask = Ask { to: to.parse()?, connections: connections.parse()?, registers: registers.parse()?, every };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(run(ask)))
}

async fn run(ask: Ask) -> Result<(), Box<dyn Error>> {
    let tally = Rc::new(Tally::default());
    let mut connections = Vec::new();
    let mut before = 0;
    for number in 0..=ask.connections {
        let mut context = connect(ask).await?;
        read(&mut context, 0, ask, &tally).await;
        // The first is there for what every process needs once.
        if number == 0 {
            before = resident_bytes()?;
        } else {
            connections.push(context);
        }
    }
    println!("ready {}", resident_bytes()?.saturating_sub(before));
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let span = Duration::from_millis(line.trim().parse()?);
    tally.going.set(true);
    let start = Instant::now();
    for (context, place) in connections.into_iter().zip(0..) {
        let due = start + ask.every * place / ask.connections;
        tokio::task::spawn_local(keep_reading(context, ask, due, Rc::clone(&tally)));
    }
    sleep(span / 4).await;
    let (began, cpu, done) = (Instant::now(), cpu(), tally.done.get());
    sleep(span).await;
    let (took, cpu, reads) = (began.elapsed(), self::cpu() - cpu, tally.done.get() - done);
    tally.going.set(false);
    while tally.busy.get() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    println!("reads {reads} {} {} {}", cpu.as_nanos(), took.as_nanos(), tally.wrong.get());
    Ok(())
}

async fn connect(ask: Ask) -> Result<Context, Box<dyn Error>> {
    let stream = TcpStream::connect(ask.to).await?;
    stream.set_nodelay(true)?;
    Ok(tcp::attach_slave(stream, Slave(1)))
}

async fn keep_reading(mut context: Context, ask: Ask, start: Instant, tally: Rc<Tally>) {
    for number in 1.. {
        if !ask.every.is_zero() {
            sleep_until(start + ask.every * (number - 1)).await;
        }
        if !tally.going.get() {
            return;
        }
        tally.busy.set(tally.busy.get() + 1);
        read(&mut context, number.into(), ask, &tally).await;
        tally.busy.set(tally.busy.get() - 1);
    }
}

async fn read(context: &mut Context, number: u64, ask: Ask, tally: &Tally) {
    let start = u16::try_from(number.wrapping_mul(ask.registers.into()) % START_END).unwrap_or(0);
    let expected = (0..ask.registers).map(|n| start.wrapping_add(n).wrapping_mul(40_503) ^ 0x5A5A);
    match context.read_holding_registers(start, ask.registers).await {
        Ok(Ok(values)) if values.iter().copied().eq(expected) => {}
        _ => tally.wrong.set(tally.wrong.get() + 1),
    }
    tally.done.set(tally.done.get() + 1);
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).ok_or("no Rss")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}
