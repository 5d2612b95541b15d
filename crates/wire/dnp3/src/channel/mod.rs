//! Several machines on one connection, told apart by link addresses: outstations behind one port, or a master of the
//! drops of one line.
//!
//! ```text
//!                  ┌─ (10, 1) ─ Outstation        (local, remote) ─ machine
//! bytes ─ frames ─┼─ (11, 1) ─ Outstation
//!                  └─ (12, any) ─ Outstation      a broadcast goes to all of them
//! ```
//!
//! Frames that are intact are handed on by the addresses in their headers. Where one request may be out at
//! a time (a multi-drop line), the line is lent in turns: a drop holds it from its request until the answer is complete or
//! late, and a drop that did not answer rests, longer each time, so that the others have the line. Whatever comes
//! unsolicited is taken at any time.
//!
//! A channel is one connection. Outstations behind a port at which several masters connect are groups, and each connection
//! has a channel of their lines ([`GroupLine`]).
//!
//! Read first: `input.rs`, then `line.rs`.

mod counters;
mod input;
mod line;

#[cfg(test)]
mod tests;

pub use counters::ChannelCounters;

use crate::link::{Decoder, LinkAddress, LinkCounters};
use crate::outstation::{GroupLine, Outstation};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use input::Held;
use line::Lending;
use tieline_core::{Instant, Machine, Now};

/// Machines on one connection at most.
pub const MEMBERS_MAX: usize = 1024;
/// How long a machine that gave its peer up stays away, where others go on.
const REJOIN_AFTER: Duration = Duration::from_secs(10);

/// A machine that can share a line on which one request may be out at a time.
pub trait Member: Machine {
    /// Whether it has asked something and waits for the answer.
    fn awaits_answer(&self) -> bool;
}

impl Member for Outstation {
    /// It speaks only when it is asked, or has something to report: it needs no answer but a confirm.
    fn awaits_answer(&self) -> bool {
        false
    }
}

impl Member for GroupLine {
    /// As an outstation of one master.
    fn awaits_answer(&self) -> bool {
        false
    }
}

/// Names a machine of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u16);

/// What a machine of a channel says.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelEvent<E> {
    /// Which one.
    pub member: MemberId,
    /// What.
    pub event: E,
}

/// Why a machine cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Another has these addresses.
    Taken(MemberId),
    /// There are [`MEMBERS_MAX`].
    Full,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(member) => write!(f, "machine {} of the channel has these addresses", member.0),
            Self::Full => write!(f, "a channel has no more than {MEMBERS_MAX} machines"),
        }
    }
}

impl core::error::Error for AddError {}

/// Several machines of one kind on one connection.
#[derive(Debug)]
pub struct Channel<M> {
    /// None where a machine was removed.
    members: Vec<Option<Slot<M>>>,
    /// By our address and the peer's; none for any peer.
    by_address: BTreeMap<(LinkAddress, Option<LinkAddress>), MemberId>,
    decoder: Decoder,
    held: VecDeque<Held>,
    /// Who may have events.
    tells: VecDeque<MemberId>,
    /// Who may have output, in the order in which they have the line.
    sends: VecDeque<MemberId>,
    /// None where the line need not be lent.
    lending: Option<Lending>,
    connected: bool,
    /// Of the last call that brought it.
    now: Now,
    counters: ChannelCounters,
}

#[derive(Debug)]
struct Slot<M> {
    machine: M,
    presence: Presence,
    in_tells: bool,
    in_sends: bool,
    /// Requests in a row that were not answered.
    failures: u8,
    /// It was heard since it got the line.
    heard: bool,
    /// When it may have the line again.
    rests_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Down,
    Up,
    /// It gave its peer up, and begins again then.
    Away(Instant),
}

impl<M: Member> Channel<M> {
    /// A channel without machines. `one_at_a_time`: the line takes one request at a time.
    #[must_use]
    pub fn new(one_at_a_time: bool) -> Self {
        Self {
            members: Vec::new(),
            by_address: BTreeMap::new(),
            decoder: Decoder::new(),
            held: VecDeque::new(),
            tells: VecDeque::new(),
            sends: VecDeque::new(),
            lending: one_at_a_time.then(Lending::default),
            connected: false,
            now: Now::default(),
            counters: ChannelCounters::default(),
        }
    }

    /// Adds a machine that is `local` and talks with `remote`, or with any peer. Where there is a connection, it begins at
    /// once.
    ///
    /// # Errors
    /// The addresses are taken, or there are too many machines.
    pub fn add(&mut self, local: LinkAddress, remote: Option<LinkAddress>, machine: M) -> Result<MemberId, AddError> {
        if let Some(other) = self.by_address.get(&(local, remote)) {
            return Err(AddError::Taken(*other));
        }
        let free = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        let number = u16::try_from(free).ok().filter(|_| free < MEMBERS_MAX);
        let id = MemberId(number.ok_or(AddError::Full)?);
        self.by_address.insert((local, remote), id);
        let presence = if self.connected { Presence::Up } else { Presence::Down };
        let (in_tells, in_sends, failures, heard, rests_until) = (false, false, 0, false, None);
        let mut slot = Slot { machine, presence, in_tells, in_sends, failures, heard, rests_until };
        if self.connected {
            slot.machine.handle_connected(self.now);
        }
        match self.members.get_mut(free) {
            Some(place) => *place = Some(slot),
            None => self.members.push(Some(slot)),
        }
        self.touch(id);
        Ok(id)
    }

