//! One IEC 104 device: what the events of its connection mean.

use super::group::Loss;
use super::session::{Iec104Session, is_poll, result_of, worse};
use super::translate::Found;
use crate::field::driver::{INTEGRITY, Reporter, WHOLE};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{CommandOutcome, Now, PointId, Quality, Reading, Refusal, Value};
use tieline_iec104::{CauseCode, Client, ClientEvent, Header, LinkError, Object, Origin, Outcome};
use tieline_net::{Closed, Owner, Peer, Session};
use tieline_poll::PollResult;

/// Points whose type is told to be another one, on each connection.
const TOLD_MAX: usize = 100;

/// A reading of a point that is not in the list: the poller counts it for the device.
const UNKNOWN: Reading =
    Reading { point: PointId(u32::MAX), value: Value::Null, quality: Quality::GOOD, time: None, event: false };

/// Learns of a device's connection.
#[derive(Clone)]
pub(super) struct DeviceOwner {
    reporter: Reporter,
    session: Rc<Iec104Session>,
    /// Which of the connections of the device it is.
    place: usize,
    connection: Rc<Connection>,
}

/// What is known of the connection that there is.
struct Connection {
    /// How what was asked at its start has ended so far.
    start: Cell<PollResult>,
    /// Why it is being closed by us.
    broken: Cell<Option<LinkError>>,
    /// Points that come with another type than the list says, and were told.
    told: RefCell<Vec<PointId>>,
}

impl DeviceOwner {
    pub(super) fn new(reporter: Reporter, session: Rc<Iec104Session>, place: usize) -> Self {
        let (start, broken, told) = (Cell::new(PollResult::Ok), Cell::default(), RefCell::default());
        Self { reporter, session, place, connection: Rc::new(Connection { start, broken, told }) }
    }

    fn read(&self, now: Now, header: &Header, objects: &[Object]) {
        let index = self.session.index.borrow();
        let mut resent = self.session.resent.as_ref().map(RefCell::borrow_mut);
        let readings = objects.iter().filter_map(|object| match index.find(now, header, object) {
            Found::Reading(reading) => resent.as_mut().is_none_or(|resent| resent.admits(&reading)).then_some(reading),
            Found::Unknown => {
                self.session.unknown_objects.update(|count| count + 1);
                Some(UNKNOWN)
            }
            Found::OtherType(point) => {
                self.session.other_types.update(|count| count + 1);
                self.tell_type(point, index.name(point), header);
                None
            }
        });
        self.reporter.batch(now, readings);
    }

    /// The connection ended, or could not be made.
    fn lost(&self, now: Now, why: &str) {
        let (device, group) = (&self.session.topic, &self.session.group);
        let address = group.address(self.place);
        match group.lost(self.place, why) {
            Loss::OfAll => self.reporter.away(now, why),
            Loss::OfStandby => tracing::debug!(%device, address, why, "a connection that stands by is lost"),
            Loss::Switched(next) => {
                let next = group.address(next);
                tracing::warn!(%device, address, why, next, "a connection is lost, and another one takes its place");
            }
        }
        self.tell_connections(now);
    }

    fn tell_connections(&self, now: Now) {
        if let Some(connections) = self.session.group.health() {
            self.reporter.connections(now, connections);
        }
    }

    fn tell_type(&self, point: PointId, name: &str, header: &Header) {
        let mut told = self.connection.told.borrow_mut();
        if told.len() < TOLD_MAX && !told.contains(&point) {
            told.push(point);
            let (device, found) = (&self.session.topic, header.type_id);
            tracing::warn!(%device, point = name, %found, "the station sends a point as another type than the point list says");
        }
    }

    fn ended(&self, now: Now, origin: Origin, outcome: Outcome) {
        if matches!(outcome, Outcome::Done | Outcome::Refused { .. }) {
            self.reporter.alive(now);
        }
        match origin {
            Origin::Own(procedure, common_address) => {
                if outcome != Outcome::Done {
                    let why = words(&outcome);
                    let asked = procedure.name();
                    self.reporter.poll_error(now, &format!("{asked} of common address {common_address}: {why}"));
                }
                self.connection.start.set(worse(self.connection.start.get(), result_of(&outcome)));
            }
            Origin::Owner(token) if is_poll(token) => {
                if outcome != Outcome::Done {
                    self.reporter.poll_error(now, &words(&outcome));
                }
                if let Some((class, result)) = self.session.poll_ended(token, result_of(&outcome)) {
                    self.reporter.poll_done(now, class, WHOLE, result);
                }
            }
            Origin::Owner(command) => self.reporter.command_done(command, command_outcome(outcome)),
        }
    }
}

/// What became of a request, in words.
fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Refused { cause, at_select } => {
            let select = if *at_select { "the select" } else { "it" };
            let negative = if cause.is_unknown() { "" } else { ", negative" };
            format!("the station refuses {select} with cause {cause}{negative}")
        }
        Outcome::Failed { reason, .. } => reason.to_string(),
    }
}

