//! What clients ask, and what they are answered.

use super::config::{Freeze, ServerEvent};
use super::database::{ALL_COUNTERS, Permission, is_command};
use super::output::{Job, Wanted, current};
use super::{Command, Server};
use crate::asdu::{Asdu, Cause, CauseCode, Cp56, Element, Form, Header, Object, TypeId};
use alloc::rc::Rc;
use alloc::vec::Vec;
use tieline_core::{Instant, Now};

/// Answers that wait for their turn; more requests are dropped then.
pub(super) const ANSWERS_MAX: usize = 64;
/// QOI of the whole station.
const STATION: u8 = 20;
const GROUPS: u8 = 16;
/// QRP: the process, and events that wait.
const RESET_PROCESS: u8 = 1;
const RESET_EVENTS: u8 = 2;
/// COI of a start that was asked for from elsewhere.
const REMOTE_RESET: u8 = 2;
const TEST_PATTERN: u16 = 0x55AA;

/// What a client may ask with a type; none of types that only stations send, and of those that are not there.
pub(super) fn form_of(type_id: TypeId) -> Option<Form> {
    let form = type_id.layout()?.form;
    let is_request = matches!(
        form,
        Form::Interrogation
            | Form::CounterInterrogation
            | Form::Read
            | Form::ClockSynchronization
            | Form::TestPattern
            | Form::TestCounter
            | Form::Reset
    );
    (is_request || is_command(form)).then_some(form)
}

fn has_cause(form: Form, code: CauseCode) -> bool {
    match form {
        Form::Read => code == CauseCode::REQUEST,
        Form::Interrogation | Form::CounterInterrogation => {
            [CauseCode::ACTIVATION, CauseCode::DEACTIVATION].contains(&code)
        }
        form if is_command(form) => [CauseCode::ACTIVATION, CauseCode::DEACTIVATION].contains(&code),
        _ => code == CauseCode::ACTIVATION,
    }
}

/// Whether all stations may be asked at once (IEC 60870-5-101 7.2.4).
const fn is_for_all(form: Form) -> bool {
    matches!(form, Form::Interrogation | Form::CounterInterrogation | Form::ClockSynchronization | Form::Reset)
}

impl Server {
    pub(super) fn handle_asdu(&mut self, now: Now, bytes: &[u8]) {
        self.counters.requests += 1;
        let Ok((header, ..)) = Header::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if header.cause.is_test {
            self.counters.tests += 1;
            return;
        }
        if self.output.answers() >= ANSWERS_MAX {
            self.counters.unanswered += 1;
            return;
        }
        let Some(form) = form_of(header.type_id) else { return self.unknown(bytes, CauseCode::UNKNOWN_TYPE) };
        if !has_cause(form, header.cause.code) {
            return self.unknown(bytes, CauseCode::UNKNOWN_CAUSE);
        }
        let stations = self.stations(form, header.common_address);
        if stations.is_empty() {
            return self.unknown(bytes, CauseCode::UNKNOWN_COMMON_ADDRESS);
        }
        let Ok(asdu) = Asdu::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let mut objects = asdu.objects();
        // A request has one object.
        let (Some(object), None) = (objects.next(), objects.next()) else {
            return self.confirm(&stations, bytes, false);
        };
        if is_command(form) {
            return self.handle_command(now.mono, &header, &object, bytes);
        }
        if form == Form::Read {
            return self.handle_read(now, &header, &object, bytes);
        }
        if object.address.raw() != 0 {
            return self.unknown(bytes, CauseCode::UNKNOWN_ADDRESS);
        }
        match object.element {
            Element::Interrogation { qualifier } => self.handle_interrogation(&stations, qualifier, bytes),
            Element::CounterInterrogation { qualifier } => self.handle_counters(&stations, qualifier, bytes),
            Element::ClockSynchronization { time } => self.handle_clock(now, &stations, time, bytes),
            Element::Reset { qualifier } => self.handle_reset(&stations, qualifier, bytes),
            Element::TestPattern { pattern } => self.confirm(&stations, bytes, pattern == TEST_PATTERN),
            _ => self.confirm(&stations, bytes, true),
        }
    }

    /// The stations that a request is to.
    pub(super) fn stations(&self, form: Form, common_address: u16) -> Vec<u16> {
        let database = self.database.borrow();
        if common_address == Header::BROADCAST && is_for_all(form) {
            return database.stations().collect();
        }
        let one = Some(common_address).filter(|station| database.has_station(*station));
        one.into_iter().collect()
    }

    pub(super) fn unknown(&mut self, request: &[u8], code: CauseCode) {
        self.counters.unknown += 1;
        self.output.confirm(request, code, false);
    }

    /// Confirms an activation or a deactivation, by each station that it was to.
    pub(super) fn confirm(&mut self, stations: &[u16], request: &[u8], is_positive: bool) {
        let code = if is_deactivation(request) { CauseCode::DEACTIVATION_CON } else { CauseCode::ACTIVATION_CON };
        let counter = if is_positive { &mut self.counters.confirmed } else { &mut self.counters.refused };
        *counter += 1;
        stations.iter().for_each(|station| self.output.confirm_of(*station, request, code, is_positive));
    }

    fn handle_interrogation(&mut self, stations: &[u16], qualifier: u8, request: &[u8]) {
        match qualifier.checked_sub(STATION).filter(|group| *group <= GROUPS) {
            Some(group) => self.interrogate(stations, Wanted::States(group), request),
            None => self.confirm(stations, request, false),
        }
    }

