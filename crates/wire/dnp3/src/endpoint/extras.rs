//! What an endpoint has beyond standard framing, behind one pointer.

use super::short::Short;
use crate::lean::{Carrier, Kind, LeanConfig, Side};
use crate::link::LinkAddress;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Instant;

/// How long an offer waits for an answer from a station that answers neither way.
const OFFER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an offer is sent before a datagram's silence counts as an answer.
pub(super) const OFFERS_MAX: u8 = 3;
/// Connections that begin without an offer after a peer ended one at the sight of it.
const CONNECTIONS_WITHOUT_OFFER: u8 = 16;

/// A step of a fragment's way through an endpoint, for those who measure it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// A fragment was written; its framing begins.
    Built,
    /// The fragment is framed.
    Framed,
    /// Bytes came in; the search for fragments begins.
    Arrived,
    /// A fragment was found.
    Found,
}

/// Called at each [`Boundary`].
pub type Trace = fn(Boundary);

/// What lean messages have come to, in events since the endpoint was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeanCounters {
    /// Offers sent.
    pub offers: u64,
    /// Offers accepted, by either side.
    pub agreed: u64,
    /// Offers that ended in standard DNP3.
    pub fallbacks: u64,
    /// Hellos that were damaged, of another version, or not for this station.
    pub refused: u64,
    /// Messages that no station sends; on a stream the connection ends.
    pub malformed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Standard,
    Offering,
    Listening,
    Lean,
    /// A stream whose messages can no longer be told apart.
    Broken,
}

/// What an endpoint has beyond standard framing; none of it where it is off.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    pub(super) trace: Option<Trace>,
    pub(super) config: Option<LeanConfig>,
    pub(super) phase: Phase,
    pub(super) short: Short,
    /// The first bytes of a hello, an offer or a message.
    pub(super) held: Vec<u8>,
    /// Whether `held` is to be taken as link frames.
    pub(super) replays: bool,
    /// Bytes of the message's fragment that are still to come, and whether they are passed over.
    pub(super) missing: usize,
    pub(super) passes_over: bool,
    pub(super) arriving: Kind,
    pub(super) hello_due: bool,
    pub(super) offers: u8,
    pub(super) deadline: Option<Instant>,
    pub(super) connections_without_offer: u8,
    pub(super) peer: LinkAddress,
    pub(super) counters: LeanCounters,
}

impl Extras {
    pub(super) fn new() -> Self {
        Self {
            trace: None,
            config: None,
            phase: Phase::Standard,
            short: Short::new(),
            held: Vec::new(),
            replays: false,
            missing: 0,
            passes_over: false,
            arriving: Kind::Fragment,
            hello_due: false,
            offers: 0,
            deadline: None,
            connections_without_offer: 0,
            peer: LinkAddress::OWN,
            counters: LeanCounters::default(),
        }
    }

    pub(super) const fn counters(&self) -> LeanCounters {
        self.counters
    }

    pub(super) fn is_partial(&self) -> bool {
        !self.held.is_empty() || self.missing > 0
    }

    /// The connection is gone.
    pub(super) fn reset(&mut self) {
        if self.phase == Phase::Offering && self.offers > 0 {
            self.connections_without_offer = CONNECTIONS_WITHOUT_OFFER;
        }
        self.phase = Phase::Standard;
        self.short.release();
        (self.held, self.replays) = (Vec::new(), false);
        (self.missing, self.hello_due, self.deadline) = (0, false, None);
    }

    /// What has begun will not be completed.
    pub(super) fn drop_partial(&mut self) {
        if self.phase == Phase::Lean && self.is_partial() {
            self.phase = Phase::Broken;
        }
        (self.held, self.missing, self.replays) = (Vec::new(), 0, false);
    }

    pub(super) fn offers(&self) -> bool {
        self.config.is_some_and(|config| config.side == Side::Offers)
    }

    pub(super) fn has_datagrams(&self) -> bool {
        self.config.is_some_and(|config| config.carrier == Carrier::Datagrams)
    }

    pub(super) fn carrier(&self) -> Carrier {
        self.config.map_or(Carrier::Stream, |config| config.carrier)
    }

    pub(super) fn fall_back(&mut self) {
        self.phase = Phase::Standard;
        self.deadline = None;
        self.counters.fallbacks += 1;
    }

    pub(super) fn agree(&mut self, peer: LinkAddress) {
        self.phase = Phase::Lean;
        self.deadline = None;
        self.peer = peer;
        self.counters.agreed += 1;
    }

    pub(super) fn offer(&mut self, now: Instant) {
        self.phase = Phase::Offering;
        self.hello_due = true;
        self.deadline = Some(now + OFFER_TIMEOUT);
    }
}
