//! Counters of all connections of a shard together, for metrics.

use super::Modbus;
use crate::field::counters::{Metric, MetricKind};
use tieline_modbus::ClientCounters;

impl Modbus {
    /// All metrics of Modbus.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut sum = ClientCounters::default();
        add(&mut sum, &self.past);
        for line in &self.lines {
            line.session.look(|client| add(&mut sum, client.counters()));
        }
        let devices: Vec<_> = self.lines.iter().flat_map(|line| line.members()).collect();
        let online = devices.iter().filter(|device| device.presence.is_online()).count();
        let gauge = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let devices = [("online", gauge(online)), ("away", gauge(devices.len() - online))];
        let counters = [
            ("requests", "Requests sent, repetitions included.", sum.requests),
            ("answers", "Requests that were done.", sum.answers),
            ("exceptions", "Requests that devices or gateways refused.", sum.exceptions),
            ("failures", "Requests that ended without an answer.", sum.failures),
            ("timeouts", "Answers that did not come in time.", sum.lost),
            ("retries", "Reads that were repeated.", sum.retries),
            ("stale", "Answers that came too late, or to nothing that was asked.", sum.stale),
            ("mismatches", "Answers that did not fit their request.", sum.mismatches),
            ("bytes_discarded", "Bytes that belong to no answer.", sum.noise_bytes),
        ];
        let counters = counters.map(|(name, meaning, count)| Metric::counter(name, meaning, count));
        counters.into_iter().chain([presence_metric(devices)]).collect()
    }
}

fn presence_metric(devices: [(&'static str, u64); 2]) -> Metric {
    Metric {
        name: "devices",
        meaning: "Devices by whether they answer.",
        kind: MetricKind::Gauge,
        label: Some("state"),
        values: devices.to_vec(),
    }
}

pub(super) const fn add(sum: &mut ClientCounters, other: &ClientCounters) {
    sum.requests += other.requests;
    sum.answers += other.answers;
    sum.exceptions += other.exceptions;
    sum.failures += other.failures;
    sum.broadcasts += other.broadcasts;
    sum.lost += other.lost;
    sum.retries += other.retries;
    sum.stale += other.stale;
    sum.mismatches += other.mismatches;
    sum.noise_bytes += other.noise_bytes;
}
