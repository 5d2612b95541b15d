//! Conversations as text, one line a step:
//!
//! ```text
//! connect | disconnect       the transport comes or goes
//! > C0 01 3C0206             the master must send this fragment next
//! < C0 81 0000 …             the outstation sends this fragment
//! << 00 FF …                 bytes arrive that are no fragment
//! ! online                   the master must give this event next
//! status? | status!          the master must ask for the link's status | the outstation answers
//! wait 5000                  so many milliseconds pass
//! silent                     the master must send nothing, and have no event
//! closed                     the master must ask for the connection's end
//! poll 7 | select 7 | direct 7 | release      the owner calls (controls are of output 3)
//! full 7                     a poll must be refused
//! ```

use super::super::{Answer, Master, MasterConfig, MasterEvent, Request, SubmitError};
use crate::app::Found;
use crate::endpoint::{Endpoint, EndpointConfig, Received, Role};
use crate::link::LinkAddress;
use crate::{Classes, Control, Crob, Measured};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{CommandMode, Instant, Machine, Now, Timestamp};

/// Plays `script` and fails at the first line that does not hold.
#[track_caller]
pub(super) fn check(config: MasterConfig, script: &str) {
    let mut play = Play::new(config);
    play.run(script);
    play.end(script);
}

pub(super) const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(0x1_0000) };

pub(super) struct Play {
    now: Now,
    master: Master,
    peer: Endpoint,
    /// What the master has sent that was not looked at.
    wire: Vec<u8>,
    /// What the master has not taken.
    input: Vec<u8>,
    /// What events said that was not looked at.
    said: VecDeque<String>,
}

impl Play {
    #[track_caller]
    pub(super) fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = line.split("//").next().unwrap_or_default().trim();
            if let Err(found) = self.step(line) {
                panic!("{line}\nfound: {found}\nin: {script}");
            }
        }
    }

    /// Nothing may be left.
    #[track_caller]
    pub(super) fn end(mut self, script: &str) {
        let left = self.event().or_else(|| self.sent());
        assert_eq!(left, None, "after the last line of: {script}");
    }

    pub(super) fn submit(&mut self, request: Request, token: u64) -> Result<(), SubmitError> {
        self.master.submit(self.now, request, token)
    }

    pub(super) fn new(config: MasterConfig) -> Self {
        let peer = Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(config.outstation)));
        Self {
            now: START,
            master: Master::new(config),
            peer,
            wire: Vec::new(),
            input: Vec::new(),
            said: VecDeque::new(),
        }
    }

    fn step(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "connect" => self.master.handle_connected(self.now),
            "disconnect" => self.disconnect(),
            ">" => return same(self.sent(), &tidy(rest)),
            "<" => self.say(&bytes(rest)),
            "<<" => self.input.extend(bytes(rest)),
            "!" => return same(self.event(), rest),
            "status?" => return same(self.sent(), "status?"),
            "status!" => {
                self.peer.poll_transmit(&mut self.input);
            }
            "wait" => {
                self.feed();
                self.now = self.now.later(Duration::from_millis(rest.parse().unwrap()));
                self.master.handle_timeout(self.now);
            }
            "silent" => return same(self.event().or_else(|| self.sent()), "nothing"),
            "closed" => return same(Some(self.master.is_closed().to_string()), "true"),
            "poll" => return done(self.master.poll(self.now, Classes::CLASS_0, number(rest))),
            "full" => {
                let refused = self.master.poll(self.now, Classes::CLASS_0, number(rest));
                return same(Some(format!("{refused:?}")), "Err(Full)");
            }
            "select" => return self.command(CommandMode::SelectBeforeOperate, rest),
            "direct" => return self.command(CommandMode::DirectOperate, rest),
            "release" => self.master.release_confirm(self.now),
            _ => panic!("unknown step: {line}"),
        }
        Ok(())
    }

    fn disconnect(&mut self) {
        self.master.handle_disconnected(self.now);
        self.peer.reset();
        self.wire.clear();
        self.input.clear();
    }

    fn say(&mut self, fragment: &[u8]) {
        let to = LinkAddress::new(self.master.config().address);
        self.peer.write_fragment(to, fragment, &mut self.input);
    }

    fn command(&mut self, mode: CommandMode, token: &str) -> Result<(), String> {
        let until = self.now.mono + Duration::from_secs(10);
        done(self.master.command(self.now, latch_on(), 3, mode, until, number(token)))
    }

    /// Lets the master take what it will.
    fn feed(&mut self) {
        let used = self.master.handle_input(self.now, &self.input);
        self.input.drain(..used);
    }

    fn event(&mut self) -> Option<String> {
        for _ in 0..10 {
            if let Some(word) = self.said.pop_front() {
                return Some(word);
            }
            match self.master.poll_event() {
                Some(event) => self.said.extend(words(&event)),
                None => self.feed(),
            }
        }
        None
    }

    /// The next fragment or link request that the master sends, once its events are drained.
    fn sent(&mut self) -> Option<String> {
        if let Some(event) = self.event() {
            return Some(format!("! {event}"));
        }
        if self.wire.is_empty() {
            self.master.poll_transmit(self.now, &mut self.wire);
        }
        let status_requests = self.peer.counters().link.frames;
        let (used, received) = self.peer.handle_input(&self.wire);
        self.wire.drain(..used);
        let Some(Received::Fragment { .. }) = received else {
            return (self.peer.counters().link.frames > status_requests).then(|| "status?".to_string());
        };
        let shown = hex(self.peer.fragment());
        self.peer.release();
        Some(shown)
    }
}

