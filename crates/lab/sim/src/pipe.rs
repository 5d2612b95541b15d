//! One direction of a network: what is on its way.

use crate::Choices;
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::Instant;

/// Bytes that a connection takes before its sender must wait, as the buffers of two kernels do.
const STREAM_BYTES_MAX: usize = 4096;

/// What a network may do to what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// Everything arrives, in order, in any pieces: TCP.
    Stream,
    /// Each message arrives whole, or not at all, or twice, or later than others: UDP.
    Datagrams {
        /// How many in a hundred are lost.
        lost: u8,
        /// How many in a hundred arrive twice.
        twice: u8,
    },
    /// Bytes arrive in order, some of them damaged: a serial line.
    Line {
        /// How many messages in a hundred have damaged bits.
        damaged: u8,
    },
}

/// One direction of a network.
#[derive(Clone, Debug)]
pub struct Pipe {
    carriage: Carriage,
    /// The longest that anything is under way, in milliseconds.
    delay_ms: u64,
    /// By arrival and order of sending.
    flights: BTreeMap<(Instant, u64), Vec<u8>>,
    sent: u64,
    bytes: usize,
    /// When the last byte of a stream arrives.
    last: Instant,
    /// Nothing arrives before.
    held_until: Instant,
}

impl Pipe {
    /// An empty one.
    #[must_use]
    pub const fn new(carriage: Carriage, delay_ms: u64) -> Self {
        Self {
            carriage,
            delay_ms,
            flights: BTreeMap::new(),
            sent: 0,
            bytes: 0,
            last: Instant::ZERO,
            held_until: Instant::ZERO,
        }
    }

    /// The network heals: nothing is lost, doubled or damaged any more.
    pub const fn heal(&mut self) {
        self.carriage = match self.carriage {
            Carriage::Stream => Carriage::Stream,
            Carriage::Datagrams { .. } => Carriage::Datagrams { lost: 0, twice: 0 },
            Carriage::Line { .. } => Carriage::Line { damaged: 0 },
        };
    }

    /// Takes what its sender wrote at once; returns how many bytes it took.
    pub fn send(&mut self, now: Instant, bytes: &[u8], choices: &mut Choices) -> usize {
        if self.carriage != Carriage::Stream && now < self.held_until {
            return bytes.len();
        }
        match self.carriage {
            Carriage::Stream => {
                let taken = bytes.len().min(STREAM_BYTES_MAX.saturating_sub(self.bytes));
                self.stream(now, &bytes[..taken], choices);
                taken
            }
            Carriage::Datagrams { lost, twice } => {
                if !choices.chance(lost.into()) {
                    let arrival = now + choices.millis(0, self.delay_ms);
                    // A copy comes right after: one that comes much later is what link addresses and sequence
                    // numbers of 4 bits cannot tell from a second request.
                    for _ in 0..=u8::from(choices.chance(twice.into())) {
                        self.launch(arrival, bytes.to_vec());
                    }
                }
                bytes.len()
            }
            Carriage::Line { damaged } => {
                let mut copy = bytes.to_vec();
                if choices.chance(damaged.into()) && !copy.is_empty() {
                    damage(&mut copy, choices);
                }
                self.stream(now, &copy, choices);
                bytes.len()
            }
        }
    }

    /// In order, in pieces.
    fn stream(&mut self, now: Instant, bytes: &[u8], choices: &mut Choices) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = choices.chance(60) || rest.len() < 2;
            let piece = if whole { rest.len() } else { to_usize(choices.between(1, rest.len() as u64)) };
            let arrival = now + choices.millis(0, self.delay_ms);
            self.last = arrival.max(self.last).max(self.held_until);
            self.launch(self.last, rest[..piece].to_vec());
            rest = &rest[piece..];
        }
    }

    fn launch(&mut self, arrival: Instant, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.flights.insert((arrival, self.sent), bytes);
        self.sent += 1;
    }

    /// When something arrives next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.flights.first_key_value().map(|((arrival, _), _)| *arrival)
    }

    /// What has arrived: one datagram, or the bytes of a stream so far.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut arrived = self.pop(now)?;
        if !matches!(self.carriage, Carriage::Datagrams { .. }) {
            while let Some(more) = self.pop(now) {
                arrived.extend(more);
            }
        }
        Some(arrived)
    }

    fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let first = self.flights.first_entry().filter(|first| first.key().0 <= now)?;
        let bytes = first.remove();
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// For a time nothing arrives: a stream is late, anything else is lost.
    pub fn hold(&mut self, now: Instant, time: Duration) {
        let late = std::mem::take(&mut self.flights);
        self.held_until = self.held_until.max(now + time);
        if self.carriage != Carriage::Stream {
            self.bytes = 0;
            return;
        }
        for ((arrival, number), bytes) in late {
            self.flights.insert((arrival.max(self.held_until), number), bytes);
        }
        self.last = self.last.max(self.held_until);
    }

    /// Everything on its way is lost.
    pub fn clear(&mut self) {
        self.flights.clear();
        (self.bytes, self.last, self.held_until) = (0, Instant::ZERO, Instant::ZERO);
    }
}

