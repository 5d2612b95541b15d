//! Requests that wait until the owner says how they are treated, and a station that says nothing: for servers that fail in tests
//! of clients.

use super::Server;
use super::config::{ServerEvent, Treatment};
use super::database::is_command;
use super::requests::{ANSWERS_MAX, form_of};
use crate::asdu::{CauseCode, Form, Header};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::Now;

#[derive(Debug, Default)]
pub(super) struct Held {
    requests: VecDeque<(u64, Vec<u8>)>,
    next_id: u64,
    /// Bytes that are sent as they are.
    noise: Vec<u8>,
    is_muted: bool,
}

impl Held {
    pub(super) const fn is_muted(&self) -> bool {
        self.is_muted
    }

    pub(super) fn take_noise(&mut self, out: &mut Vec<u8>) -> bool {
        let has_noise = !self.noise.is_empty();
        out.append(&mut self.noise);
        has_noise
    }

    /// Drops the requests that wait.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }
}

impl Server {
    /// Treats a [`ServerEvent::Request`]. Nothing happens where there is none: the client has gone, or stopped data transfer.
    pub fn treat(&mut self, now: Now, id: u64, treatment: Treatment<'_>) {
        let Some(at) = self.held.requests.iter().position(|(held, _)| *held == id) else { return };
        let Some((_, request)) = self.held.requests.remove(at) else { return };
        match treatment {
            Treatment::Answer => self.handle_asdu(now, &request),
            Treatment::Refuse => self.refuse(&request),
            Treatment::Ignore { is_done: false } => {}
            Treatment::Ignore { is_done: true } => self.carry_out(now, &request),
            // One is enough to break the link.
            Treatment::Noise(bytes) if self.held.noise.is_empty() => self.held.noise.extend_from_slice(bytes),
            Treatment::Noise(_) => {}
        }
    }

    /// A station that is muted sends nothing, and does not look at the time: it hangs, and its connections stay.
    pub fn mute(&mut self, is_muted: bool) {
        self.held.is_muted = is_muted;
    }

    pub(super) fn hold(&mut self, request: &[u8]) {
        if self.held.requests.len() >= ANSWERS_MAX {
            self.counters.unanswered += 1;
            return;
        }
        let id = self.held.next_id;
        self.held.next_id += 1;
        self.held.requests.push_back((id, request.into()));
        self.events.push_back(ServerEvent::Request { id });
    }

    fn refuse(&mut self, request: &[u8]) {
        self.counters.requests += 1;
        let Ok((header, ..)) = Header::parse(request) else {
            self.counters.malformed += 1;
            return;
        };
        match form_of(header.type_id) {
            None => self.unknown(request, CauseCode::UNKNOWN_TYPE),
            Some(Form::Read) => self.unknown(request, CauseCode::UNKNOWN_ADDRESS),
            Some(form) => {
                let stations = self.stations(form, header.common_address);
                self.confirm(&stations, request, false);
            }
        }
    }

    /// Does what a command says, and nothing is said of it.
    fn carry_out(&mut self, now: Now, request: &[u8]) {
        let form = Header::parse(request).ok().and_then(|(header, ..)| form_of(header.type_id));
        if !form.is_some_and(is_command) {
            return;
        }
        let (answers, commands) = (self.output.answers(), self.commands.len());
        self.handle_asdu(now, request);
        self.output.forget_answers(answers);
        self.commands.iter_mut().skip(commands).for_each(|command| command.is_silent = true);
    }
}
