//! Counters of all simulated devices of a shard together, for metrics.

use super::Simulated;
use crate::field::counters::{Metric, MetricKind};
use std::cell::Cell;
use tieline_model::Effect;

/// What the devices of a shard count.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) requests: Cell<u64>,
    pub(super) answers: Cell<u64>,
    pub(super) refusals: Cell<u64>,
    pub(super) timeouts: Cell<u64>,
    pub(super) commands: Cell<u64>,
    pub(super) restarts: Cell<u64>,
    /// Requests while there was a fault, by [`Effect::ALL`].
    pub(super) faults: [Cell<u64>; Effect::ALL.len()],
}

impl Counts {
    pub(super) fn add(counter: &Cell<u64>) {
        counter.update(|count| count.saturating_add(1));
    }

    pub(super) fn add_fault(&self, effect: Effect) {
        let of = Effect::ALL.iter().zip(&self.faults).find(|(known, _)| **known == effect);
        of.into_iter().for_each(|(_, counter)| Self::add(counter));
    }
}

impl Simulated {
    /// All metrics of simulated devices.
    pub(super) fn count(&self) -> Vec<Metric> {
        let counts = &self.counts;
        let devices = self.devices.borrow();
        let online = devices.values().filter(|device| device.is_online()).count();
        let gauge = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let counters = [
            ("requests", "Requests to simulated devices: polls, commands and first reads.", &counts.requests),
            ("answers", "Requests that were answered.", &counts.answers),
            ("refusals", "Requests that were refused because of a fault.", &counts.refusals),
            ("timeouts", "Requests that were not answered in time.", &counts.timeouts),
            ("commands", "Commands that were carried out, answered or not.", &counts.commands),
            ("restarts", "Restarts of devices.", &counts.restarts),
        ];
        let counters = counters.map(|(name, meaning, count)| Metric::counter(name, meaning, count.get()));
        let faults = Effect::ALL.iter().zip(&counts.faults).map(|(effect, count)| (effect.word(), count.get()));
        let faults = Metric {
            name: "faults",
            meaning: "Requests that came while there was a fault, by its kind.",
            kind: MetricKind::Counter,
            label: Some("kind"),
            values: faults.collect(),
        };
        let states = Metric {
            name: "devices",
            meaning: "Simulated devices by whether they answer.",
            kind: MetricKind::Gauge,
            label: Some("state"),
            values: vec![("online", gauge(online)), ("away", gauge(devices.len() - online))],
        };
        counters.into_iter().chain([faults, states]).collect()
    }
}
