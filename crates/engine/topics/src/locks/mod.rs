//! Named locks: one owner has a lock at a time, and others wait for it in order.
//!
//! ```text
//!            acquire, free                    release, end of the owner
//!   (none) ────────────────▶ held by A ──────────────────────────────────▶ held by the first that waits, or (none)
//!                              ▲   acquire by B: B waits, at most for its time
//! ```
//!
//! Each acquisition has a number that is higher than that of all before it, of any lock. A program that is told the number
//! with each request can refuse what comes late from an owner that has lost the lock: a fencing token. Numbers are given out only once
//! their reservation is on the disk ([`Locks::poll_reservation`]), so that none is given again after a crash.
//!
//! In: what owners ask for, and the ends of sessions and connections. Out: [`Locks::poll_answer`]. Never: a message, a right.

mod numbers;
#[cfg(test)]
mod tests;
mod words;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString;
use alloc::sync::Arc;
use core::ops::Bound;
use core::time::Duration;
use numbers::Numbers;
use tieline_core::{Deadlines, Instant, Now, Timestamp};
pub use words::{
    Acquire, Acquired, LockAnswer, LockCounters, LockLimits, LockOwner, LockRefusal, LockScope, LockView, NotHeld,
};

#[derive(Debug)]
struct Holder {
    owner: LockOwner,
    scope: LockScope,
    number: u64,
    since: Timestamp,
}

#[derive(Debug)]
struct Waiter<T> {
    /// Tells requests apart.
    serial: u64,
    owner: LockOwner,
    scope: LockScope,
    until: Option<Instant>,
    token: T,
}

#[derive(Debug)]
struct Lock<T> {
    holder: Option<Holder>,
    waiting: VecDeque<Waiter<T>>,
}

/// All locks. `T` names a request until it is answered.
#[derive(Debug)]
pub struct Locks<T> {
    limits: LockLimits,
    locks: BTreeMap<Arc<str>, Lock<T>>,
    /// The locks that each owner has or waits for.
    owners: BTreeMap<LockOwner, BTreeSet<Arc<str>>>,
    due: Deadlines<(Arc<str>, u64)>,
    numbers: Numbers,
    answers: VecDeque<(T, LockAnswer)>,
    next_serial: u64,
    counters: LockCounters,
}

impl<T> Default for Locks<T> {
    fn default() -> Self {
        Self::new(LockLimits::default())
    }
}

impl<T> Locks<T> {
    /// None.
    #[must_use]
    pub fn new(limits: LockLimits) -> Self {
        Self {
            limits,
            locks: BTreeMap::new(),
            owners: BTreeMap::new(),
            due: Deadlines::default(),
            numbers: Numbers::default(),
            answers: VecDeque::new(),
            next_serial: 0,
            counters: LockCounters::default(),
        }
    }

    /// Numbers up to this one were reserved before the start of this node.
    pub const fn begin_after(&mut self, reserved: u64) {
        self.numbers.begin_after(reserved);
    }

    /// The highest number that was ever reserved, or is being reserved; 0 where none was.
    #[must_use]
    pub const fn reserved(&self) -> u64 {
        self.numbers.reserved()
    }

