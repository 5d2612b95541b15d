//! Counters of all devices of a shard together, for metrics.

use super::Goose;
use super::port::{Member, Port};
use crate::field::counters::{Metric, MetricKind};
use tieline_net::Endpoint;

/// Names and meanings of what is counted, in the order of [`counts_of`].
const MEANINGS: [(&str, &str); 16] = [
    ("messages", "Messages of subscribed control blocks received."),
    ("changes", "Changes of data sets received."),
    ("untold", "Of these, changes without a rise of stNum."),
    ("missed", "Changes that were missed, by stNum."),
    ("lost", "Repetitions that were lost, by sqNum."),
    ("duplicates", "Messages received twice."),
    ("late", "Messages received after later ones."),
    ("restarts", "Restarts of publishers."),
    ("expired", "Times that the time allowed to live passed without a message."),
    ("simulated", "Messages dropped as they were simulated, or were not while others were."),
    ("refused", "Messages that are not what the subscription expects."),
    ("conf_rev_changes", "Changes of confRev that no subscription had ruled out."),
    ("misfits", "Values of other types than the point lists say, or absent."),
    ("sent", "Messages sent."),
    ("sent_changes", "Of these, the first ones of changes."),
    ("set_refused", "Changes to be published that were refused."),
];
/// The same of interfaces.
const PORT_MEANINGS: [(&str, &str); 2] =
    [("unknown", "Messages of control blocks that no device has."), ("malformed", "Frames that could not be read.")];

type Counts = [u64; MEANINGS.len()];
type PortCounts = [u64; PORT_MEANINGS.len()];

/// What devices and interfaces counted that are no more.
#[derive(Default)]
pub(super) struct Past(Counts, PortCounts);

impl Past {
    pub(super) fn add(&mut self, member: &Member) {
        add(&mut self.0, &counts_of(member));
    }

    pub(super) fn add_port(&mut self, endpoint: &Endpoint<Port>) {
        add(&mut self.1, &endpoint.look(port_counts_of));
    }
}

fn add<const N: usize>(sum: &mut [u64; N], other: &[u64; N]) {
    sum.iter_mut().zip(other).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

fn port_counts_of(port: &Port) -> PortCounts {
    [port.counters.unknown, port.counters.malformed]
}

fn counts_of(member: &Member) -> Counts {
    match member {
        Member::Read(subscription) => {
            let counters = subscription.subscriber.counters();
            [
                counters.messages,
                counters.changes,
                counters.untold,
                counters.missed,
                counters.lost,
                counters.duplicates,
                counters.late,
                counters.restarts,
                counters.expired,
                counters.simulation,
                counters.refused,
                counters.conf_rev_changes,
                subscription.index.misfits(),
                0,
                0,
                0,
            ]
        }
        Member::Written(publication) => {
            let counters = publication.publisher.counters();
            let sent = [counters.frames, counters.changes, counters.refused];
            let mut counts = [0; MEANINGS.len()];
            counts.iter_mut().rev().zip(sent.into_iter().rev()).for_each(|(count, sent)| *count = sent);
            counts
        }
    }
}

impl Goose {
    /// All metrics of GOOSE.
    pub(super) fn count(&self) -> Vec<Metric> {
        let (mut sum, mut ports, mut online, mut away, mut published) = (self.past.0, self.past.1, 0, 0, 0);
        for interface in self.interfaces.values() {
            interface.endpoint.look(|port| {
                add(&mut ports, &port_counts_of(port));
                for member in port.members() {
                    add(&mut sum, &counts_of(member));
                    match member {
                        Member::Read(subscription) if subscription.subscriber.is_alive() => online += 1,
                        Member::Read(_) => away += 1,
                        Member::Written(_) => published += 1,
                    }
                }
            });
        }
        let counters = MEANINGS.into_iter().zip(sum).chain(PORT_MEANINGS.into_iter().zip(ports));
        let counters = counters.map(|((name, meaning), count)| Metric::counter(name, meaning, count));
        let devices = Metric {
            name: "devices",
            meaning: "Control blocks by whether their messages come, or are published by the node.",
            kind: MetricKind::Gauge,
            label: Some("state"),
            values: vec![("online", online), ("away", away), ("published", published)],
        };
        counters.chain([devices]).collect()
    }
}
