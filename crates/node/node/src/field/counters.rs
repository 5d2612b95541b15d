//! What the drivers of a shard, or of all shards, have counted: metrics of their protocols.

use super::{Drivers, drivers};
use crate::config::ProtocolName;
use tieline_core::Histogram;

/// A metric of a protocol: `tieline_<protocol>_<name>`, and `_total` behind that of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name below the protocol's.
    pub name: &'static str,
    /// One sentence for people.
    pub meaning: &'static str,
    /// What its values do.
    pub kind: MetricKind,
    /// What its values differ in; none where there is one.
    pub label: Option<&'static str>,
    /// Each with the word of the label, which is empty where there is none.
    pub values: Vec<(&'static str, u64)>,
}

/// What the values of a metric do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
}

impl Metric {
    /// A counter with one value.
    #[must_use]
    pub fn counter(name: &'static str, meaning: &'static str, value: u64) -> Self {
        Self { name, meaning, kind: MetricKind::Counter, label: None, values: vec![("", value)] }
    }
}

/// The metrics of all protocols, with the values of a shard, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    protocols: Vec<(ProtocolName, Vec<Metric>)>,
    /// From a poll to the end of its answer, of all devices.
    pub responses: Histogram,
}

/// Without devices.
impl Default for Counted {
    fn default() -> Self {
        Self::of(&drivers(), Histogram::default())
    }
}

impl Counted {
    pub(super) fn of(drivers: &Drivers, responses: Histogram) -> Self {
        let protocols = drivers.iter().map(|(protocol, driver)| (*protocol, driver.metrics())).collect();
        Self { protocols, responses }
    }

    /// With those of another shard.
    pub fn add(&mut self, other: &Self) {
        self.responses.add(&other.responses);
        let (values, others) = (self.protocols.iter_mut().flat_map(|(_, metrics)| metrics), other.each());
        for (sum, (_, metric)) in values.zip(others) {
            let counts = metric.values.iter().map(|(_, count)| count);
            sum.values.iter_mut().zip(counts).for_each(|((_, sum), count)| *sum = sum.saturating_add(*count));
        }
    }

    /// Each with its protocol.
    pub fn each(&self) -> impl Iterator<Item = (ProtocolName, &Metric)> {
        self.protocols.iter().flat_map(|(protocol, metrics)| metrics.iter().map(|metric| (*protocol, metric)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_shards_are_added_value_by_value() {
        let counted = |first: u64| {
            let mut counted = Counted::default();
            let values =
                counted.protocols.iter_mut().flat_map(|(_, metrics)| metrics).flat_map(|metric| &mut metric.values);
            values.zip(first..).for_each(|((_, value), count)| *value = count);
            counted
        };
        let counts = |counted: &Counted| -> Vec<u64> {
            counted.each().flat_map(|(_, metric)| &metric.values).map(|(_, count)| *count).collect()
        };
        let mut sum = counted(1);
        sum.add(&counted(100));
        let expect: Vec<u64> = (1..).zip(100..).map(|(a, b)| a + b).take(counts(&sum).len()).collect();
        assert_eq!(counts(&sum), expect);
        assert!(!expect.is_empty());
    }
}
