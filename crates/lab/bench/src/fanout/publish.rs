//! The publisher: every update is due at a fixed time, whatever became of those before, and carries it.

use super::plan::Plan;
use super::speech::Speech;
use super::transport::Stream;
use super::values::Writer;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the publisher rests between two looks at what is due.
const REST: Duration = Duration::from_micros(200);
/// Bytes of one write at most.
const WRITE_BYTES: usize = 256 * 1024;

/// Microseconds of the monotonic clock, which all processes of a machine share.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

/// The publisher's connection.
pub struct Publisher {
    stream: Stream,
    speech: Speech,
    retain: bool,
}

impl Publisher {
    /// Connects.
    pub fn connect(speech: Speech, address: SocketAddr, retain: bool) -> Result<Self> {
        let socket = TcpStream::connect(address).context("the server cannot be reached")?;
        socket.set_nodelay(true)?;
        let mut stream = Stream::Tcp(socket);
        speech.greet(&mut stream, 0, "publisher")?;
        speech.await_in(&mut stream)?;
        Ok(Self { stream, speech, retain })
    }

    /// Publishes every topic once and waits until the server has taken it.
    pub fn load(&mut self, plan: &Plan) -> Result<()> {
        let (mut values, mut out) = (Writer::new(plan), Vec::new());
        for topic in 0..plan.topics {
            self.speech.publish(topic, values.write(topic, 0, 0), self.retain, &mut out);
            self.write_over(&mut out, WRITE_BYTES)?;
        }
        self.write_over(&mut out, 0)?;
        self.settle()
    }

    /// Waits until the server has done what was published, and answers.
    pub fn settle(&mut self) -> Result<()> {
        self.speech.settle(&mut self.stream)
    }

    /// Publishes what is due from `start_us` on until `end_us`; how late each update went, in µs.
    pub fn run(&mut self, plan: &Plan, start_us: u64, end_us: u64) -> Result<Histogram<u64>> {
        let mut lag = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        let (mut values, mut out, mut sent) = (Writer::new(plan), Vec::new(), 0);
        let all = plan.due_by(end_us.saturating_sub(start_us));
        while sent < all {
            let now = now_us();
            let due = plan.due_by(now.saturating_sub(start_us)).min(all);
            for update in sent..due {
                let due_us = start_us + plan.due_us(update);
                let topic = plan.topic_at(update);
                let value = values.write(topic, plan.round_of(update), due_us);
                self.speech.publish(topic, value, self.retain, &mut out);
                self.write_over(&mut out, WRITE_BYTES)?;
            }
            self.write_over(&mut out, 0)?;
            let done = now_us();
            for update in sent..due {
                lag.saturating_record(done.saturating_sub(start_us + plan.due_us(update)).max(1));
            }
            sent = due;
            std::thread::sleep(REST);
        }
        Ok(lag)
    }

    fn write_over(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<()> {
        if out.len() > bytes {
            self.stream.write_all(out).context("the publisher's connection ended")?;
            out.clear();
        }
        Ok(())
    }
}
