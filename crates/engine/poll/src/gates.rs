//! Who may be asked now: limits in flight and paces of what devices share.
//!
//! A device that has something to ask passes up to three gates, in this order: that of fast rounds, that of its gateway,
//! that of its network. Each lets those that wait pass by their deadlines. A gateway's room is taken while a device waits
//! for its network, and never the other way round: no network's room is held up by a slow gateway. Each step costs
//! O(log n) of those that wait at one gate.

use crate::{GroupId, GroupKind, GroupSpec, SpecError};
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{DeviceId, Instant};

use crate::schedule::NEVER;

/// Fast requests that may follow one another at once after a time without.
const BURST: u32 = 10;

/// The gateway and the network of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shared {
    pub(crate) gateway: Option<u16>,
    pub(crate) network: Option<u16>,
}

/// A device's wish to ask for one poll. Ordered by what goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    deadline: Instant,
    number: u64,
    pub(crate) device: DeviceId,
    pub(crate) shared: Shared,
}

#[derive(Debug)]
struct Group {
    spec: GroupSpec,
    /// Requests that are out, and turns that have passed and are not asked for yet.
    in_flight: u32,
    /// Turns that have passed and are not asked for yet.
    passed: u32,
    free_at: Instant,
    waiting: BinaryHeap<Reverse<Turn>>,
    /// The moment of its one valid entry among those that open.
    armed: Instant,
    /// Devices that were ever in it, which spreads them.
    members: u32,
}

impl Group {
    const fn new(spec: GroupSpec) -> Self {
        let waiting = BinaryHeap::new();
        Self { spec, in_flight: 0, passed: 0, free_at: Instant::ZERO, waiting, armed: NEVER, members: 0 }
    }

    fn is_open(&self, now: Instant) -> bool {
        self.has_room() && self.free_at <= now
    }

    /// Whether nothing but time keeps it closed. Where there is a pace, one turn at a time passes.
    fn has_room(&self) -> bool {
        let is_paced = !self.spec.gap_min.is_zero();
        self.in_flight < u32::from(self.spec.in_flight_max) && !(is_paced && self.passed > 0)
    }
}

/// All gates of a poller.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    groups: Vec<Group>,
    names: HashMap<GroupId, u16>,
    /// Turns that wait for the gate of fast rounds.
    fast: BinaryHeap<Reverse<Turn>>,
    fast_gap: Duration,
    fast_free_at: Instant,
    /// Turns that have passed all gates.
    ready: VecDeque<Turn>,
    /// When groups that are closed by their pace open.
    opening: BinaryHeap<Reverse<(Instant, u16)>>,
    turns: u64,
}

impl Gates {
    pub(crate) fn new(fast_gap: Duration) -> Self {
        Self { fast_gap, ..Self::default() }
    }

    /// Adds a group, or changes its limits.
    pub(crate) fn set_group(
        &mut self,
        now: Instant,
        id: GroupId,
        spec: GroupSpec,
        groups_max: usize,
    ) -> Result<(), SpecError> {
        if spec.in_flight_max == 0 {
            return Err(SpecError::GroupInFlight { group: id });
        }
        if let Some(at) = self.names.get(&id).copied() {
            let Some(group) = self.groups.get_mut(usize::from(at)) else { return Ok(()) };
            if group.spec.kind != spec.kind {
                return Err(SpecError::GroupKind { group: id, kind: group.spec.kind });
            }
            group.spec = spec;
            self.admit(now, at);
            return Ok(());
        }
        let max = groups_max.min(usize::from(u16::MAX));
        let at = u16::try_from(self.groups.len()).ok().filter(|at| usize::from(*at) < max);
        let at = at.ok_or(SpecError::GroupsFull { max })?;
        self.names.insert(id, at);
        self.groups.push(Group::new(spec));
        Ok(())
    }

    /// Finds the groups of a device.
    pub(crate) fn shared(&self, gateway: Option<GroupId>, network: Option<GroupId>) -> Result<Shared, SpecError> {
        let find = |id: Option<GroupId>, kind: GroupKind| {
            let Some(id) = id else { return Ok(None) };
            let at = self.names.get(&id).copied().ok_or(SpecError::GroupUnknown { group: id })?;
            match self.groups.get(usize::from(at)) {
                Some(group) if group.spec.kind != kind => {
                    Err(SpecError::GroupKind { group: id, kind: group.spec.kind })
                }
                Some(_) | None => Ok(Some(at)),
            }
        };
        Ok(Shared { gateway: find(gateway, GroupKind::Gateway)?, network: find(network, GroupKind::Network)? })
    }

