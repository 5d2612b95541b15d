//! What is counted.

use crate::protocol::Reason;
use crate::work::Operation;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_crypto::{BATCH_MAX, EngineCounters};
use tieline_service::exposition::Exposition;

/// Upper ends of the buckets of the time that an operation takes, in microseconds.
const BUCKETS_US: [u64; 12] =
    [250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];
const REASONS: [(Reason, &str); 7] = [
    (Reason::Request, "request"),
    (Reason::Right, "right"),
    (Reason::Message, "message"),
    (Reason::TooLarge, "too_large"),
    (Reason::Busy, "busy"),
    (Reason::Closing, "closing"),
    (Reason::Failed, "failed"),
];

/// Which of the two.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Pack.
    Pack,
    /// Unpack.
    Unpack,
}

impl From<&Operation> for Kind {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Pack(_) => Self::Pack,
            Operation::Unpack(_) => Self::Unpack,
        }
    }
}

/// Counters that workers and doors share.
#[derive(Debug, Default)]
pub struct Metrics {
    done: [AtomicU64; 2],
    refused: [[AtomicU64; REASONS.len()]; 2],
    seconds_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    turns: [AtomicU64; BATCH_MAX],
    single: AtomicU64,
    lanes: AtomicU64,
    faults: AtomicU64,
    /// Connections of the binary protocol.
    pub connections: AtomicU64,
    /// Connections that were closed because there were too many.
    pub connections_refused: AtomicU64,
    /// Connections that were closed because of what they sent.
    pub malformed: AtomicU64,
}

impl Metrics {
    /// One operation that was taken is over.
    pub fn count(&self, kind: Kind, refused: Option<Reason>, took: Duration) {
        let of = kind as usize;
        match refused {
            None => self.done[of].fetch_add(1, Ordering::Relaxed),
            Some(reason) => self.refused[of][reason as usize - 1].fetch_add(1, Ordering::Relaxed),
        };
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.iter().position(|&end| us <= end).unwrap_or(BUCKETS_US.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.seconds_us.fetch_add(us, Ordering::Relaxed);
    }

    /// One operation was not taken.
    pub fn turn_away(&self, kind: Kind, reason: Reason) {
        self.refused[kind as usize][reason as usize - 1].fetch_add(1, Ordering::Relaxed);
    }

    /// A worker took so many at once, and its engine's counters went from one to the other.
    pub fn turn(&self, taken: usize, before: EngineCounters, after: EngineCounters) {
        if let Some(turns) = taken.checked_sub(1).and_then(|at| self.turns.get(at)) {
            turns.fetch_add(1, Ordering::Relaxed);
        }
        self.single.fetch_add(after.private_single - before.private_single, Ordering::Relaxed);
        self.lanes.fetch_add(after.private_lanes - before.private_lanes, Ordering::Relaxed);
        self.faults.fetch_add(after.faults - before.faults, Ordering::Relaxed);
    }

    /// Writes all.
    pub fn expose(&self, e: &mut Exposition) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let done = [(Kind::Pack, "pack"), (Kind::Unpack, "unpack")]
            .map(|(kind, name)| (name, value(&self.done[kind as usize])));
        e.labelled(("tieline_seal_operations_total", "Successful operations.", "counter"), "verb", done);
        e.family("tieline_seal_refused_total", "Refused operations.", "counter");
        for (kind, name) in [(Kind::Pack, "pack"), (Kind::Unpack, "unpack")] {
            for (reason, word) in REASONS {
                let count = value(&self.refused[kind as usize][reason as usize - 1]);
                e.sample("tieline_seal_refused_total", &[("verb", name), ("reason", word)], count);
            }
        }
        self.expose_times(e);
        let turns = self.turns.iter().enumerate().map(|(at, turns)| ((at + 1).to_string(), value(turns)));
        let help = "Batches of workers, by number of operations.";
        e.labelled(("tieline_seal_turns_total", help, "counter"), "operations", turns);
        let ways = [("single", value(&self.single)), ("lanes", value(&self.lanes))];
        let private = ("tieline_seal_private_operations_total", "Operations with private keys.", "counter");
        e.labelled(private, "way", ways);
        let help = "Results of SIMD lanes that failed their check and were computed again.";
        e.counter("tieline_seal_private_faults_total", help, value(&self.faults));
        e.gauge("tieline_seal_connections", "Connections of the binary protocol.", value(&self.connections));
        let help = "Connections of the binary protocol refused because there were too many.";
        e.counter("tieline_seal_connections_refused_total", help, value(&self.connections_refused));
        let help = "Connections of the binary protocol that were closed because of what they sent.";
        e.counter("tieline_seal_malformed_total", help, value(&self.malformed));
    }

    fn expose_times(&self, e: &mut Exposition) {
        let name = "tieline_seal_operation_seconds";
        e.family(name, "Time from the arrival of an operation to its answer, in seconds.", "histogram");
        let mut sum = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            sum += bucket.load(Ordering::Relaxed);
            let end = BUCKETS_US.get(at).map_or("+Inf".to_owned(), |&us| (us as f64 / 1e6).to_string());
            e.sample(&format!("{name}_bucket"), &[("le", &end)], sum);
        }
        e.sample(&format!("{name}_sum"), &[], self.seconds_us.load(Ordering::Relaxed) as f64 / 1e6);
        e.sample(&format!("{name}_count"), &[], sum);
    }
}