    /// Asks for a lock. An owner that has it is told so again, with its new scope; one that waits keeps its place.
    pub fn acquire(&mut self, now: Now, asked: &Acquire<'_>, token: T) {
        if let Err(refusal) = self.admit(asked) {
            return self.refuse(token, refusal);
        }
        let Acquire { name, owner, scope, wait } = asked;
        if let Some(acquired) = self.held_again(name, owner, *scope) {
            return self.answers.push_back((token, Ok(acquired)));
        }
        // One that does not wait for others may have to wait for its number.
        let until = wait.filter(|wait| !wait.is_zero()).map(|wait| now.mono + wait);
        let known = self.locks.get_key_value(*name).map(|(name, _)| Arc::clone(name));
        let name: Arc<str> = known.unwrap_or_else(|| (*name).into());
        self.next_serial += 1;
        let waiter = Waiter { serial: self.next_serial, owner: owner.clone(), scope: *scope, until, token };
        if let Some(until) = until {
            self.due.add(until, (Arc::clone(&name), waiter.serial));
        }
        self.owners.entry(owner.clone()).or_default().insert(Arc::clone(&name));
        let lock = self.locks.entry(Arc::clone(&name)).or_default();
        match lock.waiting.iter_mut().find(|waiting| waiting.owner == *owner) {
            Some(place) => {
                let before = core::mem::replace(place, waiter);
                forget_due(&mut self.due, &name, &before);
                self.refuse(before.token, LockRefusal::Replaced);
            }
            None => {
                lock.waiting.push_back(waiter);
                self.counters.waiting += 1;
            }
        }
        self.grant(now, &name);
    }

    /// Whether a request may be taken.
    fn admit(&self, asked: &Acquire<'_>) -> Result<(), LockRefusal> {
        let Acquire { name, owner, wait, .. } = asked;
        let LockLimits { name_bytes_max, owner_max, waiting_max, total_max } = self.limits;
        if name.is_empty() || name.len() > name_bytes_max {
            return Err(LockRefusal::Name { max: name_bytes_max });
        }
        let (own, lock) = (self.owners.get(owner), self.locks.get(*name));
        let first = lock.and_then(|lock| {
            let waiting = lock.waiting.front().map(|waiter| &waiter.owner);
            lock.holder.as_ref().map(|holder| &holder.owner).or(waiting)
        });
        if *wait == Some(Duration::ZERO) && first.is_some_and(|first| first != owner) {
            return Err(LockRefusal::Held);
        }
        if own.is_some_and(|own| own.contains(*name)) {
            return Ok(());
        }
        if own.map_or(0, BTreeSet::len) >= owner_max {
            return Err(LockRefusal::OwnerFull { max: owner_max });
        }
        if lock.is_some_and(|lock| lock.waiting.len() >= waiting_max) {
            return Err(LockRefusal::WaitingFull { max: waiting_max });
        }
        if self.counters.held + self.counters.waiting >= total_max {
            return Err(LockRefusal::Full { max: total_max });
        }
        Ok(())
    }

    fn held_again(&mut self, name: &str, owner: &LockOwner, scope: LockScope) -> Option<Acquired> {
        let (name, lock) = self.locks.get_key_value(name)?;
        let name = Arc::clone(name);
        lock.holder.as_ref().filter(|holder| holder.owner == *owner)?;
        let holder = self.locks.get_mut(&name)?.holder.as_mut()?;
        holder.scope = scope;
        Some(Acquired { name, number: holder.number, scope })
    }

    /// Gives a free lock to the first that waits for it, where there is a number.
    fn grant(&mut self, now: Now, name: &Arc<str>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if lock.holder.is_some() {
            return;
        }
        if lock.waiting.is_empty() {
            self.locks.remove(name);
            return;
        }
        let Some(number) = self.numbers.take() else { return };
        let Some(waiter) = lock.waiting.pop_front() else { return };
        forget_due(&mut self.due, name, &waiter);
        let Waiter { owner, scope, token, .. } = waiter;
        lock.holder = Some(Holder { owner, scope, number, since: now.utc });
        self.counters.waiting -= 1;
        self.counters.held += 1;
        self.counters.acquired += 1;
        self.answers.push_back((token, Ok(Acquired { name: Arc::clone(name), number, scope })));
    }

    fn refuse(&mut self, token: T, refusal: LockRefusal) {
        let counters = &mut self.counters;
        match refusal {
            LockRefusal::Held => counters.refused_held += 1,
            LockRefusal::TimedOut => counters.timed_out += 1,
            LockRefusal::OwnerFull { .. } | LockRefusal::WaitingFull { .. } | LockRefusal::Full { .. } => {
                counters.limited += 1;
            }
            LockRefusal::NoNumber => counters.unnumbered += 1,
            LockRefusal::Replaced | LockRefusal::GivenUp | LockRefusal::Name { .. } => {}
        }
        self.answers.push_back((token, Err(refusal)));
    }

