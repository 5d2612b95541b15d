//! From stamps to delays, and to who had them.

use super::roles::Told;
use super::stamps::{Given, Kind, Sent, cost_ns};
use crate::latency::{histogram, quantile_ms};
use crate::rounds::{median, number, short};
use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::HashMap;

/// Nanoseconds of one message, by who had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// From the application's call on one side to the application's event on the other, without what follows.
    pub application: u64,
    /// Framing and finding the fragment again.
    pub link: u64,
    /// The calls that write and read the socket.
    pub socket: u64,
    /// From the end of the one to the beginning of the other: queues, cables, the wake of the receiver.
    pub lower: u64,
    /// Before all of them: from when it was due until it was begun, the wake of the sender.
    pub late: u64,
}

impl Split {
    /// From when it was due until it was given.
    pub const fn total(&self) -> u64 {
        self.late + self.application + self.link + self.socket + self.lower
    }

    /// `stamp` is what a stamp costs: each part has one that is not its own.
    fn of(sent: &Sent, given: &Given, stamp: u64) -> Self {
        let total = given.given.saturating_sub(sent.begun);
        let between = |from: u64, to: u64| to.saturating_sub(from).saturating_sub(stamp);
        let link = between(sent.built, sent.framed) + between(given.arrived, given.found);
        // A receiver on another processor may be reading before the call that writes has returned.
        let written = sent.write.1.min(given.read.0.max(sent.write.0));
        let lower = given.read.0.saturating_sub(written);
        let socket = written.saturating_sub(sent.write.0) + given.read.1.saturating_sub(given.read.0);
        let late = sent.begun.saturating_sub(sent.due);
        Self { application: total.saturating_sub(link + socket + lower), link, socket, lower, late }
    }
}

/// Messages of one kind.
#[derive(Debug)]
pub struct Delays {
    /// From when it was due until it was given.
    pub total: Histogram<u64>,
    /// From when it was due until it was begun.
    pub lag: Histogram<u64>,
    pub splits: Vec<Split>,
    pub lost: u64,
}

impl Delays {
    /// Joins what was sent with what was given; `faults` is how many there should be.
    pub fn join(kind: Kind, faults: u32, told: &[Told]) -> Result<Self> {
        let (mut total, mut lag, stamp) = (histogram()?, histogram()?, cost_ns());
        let sent = told.iter().flat_map(|told| &told.sent).filter(|sent| sent.kind == kind);
        let sent: HashMap<u32, Sent> = sent.map(|sent| (sent.fault, *sent)).collect();
        let mut given: HashMap<u32, Given> = HashMap::new();
        for one in told.iter().flat_map(|told| &told.given).filter(|given| given.kind == kind) {
            given.entry(one.fault).or_insert(*one);
        }
        let mut splits = Vec::new();
        for (fault, given) in &given {
            let Some(sent) = sent.get(fault) else { continue };
            total.saturating_record(given.given.saturating_sub(sent.due));
            lag.saturating_record(sent.begun.saturating_sub(sent.due));
            splits.push(Split::of(sent, given, stamp));
        }
        let lost = u64::from(faults) - (splits.len() as u64).min(u64::from(faults));
        Ok(Self { total, lag, splits, lost })
    }

    /// A quantile of the delay in milliseconds.
    pub fn ms(&self, quantile: f64) -> f64 {
        quantile_ms(&self.total, quantile)
    }

    /// The middle of each part in microseconds.
    pub fn parts(&self) -> Parts {
        let middle = |part: fn(&Split) -> u64| {
            let mut all: Vec<u64> = self.splits.iter().map(part).collect();
            all.sort_unstable();
            short(all.get(all.len() / 2).map_or(0.0, |nanos| number(*nanos) / 1e3))
        };
        Parts::of(middle)
    }

    /// The slowest of each 1,000, at least one, with where their time went.
    pub fn slowest(&self) -> Vec<Split> {
        let mut splits = self.splits.clone();
        splits.sort_unstable_by_key(|split| std::cmp::Reverse(split.total()));
        splits.truncate(splits.len().div_ceil(1000));
        splits
    }
}

/// Where the time of a message went: medians, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// The application layer and its owner, on both sides.
    pub application_us: f64,
    /// DNP3's transport and link layers, or what takes their place.
    pub link_us: f64,
    /// The calls of the socket.
    pub socket_us: f64,
    /// Queues and cables.
    pub lower_us: f64,
    /// The wake of the sender.
    pub late_us: f64,
}

impl Parts {
    fn of(mut figure: impl FnMut(fn(&Split) -> u64) -> f64) -> Self {
        Self {
            application_us: figure(|split| split.application),
            link_us: figure(|split| split.link),
            socket_us: figure(|split| split.socket),
            lower_us: figure(|split| split.lower),
            late_us: figure(|split| split.late),
        }
    }

    /// The mean of some messages.
    pub fn mean(splits: &[Split]) -> Self {
        let count = number(splits.len().max(1) as u64);
        Self::of(|part| short(number(splits.iter().map(part).sum()) / count / 1e3))
    }

    /// The median of each part over rounds.
    pub fn median(rounds: &[Self]) -> Self {
        let middle = |part: fn(&Self) -> f64| median(&rounds.iter().map(part).collect::<Vec<_>>());
        Self {
            application_us: middle(|parts| parts.application_us),
            link_us: middle(|parts| parts.link_us),
            socket_us: middle(|parts| parts.socket_us),
            lower_us: middle(|parts| parts.lower_us),
            late_us: middle(|parts| parts.late_us),
        }
    }

    /// The share of transport and link in what is processing, in percent.
    pub fn link_share(&self) -> f64 {
        let processing = self.application_us + self.link_us + self.socket_us;
        if processing > 0.0 { short(100.0 * self.link_us / processing) } else { f64::NAN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_has_one_owner() {
        let check = |write: (u64, u64), read: (u64, u64), expect: [u64; 4]| {
            let sent = Sent { kind: Kind::Command, fault: 0, due: 90, begun: 100, built: 110, framed: 113, write };
            let (arrived, found) = (read.1 + 1, read.1 + 3);
            let given = Given { kind: Kind::Command, fault: 0, read, arrived, found, given: found + 7 };
            let Split { application, link, socket, lower, late } = Split::of(&sent, &given, 0);
            assert_eq!([application, link, socket, lower], expect);
            assert_eq!(application + link + socket + lower, given.given - sent.begun);
            assert_eq!(late, sent.begun - sent.due);
        };
        check((115, 120), (150, 152), [10 + 2 + 1 + 7, 3 + 2, 5 + 2, 30]);
        // The receiver reads before the writer's call has returned.
        check((115, 160), (150, 152), [10 + 2 + 1 + 7, 3 + 2, 35 + 2, 0]);
    }
}