    /// Removes a machine, and gives it back; the others go on. What it had to send is not sent, and its name may be given to
    /// a machine that is added later.
    pub fn remove(&mut self, id: MemberId) -> Option<M> {
        let slot = self.members.get_mut(usize::from(id.0))?.take()?;
        self.by_address.retain(|_, member| *member != id);
        self.tells.retain(|member| *member != id);
        self.sends.retain(|member| *member != id);
        self.held.retain(|held| held.member() != id);
        if let Some(lending) = &mut self.lending {
            lending.take_back(id);
        }
        Some(slot.machine)
    }

    /// How many machines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.iter().flatten().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A machine.
    #[must_use]
    pub fn member(&self, id: MemberId) -> Option<&M> {
        self.members.get(usize::from(id.0))?.as_ref().map(|slot| &slot.machine)
    }

    /// A machine, for its owner's calls; what they bring about is told and sent like everything else.
    pub fn member_mut(&mut self, id: MemberId) -> Option<&mut M> {
        self.touch(id);
        self.slot(id).map(|slot| &mut slot.machine)
    }

    /// All machines, in the order in which they were added.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &M)> {
        let each = (0..).map(MemberId).zip(&self.members);
        each.filter_map(|(id, slot)| Some((id, &slot.as_ref()?.machine)))
    }

    /// What was seen so far.
    #[must_use]
    pub const fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// What the decoder that all machines share has seen: theirs see intact frames alone.
    #[must_use]
    pub const fn link_counters(&self) -> LinkCounters {
        self.decoder.counters()
    }

    fn slot(&mut self, id: MemberId) -> Option<&mut Slot<M>> {
        self.members.get_mut(usize::from(id.0))?.as_mut()
    }

    fn ids(&self) -> impl Iterator<Item = MemberId> + use<M> {
        (0..u16::try_from(self.members.len()).unwrap_or(u16::MAX)).map(MemberId)
    }

    /// The machine may have events and output.
    fn touch(&mut self, id: MemberId) {
        let Some(Some(slot)) = self.members.get_mut(usize::from(id.0)) else { return };
        if !core::mem::replace(&mut slot.in_tells, true) {
            self.tells.push_back(id);
        }
        if !core::mem::replace(&mut slot.in_sends, true) {
            self.sends.push_back(id);
        }
    }

    /// A machine that gave its peer up leaves alone, as long as others stay.
    fn let_go(&mut self, now: Now, id: MemberId) {
        let Some(slot) = self.slot(id) else { return };
        if slot.presence == Presence::Up && slot.machine.is_closed() {
            slot.machine.handle_disconnected(now);
            slot.presence = Presence::Away(now.mono + REJOIN_AFTER);
            self.counters.members_lost += 1;
            self.touch(id);
        }
    }

    fn next_wake(slot: &Slot<M>) -> Option<Instant> {
        let rejoins = match slot.presence {
            Presence::Away(until) => Some(until),
            Presence::Down | Presence::Up => None,
        };
        [rejoins, slot.rests_until, slot.machine.timeout()].into_iter().flatten().min()
    }
}

impl<M: Member> Machine for Channel<M> {
    type Event = ChannelEvent<M::Event>;

    fn handle_connected(&mut self, now: Now) {
        (self.now, self.connected) = (now, true);
        for id in self.ids() {
            if let Some(slot) = self.slot(id) {
                (slot.presence, slot.failures, slot.rests_until) = (Presence::Up, 0, None);
                slot.machine.handle_connected(now);
            }
            self.touch(id);
        }
    }

    fn handle_disconnected(&mut self, now: Now) {
        (self.now, self.connected) = (now, false);
        self.decoder.reset();
        self.held.clear();
        if let Some(lending) = &mut self.lending {
            *lending = Lending::default();
        }
        for id in self.ids() {
            if let Some(slot) = self.slot(id) {
                if slot.presence == Presence::Up {
                    slot.machine.handle_disconnected(now);
                }
                (slot.presence, slot.rests_until) = (Presence::Down, None);
            }
            self.touch(id);
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        self.now = now;
        self.take(now, bytes)
    }

    fn handle_timeout(&mut self, now: Now) {
        self.now = now;
        for id in self.ids() {
            let Some(slot) = self.slot(id) else { continue };
            if Self::next_wake(slot).is_none_or(|at| at > now.mono) {
                continue;
            }
            slot.rests_until = slot.rests_until.filter(|until| *until > now.mono);
            slot.machine.handle_timeout(now);
            if matches!(slot.presence, Presence::Away(until) if until <= now.mono) {
                slot.presence = Presence::Up;
                slot.machine.handle_connected(now);
            }
            self.touch(id);
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.now = now;
        let sent = self.send(now, out);
        if !sent {
            // What a machine sent may have made room for what it could not take.
            self.deliver_held(now);
        }
        sent
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        let now = self.now;
        loop {
            while let Some(member) = self.tells.front().copied() {
                if let Some(event) = self.slot(member).and_then(|slot| slot.machine.poll_event()) {
                    return Some(ChannelEvent { member, event });
                }
                self.tells.pop_front();
                if let Some(slot) = self.slot(member) {
                    slot.in_tells = false;
                }
                self.let_go(now, member);
            }
            // What a machine told may have made room for what it could not take.
            if !self.deliver_held(now) {
                return None;
            }
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.members.iter().flatten().filter_map(Self::next_wake).min()
    }

    fn is_closed(&self) -> bool {
        let gone = |slot: &Slot<M>| matches!(slot.presence, Presence::Away(_));
        self.connected && !self.is_empty() && self.members.iter().flatten().all(gone)
    }
}
