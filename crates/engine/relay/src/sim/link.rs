//! One direction of a link: a queue before a line of some rate, and then a way that loses, doubles and reorders.

use core::time::Duration;
use tieline_core::{Instant, Random};

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) bytes_per_second: u64,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    /// One of so many is lost, and one of so many comes twice; 0: none.
    pub(super) loses: u64,
    pub(super) doubles: u64,
    /// Whether all is lost, and nobody is told.
    pub(super) is_dead: bool,
    free_at: Instant,
}

impl Line {
    pub(super) const fn new(bytes_per_second: u64, delay: Duration) -> Self {
        Self {
            bytes_per_second,
            delay,
            jitter: Duration::ZERO,
            loses: 0,
            doubles: 0,
            is_dead: false,
            free_at: Instant::ZERO,
        }
    }

    /// When something that is sent now arrives: not, once or twice.
    pub(super) fn send(&mut self, now: Instant, bytes: usize, random: &mut Random) -> [Option<Instant>; 2] {
        let time = Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.bytes_per_second);
        self.free_at = self.free_at.max(now) + time;
        let hits = |one_of: u64, random: &mut Random| one_of > 0 && random.number().is_multiple_of(one_of);
        if self.is_dead || hits(self.loses, random) {
            return [None, None];
        }
        let mut arrival = || {
            let jitter = self.jitter * u32::try_from(random.number() % 1024).unwrap() / 1024;
            Some(self.free_at + self.delay + jitter)
        };
        let first = arrival();
        let again = arrival();
        [first, again.filter(|_| hits(self.doubles, random))]
    }
}
