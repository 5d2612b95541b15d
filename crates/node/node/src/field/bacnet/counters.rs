//! Counters of all sockets of a shard together, for metrics.

use super::hub::HubSite;
use super::link::Link;
use super::site::Site;
use super::{Bacnet, Socket};
use crate::field::counters::{Metric, MetricKind};
use tieline_bacnet::client::Counters;
use tieline_bacnet::sc::Hub;
use tieline_bacnet::sc::connector::Counters as HubCounters;

impl Bacnet {
    /// All metrics of BACnet.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut sum = self.past.counters;
        self.sockets.iter().for_each(|socket| add(&mut sum, socket.link.look(Site::counters)));
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
        counters.into_iter().chain(gauges).chain(self.count_hubs()).collect()
    }

    /// Metrics of BACnet/SC.
    fn count_hubs(&self) -> Vec<Metric> {
        let (mut sum, [mut none, mut primary, mut failover]) = (self.past.hubs, [0, 0, 0]);
        for socket in &self.sockets {
            socket.add_hub(&mut sum);
            let Link::Hub(session) = &socket.link else { continue };
            match session.look(HubSite::hub) {
                None => none += 1,
                Some(Hub::Primary) => primary += 1,
                Some(Hub::Failover) => failover += 1,
            }
        }
        let counters = [
            ("hub_connects", "Hubs of BACnet/SC that accepted the node.", sum.connects),
            ("hub_failures", "Attempts at a hub that failed, and connections that were lost.", sum.failures),
            ("hub_messages_received", "Messages of BACnet/SC received.", sum.received),
            ("hub_messages_sent", "Messages of BACnet/SC sent.", sum.sent),
            ("hub_malformed", "Messages that broke a rule of BACnet/SC.", sum.malformed),
            ("hub_unexpected", "Messages of BACnet/SC that nobody waited for, or for others.", sum.unexpected),
            ("hub_refusals", "Messages of BACnet/SC that were answered with an error.", sum.refusals),
            ("hub_dropped", "Messages dropped: no hub, a device that was not found, a full queue.", sum.dropped),
        ];
        let networks = vec![("none", none), ("primary", primary), ("failover", failover)];
        let counters = counters.map(|(name, meaning, count)| Metric::counter(name, meaning, count));
        let networks = gauges("hub_networks", "Networks of BACnet/SC by the hub in use.", Some("hub"), networks);
        counters.into_iter().chain([networks]).collect()
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

pub(super) const fn add_hub(sum: &mut HubCounters, other: HubCounters) {
    sum.received += other.received;
    sum.sent += other.sent;
    sum.malformed += other.malformed;
    sum.unexpected += other.unexpected;
    sum.refusals += other.refusals;
    sum.dropped += other.dropped;
    sum.connects += other.connects;
    sum.failures += other.failures;
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
