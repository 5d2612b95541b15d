//! One machine and, from time to time, its connection.

mod deadlines;
mod ends;
mod input;
mod known;
mod passing;
mod tapped;

pub(crate) use deadlines::earlier;

use crate::buffered::BufferedConnection;
use crate::connection::closed_by;
use crate::counters::add;
use crate::linger::part;
use crate::{Closed, Connection, Direction, Limits, Peer, Shard, Tap, Traffic};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tokio::time::Sleep;

/// Bytes of messages that go out in one write. A single longer message is still one write.
const WRITE_BYTES: usize = 64 * 1024;
/// Messages that go out in one write.
const WRITE_MESSAGES: usize = 1024;
/// Rounds of one turn before other sessions have theirs.
const TURN_ROUNDS: usize = 32;
const NEVER: Instant = Instant(u64::MAX);

/// What learns of a session: its engine, on the same shard. Called between two steps of the machine, so it may use
/// the session (and others) at once.
pub trait Owner<M: Machine> {
    /// The machine has something to say.
    fn event(&mut self, session: &Session<M>, now: Now, event: M::Event);

    /// A connection with `peer` comes while the session has another; true, the default, lets it take the place. One that is
    /// not let in is closed, and ends as [`Closed::Owner`].
    fn may_replace(&mut self, _session: &Session<M>, _now: Now, _peer: &Peer) -> bool {
        true
    }

    /// A connection with `peer` begins.
    fn connected(&mut self, _session: &Session<M>, _now: Now, _peer: &Peer) {}

    /// The connection has ended, and is closed when its task has its next turn: there may be many at once.
    fn ending(&mut self, _session: &Session<M>) {}

    /// The connection has ended.
    fn closed(&mut self, _session: &Session<M>, _now: Now, _why: Closed) {}

    /// No connection came about; the next attempt follows after `retry`.
    fn connect_failed(&mut self, _session: &Session<M>, _now: Now, _error: &std::io::Error, _retry: Duration) {}
}

/// A machine with its place on a shard. Copies are handles of the same session.
#[derive(Debug)]
pub struct Session<M>(Rc<Shared<M>>);

impl<M> Clone for Session<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<M> {
    shard: Rc<Shard>,
    limits: Rc<Limits>,
    machine: RefCell<M>,
    buffered: RefCell<Option<BufferedConnection>>,
    /// What was read and the machine does not take yet.
    unread: RefCell<Vec<u8>>,
    traffic: Cell<Traffic>,
    /// The task that drives the session.
    driver: RefCell<Option<Waker>>,
    /// The task whose connection waits for the current one to end.
    successor: RefCell<Option<Box<Waker>>>,
    /// The driver has work besides input.
    nudged: Cell<bool>,
    /// The driver is at work and sees a nudge without a wake.
    turning: Cell<bool>,
    /// Frames may be written past the session.
    passes: Cell<bool>,
    /// Why the connection must end.
    ending: Cell<Option<Closed>>,
    /// When the driver's timer fires; later deadlines leave it alone.
    armed: Cell<Instant>,
    /// What is given all bytes that move.
    tap: OnceCell<Rc<dyn Tap>>,
}

impl<M: Machine> Session<M> {
    /// A session without a connection. Sessions may share what limits them.
    pub fn new(shard: &Rc<Shard>, machine: M, limits: impl Into<Rc<Limits>>) -> Self {
        Self(Rc::new(Shared {
            shard: Rc::clone(shard),
            limits: limits.into(),
            machine: RefCell::new(machine),
            buffered: RefCell::default(),
            unread: RefCell::default(),
            traffic: Cell::default(),
            driver: RefCell::default(),
            successor: RefCell::default(),
            nudged: Cell::new(true),
            turning: Cell::default(),
            passes: Cell::default(),
            ending: Cell::default(),
            armed: Cell::new(NEVER),
            tap: OnceCell::new(),
        }))
    }

    /// The shard.
    #[must_use]
    pub fn shard(&self) -> &Rc<Shard> {
        &self.0.shard
    }

