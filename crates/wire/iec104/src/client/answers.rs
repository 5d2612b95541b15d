//! What ASDUs mean that come: values, and answers to what was asked.

use super::config::{ClientEvent, CommandEnd, Failure, Outcome, Request};
use super::tasks::{Active, Step};
use super::{Client, type_of};
use crate::asdu::{Asdu, AsduError, CauseCode, Element, Header, Object, TypeId};
use alloc::vec::Vec;
use tieline_core::Instant;

/// The bits of QCC that say what is done to counters.
const FRZ: u8 = 0xC0;
/// Types up to this one carry values.
const VALUES_MAX: u8 = 40;

impl Client {
    pub(super) fn handle_asdu(&mut self, now: Instant, bytes: &[u8]) {
        let asdu = match Asdu::parse(bytes) {
            Ok(asdu) => asdu,
            // Files, parameters, what a vendor added: not a fault of the station.
            Err(AsduError::Type(_)) => {
                self.counters.unknown_types += 1;
                return;
            }
            Err(error) => {
                self.counters.malformed += 1;
                let type_id = Header::parse(bytes).ok().map(|(header, ..)| header.type_id);
                self.events.push_back(ClientEvent::Malformed { type_id, error });
                return;
            }
        };
        if asdu.header.cause.is_test {
            self.counters.tests += 1;
            return;
        }
        if asdu.header.type_id.0 <= VALUES_MAX {
            return self.handle_values(now, &asdu);
        }
        for object in asdu.objects() {
            self.handle_answer(now, &asdu.header, &object);
        }
    }

    fn handle_values(&mut self, now: Instant, asdu: &Asdu<'_>) {
        let (header, objects) = (asdu.header, asdu.objects().collect::<Vec<_>>());
        self.counters.objects += objects.len() as u64;
        let (code, by) = (header.cause.code, now + self.config.answer_timeout);
        if code == CauseCode::SPONTANEOUS {
            self.counters.spontaneous += objects.len() as u64;
        }
        // An interrogation is not late while it brings something.
        let is_of = |active: &Active| match active.task.request {
            Request::Interrogation { .. } => code.is_interrogated(),
            Request::Counters { .. } => code.is_of_counters(),
            Request::Clock { .. } | Request::Read { .. } | Request::Test { .. } | Request::Command(_) => false,
        };
        let asked = |active: &Active| active.task.request.common_address() == header.common_address;
        if let Some(active) = self.tasks.find(|active| is_of(active) && asked(active)) {
            active.by = by;
        }
        let is_read = |object: &Object| {
            let request = Request::Read { common_address: header.common_address, address: object.address };
            move |active: &Active| active.task.request == request
        };
        let read =
            objects.iter().filter(|_| code == CauseCode::REQUEST).find_map(|object| self.tasks.take(is_read(object)));
        self.events.push_back(ClientEvent::Objects { header, objects });
        if let Some(read) = read {
            self.end(read.task.origin, Outcome::Done);
        }
    }

    fn handle_answer(&mut self, now: Instant, header: &Header, object: &Object) {
        if header.type_id == TypeId::M_EI_NA_1 {
            let Element::EndOfInitialization { cause } = object.element else { return };
            self.events.push_back(ClientEvent::Initialized { common_address: header.common_address, cause });
            if self.config.common_addresses.contains(&header.common_address) {
                self.ask_start(header.common_address);
            }
            return;
        }
        let Some(mut active) = self.tasks.take(|active| is_answer(active, header, object)) else {
            // The termination of a command that had ended with its confirmation is no surprise.
            let is_end = header.cause.code == CauseCode::TERMINATION && !header.cause.is_negative;
            self.counters.unexpected += u64::from(!is_end);
            return;
        };
        let code = header.cause.code;
        if header.cause.is_negative || code.is_unknown() {
            let at_select = active.step == Step::Selecting;
            return self.end(active.task.origin, Outcome::Refused { cause: code, at_select });
        }
        let is_confirmation = code == CauseCode::ACTIVATION_CON;
        if !is_confirmation && code != CauseCode::TERMINATION {
            self.counters.unexpected += 1;
            return self.tasks.put(active);
        }
        if !is_echo(&active, &object.element) {
            let outcome = Outcome::Failed { reason: Failure::Mismatch, maybe_done: active.maybe_done() };
            return self.end(active.task.origin, outcome);
        }
        match active.step {
            Step::Selecting if is_confirmation => active.step = Step::Selected,
            Step::Asked if is_confirmation && self.is_terminated(&active.task.request) => {
                (active.step, active.by) = (Step::Accepted, now + self.config.answer_timeout);
            }
            Step::Asked => return self.end(active.task.origin, Outcome::Done),
            Step::Accepted if !is_confirmation => return self.end(active.task.origin, Outcome::Done),
            Step::Selecting | Step::Selected | Step::Accepted => self.counters.unexpected += 1,
        }
        self.tasks.put(active);
    }

    /// Whether a termination follows the confirmation, and is waited for.
    fn is_terminated(&self, request: &Request) -> bool {
        match request {
            Request::Interrogation { .. } => true,
            Request::Counters { qualifier, .. } => is_read(*qualifier),
            Request::Command(_) => self.config.command_end == CommandEnd::Termination,
            Request::Clock { .. } | Request::Read { .. } | Request::Test { .. } => false,
        }
    }
}

/// Whether an ASDU with this header and object can be an answer to a request.
fn is_answer(active: &Active, header: &Header, object: &Object) -> bool {
    let request = &active.task.request;
    let asked = request.common_address();
    let is_there = asked == header.common_address || asked == Header::BROADCAST;
    let is_place = match request {
        Request::Command(command) => command.address == object.address,
        Request::Read { address, .. } => *address == object.address,
        Request::Interrogation { .. } | Request::Counters { .. } | Request::Clock { .. } | Request::Test { .. } => true,
    };
    active.step != Step::Selected
        && is_there
        && is_place
        && is_same_freeze(request, &object.element)
        && type_of(request) == header.type_id
}

/// Whether QCC asks for counts, and not to freeze or reset them, which ends with its confirmation.
const fn is_read(qualifier: u8) -> bool {
    qualifier & FRZ == 0
}

/// Whether an answer is not one to the freeze before, whose termination a station may send or not.
const fn is_same_freeze(request: &Request, element: &Element) -> bool {
    match (request, element) {
        (Request::Counters { qualifier: asked, .. }, Element::CounterInterrogation { qualifier }) => {
            *asked & FRZ == *qualifier & FRZ
        }
        _ => true,
    }
}

/// Whether a confirmation or termination says what was asked: a command, with S/E as it was sent.
fn is_echo(active: &Active, element: &Element) -> bool {
    let Some(command) = active.task.request.command() else { return true };
    let asked = command.element.with_select(active.step == Step::Selecting);
    match (asked, *element) {
        // A number that is none equals nothing.
        (Element::SetShort { value: one, qualifier }, Element::SetShort { value: other, qualifier: theirs }) => {
            one.to_bits() == other.to_bits() && qualifier == theirs
        }
        (one, other) => one == other,
    }
}
