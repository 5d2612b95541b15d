//! One outstation with several masters.
//!
//! ```text
//!  owner ── update ──▶ Group ──▶ association of master 1 ◀──┐ by the source address of each link frame
//!                        ├─────▶ association of master 2 ◀──┼── line 0   a connection
//!                        └─────▶ association of master 3 ◀──┴── line 1   another
//! ```
//!
//! Each master has an [`Outstation`] of its own: its events and their buffers, its indications, sequence numbers,
//! unsolicited responses and classes. What the device has once is kept the same in all: every [`Group::update`]
//! reaches all, and what one master does (a freeze, a dead-band, an octet string, an attribute, the clock, a control)
//! is carried to the others. An output that one master has selected refuses the others (status 17).
//!
//! A master is known by the source address of its frames; its association belongs to the line on which it was heard
//! last. Two masters of one address on two lines would take it from each other with every frame: then it stays for a while
//! where it is, and frames on the other line are dropped and counted (`rivals.rs`). Frames of addresses that are no master of the group are counted and dropped. Lean messages have no addresses
//! and cannot share a line; a group speaks standard DNP3.

use super::sharing::Sharing;
use super::{Arrival, DatabaseError, Outstation, OutstationEvent, Rivals, secured};
use crate::Measurement;
use crate::link::{Decoder, LinkAddress};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use tieline_core::{Instant, Machine, Now};

/// Masters of one outstation at most.
pub const MASTERS_MAX: usize = 16;

/// One outstation with an association for each of its masters.
#[derive(Debug)]
pub struct Group {
    members: Vec<Member>,
    /// Connections by number; none where the number is free.
    lines: Vec<Option<Line>>,
    counters: GroupCounters,
}

#[derive(Debug)]
struct Member {
    outstation: Outstation,
    master: LinkAddress,
    /// The line that it is connected over.
    line: Option<usize>,
    /// Lines that take it from each other.
    rivals: Rivals,
}

#[derive(Debug)]
struct Line {
    decoder: Decoder,
    /// Whether it had an association that went to another line.
    is_left: bool,
}

/// What a group has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Frames whose source is no master of the group.
    pub unknown_source: u64,
    /// Associations that went from one line to another without a disconnect between.
    pub moved: u64,
    /// Frames of a master whose association is kept on another line: two masters have that address.
    pub refused: u64,
}

impl Group {
    /// A group of associations, each with the address of its master; at most [`MASTERS_MAX`], those beyond, and those
    /// whose master an earlier one has, are left out.
    #[must_use]
    pub fn new(outstations: impl IntoIterator<Item = Outstation>) -> Self {
        let mut members: Vec<Member> = Vec::new();
        for mut outstation in outstations.into_iter().take(MASTERS_MAX) {
            let master = LinkAddress::new(outstation.config().master);
            if members.iter().any(|member| member.master == master) {
                continue;
            }
            outstation.application.extras_mut().sharing = Some(Sharing::default());
            members.push(Member { outstation, master, line: None, rivals: Rivals::new() });
        }
        Self { members, lines: Vec::new(), counters: GroupCounters::default() }
    }

    /// Gives a point a value, for every master.
    ///
    /// # Errors
    /// There is no such point, or the value is not of its type; nothing changed.
    pub fn update(&mut self, now: Now, measurement: &Measurement) -> Result<(), DatabaseError> {
        self.members.iter_mut().try_for_each(|member| member.outstation.update(now, measurement.clone()))
    }

    /// Does the same to every association: adds or removes points, sets local mode or indications, restarts.
    pub fn for_each(&mut self, mut act: impl FnMut(&mut Outstation)) {
        self.members.iter_mut().for_each(|member| act(&mut member.outstation));
    }

    /// The associations, by their numbers.
    pub fn outstations(&self) -> impl Iterator<Item = &Outstation> {
        self.members.iter().map(|member| &member.outstation)
    }

    /// One association, to do what concerns its master alone.
    pub fn outstation_mut(&mut self, number: usize) -> Option<&mut Outstation> {
        self.members.get_mut(number).map(|member| &mut member.outstation)
    }

    /// What the group itself has counted.
    #[must_use]
    pub const fn counters(&self) -> GroupCounters {
        self.counters
    }

    /// A connection begins; returns its number. An association is connected with the first frame of its master, or
    /// by [`Group::assign`].
    pub fn connect(&mut self) -> usize {
        let line = Line { decoder: Decoder::new(), is_left: false };
        match self.lines.iter_mut().enumerate().find(|(_, free)| free.is_none()) {
            Some((number, free)) => {
                *free = Some(line);
                number
            }
            None => {
                self.lines.push(Some(line));
                self.lines.len() - 1
            }
        }
    }

    /// A connection is gone, and with it the associations that it carried.
    pub fn disconnect(&mut self, now: Now, line: usize) {
        if let Some(gone) = self.lines.get_mut(line) {
            *gone = None;
        }
        for member in self.members.iter_mut().filter(|member| member.line == Some(line)) {
            member.line = None;
            member.rivals.leave();
            member.outstation.handle_disconnected(now);
        }
        self.carry(now);
    }

    /// Connects the association of a master over a line before it was heard, so that unsolicited responses can begin:
    /// where the line tells who is at its other end.
    pub fn assign(&mut self, now: Now, line: usize, master: u16) {
        let found = self.members.iter().position(|member| member.master == LinkAddress::new(master));
        if let Some(number) = found {
            let _ = self.connect_member(now, number, line);
        }
    }

