//! A device's session on its shard: polls and commands over its connection.

use super::group::Group;
use super::resent::Resent;
use super::translate::PointIndex;
use crate::config::{Iec104Config, PointConfig};
use crate::field::driver::{DeviceSession, INTEGRITY};
use crate::field::lanes::Lane;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tieline_core::{Command, Instant, Refusal, Topic};
use tieline_iec104::{Outcome, Request, SubmitError};
use tieline_poll::{PollClass, PollResult};

/// Marks the numbers of requests that polls make, so that they never equal the identifier of a command.
const POLL_TOKEN: u64 = 1 << 63;

/// A device's session on its shard.
pub(super) struct Iec104Session {
    /// Its topic, in logs.
    pub(super) topic: Topic,
    pub(super) group: Group,
    /// Events that come again after a switch; only where there are several connections.
    pub(super) resent: Option<RefCell<Resent>>,
    pub(super) index: RefCell<PointIndex>,
    /// The stations behind the connection.
    common_addresses: Vec<u16>,
    /// QOI, and QCC, of the requests of a poll to each station.
    interrogations: Vec<u8>,
    counters: Vec<u8>,
    polls: RefCell<Vec<Poll>>,
    /// Objects of addresses that no point has, and of other types than those of their points.
    pub(super) unknown_objects: Cell<u64>,
    pub(super) other_types: Cell<u64>,
}

/// A poll that has not ended: as many requests as are open.
#[derive(Clone, Copy, Debug)]
struct Poll {
    class: PollClass,
    open: usize,
    result: PollResult,
}

impl Iec104Session {
    pub(super) fn new(topic: &Topic, group: Group, points: &Arc<[PointConfig]>, config: &Iec104Config) -> Self {
        Self {
            topic: topic.clone(),
            group,
            resent: (!config.standby.is_empty()).then(RefCell::default),
            index: RefCell::new(PointIndex::new(Arc::clone(points), config)),
            common_addresses: config.common_addresses.clone(),
            interrogations: config.interrogations(),
            counters: config.counter_polls(),
            polls: RefCell::default(),
            unknown_objects: Cell::default(),
            other_types: Cell::default(),
        }
    }

    /// The device has other points from here on: all are read, where any has another address or another type.
    pub(super) fn set_points(&self, points: &Arc<[PointConfig]>, config: &Iec104Config) {
        let index = PointIndex::new(Arc::clone(points), config);
        let is_same = index.finds_same(&self.index.borrow());
        *self.index.borrow_mut() = index;
        if !is_same {
            self.resent.iter().for_each(|resent| resent.borrow_mut().clear());
            // Where it cannot be asked now, it is read when it comes.
            self.poll(INTEGRITY, 0);
        }
    }

    /// What a poll asks of a station, in this order.
    fn requests(&self, class: PollClass, common_address: u16) -> impl Iterator<Item = Request> {
        let is_of_states = class == INTEGRITY;
        let qualifiers = if is_of_states { &self.interrogations } else { &self.counters };
        qualifiers.iter().map(move |&qualifier| match is_of_states {
            true => Request::Interrogation { common_address, qualifier },
            false => Request::Counters { common_address, qualifier },
        })
    }

    /// Asks the station on the connection that is started.
    fn submit(&self, id: u64, request: Request, until: Instant) -> Result<(), SubmitError> {
        let client = self.group.chosen().ok_or(SubmitError::Disconnected)?;
        client.with(|client, _| client.submit(id, request, until))
    }

    /// The end of a request that a poll made; with the last one the poll ends.
    pub(super) fn poll_ended(&self, token: u64, result: PollResult) -> Option<(PollClass, PollResult)> {
        let class = PollClass(u8::try_from(token & !POLL_TOKEN).ok()?);
        let mut polls = self.polls.borrow_mut();
        let at = polls.iter().position(|poll| poll.class == class)?;
        let poll = polls.get_mut(at)?;
        poll.open = poll.open.saturating_sub(1);
        poll.result = worse(poll.result, result);
        (poll.open == 0).then(|| polls.swap_remove(at)).map(|poll| (class, poll.result))
    }
}

/// Whether a number is that of a request which a poll made.
pub(super) const fn is_poll(token: u64) -> bool {
    token & POLL_TOKEN != 0
}

/// What the end of a request means for the poll, or the start, that made it.
pub(super) const fn result_of(outcome: &Outcome) -> PollResult {
    match outcome {
        Outcome::Done => PollResult::Ok,
        Outcome::Refused { .. } => PollResult::Error,
        Outcome::Failed { .. } => PollResult::Timeout,
    }
}

/// The worse of two results: a station that does not answer before one that refuses.
pub(super) const fn worse(one: PollResult, other: PollResult) -> PollResult {
    match (one, other) {
        (PollResult::Timeout, _) | (_, PollResult::Timeout) => PollResult::Timeout,
        (PollResult::Error, _) | (_, PollResult::Error) => PollResult::Error,
        (PollResult::Ok, PollResult::Ok) => PollResult::Ok,
    }
}

impl DeviceSession for Iec104Session {
    /// The states, or the counters, of each station behind the connection.
    fn poll(&self, class: PollClass, _part: u16) -> bool {
        if self.polls.borrow().iter().any(|poll| poll.class == class) {
            return false;
        }
        let token = POLL_TOKEN | u64::from(class.0);
        let addresses = self.common_addresses.iter();
        let requests: Vec<_> = addresses.flat_map(|common_address| self.requests(class, *common_address)).collect();
        let taken = |request: &&Request| self.submit(token, **request, Instant(u64::MAX)).is_ok();
        let asked = requests.iter().filter(taken).count();
        if asked > 0 {
            let result = if asked < requests.len() { PollResult::Error } else { PollResult::Ok };
            self.polls.borrow_mut().push(Poll { class, open: asked, result });
        }
        asked > 0
    }

    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal> {
        let request = self.index.borrow().to_request(command);
        let request = request.map_err(|misfit| Refusal::new("out_of_range", misfit))?;
        self.submit(command_id, Request::Command(request), until)
            .map_err(|error| Refusal::new(error.name(), error.to_string()))
    }

    /// Nothing is held: an acknowledgement of the link is no confirmation of values.
    fn settle(&self, _lane: Lane, _fragments: u64) {}
}
