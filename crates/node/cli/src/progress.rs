//! How far something is, on standard error, where somebody looks at it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often it is told, and from when on.
const EVERY: Duration = Duration::from_millis(500);

/// A line that is written over itself.
pub struct Progress {
    verb: &'static str,
    watched: bool,
    told_at: Instant,
    told: bool,
}

impl Progress {
    /// Nothing is told before half a second has passed.
    pub fn new(verb: &'static str) -> Self {
        Self { verb, watched: io::stderr().is_terminal(), told_at: Instant::now(), told: false }
    }

    /// Tells how many bytes of how many are done.
    pub fn tell(&mut self, done: u64, total: u64) {
        if self.is_due() {
            eprint!("\r{} of {} {} ({} %) ", size(done), size(total), self.verb, done * 100 / total.max(1));
        }
    }

    /// Tells how far it is in words.
    pub fn say(&mut self, words: impl FnOnce() -> String) {
        if self.is_due() {
            eprint!("\r\x1b[K{} {}", words(), self.verb);
        }
    }

    fn is_due(&mut self) -> bool {
        let due = self.watched && self.told_at.elapsed() >= EVERY;
        if due {
            (self.told_at, self.told) = (Instant::now(), true);
        }
        due
    }

    /// Ends the line.
    pub fn finish(&self) {
        if self.told {
            eprintln!();
        }
    }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
        1_000_000_000.. => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}
