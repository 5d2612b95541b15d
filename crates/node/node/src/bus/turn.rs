//! The bus's loop: apply all that has arrived, then send.

use super::flow::Source;
use super::handle::{BusInput, Incoming};
use super::state::{Bus, SharedBus, Subscriber};
use crate::access::Guard;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Filter, Instant, Now};
use tieline_net::Shard;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Inputs applied before anything is sent.
const INPUTS_A_TURN: usize = 64;
/// How long last values are sent at a time; a client that is being sent some gets what its socket takes.
const SNAPSHOTS_A_TURN: Duration = Duration::from_micros(200);
/// How soon a snapshot goes on that waits for a slow client.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(10);
/// How soon a busy field shard is told again what is stored.
pub(super) const UNTOLD_EVERY: Duration = Duration::from_millis(5);

/// When the bus's loop has its next turn.
#[derive(Debug)]
pub struct NextTurn {
    /// A client's update was applied: something may be left to be done.
    applied: Notify,
    /// When the loop has it by itself.
    due: Cell<Instant>,
    /// Last values were sent for as long as is allowed at a time.
    snapshots_stopped: Notify,
    /// No more of them before then, unless the thread has looked at its sockets meanwhile.
    snapshots_rest: Cell<Instant>,
}

impl Default for NextTurn {
    fn default() -> Self {
        let due = || Cell::new(Instant::ZERO);
        Self { applied: Notify::new(), due: due(), snapshots_stopped: Notify::new(), snapshots_rest: due() }
    }
}

impl NextTurn {
    /// No more last values before then, unless the thread has looked at its sockets meanwhile.
    pub(super) fn stop_snapshots(&self, until: Instant) {
        self.snapshots_rest.set(until);
        self.snapshots_stopped.notify_one();
    }

    /// The thread has looked at its sockets.
    pub(super) fn resume_snapshots(&self) {
        self.snapshots_rest.set(Instant::ZERO);
    }
}

/// Runs the bus until every handle of it is gone.
pub async fn run(shard: Rc<Shard>, bus: SharedBus, mut incoming: Incoming) {
    let work = Rc::clone(&bus.borrow().work);
    let next_turn = Rc::clone(&bus.borrow().next_turn);
    // Ends with the loop.
    let mut beside = JoinSet::new();
    beside.spawn_local(look_after_updates(Rc::clone(&shard), Rc::clone(&bus)));
    beside.spawn_local(resume_snapshots(Rc::clone(&bus)));
    let mut waiting = Vec::with_capacity(INPUTS_A_TURN);
    let mut feeds_due = Instant::ZERO;
    let mut began = None;
    loop {
        let now = shard.now();
        let deadline = {
            let mut bus = bus.borrow_mut();
            bus.finish_turn(now);
            bus.run_asks(now);
            if feeds_due <= now.mono {
                feeds_due = bus.flush_feeds(now);
            }
            let deadline = bus.deadline(now, feeds_due);
            next_turn.due.set(deadline);
            let took = shard.now().mono.since(began.take().unwrap_or(now.mono));
            bus.durations.turns.record(took);
            deadline
        };
        // News is bounded by what the bus itself has under way, so inputs have their turn all the same. What is due by time
        // is done in every turn.
        tokio::select! {
            biased;
            Some(news) = incoming.ledger.recv() => {
                let now = shard.now();
                began = Some(now.mono);
                bus.borrow_mut().handle_ledger(now, news);
            }
            Some((receipts, stored)) = incoming.stored.recv() => {
                let (mut bus, now) = (bus.borrow_mut(), shard.now());
                began = Some(now.mono);
                bus.handle_stored(now, receipts, stored);
                while let Ok((receipts, stored)) = incoming.stored.try_recv() {
                    bus.handle_stored(now, receipts, stored);
                }
            }
            urgency = incoming.inputs.take(&mut waiting, INPUTS_A_TURN) => {
                let Some(urgency) = urgency else { return };
                let mut bus = bus.borrow_mut();
                let now = shard.now();
                began = Some(now.mono);
                incoming.inputs.give(waiting.drain(..), urgency, |input, overtakes| {
                    bus.handle(now, input);
                    if overtakes {
                        // It goes out before what it has overtaken is looked at.
                        bus.finish_turn(now);
                    }
                });
            }
            () = work.notified() => {}
            () = tokio::time::sleep_until(shard.clock().at(deadline)) => {}
        }
    }
}