    /// Calls the machine; the driver then drains its events and writes its output when its task comes to run.
    ///
    /// # Panics
    /// `call` uses this same session.
    pub fn with<R>(&self, call: impl FnOnce(&mut M, Now) -> R) -> R {
        self.close_passage();
        // What an owner does of an event happens when the event does: the clocks need not be read again.
        let now = if self.0.turning.get() { self.0.shard.round_time() } else { self.0.shard.now() };
        let result = call(&mut self.0.machine.borrow_mut(), now);
        self.nudge();
        result
    }

    /// Calls the machine and writes its output at once, without waking the driver: for fan-out, with calls that make
    /// output only. Events, if the call makes any after all, wait for the driver's next turn.
    ///
    /// # Panics
    /// `call` uses this same session.
    pub fn send<R>(&self, call: impl FnOnce(&mut M, Now) -> R) -> R {
        self.send_at(self.0.shard.now(), call)
    }

    /// The same at a time that is known to be now: for many sessions one after the other.
    ///
    /// # Panics
    /// `call` uses this same session.
    pub fn send_at<R>(&self, now: Now, call: impl FnOnce(&mut M, Now) -> R) -> R {
        self.close_passage();
        let result = call(&mut self.0.machine.borrow_mut(), now);
        if let Err(why) = self.write_output(now) {
            self.end(why);
        }
        let sooner = self.next_deadline().is_some_and(|deadline| deadline < self.0.armed.get());
        let refused = self.0.buffered.borrow().as_ref().is_some_and(|buffered| !buffered.is_clear());
        if sooner || refused || self.has_unread() || self.0.machine.borrow().is_closed() {
            self.nudge();
        }
        result
    }

    /// What the session sends next goes before what waits for other sessions, where another thread has the sockets.
    pub fn mark_urgent(&self) {
        if let Some(buffered) = &*self.0.buffered.borrow() {
            buffered.mark_urgent();
        }
    }

