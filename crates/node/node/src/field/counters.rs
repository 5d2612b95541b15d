//! Counters of all devices of a shard together, for metrics.

use super::link::Link;
use super::shard::Field;
use tieline_dnp3::channel::ChannelCounters;
use tieline_dnp3::endpoint::{EndpointCounters, PrimaryCounters};
use tieline_dnp3::link::LinkCounters;
use tieline_dnp3::master::{Master, MasterCounters};

/// What the node did to devices by itself, in events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldCounters {
    /// Freezes that devices carried out.
    pub freezes_done: u64,
    /// Freezes that devices refused or did not answer.
    pub freezes_failed: u64,
    /// Freezes that were not asked for in time.
    pub freezes_missed: u64,
}

/// DNP3 counters of many devices, each with its name in metrics, in the order of [`MEANINGS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dnp3Counts([u64; MEANINGS.len()]);

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
    /// Each with its name and its meaning.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        MEANINGS.into_iter().zip(self.0).map(|((name, meaning), count)| (name, meaning, count))
    }

    /// With those of others.
    pub fn add(&mut self, other: &Self) {
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

/// What the devices of a shard, or of all, have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of their sessions.
    pub dnp3: Dnp3Counts,
    /// Of what the node did by itself.
    pub counters: FieldCounters,
    /// Urgent connections that are up, and that are not.
    pub lanes: [u64; 2],
}

impl Counted {
    /// With those of another shard.
    pub fn add(&mut self, other: &Self) {
        self.dnp3.add(&other.dnp3);
        self.counters.freezes_done += other.counters.freezes_done;
        self.counters.freezes_failed += other.counters.freezes_failed;
        self.counters.freezes_missed += other.counters.freezes_missed;
        self.lanes.iter_mut().zip(other.lanes).for_each(|(sum, count)| *sum += count);
    }
}

impl Field {
    pub(super) fn counted(&self) -> Counted {
        let mut counted = Counted { counters: self.counters, ..Counted::default() };
        let mut duplicates = 0;
        for session in self.sessions.values() {
            let sum = &mut counted.dnp3;
            session.links().for_each(|link| link.look(|master| sum.add(&Dnp3Counts::of_master(master))));
            let Some(lanes) = &session.lanes else { continue };
            let [up, down] = &mut counted.lanes;
            *if lanes.borrow().is_urgent_up() { up } else { down } += 1;
            duplicates += lanes.borrow().duplicates();
        }
        for channel in &self.channels {
            let (link, counters) = channel.look(|channel| (channel.link_counters(), channel.counters()));
            counted.dnp3.add(&Dnp3Counts::of_channel(link, counters));
        }
        if let Some(last) = counted.dnp3.0.last_mut() {
            *last = duplicates;
        }
        counted
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
