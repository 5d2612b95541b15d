//! The bus's loop: apply all that has arrived, then send.

use super::flow::Source;
use super::handle::{BusInput, Incoming};
use super::state::{Bus, SharedBus, Subscriber};
use crate::access::Guard;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Filter, Instant, Now};
use tieline_net::Shard;

/// Inputs applied before anything is sent.
const INPUTS_A_TURN: usize = 64;
/// How often live feeds are sent what changed.
const FEED_EVERY: Duration = Duration::from_millis(100);
/// How long last values are sent in a turn; a client that is being sent some gets what its socket takes.
const SNAPSHOTS_A_TURN: Duration = Duration::from_micros(500);
/// How soon a snapshot goes on that waits for a slow client.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(10);

/// Runs the bus until every handle of it is gone.
pub async fn run(shard: Rc<Shard>, bus: SharedBus, mut incoming: Incoming) {
    let work = Rc::clone(&bus.borrow().work);
    let mut waiting = Vec::with_capacity(INPUTS_A_TURN);
    let mut feeds_due = Instant::ZERO;
    loop {
        let now = shard.now();
        let deadline = {
            let mut bus = bus.borrow_mut();
            bus.finish_turn(now);
            bus.run_asks(now);
            if feeds_due <= now.mono {
                feeds_due = if bus.flush_feeds(now) { now.mono + FEED_EVERY } else { now.mono };
            }
            bus.deadline(now, feeds_due)
        };
        // News is bounded by what the bus itself has under way, so inputs have their turn all the same. What is due by time
        // is done in every turn.
        tokio::select! {
            biased;
            Some(news) = incoming.ledger.recv() => bus.borrow_mut().handle_ledger(shard.now(), news),
            Some((receipts, stored)) = incoming.stored.recv() => {
                let (mut bus, now) = (bus.borrow_mut(), shard.now());
                bus.handle_stored(now, receipts, stored);
                while let Ok((receipts, stored)) = incoming.stored.try_recv() {
                    bus.handle_stored(now, receipts, stored);
                }
            }
            urgency = incoming.inputs.take(&mut waiting, INPUTS_A_TURN) => {
                let Some(urgency) = urgency else { return };
                let mut bus = bus.borrow_mut();
                let now = shard.now();
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

impl Bus {
    fn handle(&mut self, now: Now, input: BusInput) {
        match input {
            BusInput::Field(report) => self.handle_report(now, report),
            BusInput::Call(call) => call(self, now),
        }
    }

    /// Does what is due, and sends what that and the inputs of this turn have made.
    fn finish_turn(&mut self, now: Now) {
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
        self.finish_commands(now);
        self.remove_expired(now);
        self.remove_due(now);
        self.end_due_sessions(now);
        self.end_unwanted(now);
        self.derive_due(now);
        self.look_at_statistics(now);
    }

    /// Sends last values to those who wait for some, for as long as one turn may take.
    fn send_snapshots(&mut self, now: Now) {
        if self.replaying.len() == 0 {
            return;
        }
        let mut caught_up = Vec::new();
        self.send_some_snapshots(now, |key, filter| caught_up.push((key, filter)));
        caught_up.into_iter().for_each(|(key, filter)| self.keep_caught_up(now, key, &filter));
    }

    fn send_some_snapshots(&mut self, now: Now, mut caught_up: impl FnMut(usize, Filter)) {
        let Self { shard, subscribers, tree, replaying, retained, deltas, declared, pump, .. } = self;
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
                return self.work.notify_one();
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

    fn deadline(&self, now: Now, feeds_due: Instant) -> Instant {
        let guard = self.guard().and_then(Guard::timeout);
        let timeouts = [
            self.commands.timeout(),
            self.retained.timeout(),
            self.kept.timeout(),
            self.pump.timeout(),
            guard,
            self.views_timeout(),
            self.statistics.timeout(),
            self.removal_timeout(),
            self.ledger.batches.timeout(),
        ];
        let mut deadline = timeouts.into_iter().flatten().min().unwrap_or(Instant(u64::MAX));
        if self.feed_count() > 0 {
            deadline = deadline.min(feeds_due);
        }
        if self.replaying.len() > 0 {
            deadline = deadline.min(now.mono + SNAPSHOT_EVERY);
        }
        deadline
    }
}