    /// Looks at the machine.
    ///
    /// # Panics
    /// `look` uses this same session.
    pub fn look<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.0.machine.borrow())
    }

    /// Lets the driver drain events, write output and look at deadlines.
    pub fn nudge(&self) {
        self.0.nudged.set(true);
        if !self.0.turning.get()
            && let Some(driver) = &*self.0.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Ends the connection, and with it [`Session::run`] and [`crate::keep_connected`]. Output that waits is dropped.
    /// Without a connection it holds for the next one, so that a session that is about to connect ends too.
    pub fn close(&self) {
        self.end(Closed::Owner);
    }

    /// Drives the machine over a connection until it ends, and says why it did. A connection that the session still
    /// has is ended first: the peer that comes back is the one that counts, unless [`Owner::may_replace`] says otherwise. A connection whose handshake fails never
    /// begins.
    pub fn run<O: Owner<M>>(
        &self,
        connection: impl Into<Box<Connection>>,
        owner: &mut O,
    ) -> impl Future<Output = Closed> {
        // Boxed until the session has it: many sessions run, and few begin at a time.
        let mut connection = connection.into();
        async move {
            if let Some(handshake) = connection.handshake()
                && let Err(error) = handshake.await
            {
                return closed_by(&error);
            }
            if self.is_connected() && !owner.may_replace(self, self.0.shard.now(), &connection.peer()) {
                return Closed::Owner;
            }
            self.free_seat().await;
            let seated = Seated::take(self, connection, owner);
            let why = {
                let mut sleep = pin!(self.sleep());
                poll_fn(|cx| self.turn(cx, true, sleep.as_mut(), owner)).await
            };
            owner.ending(self);
            tokio::task::yield_now().await;
            let last = self.take_last(why);
            drop(seated);
            let now = self.0.shard.now();
            self.drain(now, owner);
            self.count_closed(why);
            self.tap_closed(now, why);
            tracing::debug!(%why, "connection ends");
            owner.closed(self, now, why);
            if let Some(connection) =
                last.and_then(|buffered| buffered.into_connection().part_elsewhere(self.0.limits.linger))
            {
                Box::pin(part(connection, Rc::clone(&self.0.shard), self.0.limits.linger)).await;
            }
            why
        }
    }

    /// Drives the machine without a connection (deadlines, events of its owner's calls) until `other` is ready.
    ///
    /// # Errors
    /// [`Session::close`] was called.
    pub async fn idle<F: Future, O: Owner<M>>(&self, other: F, owner: &mut O) -> Result<F::Output, Closed> {
        let (mut other, mut sleep) = (pin!(other), pin!(self.sleep()));
        self.0.armed.set(NEVER);
        poll_fn(|cx| match other.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.turn(cx, false, sleep.as_mut(), owner).map(Err),
        })
        .await
    }

    fn sleep(&self) -> Sleep {
        tokio::time::sleep_until(self.0.shard.clock().at(NEVER))
    }

    fn end(&self, why: Closed) {
        if self.0.ending.get() != Some(Closed::Owner) {
            self.0.ending.set(Some(why));
        }
        self.nudge();
    }

    /// Ends the current connection, if any, and waits until its driver has let go.
    async fn free_seat(&self) {
        poll_fn(|cx| {
            if self.0.buffered.borrow().is_none() {
                return Poll::Ready(());
            }
            *self.0.successor.borrow_mut() = Some(Box::new(cx.waker().clone()));
            self.end(Closed::Replaced);
            Poll::Pending
        })
        .await;
    }

    /// Everything that can be done without waiting.
    fn turn<O: Owner<M>>(
        &self,
        cx: &mut Context<'_>,
        connected: bool,
        sleep: Pin<&mut Sleep>,
        owner: &mut O,
    ) -> Poll<Closed> {
        self.close_passage();
        self.0.turning.set(true);
        let result = self.rounds(cx, connected, sleep, owner);
        self.0.turning.set(false);
        match result {
            Ok(()) => Poll::Pending,
            Err(why) => Poll::Ready(why),
        }
    }

    fn rounds<O: Owner<M>>(
        &self,
        cx: &mut Context<'_>,
        connected: bool,
        mut sleep: Pin<&mut Sleep>,
        owner: &mut O,
    ) -> Result<(), Closed> {
        self.watch(cx);
        let (mut may_expire, mut now) = (true, self.0.shard.begin_round());
        for round in 0..TURN_ROUNDS {
            let mut active = self.0.nudged.take();
            if let Some(why) = self.0.ending.take() {
                return Err(why);
            }
            // Input goes before deadlines: an answer that is already here has come in time.
            if connected {
                active |= self.read(cx, &mut now, round > 0, owner)?;
            }
            active |= self.write_unsent(cx, now)?;
            let deadline = self.next_deadline();
            if may_expire && deadline.is_some_and(|deadline| deadline <= now.mono) {
                (may_expire, active) = (false, true);
                self.expire(now)?;
            }
            // What was sent may have made events, and those may keep more from being sent.
            active |= self.drain(now, owner) > 0;
            if !active {
                if self.arm(cx, sleep.as_mut(), now.mono, deadline) {
                    now = self.0.shard.begin_round();
                    continue;
                }
                return Ok(());
            }
            self.write_output(now)?;
            let sent = self.0.buffered.borrow().as_ref().is_none_or(BufferedConnection::is_clear);
            if connected && sent && self.0.machine.borrow().is_closed() {
                return Err(Closed::Machine);
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Keeps the waker of the task that drives.
    fn watch(&self, cx: &Context<'_>) {
        let mut driver = self.0.driver.borrow_mut();
        if !driver.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *driver = Some(cx.waker().clone());
            // The timer is to wake this task from now on.
            self.0.armed.set(NEVER);
        }
    }

    /// Hands every event to the owner; the machine is free while the owner acts.
    fn drain<O: Owner<M>>(&self, now: Now, owner: &mut O) -> usize {
        let mut count = 0;
        loop {
            let event = self.0.machine.borrow_mut().poll_event();
            let Some(event) = event else { return count };
            owner.event(self, now, event);
            count += 1;
        }
    }

    /// Writes what the machine has, unless the socket still refuses earlier output; returns how many bytes it took.
    fn write_output(&self, now: Now) -> Result<usize, Closed> {
        let mut buffered = self.0.buffered.borrow_mut();
        let Some(buffered) = &mut *buffered else { return Ok(0) };
        let mut total = 0;
        while buffered.is_open() {
            let mut output = self.0.shard.output.borrow_mut();
            output.clear();
            let messages = self.collect(now, &mut output, buffered.messages_max());
            if output.is_empty() {
                break;
            }
            let taken = buffered.write(&output, &self.0.limits, now.mono)?;
            self.tap(now, Direction::Sent, &output);
            output.shrink_to(WRITE_BYTES);
            self.count_written(taken, messages);
            total += taken;
            if messages < WRITE_MESSAGES && output.len() < WRITE_BYTES {
                break;
            }
        }
        Ok(total)
    }

    fn collect(&self, now: Now, output: &mut Vec<u8>, messages_max: usize) -> usize {
        let mut machine = self.0.machine.borrow_mut();
        let mut messages = 0;
        while messages < messages_max.min(WRITE_MESSAGES)
            && output.len() < WRITE_BYTES
            && machine.poll_transmit(now, output)
        {
            messages += 1;
        }
        messages
    }

    fn write_unsent(&self, cx: &mut Context<'_>, now: Now) -> Result<bool, Closed> {
        let mut buffered = self.0.buffered.borrow_mut();
        let Some(buffered) = buffered.as_mut() else { return Ok(false) };
        if buffered.is_clear() {
            return Ok(buffered.is_clear_again());
        }
        match buffered.poll_unsent(cx, now.mono) {
            Poll::Pending => Ok(false),
            Poll::Ready(taken) => {
                self.count_written(taken?, 0);
                Ok(true)
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.0.traffic.get();
        change(&mut traffic);
        self.0.traffic.set(traffic);
    }

    fn count_written(&self, bytes: usize, messages: usize) {
        let counters = self.0.shard.counters();
        let writes = usize::from(bytes > 0);
        add(&counters.bytes_out, bytes);
        add(&counters.writes, writes);
        add(&counters.messages_out, messages);
        self.count(|traffic| {
            traffic.bytes_out += bytes as u64;
            traffic.writes += writes as u64;
            traffic.messages_out += messages as u64;
        });
    }
}

/// The right to drive a session over a connection. Dropped with the future that drives, finished or not, so the
/// machine always learns that its transport is gone.
struct Seated<'a, M: Machine>(&'a Session<M>);

impl<'a, M: Machine> Seated<'a, M> {
    #[expect(clippy::boxed_local, reason = "the box ends here, and not with the task")]
    fn take<O: Owner<M>>(session: &'a Session<M>, connection: Box<Connection>, owner: &mut O) -> Self {
        let shared = &session.0;
        let (now, peer) = (shared.shard.now(), connection.peer());
        *shared.buffered.borrow_mut() = Some(BufferedConnection::new(*connection, now.mono));
        shared.armed.set(NEVER);
        shared.nudged.set(true);
        session.count(|traffic| traffic.connections += 1);
        shared.machine.borrow_mut().handle_connected(now);
        let seated = Self(session);
        tracing::debug!(%peer, "connection begins");
        if let Some(tap) = shared.tap.get() {
            tap.connected(now, &peer);
        }
        owner.connected(session, shared.shard.now(), &peer);
        seated
    }
}

impl<M: Machine> Drop for Seated<'_, M> {
    fn drop(&mut self) {
        self.0.close_passage();
        let shared = &self.0.0;
        shared.buffered.borrow_mut().take();
        shared.unread.take();
        shared.turning.set(false);
        // What ended this connection must not end the next; what the owner asked for still holds.
        shared.ending.set(shared.ending.get().filter(|why| *why == Closed::Owner));
        // Borrowed only when the machine itself panicked; there is nobody to tell then.
        if let Ok(mut machine) = shared.machine.try_borrow_mut() {
            machine.handle_disconnected(shared.shard.now());
        }
        if let Some(successor) = shared.successor.borrow_mut().take() {
            (*successor).wake();
        }
    }
}