    /// Takes bytes of a line and returns how many were used, as [`Machine::handle_input`] does.
    pub fn handle_input(&mut self, now: Now, line: usize, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        loop {
            if self.members.iter().any(|member| member.outstation.is_full()) {
                break;
            }
            let Some(Line { decoder, .. }) = self.lines.get_mut(line).and_then(Option::as_mut) else {
                return bytes.len();
            };
            let Some(decoded) = decoder.decode(&mut rest) else { break };
            let Ok(frame) = decoded else { continue };
            let source = frame.header().source;
            let Some(number) = self.members.iter().position(|member| member.master == source) else {
                self.counters.unknown_source += 1;
                continue;
            };
            let frame: Vec<u8> = frame.bytes().into();
            if self.take_frame(now, line, number, &frame) {
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// Gives a frame to its association; says whether that must answer before it takes another.
    fn take_frame(&mut self, now: Now, line: usize, number: usize, frame: &[u8]) -> bool {
        if !self.connect_member(now, number, line) {
            self.counters.refused += 1;
            return false;
        }
        let Some(member) = self.members.get_mut(number) else { return false };
        let mut rest = frame;
        // A whole frame to a machine that is not full is used up; the count of bytes bounds the work all the same.
        while !rest.is_empty() {
            let used = member.outstation.handle_input(now, rest);
            rest = rest.get(used..).unwrap_or_default();
            if used == 0 {
                break;
            }
        }
        let Outstation { application, secure, .. } = &member.outstation;
        let answers = application.has_reply() || secured::has_reply(secure);
        self.carry(now);
        answers
    }

    /// Whether the association is connected over that line from here on.
    fn connect_member(&mut self, now: Now, number: usize, line: usize) -> bool {
        let Some(member) = self.members.get_mut(number) else { return false };
        if member.line == Some(line) {
            return true;
        }
        let arrival = member.line.map(|_| member.rivals.arrive(now.mono, true));
        if arrival == Some(Arrival::Refused) {
            return false;
        }
        if let Some(old) = member.line.replace(line) {
            member.outstation.handle_disconnected(now);
            self.counters.moved += 1;
            let is_left = !self.members.iter().any(|member| member.line == Some(old));
            if let Some(Some(old)) = self.lines.get_mut(old) {
                old.is_left = is_left;
            }
        }
        if let Some(member) = self.members.get_mut(number) {
            member.outstation.handle_connected(now);
            if let Some(Arrival::Keeps(kept)) = arrival {
                member.outstation.application.tell_if_room(OutstationEvent::TwoMasters { kept });
            }
        }
        true
    }

    /// Carries what masters did to the associations of the others.
    fn carry(&mut self, now: Now) {
        for by in 0..self.members.len() {
            let Some(member) = self.members.get_mut(by) else { return };
            let application = &mut member.outstation.application;
            let (acts, reservation) = (application.take_acts(), application.reservation(by));
            for (_, other) in self.members.iter_mut().enumerate().filter(|(number, _)| *number != by) {
                let other = &mut other.outstation.application;
                acts.iter().for_each(|act| other.follow(now, act));
                other.reserve(by, reservation.clone());
            }
        }
    }

    /// Lets deadlines that have passed take effect in all associations.
    pub fn handle_timeout(&mut self, now: Now) {
        self.members.iter_mut().for_each(|member| member.outstation.handle_timeout(now));
        self.carry(now);
    }

    /// Appends the next message for a line and says whether there was one.
    pub fn poll_transmit(&mut self, now: Now, line: usize, out: &mut Vec<u8>) -> bool {
        let mut members = self.members.iter_mut().filter(|member| member.line == Some(line));
        members.any(|member| member.outstation.poll_transmit(now, out))
    }

    /// The next thing that the owner must know, and of which association.
    pub fn poll_event(&mut self) -> Option<(usize, OutstationEvent)> {
        let mut members = self.members.iter_mut().enumerate();
        members.find_map(|(number, member)| Some((number, member.outstation.poll_event()?)))
    }

    /// When [`Group::handle_timeout`] must be called at the latest, whether there are connections or not.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.outstation.timeout()).min()
    }

    /// Whether every association that a line had went to other lines: nobody speaks on it any more.
    #[must_use]
    pub fn is_left(&self, line: usize) -> bool {
        self.lines.get(line).and_then(Option::as_ref).is_some_and(|line| line.is_left)
    }
}

/// One connection of a group, as a machine: for a driver that has a machine for each connection. What one line does may
/// give others something to send: drive them all after each event.
#[derive(Clone, Debug)]
pub struct GroupLine {
    group: Rc<RefCell<Group>>,
    line: Option<usize>,
}

impl GroupLine {
    /// A connection that is to come.
    #[must_use]
    pub const fn new(group: Rc<RefCell<Group>>) -> Self {
        Self { group, line: None }
    }

    /// The number of the connection in its group, while there is one.
    #[must_use]
    pub const fn number(&self) -> Option<usize> {
        self.line
    }
}

impl Machine for GroupLine {
    type Event = (usize, OutstationEvent);

    fn handle_connected(&mut self, _now: Now) {
        self.line = Some(self.group.borrow_mut().connect());
    }

    fn handle_disconnected(&mut self, now: Now) {
        if let Some(line) = self.line.take() {
            self.group.borrow_mut().disconnect(now, line);
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        self.line.map_or(bytes.len(), |line| self.group.borrow_mut().handle_input(now, line, bytes))
    }

    fn handle_timeout(&mut self, now: Now) {
        self.group.borrow_mut().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.line.is_some_and(|line| self.group.borrow_mut().poll_transmit(now, line, out))
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.group.borrow_mut().poll_event()
    }

    fn timeout(&self) -> Option<Instant> {
        self.group.borrow().timeout()
    }

    fn is_closed(&self) -> bool {
        self.line.is_some_and(|line| self.group.borrow().is_left(line))
    }
}