    /// The place of a new device in the smallest group that it is in: the group's number and the device's in it.
    pub(crate) fn place(&mut self, shared: Shared) -> Option<(u16, u32)> {
        let at = shared.gateway.or(shared.network)?;
        let group = self.groups.get_mut(usize::from(at))?;
        group.members = group.members.wrapping_add(1);
        Some((at, group.members))
    }

    /// Lets a device wait for its turn, which should come before the deadline.
    pub(crate) fn enter(&mut self, now: Instant, device: DeviceId, shared: Shared, deadline: Instant, is_fast: bool) {
        self.turns += 1;
        let turn = Turn { deadline, number: self.turns, device, shared };
        if is_fast && !self.fast_gap.is_zero() {
            self.fast.push(Reverse(turn));
            return self.admit_fast(now);
        }
        self.at_gateway(now, turn);
    }

    /// The next turn; [`Gates::asked`] or [`Gates::unused`] follows.
    pub(crate) fn next_ready(&mut self) -> Option<Turn> {
        self.ready.pop_front()
    }

    /// A turn was used: a poll is asked for, which [`Gates::ended`] ends.
    pub(crate) fn asked(&mut self, now: Instant, shared: Shared) {
        self.each(now, shared, |group| {
            group.passed = group.passed.saturating_sub(1);
            group.free_at = now + group.spec.gap_min;
        });
    }

    /// A turn came to nothing.
    pub(crate) fn unused(&mut self, now: Instant, shared: Shared) {
        self.each(now, shared, |group| {
            group.passed = group.passed.saturating_sub(1);
            group.in_flight = group.in_flight.saturating_sub(1);
        });
    }

    /// A poll has ended.
    pub(crate) fn ended(&mut self, now: Instant, shared: Shared) {
        self.each(now, shared, |group| group.in_flight = group.in_flight.saturating_sub(1));
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        let fast = (!self.fast.is_empty()).then_some(self.fast_free_at);
        let opening = self.opening.peek().map(|Reverse((at, _))| *at);
        [fast, opening].into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.admit_fast(now);
        while let Some(Reverse((opens_at, at))) = self.opening.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.opening.pop();
            let Some(group) = self.groups.get_mut(usize::from(at)) else { continue };
            if group.armed == opens_at {
                group.armed = NEVER;
                self.admit(now, at);
            }
        }
    }

    fn each(&mut self, now: Instant, shared: Shared, change: impl Fn(&mut Group)) {
        for at in [shared.gateway, shared.network].into_iter().flatten() {
            if let Some(group) = self.groups.get_mut(usize::from(at)) {
                change(group);
                self.admit(now, at);
            }
        }
    }

    fn admit_fast(&mut self, now: Instant) {
        while self.fast_free_at <= now
            && let Some(Reverse(turn)) = self.fast.pop()
        {
            // A late look catches up a little, so that the pace holds on average.
            self.fast_free_at = self.fast_free_at.max(now - self.fast_gap * (BURST - 1)) + self.fast_gap;
            self.at_gateway(now, turn);
        }
    }

    fn at_gateway(&mut self, now: Instant, turn: Turn) {
        if turn.shared.gateway.is_none_or(|at| self.pass_or_wait(now, at, turn)) {
            self.at_network(now, turn);
        }
    }

    fn at_network(&mut self, now: Instant, turn: Turn) {
        if turn.shared.network.is_none_or(|at| self.pass_or_wait(now, at, turn)) {
            self.ready.push_back(turn);
        }
    }

    fn pass_or_wait(&mut self, now: Instant, at: u16, turn: Turn) -> bool {
        let Some(group) = self.groups.get_mut(usize::from(at)) else { return true };
        let passes = group.waiting.is_empty() && group.is_open(now);
        if passes {
            group.in_flight += 1;
            group.passed += 1;
        } else {
            group.waiting.push(Reverse(turn));
            self.arm(now, at);
        }
        passes
    }

    /// Lets those that wait at a group pass while it is open.
    fn admit(&mut self, now: Instant, at: u16) {
        while let Some(group) = self.groups.get_mut(usize::from(at))
            && group.is_open(now)
            && let Some(Reverse(turn)) = group.waiting.pop()
        {
            group.in_flight += 1;
            group.passed += 1;
            match group.spec.kind {
                GroupKind::Gateway => self.at_network(now, turn),
                GroupKind::Network => self.ready.push_back(turn),
            }
        }
        self.arm(now, at);
    }

    fn arm(&mut self, now: Instant, at: u16) {
        let Some(group) = self.groups.get_mut(usize::from(at)) else { return };
        let is_paced = now < group.free_at && group.has_room() && !group.waiting.is_empty();
        if is_paced && group.free_at < group.armed {
            group.armed = group.free_at;
            self.opening.push(Reverse((group.free_at, at)));
        }
    }
}
