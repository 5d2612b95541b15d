//! What subscribers make of the bytes that came to them: every value is compared with what must have been published, and counted once.

use super::plan::{Plan, topic_of};
use super::quote;
use super::rebuild::Rebuild;
use super::speech::{Arrived, Next, Speech};
use super::values::{Form, Points};
use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tieline_core::Body;

/// The values that count: those whose time lies in here, in µs of the monotonic clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Window {
    /// When the first update is due.
    pub start_us: u64,
    /// The first that counts.
    pub from_us: u64,
    /// The first that does not.
    pub to_us: u64,
    /// When the last update is due.
    pub end_us: u64,
    /// Latencies are told apart by intervals of this length.
    pub every_us: u64,
}

impl Window {
    /// The same with another zero.
    pub const fn after(self, start_us: u64) -> Self {
        Self {
            start_us: start_us + self.start_us,
            from_us: start_us + self.from_us,
            to_us: start_us + self.to_us,
            end_us: start_us + self.end_us,
            every_us: self.every_us,
        }
    }
}

/// What some subscribers got.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Values that count, each once.
    pub delivered: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Messages that came while values that count were due, whichever they carry.
    pub received: u64,
    /// Messages that were not what was published, or not for this subscriber.
    pub wrong: u64,
    /// Values that came a second time, or after a newer one.
    pub doubled: u64,
    /// Connections that ended.
    pub broken: u64,
    /// µs from when a value was due until it came, and how often, by interval of when it was due.
    pub latency_us: Vec<Vec<(u64, u64)>>,
}

/// Some subscribers of a run, and what came to them.
pub struct Heard {
    plan: Plan,
    speech: Speech,
    /// The number of the first of them.
    first: usize,
    window: Window,
    /// Topics by alias, of each.
    aliases: Vec<Vec<u32>>,
    slots: Vec<u32>,
    /// The time of the newest value of each subscription.
    newest: Vec<u64>,
    points: Points,
    /// What rebuilds values; none without deltas.
    rebuild: Option<Rebuild>,
    told: Told,
    /// By interval.
    latency: Vec<Histogram<u64>>,
}

impl Heard {
    /// Nothing has come yet to `count` subscribers from `first` on; with `deltas`, they have asked for them.
    ///
    /// # Errors
    /// Their latencies cannot be counted.
    pub fn new(
        plan: Plan,
        speech: Speech,
        (first, count): (usize, usize),
        deltas: bool,
        window: Window,
    ) -> Result<Self> {
        let subscriptions = count * plan.subscriptions_each;
        let intervals = (window.to_us - window.from_us).div_ceil(window.every_us);
        let latency = (0..intervals).map(|_| Histogram::new(3)).collect::<Result<_, _>>()?;
        Ok(Self {
            plan,
            speech,
            first,
            window,
            aliases: vec![Vec::new(); count],
            slots: plan.slots(),
            newest: vec![0; subscriptions],
            points: Points::new(plan, window.start_us),
            rebuild: deltas.then(|| Rebuild::new(&plan, subscriptions)),
            told: Told::default(),
            latency,
        })
    }

    /// A connection has ended.
    pub const fn broke(&mut self) {
        self.told.broken += 1;
    }

    /// All that came.
    #[must_use]
    pub fn told(mut self) -> Told {
        let counts = |all: &Histogram<u64>| {
            all.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect::<Vec<_>>()
        };
        self.told.latency_us = self.latency.iter().map(counts).collect();
        self.told
    }

    /// Takes all whole messages that came by `now` to the subscriber in the place `at`; how many bytes they were.
    ///
    /// # Errors
    /// Bytes are not of its protocol.
    pub fn take(&mut self, at: usize, now: u64, bytes: &[u8]) -> Result<usize> {
        let mut used = 0;
        loop {
            match self.speech.next(bytes.get(used..).unwrap_or_default())? {
                Next::Part => return Ok(used),
                Next::Other(bytes) => used += bytes,
                Next::Message(bytes, arrived) => {
                    used += bytes;
                    match self.value(at, arrived) {
                        Some((place, time_us)) => self.count(place, time_us, now, bytes),
                        None => self.told.wrong += 1,
                    }
                }
            }
        }
    }

    /// The subscription that a message belongs to and its value's time, where both are as they should be.
    fn value(&mut self, at: usize, arrived: Arrived<'_>) -> Option<(usize, u64)> {
        let aliases = self.aliases.get_mut(at)?;
        let alias = usize::from(arrived.alias);
        let topic = if arrived.topic.is_empty() {
            *aliases.get(alias)? as usize
        } else {
            let topic = topic_of(arrived.topic)?;
            if alias > 0 {
                aliases.resize(aliases.len().max(alias + 1), u32::MAX);
                *aliases.get_mut(alias)? = u32::try_from(topic).ok()?;
            }
            topic
        };
        let slot = *self.slots.get(topic)? as usize;
        let subscription = self.plan.subscription_of(self.first + at, slot)?;
        let place = at * self.plan.subscriptions_each + subscription;
        let (payload, points) = (arrived.payload, &self.points);
        let time_us = match (&mut self.rebuild, self.plan.form) {
            (None, Form::Json) => quote::read(payload, topic),
            (None, Form::Point) => points.due_us(topic, &Body::Opaque(Bytes::copy_from_slice(payload))),
            (Some(rebuild), _) => rebuild.due_us(points, place, topic, *self.newest.get(place)?, payload),
        };
        Some((place, time_us?))
    }

    fn count(&mut self, place: usize, time_us: u64, now: u64, bytes: usize) {
        let Some(newest) = self.newest.get_mut(place) else { return };
        if time_us <= *newest {
            self.told.doubled += 1;
            return;
        }
        *newest = time_us;
        let Window { from_us, to_us, every_us, .. } = self.window;
        self.told.received += u64::from((from_us..to_us).contains(&now));
        if (from_us..to_us).contains(&time_us) {
            self.told.delivered += 1;
            self.told.bytes += bytes as u64;
            let interval = usize::try_from((time_us - from_us) / every_us).unwrap_or(usize::MAX);
            if let Some(latency) = self.latency.get_mut(interval) {
                // It grows as it must.
                let _ = latency.record(now.saturating_sub(time_us).max(1));
            }
        }
    }
}

impl Told {
    /// Adds what others got.
    pub fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.received += other.received;
        self.wrong += other.wrong;
        self.doubled += other.doubled;
        self.broken += other.broken;
        self.latency_us.resize(self.latency_us.len().max(other.latency_us.len()), Vec::new());
        for (interval, counts) in self.latency_us.iter_mut().zip(other.latency_us) {
            interval.extend(counts);
        }
    }

    /// That everything came and nothing else did.
    pub fn check(&self, expected: u64) -> Result<()> {
        ensure!(self.broken == 0, "{} connections ended", self.broken);
        ensure!(self.wrong == 0, "{} messages were not what was published", self.wrong);
        ensure!(self.doubled == 0, "{} values came twice or out of order", self.doubled);
        if self.delivered != expected {
            bail!("{} of {expected} events were lost", expected.saturating_sub(self.delivered));
        }
        Ok(())
    }
}
