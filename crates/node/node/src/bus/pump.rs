//! When pending updates are sent to clients: at the end of a turn, when their socket takes bytes again, or when a
//! window or a throttle is over.

use super::counters::DropCause;
use super::flow::{Source, Whom};
use super::gathered::Hold;
use super::state::{Bus, Subscriber, id_of};
use super::wire::{Clear, Wire};
use std::collections::HashMap;
use std::rc::Rc;
use tieline_core::{Deadlines, Filter, Instant, Now};
use tieline_net::{SocketShardStatus, SocketShards};
use tieline_topics::{DeliveryOptions, Lane};
use tokio::sync::Notify;

/// Clients for which something is pending.
#[derive(Debug)]
pub struct Pump {
    clear: Rc<Clear>,
    /// Clients by when something may go; what is no longer so costs a look.
    due: Deadlines<usize>,
    /// Clients whose socket does not take all that is due: their generation, and since when.
    pub(super) late: HashMap<usize, (u64, Instant)>,
}

impl Pump {
    /// One for a bus that is woken by `work`.
    #[must_use]
    pub fn new(work: &Rc<Notify>) -> Self {
        let clear = Rc::new(Clear { places: std::cell::RefCell::default(), work: Rc::clone(work) });
        Self { clear, due: Deadlines::default(), late: HashMap::new() }
    }

    /// Where sessions are put whose sockets take bytes again.
    #[must_use]
    pub(super) const fn clear(&self) -> &Rc<Clear> {
        &self.clear
    }

    /// When something may go.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.due.timeout()
    }
}

impl Bus {
    /// These threads have the sockets of clients.
    pub fn set_sockets(&mut self, sockets: &Rc<SocketShards>) {
        self.sockets = Rc::clone(sockets);
    }

    /// How the threads do that have the sockets of clients; none where the bus has them.
    #[must_use]
    pub fn socket_shards(&self) -> Vec<SocketShardStatus> {
        self.sockets.status().collect()
    }

