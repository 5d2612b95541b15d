//! A network in virtual time between one client and the broker: slow, held, cut, or cut so that nobody learns of it.

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
pub struct Manner {
    /// The longest that anything is under way, in milliseconds.
    pub delay_ms: u64,
    /// Bytes that one direction takes before its sender must wait.
    pub bytes_max: usize,
}

impl Manner {
    /// At once, as much as one likes.
    pub const PERFECT: Self = Self { delay_ms: 0, bytes_max: usize::MAX };
}

/// A connection's two directions: to the broker, and to the client.
#[derive(Clone, Debug)]
pub struct Link(Arc<Mutex<[Way; 2]>>);

#[derive(Debug)]
struct Way {
    manner: Manner,
    choices: Choices,
    flights: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// When the last byte arrives.
    last: Instant,
    /// Nothing arrives before.
    held_until: Instant,
    /// What is sent goes nowhere.
    swallows: bool,
    ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Way {
    fn new(manner: Manner, seed: u64) -> Self {
        let now = Instant::now();
        Self {
            manner,
            choices: Choices::seeded(seed),
            flights: VecDeque::new(),
            bytes: 0,
            last: now,
            held_until: now,
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
        self.ended || self.swallows || self.bytes < self.manner.bytes_max
    }
}

impl Link {
    /// A network, the broker's end of a connection over it, and the client's.
    #[must_use]
    pub fn new(manner: Manner, seed: u64) -> (Self, Connection, Connection) {
        let ways = Arc::new(Mutex::new([Way::new(manner, seed), Way::new(manner, !seed)]));
        let end = |reads| -> Box<dyn Carrier> {
            Box::new(End { ways: Arc::clone(&ways), reads, sleep: Box::pin(sleep(Duration::ZERO)) })
        };
        let (broker, client) = (end(0), end(1));
        (Self(ways), broker.into(), client.into())
    }

    /// It breaks, and both ends learn of it.
    pub fn cut(&self) {
        for way in &mut *lock(&self.0) {
            way.flights.clear();
            way.bytes = 0;
            way.end();
        }
    }

    /// It breaks, and nobody learns of it.
    pub fn vanish(&self) {
        for way in &mut *lock(&self.0) {
            way.flights.clear();
            (way.swallows, way.bytes) = (true, 0);
        }
    }

    /// Nothing arrives for a while.
    pub fn hold(&self, time: Duration) {
        let until = Instant::now() + time;
        for way in &mut *lock(&self.0) {
            way.held_until = way.held_until.max(until);
        }
    }
}

fn lock(ways: &Mutex<[Way; 2]>) -> MutexGuard<'_, [Way; 2]> {
    ways.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a connection.
struct End {
    ways: Arc<Mutex<[Way; 2]>>,
    /// Which direction it reads.
    reads: usize,
    sleep: Pin<Box<Sleep>>,
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
                let way = &mut lock(&self.ways)[self.reads];
                match way.flights.front_mut() {
                    Some((arrival, bytes)) if *arrival <= Instant::now() => {
                        let count = bytes.len().min(buffer.remaining());
                        buffer.put_slice(&bytes[..count]);
                        bytes.drain(..count);
                        if bytes.is_empty() {
                            way.flights.pop_front();
                        }
                        way.bytes -= count;
                        way.writer.take().into_iter().for_each(Waker::wake);
                        return Poll::Ready(Ok(()));
                    }
                    None if way.ended => return Poll::Ready(Ok(())),
                    front => {
                        let arrival = front.map(|(arrival, _)| *arrival);
                        way.reader = Some(cx.waker().clone());
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
        let way = &mut lock(&self.ways)[1 - self.reads];
        if way.has_room() {
            return Poll::Ready(Ok(()));
        }
        way.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let way = &mut lock(&self.ways)[1 - self.reads];
        if way.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if way.swallows {
            return Ok(bytes.len());
        }
        let count = bytes.len().min(way.manner.bytes_max.saturating_sub(way.bytes));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let arrival = Instant::now() + way.choices.millis(0, way.manner.delay_ms);
        way.last = arrival.max(way.last).max(way.held_until);
        way.flights.push_back((way.last, bytes[..count].to_vec()));
        way.bytes += count;
        way.reader.take().into_iter().for_each(Waker::wake);
        Ok(count)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for way in &mut *lock(&self.ways) {
            if !way.swallows {
                way.end();
            }
        }
    }
}