/// Up to three bits within one byte: less than what the CRC of a block always sees (IEEE 1815 9.2.4.2), so that what
/// was damaged never passes for whole.
fn damage(bytes: &mut [u8], choices: &mut Choices) {
    let at = to_usize(choices.below(bytes.len() as u64));
    bytes[at] ^= choices.pick(&[0x01, 0x80, 0x18, 0x24, 0x51, 0x0D]);
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("smaller than a buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Instant = Instant(60_000_000_000);

    fn carried(carriage: Carriage, seed: u64) -> Vec<Vec<u8>> {
        let (mut pipe, mut choices) = (Pipe::new(carriage, 100), Choices::seeded(seed));
        for message in 0..50_u8 {
            let bytes = [message; 7];
            let mut sent = 0;
            while sent < bytes.len() {
                sent += pipe.send(Instant::ZERO, &bytes[sent..], &mut choices);
            }
        }
        std::iter::from_fn(|| pipe.receive(LATER)).collect()
    }

    #[test]
    fn a_stream_keeps_every_byte_in_order() {
        let expect: Vec<u8> = (0..50).flat_map(|message| [message; 7]).collect();
        for seed in 0..50 {
            assert_eq!(carried(Carriage::Stream, seed).concat(), expect);
        }
    }

    #[test]
    fn a_stream_takes_no_more_than_it_holds() {
        let (mut pipe, mut choices) = (Pipe::new(Carriage::Stream, 10), Choices::seeded(1));
        assert_eq!(pipe.send(Instant::ZERO, &[0; 5000], &mut choices), STREAM_BYTES_MAX);
        assert_eq!(pipe.send(Instant::ZERO, &[0; 5000], &mut choices), 0);
        assert_eq!(pipe.receive(LATER).map(|bytes| bytes.len()), Some(STREAM_BYTES_MAX));
        assert_eq!(pipe.send(Instant::ZERO, &[0; 5], &mut choices), 5);
    }

    #[test]
    fn datagrams_are_lost_doubled_and_overtaken_but_whole() {
        let carriage = Carriage::Datagrams { lost: 20, twice: 20 };
        let (mut lost, mut doubled, mut overtaken) = (0, 0, 0);
        for seed in 0..50 {
            let arrived = carried(carriage, seed);
            assert!(arrived.iter().all(|datagram| *datagram == [datagram[0]; 7]));
            let numbers: Vec<u8> = arrived.iter().map(|datagram| datagram[0]).collect();
            lost += (0..50).filter(|number| !numbers.contains(number)).count();
            doubled += numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
            overtaken += numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        }
        assert!(
            lost > 100 && doubled > 100 && overtaken > 100,
            "{lost} lost, {doubled} doubled, {overtaken} overtaken"
        );
    }

    #[test]
    fn a_held_stream_comes_late_and_whole() {
        let (mut pipe, mut choices) = (Pipe::new(Carriage::Stream, 0), Choices::seeded(1));
        pipe.send(Instant::ZERO, &[1, 2], &mut choices);
        pipe.hold(Instant::ZERO, Duration::from_secs(5));
        pipe.send(Instant::ZERO, &[3], &mut choices);
        assert_eq!(pipe.receive(Instant(4_999_999_999)), None);
        assert_eq!(pipe.receive(Instant(5_000_000_000)), Some(vec![1, 2, 3]));
    }
}