/// Lets the bus's loop run once more after the present task: there is something to send.
pub fn wake(bus: &Bus) {
    bus.work.notify_one();
}

/// Lets the bus's loop run where updates of clients have left something to be done: frames that went past sessions have not,
/// and a look at that costs far less than a turn.
async fn look_after_updates(shard: Rc<Shard>, bus: SharedBus) {
    let next_turn = Rc::clone(&bus.borrow().next_turn);
    loop {
        next_turn.applied.notified().await;
        let bus = bus.borrow();
        if bus.has_work(shard.now()) {
            wake(&bus);
        }
    }
}

/// Lets last values go on when the thread has looked at its sockets. Turns of the bus come several to a look; if each sent some,
/// what clients send meanwhile would wait for all of them.
async fn resume_snapshots(bus: SharedBus) {
    let next_turn = Rc::clone(&bus.borrow().next_turn);
    loop {
        next_turn.snapshots_stopped.notified().await;
        // The runtime wakes a task that yields after it has looked.
        tokio::task::yield_now().await;
        next_turn.resume_snapshots();
        wake(&bus.borrow());
    }
}

/// The same as [`wake`] after a client's update, where that is needed.
pub fn wake_after_update(bus: &Bus) {
    match bus.dirty.is_empty() {
        true => bus.next_turn.applied.notify_one(),
        false => wake(bus),
    }
}

impl Bus {
    /// Whether a turn would do anything before its time.
    fn has_work(&self, now: Now) -> bool {
        let to_be_sent = !self.dirty.is_empty() || self.replaying.len() > 0 || self.sockets.has_urgent();
        let to_be_told = self.feed_count() > 0 || self.watchers.has_due() || self.has_alarm_work();
        let to_be_kept = self.recorder.has_batch() || self.ledger.has_work(now);
        let is_due = || self.rate.is_due(now.mono) || self.deadline(now, Instant(u64::MAX)) < self.next_turn.due.get();
        to_be_sent || to_be_told || to_be_kept || is_due()
    }

    fn handle(&mut self, now: Now, input: BusInput) {
        match input {
            BusInput::Field(report) => self.handle_report(now, report),
            BusInput::Edge(report) => self.handle_edge(now, report),
            BusInput::Sites(report) => self.handle_sites(now, report),
            BusInput::Call(call) => call(self, now),
        }
    }

    /// Does what is due, and sends what that and the inputs of this turn have made.
    pub(super) fn finish_turn(&mut self, now: Now) {
        self.handle_timeouts(now);
        self.look_at_rate(now);
        if let Some((receipts, stored)) = self.recorder.submit() {
            self.handle_stored(now, receipts, stored);
        }
        self.flush_watchers(now);
        self.flush(now);
        self.sockets.give_urgent();
        self.write_ledger(now);
        self.send_snapshots(now);
        self.count_qualities();
        self.admission.open();
        if !self.dirty.is_empty() {
            self.work.notify_one();
        }
    }

    /// Does what is due by time. It makes messages: it comes before anything is sent.
    fn handle_timeouts(&mut self, now: Now) {
        self.tell_untold();
        self.ask_upstream(now);
        self.finish_commands(now);
        self.finish_locks(now);
        self.finish_alarms(now);
        self.remove_expired(now);
        self.remove_due(now);
        self.end_due_sessions(now);
        self.end_unwanted(now);
        self.derive_due(now);
        self.calculate(now);
        self.look_at_statistics(now);
    }

    /// Sends last values to those who wait for some, for as long as one turn may take.
    fn send_snapshots(&mut self, now: Now) {
        if self.replaying.len() == 0 || now.mono < self.next_turn.snapshots_rest.get() {
            return;
        }
        let mut caught_up = Vec::new();
        self.send_some_snapshots(now, |key, filter| caught_up.push((key, filter)));
        caught_up.into_iter().for_each(|(key, filter)| self.keep_caught_up(now, key, &filter));
    }