    /// Sends clients what may go.
    pub(super) fn flush(&mut self, now: Now) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key)
                && std::mem::take(&mut client.dirty)
            {
                self.flush_client(now, key);
            }
        }
        if self.dirty.is_empty() {
            // Its room is for the next turn.
            self.dirty = dirty;
        }
        let clear = std::mem::take(&mut *self.pump.clear.places.borrow_mut());
        clear.into_iter().for_each(|key| self.flush_client(now, key));
        while let Some((_, key)) = self.pump.due.take_next(now.mono) {
            self.flush_client(now, key);
        }
    }

    fn flush_client(&mut self, now: Now, key: usize) {
        let Self { subscribers, tree, retained, deltas, pump, dirty, work, .. } = self;
        let Some(Subscriber::Client(client)) = subscribers.get_mut(key) else { return };
        // What is pending besides goes as fast as it can.
        let is_behind = client.flow.as_deref().is_some_and(|flow| !flow.is_empty());
        match client.session.look(|wire| wire.hold(now.mono, is_behind)) {
            Hold::No => {}
            Hold::Until(at) => return pump.due.add(at, key),
            // It comes again when that is over.
            Hold::Armed => return,
        }
        if client.session.is_clear() && client.session.look(|wire| wire.waiting_bytes() > 0 || !wire.takes_frames()) {
            // The answer to CONNECT goes first.
            client.session.send_at(now, |_, _| ());
        }
        let Some(flow) = client.flow.as_deref_mut().filter(|flow| !flow.is_empty()) else {
            client.rest();
            return pump.end_late(key);
        };
        let takes_frames = client.session.look(Wire::takes_frames);
        if client.session.is_clear() && !takes_frames {
            // It is leaving.
            return pump.end_late(key);
        }
        let mut more = false;
        let is_due = flow.timeout(now.mono).is_some_and(|at| at <= now.mono);
        if client.session.is_clear() && is_due {
            let (identity, follower) = (client.identity.as_deref(), client.follower.as_deref_mut());
            let mut whom = Whom { key, identity, follower, replays: &client.snapshots };
            let (mut out, mut source) = (Vec::new(), Source { now, tree, retained, deltas });
            more = client.session.look(|wire| flow.fill(&mut whom, wire, &mut source, &mut out));
            client.session.send_at(now, |wire, _| wire.push_shared(out.into()));
        }
        if !client.session.is_clear() {
            client.session.look(|wire| wire.tell_when_clear(key, &pump.clear));
            return pump.begin_late(now.mono, key, client.generation);
        }
        if more {
            // Others have their turn first.
            client.dirty = true;
            dirty.push(key);
            work.notify_one();
            return;
        }
        pump.end_late(key);
        if let Some(at) = flow.timeout(now.mono)
            && flow.armed.is_none_or(|armed| armed <= now.mono || at < armed)
        {
            flow.armed = Some(at);
            pump.due.add(at, key);
        } else {
            client.rest();
        }
    }

    /// QoS 0 messages went from a client's queue to make room for others: the topics whose last values they were are
    /// pending.
    pub(super) fn put_back(&mut self, now: Now, key: usize) {
        let Self { subscribers, tree, dirty, counters, .. } = self;
        let Some(Subscriber::Client(client)) = subscribers.get_mut(key) else { return };
        if !client.session.look(|wire| wire.mqtt.has_displaced()) {
            return;
        }
        for (tag, delivery) in client.session.with(|wire, _| wire.mqtt.take_displaced()) {
            // What a group's session does not get is no last value.
            let view = tree.find(&delivery.message.topic).filter(|_| tag == 0).and_then(|topic| tree.view(topic));
            let Some(view) = view else {
                counters.dropped.count(DropCause::QueueFull, 1);
                continue;
            };
            client.flow_mut().put_back(now.mono, view.id, view.lane);
            if !std::mem::replace(&mut client.dirty, true) {
                dirty.push(key);
            }
        }
    }

    /// Says how urgent topics are.
    pub fn set_lanes(&mut self, lanes: Vec<(Filter, Lane)>) {
        self.tree.set_lanes(lanes);
    }

    /// What of an offer of deltas will be used for a client's subscription, in words. Where the client takes something
    /// else than before, or `counts` versions from here on, all that it was told is void: topics come whole first.
    pub fn agree_deltas(&mut self, key: usize, offer: &str, counts: bool) -> Option<String> {
        let (set, words) = self.deltas.agree(offer)?;
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return None };
        if client.follower.as_ref().is_none_or(|follower| follower.accepts() != set || counts && !follower.counts()) {
            let aliases = client.session.look(|wire| wire.mqtt.own_aliases());
            client.follower = Some(Box::new(self.deltas.follow(set, counts, aliases)));
        }
        Some(words)
    }

    /// Sends a topic whole to a client that has lost its value, where it takes deltas of it.
    pub fn resync(&mut self, now: Now, key: usize, topic: &str) {
        let Some(id) = self.tree.find(topic) else { return };
        let wanted =
            self.tree.match_of(id, id_of(key), |to| to.delivery_options.wants_deltas().then_some(to.lane)).flatten();
        let Some(lane) = wanted else { return };
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        let Some(follower) = &client.follower else { return };
        self.deltas.void(Some(follower), id);
        client.flow_mut().pending.add(now.mono, id, lane, DeliveryOptions::default());
        if !std::mem::replace(&mut client.dirty, true) {
            self.dirty.push(key);
        }
        self.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use crate::bus::client::Client;
    use std::sync::Arc;
    use std::time::Duration;
    use tieline_core::{Body, Machine, Topic};
    use tieline_mqtt::{Accept, Delivery, Message, Qos, ServerConfig, ServerEvent, ServerSession};
    use tieline_net::{Limits, Session};
    use tieline_topics::{Options, Snapshot, TopicId};

    /// A client whose socket takes nothing: it has none.
    fn enter(bus: &mut Bus) -> (Session<Wire>, usize) {
        let now = bus.now();
        let config = Arc::new(ServerConfig { pending_bytes_max: 4096, ..ServerConfig::default() });
        let session = Session::new(&bus.shard, Wire::new(ServerSession::new(config, 1), 4096), Limits::default());
        let event = session.with(|wire, _| {
            wire.handle_connected(now);
            wire.handle_input(now, b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01c");
            wire.poll_event()
        });
        let Some(ServerEvent::Connect(request)) = event else { panic!("{event:?}") };
        let key = bus.enter(now.mono, &session, &request).key;
        assert!(session.with(|wire, _| wire.mqtt.accept(now, Accept::default())));
        (session, key)
    }

    fn client(bus: &mut Bus, key: usize) -> &mut Client {
        let Some(Subscriber::Client(client)) = bus.subscribers.get_mut(key) else { panic!("the client is here") };
        client
    }

    #[test]
    fn what_was_needed_to_owe_something_is_given_back_and_counts_stay() {
        let (mut bus, _rest) = alone();
        let (now, (_, key)) = (bus.now(), enter(&mut bus));
        let flow = client(&mut bus, key).flow_mut();
        for _ in 0..2 {
            flow.pending.add(now.mono, TopicId(1), Lane::Monitoring, DeliveryOptions::default());
        }
        bus.flush_client(now, key);
        assert_eq!((bus.pump.late.len(), client(&mut bus, key).flow.is_some()), (1, true));
        // What goes last fills the socket, which takes it later.
        let flow = client(&mut bus, key).flow.as_mut().unwrap();
        assert_eq!(flow.pending.next(now.mono), Some(TopicId(1)));
        bus.flush_client(now, key);
        let client = client(&mut bus, key);
        assert_eq!((client.flow.is_none(), client.conflated(), bus.pump.late.len()), (true, 1, 0));
        assert_eq!(bus.counters().conflated, 1);
    }

    /// What clients send meanwhile goes before the rest of the last values: a turn sends some only after the thread has looked.
    #[test]
    fn last_values_go_on_when_the_thread_has_looked_at_its_sockets() {
        let (mut bus, _rest) = alone();
        let now = bus.now();
        let body = Body::Opaque("1".into());
        let message = Message::new(Topic::new("a").unwrap(), "1", now.mono);
        bus.apply_message(now, message, &body, Qos::AtMostOnce, true, None).unwrap();
        let (_session, key) = enter(&mut bus);
        let snapshot = Snapshot::new(Filter::new("#").unwrap());
        bus.replay_retained(key, snapshot, Qos::AtMostOnce, None, (None, None));
        bus.next_turn.stop_snapshots(now.mono + Duration::from_millis(10));
        bus.finish_turn(now);
        assert!(client(&mut bus, key).is_replaying());
        bus.next_turn.resume_snapshots();
        bus.finish_turn(now);
        assert!(!client(&mut bus, key).is_replaying());
    }

    /// A message of QoS 1 takes the room of a last value, which is sent later; that of another message of QoS 0 is lost, and
    /// counted.
    #[test]
    fn a_last_value_that_has_no_room_in_a_queue_is_pending() {
        let (mut bus, _rest) = alone();
        let now = bus.now();
        let message = |topic: &str| Message::new(Topic::new(topic).unwrap(), vec![b'x'; 1000], now.mono);
        let body = Body::Opaque(message("value").payload);
        bus.apply_message(now, message("value"), &body, Qos::AtMostOnce, true, None).unwrap();
        let (session, key) = enter(&mut bus);
        bus.subscribe_narrowed(key, &Filter::new("event").unwrap(), None, Options { qos: 1, ..Options::default() })
            .unwrap();
        for topic in ["value", "passed"] {
            let (message, qos) = (Arc::new(message(topic)), Qos::AtMostOnce);
            let delivery = Delivery { message, qos, retain: true, subscription_ids: Vec::new() };
            session.with(|wire, _| wire.mqtt.deliver(delivery)).unwrap();
        }
        for _ in 0..3 {
            bus.apply_message(now, message("event"), &body, Qos::AtLeastOnce, false, None).unwrap();
        }
        let value = bus.tree.find("value").unwrap();
        let flow = client(&mut bus, key).flow.as_ref();
        let owed = flow.map_or(0, |flow| usize::from(flow.pending.contains(value)));
        assert_eq!((owed, session.look(|wire| wire.mqtt.backlog().0), bus.counters().dropped.total()), (1, 3, 1));
    }
}