pub(super) fn latch_on() -> Control {
    Control::Crob(Crob { code: 3, count: 1, on_ms: 100, off_ms: 0 })
}

fn done(result: Result<(), SubmitError>) -> Result<(), String> {
    result.map_err(|error| format!("{error:?}"))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn same(found: Option<String>, expect: &str) -> Result<(), String> {
    let found = found.unwrap_or_else(|| "nothing".to_string());
    if found == expect { Ok(()) } else { Err(found) }
}

pub(super) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty(), "{text}");
    pairs.iter().map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn tidy(text: &str) -> String {
    text.split_whitespace().collect()
}

/// One for each thing that an event tells.
pub(super) fn words(event: &MasterEvent) -> Vec<String> {
    match event {
        MasterEvent::Values { values, unsolicited } => {
            values.iter().map(|found| word_of_found(&found, *unsolicited)).collect()
        }
        other => alloc::vec![word(other)],
    }
}

fn word_of_found(found: &Found, unsolicited: bool) -> String {
    match found {
        Found::Measurement { measurement: m, event, .. } => {
            let value = match &m.value {
                Measured::Bit(bit) => bit.to_string(),
                Measured::DoubleBit(state) => format!("{state:?}"),
                Measured::Count(count) => count.to_string(),
                Measured::Analog(value) => value.to_string(),
                Measured::Bytes(text) => hex(text),
            };
            let kind = if *event { " event" } else { "" };
            let how = if unsolicited { " unsolicited" } else { "" };
            let at = m.stamp.map_or(String::new(), |s| {
                format!(" at {:X}{}", s.time.millis(), if s.synchronized { "" } else { "?" })
            });
            format!("{} {} = {value}{kind}{how}{at}", m.point_type.name(), m.index)
        }
        Found::Object { object, event } => format!("{object:?}{}", if *event { " event" } else { "" }),
    }
}

pub(super) fn word(event: &MasterEvent) -> String {
    match event {
        MasterEvent::Security(event) => format!("security {event:?}"),
        MasterEvent::Online => "online".into(),
        MasterEvent::Offline(reason) => format!("offline {}", reason.name()),
        MasterEvent::Restarted => "restarted".into(),
        MasterEvent::EventsLost => "events lost".into(),
        MasterEvent::LinkAlive => "link alive".into(),
        MasterEvent::Ready => "ready".into(),
        MasterEvent::Indications(iin) => format!("iin {:04X}", iin.0),
        MasterEvent::Values { values, .. } => format!("{values:?}"),
        MasterEvent::FragmentEnd { unsolicited, confirm_held } => {
            format!("end{}{}", if *unsolicited { " unsolicited" } else { "" }, if *confirm_held { " held" } else { "" })
        }
        MasterEvent::Files(objects) => format!("files {}", hex(objects)),
        MasterEvent::Answer { token, answer } => match answer {
            Answer::Statuses(statuses) => {
                let names: Vec<_> = statuses.iter().map(|status| status.name()).collect();
                format!("answer {token} {}", names.join(" "))
            }
            Answer::Delay(delay) => format!("answer {token} delay {}", delay.as_millis()),
            Answer::RoundTrip { both_ways, inside } => {
                format!("answer {token} round trip {} inside {}", both_ways.as_millis(), inside.as_millis())
            }
            Answer::Address(address) => format!("answer {token} address {address}"),
            Answer::Objects(objects) => format!("answer {token} objects {}", hex(objects)),
        },
        MasterEvent::TaskDone { token, outcome } => {
            format!("task {token} {}{}", outcome.name(), if outcome.maybe_operated() { ", maybe operated" } else { "" })
        }
    }
}