    fn send_some_snapshots(&mut self, now: Now, mut caught_up: impl FnMut(usize, Filter)) {
        let Self { shard, subscribers, tree, replaying, retained, deltas, declared, pump, next_turn, .. } = self;
        let began = shard.now().mono;
        let is_over = || shard.now().mono.since(began) > SNAPSHOTS_A_TURN;
        let mut source = Source { now, tree, retained, deltas };
        for _ in 0..replaying.len() {
            let Some((share, key)) = replaying.pop() else { return };
            if let Some(Subscriber::Client(client)) = subscribers.get_mut(key) {
                let done = client.send_snapshots(key, &mut source, declared.series(), is_over);
                if client.kept.is_some() {
                    done.into_iter().for_each(|filter| caught_up(key, filter));
                }
                client.listed = client.is_replaying();
                if client.listed {
                    replaying.push(&share, key);
                    if !client.session.is_clear() {
                        client.session.look(|wire| wire.tell_when_clear(key, pump.clear()));
                    }
                }
            }
            if is_over() {
                // The others have theirs after what has come meanwhile.
                return next_turn.stop_snapshots(now.mono + SNAPSHOT_EVERY);
            }
        }
    }

    fn finish_commands(&mut self, now: Now) {
        if self.commands.rests(now.mono) {
            return;
        }
        self.commands.handle_timeout(now);
        while let Some((answer, done)) = self.commands.poll_done(now) {
            answer(self, done);
        }
        self.publish_notices(now);
    }

    pub(super) fn deadline(&self, now: Now, feeds_due: Instant) -> Instant {
        let guard = self.guard().and_then(Guard::timeout);
        let timeouts = [
            self.commands.timeout(),
            self.locks.timeout(),
            self.alarm_timeout(),
            self.retained.timeout(),
            self.kept.timeout(),
            self.pump.timeout(),
            guard,
            self.views_timeout(),
            self.derived_timeout(),
            self.statistics.timeout(),
            self.removal_timeout(),
            self.ledger.batches.timeout(),
            self.mirror_timeout(now.mono),
        ];
        let mut deadline = timeouts.into_iter().flatten().min().unwrap_or(Instant(u64::MAX));
        if self.feed_count() > 0 {
            deadline = deadline.min(feeds_due);
        }
        if self.replaying.len() > 0 {
            deadline = deadline.min(now.mono + SNAPSHOT_EVERY);
        }
        if !self.untold.is_empty() {
            deadline = deadline.min(now.mono + UNTOLD_EVERY);
        }
        deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use tieline_core::{Body, Topic};
    use tieline_mqtt::{Message, Property, Qos};

    fn publish(bus: &mut Bus, now: Now, topic: &str, expiry_s: Option<u32>) {
        let properties = expiry_s.map(Property::MessageExpiry).into_iter().collect();
        let message = Message { properties, ..Message::new(Topic::new(topic).unwrap(), "1", now.mono) };
        let body = Body::Opaque(message.payload.clone());
        bus.apply_message(now, message, &body, Qos::AtMostOnce, true, None).unwrap();
    }

    #[test]
    fn an_update_needs_a_turn_where_it_leaves_something_to_be_done() {
        let (mut bus, _rest) = alone();
        let now = bus.now();
        bus.finish_turn(now);
        let deadline = bus.deadline(now, Instant(u64::MAX));
        bus.next_turn.due.set(deadline);
        publish(&mut bus, now, "a", None);
        assert!(!bus.has_work(now), "nobody is to be told");
        bus.dirty.push(0);
        assert!(bus.has_work(now), "a frame is to be written");
        bus.dirty.clear();
        assert!(bus.has_work(Now { mono: now.mono + Duration::from_secs(1), ..now }), "the rate is due");
        publish(&mut bus, now, "b", Some(3));
        assert!(bus.has_work(now), "the value ends sooner than the loop would look");
        let deadline = bus.deadline(now, Instant(u64::MAX));
        bus.next_turn.due.set(deadline);
        assert!(!bus.has_work(now), "the loop looks in time");
    }
}
