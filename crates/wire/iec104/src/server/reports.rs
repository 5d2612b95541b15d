//! Changes that clients are to be told, in order: those of one connection, or those of a redundancy group (IEC 60870-5-104 10).
//!
//! ```text
//! report ─▶ waiting ─ sent ─▶ sent ─ acknowledged ─▶ gone
//!              ▲───────────────┘  another connection of the group is started
//! ```
//!
//! A position counts the changes that ever left `waiting` at its front: what is to be sent behind a change remembers one.

use super::config::Change;
use super::database::Place;
use crate::asdu::TypeId;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

/// The connections of one client, of which one is started at a time. What is to be told is kept for the next connection, and
/// what was not acknowledged on the one before is sent again. Copies are of the same group.
#[derive(Clone, Debug)]
pub struct Group(pub(super) Rc<RefCell<Reports>>);

impl Group {
    /// Without connections. Of more changes than `reports_max` that wait, the oldest are dropped.
    #[must_use]
    pub fn new(reports_max: usize) -> Self {
        Self(Rc::new(RefCell::new(Reports { keeps: true, ..Reports::new(reports_max) })))
    }

    /// Takes a change for the client, whether it is connected or not. The sessions of the group are to be nudged.
    pub fn report(&self, change: Change) {
        self.0.borrow_mut().push(change);
    }

    /// Drops the changes that wait: the station has lost them.
    pub fn clear(&self) {
        let mut reports = self.0.borrow_mut();
        reports.sent.clear();
        reports.clear();
    }

    /// Changes that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.borrow().waiting()
    }

    /// Changes that were dropped because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.borrow().dropped
    }

    /// Changes that were sent again on another connection.
    #[must_use]
    pub fn resent(&self) -> u64 {
        self.0.borrow().resent
    }
}

#[derive(Debug)]
pub(super) struct Reports {
    max: usize,
    /// What was sent is kept until it is acknowledged.
    keeps: bool,
    /// The connection of the group that is started, or was started last.
    active: Option<u64>,
    waiting: VecDeque<Change>,
    /// The position of the first that waits.
    taken: u64,
    /// By the number of I frames that is acknowledged with them.
    sent: VecDeque<(u64, Vec<Change>)>,
    /// Points whose changes were dropped.
    lost: BTreeSet<Place>,
    dropped: u64,
    resent: u64,
}

impl Reports {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            keeps: false,
            active: None,
            waiting: VecDeque::new(),
            taken: 0,
            sent: VecDeque::new(),
            lost: BTreeSet::new(),
            dropped: 0,
            resent: 0,
        }
    }

    pub(super) const fn is_of_group(&self) -> bool {
        self.keeps
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The position behind all that waits.
    pub(super) fn end(&self) -> u64 {
        self.taken + self.waiting.len() as u64
    }

    /// Whether all before a position were sent.
    pub(super) const fn has_sent(&self, position: u64) -> bool {
        self.taken >= position
    }

    /// Takes a change, and returns how many were dropped for it.
    pub(super) fn push(&mut self, change: Change) -> u64 {
        self.waiting.push_back(change);
        self.shorten()
    }

    fn shorten(&mut self) -> u64 {
        let mut count = 0;
        while self.waiting.len() > self.max {
            let Some(dropped) = self.waiting.pop_front() else { break };
            self.taken += 1;
            self.lost.insert((dropped.common_address, dropped.address));
            count += 1;
        }
        self.dropped += count;
        count
    }

    /// The changes at the front that go into one ASDU of at most `most` objects of the type that the first one has.
    pub(super) fn take(&mut self, type_of: impl Fn(&Change) -> Option<(TypeId, usize)>) -> Vec<Change> {
        let Some(first) = self.waiting.pop_front() else { return Vec::new() };
        self.taken += 1;
        let (type_id, most) = type_of(&first).unzip();
        let mut taken = Vec::from([first]);
        while let Some(next) = self.waiting.front() {
            let is_same = (next.common_address, next.cause) == (first.common_address, first.cause)
                && type_of(next).map(|(type_id, _)| type_id) == type_id;
            // An object is in an ASDU once.
            let is_there = taken.iter().any(|change| change.address == next.address);
            if !is_same || is_there || taken.len() >= most.unwrap_or(1) {
                break;
            }
            taken.extend(self.waiting.pop_front());
            self.taken += 1;
        }
        taken
    }

    /// Changes went out on the connection that is started, in the I frame of this number.
    pub(super) fn sent(&mut self, number: u64, changes: Vec<Change>) {
        if self.keeps && !changes.is_empty() {
            self.sent.push_back((number, changes));
        }
    }

    /// A connection has acknowledged so many I frames.
    pub(super) fn acknowledged(&mut self, connection: u64, count: u64) {
        if self.active != Some(connection) {
            return;
        }
        while self.sent.front().is_some_and(|(number, _)| *number <= count) {
            self.sent.pop_front();
        }
    }

    /// A point whose changes were dropped.
    pub(super) fn take_lost(&mut self) -> Option<Place> {
        self.lost.pop_first()
    }

    /// Drops the changes that wait.
    pub(super) fn clear(&mut self) {
        self.taken += self.waiting.len() as u64;
        self.waiting.clear();
        self.lost.clear();
    }

    /// A connection is started: what another one was not acknowledged is sent again on it.
    pub(super) fn activate(&mut self, connection: u64) {
        if self.active != Some(connection) {
            self.take_back();
            self.active = Some(connection);
        }
    }

    /// A connection has ended.
    pub(super) fn release(&mut self, connection: u64) {
        if self.active == Some(connection) {
            self.take_back();
            self.active = None;
        }
    }

    /// Whether another connection of the group was started after this one.
    pub(super) fn is_replaced(&self, connection: u64) -> bool {
        self.active.is_some_and(|active| active != connection)
    }

    fn take_back(&mut self) {
        while let Some((_, changes)) = self.sent.pop_back() {
            let count = changes.len() as u64;
            self.resent += count;
            self.taken = self.taken.saturating_sub(count);
            changes.into_iter().rev().for_each(|change| self.waiting.push_front(change));
        }
        self.shorten();
    }
}
