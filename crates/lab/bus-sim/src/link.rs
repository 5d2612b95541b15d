//! A network in virtual time between one client and the broker: slow, held, cut, or cut so that nobody learns of it.

use crate::trace::Trace;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tieline_net::{Carrier, Connection};
use tieline_sim::Choices;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep, sleep};

/// What a network does to what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBehavior {
    /// The longest that anything is under way, in milliseconds.
    pub delay_ms: u64,
    /// Bytes that one direction takes before its sender must wait.
    pub bytes_max: usize,
}

impl LinkBehavior {
    /// At once, as much as one likes.
    pub const PERFECT: Self = Self { delay_ms: 0, bytes_max: usize::MAX };
}

/// A connection's two directions: to the broker, and to the client.
#[derive(Clone, Debug)]
pub struct Link(Arc<Mutex<[Direction; 2]>>);

#[derive(Debug)]
struct Direction {
    behavior: LinkBehavior,
    choices: Choices,
    flights: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Bytes that were sent so far.
    sent: u64,
    /// When the last byte arrives.
    last: Instant,
    /// Nothing arrives before.
    held_until: Instant,
    /// How much longer everything is under way.
    lag: Duration,
    /// What is sent goes nowhere.
    swallows: bool,
    ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Direction {
    fn new(behavior: LinkBehavior, seed: u64) -> Self {
        let now = Instant::now();
        Self {
            behavior,
            choices: Choices::seeded(seed),
            flights: VecDeque::new(),
            bytes: 0,
            sent: 0,
            last: now,
            held_until: now,
            lag: Duration::ZERO,
            swallows: false,
            ended: false,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn end(&mut self) {
        self.ended = true;
        self.wake();
    }

    fn has_room(&self) -> bool {
        self.ended || self.swallows || self.bytes < self.behavior.bytes_max
    }
}

impl Link {
    /// A network, the broker's end of a connection over it, and the client's.
    #[must_use]
    pub fn new(behavior: LinkBehavior, seed: u64, (number, trace): (u64, &Trace)) -> (Self, Connection, Connection) {
        let directions = Arc::new(Mutex::new([Direction::new(behavior, seed), Direction::new(behavior, !seed)]));
        let end = |reads| -> Box<dyn Carrier> {
            let (directions, sleep) = (Arc::clone(&directions), Box::pin(sleep(Duration::ZERO)));
            Box::new(End { directions, reads, sleep, began: Instant::now(), number, trace: trace.clone() })
        };
        let (broker, client) = (end(0), end(1));
        (Self(directions), broker.into(), client.into())
    }

    /// Bytes that were sent to the client so far.
    #[must_use]
    pub fn sent_to_client(&self) -> u64 {
        lock(&self.0)[1].sent
    }

    /// From here on what is sent to the client is under way for so much longer.
    pub fn lag_to_client(&self, lag: Duration) {
        lock(&self.0)[1].lag = lag;
    }

    /// It breaks, and both ends learn of it.
    pub fn cut(&self) {
        for direction in &mut *lock(&self.0) {
            direction.flights.clear();
            direction.bytes = 0;
            direction.end();
        }
    }

    /// It breaks, and nobody learns of it.
    pub fn vanish(&self) {
        for direction in &mut *lock(&self.0) {
            direction.flights.clear();
            (direction.swallows, direction.bytes) = (true, 0);
        }
    }

    /// Nothing arrives for a while.
    pub fn hold(&self, time: Duration) {
        let until = Instant::now() + time;
        for direction in &mut *lock(&self.0) {
            direction.held_until = direction.held_until.max(until);
        }
    }
}

fn lock(directions: &Mutex<[Direction; 2]>) -> MutexGuard<'_, [Direction; 2]> {
    directions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a connection.
struct End {
    directions: Arc<Mutex<[Direction; 2]>>,
    /// Which direction it reads.
    reads: usize,
    sleep: Pin<Box<Sleep>>,
    /// Where what it sends is written down: when the connection began, and its number.
    trace: Trace,
    began: Instant,
    number: u64,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("reads", &self.reads).finish_non_exhaustive()
    }
}

impl Carrier for End {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let arrival = {
                let direction = &mut lock(&self.directions)[self.reads];
                match direction.flights.front_mut() {
                    Some((arrival, bytes)) if *arrival <= Instant::now() => {
                        let count = bytes.len().min(buffer.remaining());
                        buffer.put_slice(&bytes[..count]);
                        bytes.drain(..count);
                        if bytes.is_empty() {
                            direction.flights.pop_front();
                        }
                        direction.bytes -= count;
                        direction.writer.take().into_iter().for_each(Waker::wake);
                        return Poll::Ready(Ok(()));
                    }
                    None if direction.ended => return Poll::Ready(Ok(())),
                    front => {
                        let arrival = front.map(|(arrival, _)| *arrival);
                        direction.reader = Some(cx.waker().clone());
                        arrival
                    }
                }
            };
            let Some(arrival) = arrival else { return Poll::Pending };
            self.sleep.as_mut().reset(arrival);
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let direction = &mut lock(&self.directions)[1 - self.reads];
        if direction.has_room() {
            return Poll::Ready(Ok(()));
        }
        direction.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let direction = &mut lock(&self.directions)[1 - self.reads];
        if direction.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if direction.swallows {
            return Ok(bytes.len());
        }
        let count = bytes.len().min(direction.behavior.bytes_max.saturating_sub(direction.bytes));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let arrival = Instant::now() + direction.choices.millis(0, direction.behavior.delay_ms) + direction.lag;
        direction.last = arrival.max(direction.last).max(direction.held_until);
        self.trace.add(self.began.elapsed(), (self.number, self.reads == 1), &bytes[..count]);
        direction.flights.push_back((direction.last, bytes[..count].to_vec()));
        direction.bytes += count;
        direction.sent += count as u64;
        direction.reader.take().into_iter().for_each(Waker::wake);
        Ok(count)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for direction in &mut *lock(&self.directions) {
            if !direction.swallows {
                direction.end();
            }
        }
    }
}