fn command_outcome(outcome: Outcome) -> CommandOutcome {
    let detail = words(&outcome);
    match outcome {
        Outcome::Done => Ok(()),
        // It had been confirmed before.
        Outcome::Refused { cause: CauseCode::TERMINATION, .. } => Err(Refusal::unknown("negative_termination", detail)),
        Outcome::Refused { cause, .. } if cause.is_unknown() => Err(Refusal::new(cause.name(), detail)),
        Outcome::Refused { .. } => Err(Refusal::new("negative_confirmation", detail)),
        Outcome::Failed { reason, maybe_done: true } => Err(Refusal::unknown(reason.name(), detail)),
        Outcome::Failed { reason, maybe_done: false } => Err(Refusal::new(reason.name(), detail)),
    }
}

impl Owner<Client> for DeviceOwner {
    fn event(&mut self, _session: &Session<Client>, now: Now, event: ClientEvent) {
        match event {
            ClientEvent::Started => {
                self.session.group.started(self.place);
                self.session.resent.iter().for_each(|resent| resent.borrow_mut().switched());
                self.reporter.online(now);
                self.tell_connections(now);
            }
            ClientEvent::Objects { header, objects } => self.read(now, &header, &objects),
            ClientEvent::Initialized { common_address, cause } => {
                tracing::info!(device = %self.session.topic, common_address, cause, "the station has started");
                self.connection.start.set(PollResult::Ok);
                self.reporter.restarted(now);
            }
            ClientEvent::Ended { origin, outcome } => self.ended(now, origin, outcome),
            ClientEvent::Ready => {
                let result = self.connection.start.replace(PollResult::Ok);
                self.reporter.poll_done(now, INTEGRITY, WHOLE, result);
            }
            ClientEvent::Malformed { type_id, error } => {
                tracing::debug!(device = %self.session.topic, ?type_id, %error, "an ASDU that cannot be read");
                self.reporter.garbage(now);
            }
            ClientEvent::Closing(error) => {
                if matches!(error, LinkError::Frame(_)) {
                    self.reporter.garbage(now);
                }
                self.connection.broken.set(Some(error));
            }
        }
    }

    fn connected(&mut self, _session: &Session<Client>, now: Now, peer: &Peer) {
        tracing::debug!(device = %self.session.topic, %peer, "connected");
        self.connection.start.set(PollResult::Ok);
        self.connection.told.borrow_mut().clear();
        if self.session.group.connected(self.place) {
            self.reporter.connecting(now);
        }
        self.tell_connections(now);
    }

    fn closed(&mut self, _session: &Session<Client>, now: Now, why: Closed) {
        let broken = self.connection.broken.take().filter(|_| matches!(why, Closed::Machine));
        let words = broken.map_or_else(|| why.to_string(), |error| error.to_string());
        if why == Closed::Owner {
            // The device leaves, with all its connections.
            return self.reporter.away(now, &words);
        }
        self.lost(now, &words);
    }

    fn connect_failed(&mut self, _session: &Session<Client>, now: Now, error: &std::io::Error, _retry: Duration) {
        self.lost(now, &error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_iec104::Failure;

    #[test]
    fn outcomes_say_whether_a_command_may_have_been_done() {
        let check = |outcome, expect: Result<(), (&str, bool, &str)>| {
            let found = command_outcome(outcome);
            let found = found.map_err(|refusal| (refusal.reason, refusal.maybe_operated, refusal.detail));
            assert_eq!(found, expect.map_err(|(reason, maybe, detail)| (reason, maybe, detail.to_owned())));
        };
        let refused = |cause, at_select| Outcome::Refused { cause, at_select };
        let failed = |reason, maybe_done| Outcome::Failed { reason, maybe_done };
        check(Outcome::Done, Ok(()));
        let detail = "the station refuses the select with cause 7 (activation_confirmation), negative";
        check(refused(CauseCode::ACTIVATION_CON, true), Err(("negative_confirmation", false, detail)));
        let detail = "the station refuses it with cause 47 (unknown_object_address)";
        check(refused(CauseCode::UNKNOWN_ADDRESS, false), Err(("unknown_object_address", false, detail)));
        let detail = "the station refuses it with cause 10 (activation_termination), negative";
        check(refused(CauseCode::TERMINATION, false), Err(("negative_termination", true, detail)));
        check(failed(Failure::NoConfirmation, true), Err(("no_confirmation", true, "no confirmation in time")));
        check(failed(Failure::NoConfirmation, false), Err(("no_confirmation", false, "no confirmation in time")));
        check(failed(Failure::Disconnected, true), Err(("connection_lost", true, "the connection was lost")));
        check(failed(Failure::TooLate, false), Err(("timeout", false, "it could not be sent in time")));
    }
}