    /// Releases a lock, with a number only where the owner has it by that acquisition; or gives up a request that waits.
    ///
    /// # Errors
    /// The owner neither has the lock so, nor waits for it.
    pub fn release(&mut self, now: Now, name: &str, owner: &LockOwner, number: Option<u64>) -> Result<(), NotHeld> {
        let waits = |lock: &Lock<T>| lock.waiting.iter().any(|waiter| waiter.owner == *owner);
        if number.is_some() || !self.locks.get(name).is_some_and(waits) {
            self.check(owner, name, number)?;
        }
        self.leave(now, name, owner);
        Ok(())
    }

    /// Whether an owner has a lock; with a number, by that acquisition.
    ///
    /// # Errors
    /// It has not.
    pub fn check(&self, owner: &LockOwner, name: &str, number: Option<u64>) -> Result<(), NotHeld> {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(holder) = holder.filter(|holder| holder.owner == *owner) else {
            return Err(NotHeld::Lock(name.to_string()));
        };
        match number {
            Some(expected) if expected != holder.number => {
                Err(NotHeld::Number { name: name.to_string(), found: holder.number, expected })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes a lock away from its owner; false where it has none.
    pub fn revoke(&mut self, now: Now, name: &str) -> bool {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(owner) = holder.map(|holder| holder.owner.clone()) else { return false };
        self.counters.revoked += 1;
        self.leave(now, name, &owner);
        true
    }

    /// A session has ended. Says whether it had or waited for any.
    pub fn end_session(&mut self, now: Now, session: u64) -> bool {
        self.end(now, session, |_| true)
    }

    /// A session has lost its connection, or another connection has it. Says whether it had or waited for any lock of that scope.
    pub fn end_connection(&mut self, now: Now, session: u64) -> bool {
        self.end(now, session, |scope| scope == LockScope::Connection)
    }

    fn end(&mut self, now: Now, session: u64, ends: impl Fn(LockScope) -> bool) -> bool {
        let own = self.owners.range(LockOwner::first_of(session)..).take_while(|(owner, _)| owner.session == session);
        let own = own.flat_map(|(owner, names)| names.iter().map(|name| (owner.clone(), Arc::clone(name))));
        let ended = own.filter(|(owner, name)| self.scope_of(owner, name).is_some_and(&ends));
        // What is waited for ends first: no lock of the session is to go to another client of the session.
        let (held, waiting): (BTreeSet<_>, BTreeSet<_>) =
            ended.partition(|(owner, name)| self.check(owner, name, None).is_ok());
        self.counters.ended += held.len() as u64;
        let had_some = !waiting.is_empty() || !held.is_empty();
        for (owner, name) in waiting.into_iter().chain(held) {
            self.leave(now, &name, &owner);
        }
        had_some
    }

    /// Whether no session has a lock, or waits for one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn scope_of(&self, owner: &LockOwner, name: &str) -> Option<LockScope> {
        let lock = self.locks.get(name)?;
        let held = lock.holder.as_ref().filter(|holder| holder.owner == *owner).map(|holder| holder.scope);
        let waits = || lock.waiting.iter().find(|waiter| waiter.owner == *owner).map(|waiter| waiter.scope);
        held.or_else(waits)
    }

    /// An owner has nothing of a lock any longer.
    fn leave(&mut self, now: Now, name: &str, owner: &LockOwner) {
        let Some((name, _)) = self.locks.get_key_value(name) else { return };
        let name = Arc::clone(name);
        let Some(lock) = self.locks.get_mut(&name) else { return };
        if lock.holder.take_if(|holder| holder.owner == *owner).is_some() {
            self.counters.held -= 1;
        } else if let Some(at) = lock.waiting.iter().position(|waiter| waiter.owner == *owner)
            && let Some(waiter) = lock.waiting.remove(at)
        {
            self.forget_waiter(&name, waiter, LockRefusal::GivenUp);
        }
        self.forget_owner(owner, &name);
        self.grant(now, &name);
    }

    fn forget_waiter(&mut self, name: &Arc<str>, waiter: Waiter<T>, refusal: LockRefusal) {
        forget_due(&mut self.due, name, &waiter);
        self.counters.waiting -= 1;
        self.refuse(waiter.token, refusal);
    }

    fn forget_owner(&mut self, owner: &LockOwner, name: &Arc<str>) {
        if let Some(own) = self.owners.get_mut(owner) {
            own.remove(name);
            if own.is_empty() {
                self.owners.remove(owner);
            }
        }
    }

    /// When a request has waited for its time.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.due.timeout()
    }

    /// Refuses the requests whose time is over.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, (name, serial))) = self.due.take_next(now.mono) {
            let Some(lock) = self.locks.get_mut(&name) else { continue };
            let Some(at) = lock.waiting.iter().position(|waiter| waiter.serial == serial) else { continue };
            let Some(waiter) = lock.waiting.remove(at) else { continue };
            let owner = waiter.owner.clone();
            // A lock that nobody has waits for its number.
            let refusal = if lock.holder.is_some() { LockRefusal::TimedOut } else { LockRefusal::NoNumber };
            self.forget_waiter(&name, waiter, refusal);
            self.forget_owner(&owner, &name);
            self.grant(now, &name);
        }
    }

    /// The next numbers are to be reserved: all up to this one are to be on the disk as given out, and
    /// [`Locks::handle_reserved`] hears of it.
    pub fn poll_reservation(&mut self, now: Now) -> Option<u64> {
        self.numbers.poll_reservation(now.utc)
    }

    /// The reservation that was asked for is on the disk, or cannot be: then free locks that are waited for stay free, and those
    /// who wait are refused.
    pub fn handle_reserved(&mut self, now: Now, is_durable: bool) {
        self.numbers.handle_reserved(is_durable);
        let free = self.locks.iter().filter(|(_, lock)| lock.holder.is_none());
        let free: BTreeSet<Arc<str>> = free.map(|(name, _)| Arc::clone(name)).collect();
        for name in free {
            if is_durable {
                self.grant(now, &name);
                continue;
            }
            let Some(lock) = self.locks.remove(&name) else { continue };
            for waiter in lock.waiting {
                let owner = waiter.owner.clone();
                self.forget_waiter(&name, waiter, LockRefusal::NoNumber);
                self.forget_owner(&owner, &name);
            }
        }
    }

    /// The next answer to a request.
    pub fn poll_answer(&mut self) -> Option<(T, LockAnswer)> {
        self.answers.pop_front()
    }

    /// Locks by name, those behind a name.
    pub fn list(&self, after: Option<&str>) -> impl Iterator<Item = LockView<'_>> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.locks.range::<str, _>((first, Bound::Unbounded)).map(|(name, lock)| {
            let holder = lock.holder.as_ref();
            LockView {
                name,
                owner: holder.map(|holder| &holder.owner),
                scope: holder.map(|holder| holder.scope),
                number: holder.map(|holder| holder.number),
                since: holder.map(|holder| holder.since),
                waiting: lock.waiting.len(),
            }
        })
    }

    /// What became of requests.
    #[must_use]
    pub const fn counters(&self) -> LockCounters {
        self.counters
    }
}

impl<T> Default for Lock<T> {
    fn default() -> Self {
        Self { holder: None, waiting: VecDeque::new() }
    }
}

fn forget_due<T>(due: &mut Deadlines<(Arc<str>, u64)>, name: &Arc<str>, waiter: &Waiter<T>) {
    if let Some(until) = waiter.until {
        due.remove(until, (Arc::clone(name), waiter.serial));
    }
}
