//! Counters of all sockets of a shard together, for metrics.

use super::site::Site;
use super::{Bacnet, Socket};
use crate::field::counters::{Metric, MetricKind};
use tieline_bacnet::client::Counters;

impl Bacnet {
    /// All metrics of BACnet.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut sum = self.past.counters;
        self.sockets.iter().for_each(|socket| add(&mut sum, socket.endpoint.look(Site::counters)));
        let all: Vec<_> = self.sockets.iter().flat_map(Socket::devices).collect();
        let online = all.iter().filter(|device| device.presence.is_online()).count();
        let devices = vec![("online", gauge(online)), ("away", gauge(all.len() - online))];
        let subscriptions = all.iter().map(|device| device.subscriptions()).sum();
        let changes = self.past.changes + all.iter().map(|device| device.changes.get()).sum::<u64>();
        let logged = self.past.logged + all.iter().map(|device| device.past.records.get()).sum::<u64>();
        let counters = [
            ("requests", "Requests sent for the first time.", sum.requests),
            ("retries", "Requests and segments that were repeated.", sum.retries),
            ("timeouts", "Requests without an answer, however often they were repeated.", sum.timeouts),
            ("changes", "Notifications of changed values.", changes),
            ("trend_log_values", "Values read from trend logs, for times when a device or the node was away.", logged),
            ("datagrams_received", "Datagrams received.", sum.received),
            ("datagrams_sent", "Datagrams sent.", sum.sent),
            ("malformed", "Datagrams that broke a rule of BACnet.", sum.malformed),
            ("unexpected", "Messages that nobody waited for: late, repeated, or for others.", sum.unexpected),
            ("dropped", "Messages dropped because a queue was full.", sum.events_dropped + sum.transmits_dropped),
        ];
        let counters = counters.map(|(name, meaning, count)| Metric::counter(name, meaning, count));
        let gauges = [
            gauges("devices", "Devices by whether they answer.", Some("state"), devices),
            gauges("subscriptions", "Objects whose changes devices tell.", None, vec![("", gauge(subscriptions))]),
        ];
        counters.into_iter().chain(gauges).collect()
    }
}

fn gauge(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

const fn gauges(
    name: &'static str,
    meaning: &'static str,
    label: Option<&'static str>,
    values: Vec<(&'static str, u64)>,
) -> Metric {
    Metric { name, meaning, kind: MetricKind::Gauge, label, values }
}

pub(super) const fn add(sum: &mut Counters, other: Counters) {
    sum.received += other.received;
    sum.sent += other.sent;
    sum.malformed += other.malformed;
    sum.unexpected += other.unexpected;
    sum.requests += other.requests;
    sum.retries += other.retries;
    sum.timeouts += other.timeouts;
    sum.events_dropped += other.events_dropped;
    sum.transmits_dropped += other.transmits_dropped;
    sum.who_is += other.who_is;
}
