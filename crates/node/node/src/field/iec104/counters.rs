//! Counters of all devices of a shard together, for metrics.

use super::Iec104;
use super::session::Iec104Session;
use crate::field::counters::{Metric, MetricKind};
use tieline_iec104::{Client, ClientCounters, LinkCounters};
use tieline_net::Session;

/// Names and meanings of what is counted, in the order of [`counts_of`].
const MEANINGS: [(&str, &str); 19] = [
    ("frames", "I frames received."),
    ("objects", "Objects with values received."),
    ("spontaneous", "Of these, objects that stations reported without a request."),
    ("unknown_objects", "Objects of addresses that no point has."),
    ("other_types", "Objects of other types than the point lists say."),
    ("unknown_types", "ASDUs of types that are not known."),
    ("malformed", "ASDUs that could not be read."),
    ("tests", "ASDUs with the test bit, which are dropped."),
    ("requests", "Requests sent, selects and executes each."),
    ("done", "Requests that were done."),
    ("refused", "Requests that stations refused."),
    ("failed", "Requests that ended without an answer."),
    ("unexpected", "Answers to nothing that was asked."),
    ("acknowledgements", "S frames sent."),
    ("test_frames", "Test frames sent."),
    ("unasked_confirmations", "Confirmations of start, stop or test frames that nobody asked for."),
    ("broken", "Connections closed because the station broke the rules or was silent."),
    ("switches", "Times that a connection that stood by took the place of the one that was started."),
    ("resent", "Events that stations sent a second time after such a switch, which count once."),
];

type Counts = [u64; MEANINGS.len()];

/// What devices counted that are no more.
#[derive(Default)]
pub(super) struct Past(Counts);

impl Past {
    pub(super) fn add(&mut self, session: &Iec104Session) {
        add(&mut self.0, &counts_of(session));
    }
}

fn add(sum: &mut Counts, other: &Counts) {
    sum.iter_mut().zip(other).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

fn counts_of(session: &Iec104Session) -> Counts {
    let resent = session.resent.as_ref().map_or(0, |resent| resent.borrow().count());
    let mut sum = [0; MEANINGS.len()];
    let [.., switches, left_out] = &mut sum;
    (*switches, *left_out) = (session.group.switches(), resent);
    let [_, _, _, unknown_objects, other_types, ..] = &mut sum;
    (*unknown_objects, *other_types) = (session.unknown_objects.get(), session.other_types.get());
    session.group.clients().for_each(|client| add(&mut sum, &counts_of_client(client)));
    sum
}

fn counts_of_client(client: &Session<Client>) -> Counts {
    client.look(|client| {
        let (client, link): (&ClientCounters, &LinkCounters) = (client.counters(), client.link_counters());
        [
            link.received,
            client.objects,
            client.spontaneous,
            0,
            0,
            client.unknown_types,
            client.malformed,
            client.tests,
            client.requests,
            client.done,
            client.refused,
            client.failed,
            client.unexpected,
            link.acknowledgements,
            link.tests,
            link.unexpected,
            client.broken,
            0,
            0,
        ]
    })
}

impl Iec104 {
    /// All metrics of IEC 60870-5-104.
    pub(super) fn count(&self) -> Vec<Metric> {
        let (mut sum, mut online, mut away, mut connections) = (self.past.0, 0, 0, [0; 3]);
        for running in self.devices.values() {
            let group = &running.session.group;
            add(&mut sum, &counts_of(&running.session));
            let is_online = group.chosen().is_some_and(|client| client.look(Client::is_online));
            *if is_online { &mut online } else { &mut away } += 1;
            connections.iter_mut().zip(group.counts()).for_each(|(sum, count)| *sum += count);
        }
        let counters = MEANINGS.into_iter().zip(sum);
        let counters = counters.map(|((name, meaning), count)| Metric::counter(name, meaning, count));
        let devices = Metric {
            name: "devices",
            meaning: "Devices by whether their data transfer is started.",
            kind: MetricKind::Gauge,
            label: Some("state"),
            values: vec![("online", online), ("away", away)],
        };
        let states = ["started", "standby", "away"];
        let connections = Metric {
            name: "connections",
            meaning: "Connections to stations by whether they are started or stand by.",
            kind: MetricKind::Gauge,
            label: Some("state"),
            values: states.into_iter().zip(connections).collect(),
        };
        counters.chain([devices, connections]).collect()
    }
}
