//! Counters of all devices of a shard together, for metrics.

use super::device_session::Dnp3Session;
use super::link::Link;
use super::together::Together;
use super::{Dnp3, Running};
use crate::field::counters::{Metric, MetricKind};
use std::cell::Cell;
use tieline_dnp3::channel::ChannelCounters;
use tieline_dnp3::endpoint::{EndpointCounters, PrimaryCounters};
use tieline_dnp3::link::LinkCounters;
use tieline_dnp3::master::{Master, MasterCounters};

/// Scheduled freezes, in events since the start.
#[derive(Debug, Default)]
pub(super) struct FreezeCounters {
    /// Those that devices carried out.
    pub(super) done: Cell<u64>,
    /// Those that devices refused or did not answer.
    pub(super) failed: Cell<u64>,
    /// Those that were not asked for in time.
    pub(super) missed: Cell<u64>,
}

/// DNP3 counters of many devices, each with its name in metrics, in the order of [`MEANINGS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dnp3Counts([u64; MEANINGS.len()]);

/// What devices and connections counted that are no more.
#[derive(Default)]
pub(super) struct Past(Dnp3Counts);

impl Past {
    pub(super) fn add_device(&mut self, session: &Dnp3Session) {
        self.0.add(&Dnp3Counts::of_session(session));
    }

    pub(super) fn add_channel(&mut self, channel: &Together) {
        self.0.add(&Dnp3Counts::of_together(channel));
    }
}

/// Names and meanings of [`Dnp3Counts`].
const MEANINGS: [(&str, &str); 20] = [
    ("frames", "Intact link frames of devices."),
    ("crc_errors", "Link frames and headers with a wrong CRC."),
    ("bytes_discarded", "Bytes that belong to no link frame."),
    ("unknown_destinations", "Frames to addresses that no master has."),
    ("unknown_sources", "Frames from addresses that are not the device's."),
    ("frames_malformed", "Frames with a wrong length, direction or function."),
    ("frames_dropped", "Frames of shared connections whose master took no more."),
    ("fragments", "Fragments that were complete."),
    ("segments_dropped", "Segments that fit no fragment."),
    ("requests", "Requests sent, repetitions included."),
    ("responses", "Fragments of responses taken."),
    ("unsolicited", "Unsolicited responses taken."),
    ("timeouts", "Requests that were not answered in time."),
    ("retries", "Requests that were repeated."),
    ("unexpected", "Fragments that nobody asked for."),
    ("malformed", "Fragments or objects that could not be read."),
    ("tasks_refused", "Requests refused because too many waited."),
    ("link_repetitions", "Confirmed link frames that were repeated."),
    ("links_lost", "Connections given up because the link did not answer."),
    ("duplicates", "Readings left out that a device's other connection had brought."),
];

impl Dnp3Counts {
    /// With those of others.
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }

    fn of_master(master: &Master) -> Self {
        let EndpointCounters { link, transport, service, lean: _ } = master.endpoint_counters();
        let primary: PrimaryCounters = master.link_counters();
        let counters: MasterCounters = master.counters();
        let segments = transport.sequence_errors
            + transport.without_first
            + transport.interrupted
            + transport.too_long
            + transport.empty;
        Self([
            link.frames,
            link.header_crc_errors + link.body_crc_errors,
            link.bytes_discarded,
            service.not_ours,
            service.unknown_source,
            link.length_errors + service.malformed + service.wrong_direction,
            0,
            transport.fragments,
            segments,
            counters.requests,
            counters.responses,
            counters.unsolicited,
            counters.timeouts,
            counters.retries,
            counters.unexpected,
            counters.malformed,
            counters.tasks_refused,
            primary.retries,
            counters.links_lost + primary.links_lost,
            0,
        ])
    }

    /// Of all masters of a device, and of both of its connections.
    fn of_session(session: &Dnp3Session) -> Self {
        let mut counts = Self::default();
        session.links().for_each(|link| link.look(|master| counts.add(&Self::of_master(master))));
        if let (Some(last), Some(lanes)) = (counts.0.last_mut(), &session.lanes) {
            *last = lanes.borrow().duplicates();
        }
        counts
    }

    fn of_together(together: &Together) -> Self {
        let (link, counters) = together.session.look(|channel| (channel.link_counters(), channel.counters()));
        Self::of_channel(link, counters)
    }

    /// What a shared connection saw before its masters: they see intact frames alone.
    fn of_channel(link: LinkCounters, channel: ChannelCounters) -> Self {
        let mut counts = Self::default();
        let [_, crc_errors, bytes, unknown, _, malformed, dropped, ..] = &mut counts.0;
        *crc_errors = link.header_crc_errors + link.body_crc_errors;
        *bytes = link.bytes_discarded;
        *unknown = channel.unknown_addresses;
        *malformed = link.length_errors;
        *dropped = channel.frames_dropped;
        counts
    }
}

impl Dnp3 {
    /// All metrics of DNP3.
    pub(super) fn count(&self) -> Vec<Metric> {
        let (mut counts, mut lanes_up, mut lanes_down) = (self.past.0, 0, 0);
        for Running { session, .. } in self.devices.values() {
            counts.add(&Dnp3Counts::of_session(session));
            let Some(lanes) = &session.lanes else { continue };
            *if lanes.borrow().is_urgent_up() { &mut lanes_up } else { &mut lanes_down } += 1;
        }
        self.channels.iter().for_each(|channel| counts.add(&Dnp3Counts::of_together(channel)));
        let counters = MEANINGS.into_iter().zip(counts.0);
        let counters = counters.map(|((name, meaning), count)| Metric::counter(name, meaning, count));
        counters.chain([self.freezes.metric(), lanes_metric(lanes_up, lanes_down)]).collect()
    }
}

impl FreezeCounters {
    fn metric(&self) -> Metric {
        let values = [("done", &self.done), ("failed", &self.failed), ("missed", &self.missed)];
        Metric {
            name: "freezes",
            meaning: "Scheduled freezes by what became of them.",
            kind: MetricKind::Counter,
            label: Some("end"),
            values: values.map(|(word, count)| (word, count.get())).to_vec(),
        }
    }
}

fn lanes_metric(up: u64, down: u64) -> Metric {
    Metric {
        name: "lanes",
        meaning: "Second connections of devices, by state.",
        kind: MetricKind::Gauge,
        label: Some("state"),
        values: vec![("up", up), ("down", down)],
    }
}

impl Link {
    /// Looks at the master.
    pub(super) fn look(&self, look: impl FnOnce(&Master)) {
        match self {
            Self::Alone(session) => session.look(look),
            Self::Shared(session, member) => session.look(|channel| {
                if let Some(master) = channel.member(*member) {
                    look(master);
                }
            }),
        }
    }
}