    fn handle_counters(&mut self, stations: &[u16], qualifier: u8, request: &[u8]) {
        let (group, freeze) = (qualifier & 0x3F, qualifier >> 6);
        if !(1..=ALL_COUNTERS).contains(&group) {
            return self.confirm(stations, request, false);
        }
        let freeze = match freeze {
            1 => Freeze::Freeze,
            2 => Freeze::FreezeAndReset,
            3 => Freeze::Reset,
            _ => return self.interrogate(stations, Wanted::Counters(group % ALL_COUNTERS), request),
        };
        if is_deactivation(request) {
            return self.confirm(stations, request, false);
        }
        for station in stations {
            self.database.borrow_mut().freeze(*station, group, freeze);
            self.events.push_back(ServerEvent::Frozen { common_address: *station, group, freeze });
        }
        self.confirm(stations, request, true);
        stations.iter().for_each(|station| self.output.terminate_of(*station, request));
    }

    /// Begins or ends to send points.
    fn interrogate(&mut self, stations: &[u16], wanted: Wanted, request: &[u8]) {
        if is_deactivation(request) {
            for station in stations {
                let was_there = self.output.cancel(*station, wanted);
                self.confirm(&[*station], request, was_there);
            }
            return;
        }
        let has_room = self.output.interrogations() < self.config.interrogations_max;
        self.confirm(stations, request, has_room);
        if has_room {
            stations.iter().for_each(|station| self.output.push(Job::of(*station, wanted, request)));
        }
    }

    fn handle_clock(&mut self, now: Now, stations: &[u16], time: Cp56, request: &[u8]) {
        let is_taken = self.config.takes_clock && self.database.borrow_mut().set_clock(now.utc, time);
        if is_taken {
            self.events.push_back(ServerEvent::ClockSet { common_address: addressed(request), time });
        }
        self.confirm(stations, request, is_taken);
    }

    fn handle_reset(&mut self, stations: &[u16], qualifier: u8, request: &[u8]) {
        let is_known = [RESET_PROCESS, RESET_EVENTS].contains(&qualifier);
        self.confirm(stations, request, is_known);
        if !is_known {
            return;
        }
        self.events.push_back(ServerEvent::Reset { common_address: addressed(request), qualifier });
        if qualifier == RESET_EVENTS {
            self.output.clear_changes();
        } else {
            stations.iter().for_each(|station| self.output.initialized(*station, REMOTE_RESET));
        }
    }

    fn handle_read(&mut self, now: Now, header: &Header, object: &Object, request: &[u8]) {
        let database = Rc::clone(&self.database);
        let database = database.borrow();
        let place = (header.common_address, object.address);
        let Some(point) = database.point(place) else { return self.unknown(request, CauseCode::UNKNOWN_ADDRESS) };
        let found = current(&database, object.address, point, now);
        let Some(type_id) = TypeId::of(found.element.form(), found.time.form()) else { return };
        let cause = Cause { originator: header.cause.originator, ..Cause::of(CauseCode::REQUEST) };
        self.output.answer(&Header { type_id, is_sequence: false, cause, ..*header }, found);
    }

    fn handle_command(&mut self, now: Instant, header: &Header, object: &Object, request: &[u8]) {
        let stations = [header.common_address];
        let place = (header.common_address, object.address);
        let (type_id, element) = (header.type_id, object.element);
        let is_end = is_deactivation(request);
        let mut database = self.database.borrow_mut();
        let is_room = self.commands.len() < self.config.commands_max;
        let is_select = element.qualifier().is_some_and(|qualifier| qualifier.is_select);
        let takes = database.takes(place, element.form());
        let permission = match takes {
            None => Permission::Unknown,
            Some(false) => Permission::Refused,
            Some(true) if is_end => database.deselect(place, self.connection, now),
            Some(true) if !is_legal(&element) => Permission::Refused,
            Some(true) if is_select => {
                let until = now + self.config.select_timeout;
                database.select((place, self.connection), (type_id, element), now, until)
            }
            Some(true) if !is_room => Permission::Refused,
            Some(true) => database.execute((place, self.connection), (type_id, element), now),
        };
        drop(database);
        match permission {
            Permission::Unknown => self.unknown(request, CauseCode::UNKNOWN_ADDRESS),
            Permission::Refused => self.confirm(&stations, request, false),
            Permission::Granted if is_end || is_select => self.confirm(&stations, request, true),
            Permission::Granted => {
                let id = self.next_id;
                self.next_id += 1;
                self.commands.push(Command { id, asdu: request.into(), is_accepted: false, is_silent: false });
                self.events.push_back(ServerEvent::Command {
                    id,
                    common_address: header.common_address,
                    address: object.address,
                    element,
                    time: object.time,
                    originator: header.cause.originator,
                });
            }
        }
    }
}

fn addressed(request: &[u8]) -> u16 {
    Header::parse(request).map_or(0, |(header, ..)| header.common_address)
}

fn is_deactivation(request: &[u8]) -> bool {
    Header::parse(request).is_ok_and(|(header, ..)| header.cause.code == CauseCode::DEACTIVATION)
}

/// Whether the standard permits the state of a command.
const fn is_legal(element: &Element) -> bool {
    match element {
        Element::DoubleCommand { state, .. } => matches!(state, 1 | 2),
        Element::StepCommand { step, .. } => matches!(step, 1 | 2),
        _ => true,
    }
}
