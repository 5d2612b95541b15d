//! The connection's own thread: commands of the handle in, events of the session out to the callers that wait.

use super::outbox::{Done, Outbox};
use super::{MqttError, deltas};
use crate::tls::{copied, explained, refused};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_core::{Filter, Now, Topic};
use tieline_delta::{Event, Receiver, SenderStats};
use tieline_mqtt::{
    Binary, ClientConfig, ClientEnd, ClientEvent, ClientSession, Connected, Message, PacketId, Properties, Property,
    PublishOutcome, Qos, ReasonCode, Received, SubscriptionId, SubscriptionOptions, Text,
};
use tieline_net::{Closed, Limits, Owner, Session, Shard, Target, keep_connected};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

type Answer<T> = oneshot::Sender<Result<T, MqttError>>;
type Client = Session<ClientSession>;

/// Bytes that the socket may refuse at once: the largest message of MQTT, and what was written along with it.
const UNSENT_BYTES_MAX: usize = 257 * 1024 * 1024;

/// What the thread needs to know.
pub(super) struct Settings {
    pub(super) session: ClientConfig,
    pub(super) target: Target,
    /// Where answers to requests come back.
    pub(super) reply: Topic,
    pub(super) seed: u64,
}

/// What the handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Subscribe {
        filter: Filter,
        qos: Qos,
        to: Destination,
        answer: Answer<()>,
    },
    Publish {
        topic: Topic,
        payload: Bytes,
        properties: Properties,
        qos: Qos,
        retain: bool,
        answer: Answer<PublishOutcome>,
    },
    PublishValue {
        topic: Topic,
        value: Bytes,
        qos: Qos,
        retain: bool,
        answer: Answer<PublishOutcome>,
    },
    Request {
        topic: Topic,
        payload: Bytes,
        answer: Answer<Message>,
    },
    Stats {
        answer: oneshot::Sender<SenderStats>,
    },
}

/// Keeps the connection until the handle is gone.
pub(super) async fn run(
    shard: Rc<Shard>,
    settings: Settings,
    mut commands: mpsc::Receiver<Command>,
    ready: oneshot::Sender<Result<(), MqttError>>,
    state: watch::Sender<bool>,
) {
    let limits = Limits { unsent_bytes_max: UNSENT_BYTES_MAX, ..Limits::default() };
    let session = Session::new(&shard, ClientSession::new(settings.session), limits);
    let desk = Rc::new(RefCell::new(Desk::new(settings.reply, ready, state)));
    let (asked, of) = (Rc::clone(&desk), session.clone());
    let clerk = tokio::task::spawn_local(async move {
        while let Some(command) = commands.recv().await {
            asked.borrow_mut().take(&of, command);
        }
        asked.borrow_mut().close(&of);
    });
    keep_connected(&session, &settings.target, settings.seed, &mut Front(desk)).await;
    clerk.abort();
}

/// Who waits for what.
struct Desk {
    /// The first connection is waited for.
    ready: Option<oneshot::Sender<Result<(), MqttError>>>,
    state: watch::Sender<bool>,
    closing: bool,
    reply: Topic,
    routes: Vec<Route>,
    next_route: u32,
    publishes: HashMap<u64, Waiter>,
    /// Requests under way by their correlation data.
    requests: HashMap<u64, Answer<Message>>,
    next_request: u64,
    /// Where deltas are asked for.
    deltas: Option<Box<Receiver>>,
    /// Values that go out as what changed.
    outbox: Outbox,
    /// UNSUBSCRIBE under way.
    leaving: Vec<(PacketId, Filter)>,
}

/// Where the messages of a subscription go.
struct Route {
    id: SubscriptionId,
    filter: Filter,
    qos: Qos,
    /// SUBSCRIBE under way.
    packet_id: Option<PacketId>,
    /// The server has granted it.
    is_granted: bool,
    answer: Option<Answer<()>>,
    to: Destination,
}

#[derive(Debug)]
pub(super) enum Destination {
    Stream {
        sink: mpsc::Sender<Received>,
        lost: Arc<AtomicU64>,
    },
    /// Values rebuilt from deltas, if the server knows them.
    Values {
        sink: mpsc::Sender<Event>,
        lost: Arc<AtomicU64>,
    },
    Replies,
}

/// Who waits for the end of a publish.
enum Waiter {
    Publish(Answer<PublishOutcome>),
    Request(u64),
}

impl Desk {
    fn new(reply: Topic, ready: oneshot::Sender<Result<(), MqttError>>, state: watch::Sender<bool>) -> Self {
        Self {
            ready: Some(ready),
            state,
            closing: false,
            reply,
            routes: Vec::new(),
            next_route: 0,
            publishes: HashMap::new(),
            requests: HashMap::new(),
            next_request: 0,
            deltas: None,
            outbox: Outbox::new(),
            leaving: Vec::new(),
        }
    }

    fn take(&mut self, session: &Client, command: Command) {
        match command {
            Command::Subscribe { filter, qos, to, answer } => self.route(session, filter, qos, to, Some(answer)),
            Command::Publish { topic, payload, properties, qos, retain, answer } => {
                let message = |now: Now| Message { topic, payload, properties, received: now.mono };
                match session.with(|m, now| m.publish(message(now), qos, retain)) {
                    Ok(token) => drop(self.publishes.insert(token, Waiter::Publish(answer))),
                    Err(_) => drop(answer.send(Err(MqttError::Full))),
                }
            }
            Command::PublishValue { topic, value, qos, retain, answer } => {
                let outbox = &mut self.outbox;
                match session.with(|m, now| outbox.publish(m, now.mono, (&topic, value), (qos, retain))) {
                    Some(token) => drop(self.publishes.insert(token, Waiter::Publish(answer))),
                    None => drop(answer.send(Err(MqttError::Full))),
                }
            }
            Command::Request { topic, payload, answer } => self.request(session, topic, payload, answer),
            Command::Stats { answer } => drop(answer.send(self.outbox.stats())),
        }
    }

    fn request(&mut self, session: &Client, topic: Topic, payload: Bytes, answer: Answer<Message>) {
        if !self.routes.iter().any(|route| matches!(route.to, Destination::Replies)) {
            match Filter::new(&self.reply) {
                Ok(filter) => self.route(session, filter, Qos::AtLeastOnce, Destination::Replies, None),
                Err(error) => return drop(answer.send(Err(error.into()))),
            }
        }
        // Callers that gave up are gone from here at the next request.
        self.requests.retain(|_, waiting| !waiting.is_closed());
        self.next_request += 1;
        let key = self.next_request;
        let correlation = Binary::new(key.to_be_bytes().to_vec()).unwrap_or_default();
        let properties =
            [Property::ResponseTopic(Text::truncated(&self.reply)), Property::CorrelationData(correlation)];
        let properties = properties.into_iter().collect();
        let message = |now: Now| Message { topic, payload, properties, received: now.mono };
        match session.with(|m, now| m.publish(message(now), Qos::AtLeastOnce, false)) {
            Ok(token) => {
                self.requests.insert(key, answer);
                self.publishes.insert(token, Waiter::Request(key));
            }
            Err(_) => drop(answer.send(Err(MqttError::Full))),
        }
    }

    fn route(&mut self, session: &Client, filter: Filter, qos: Qos, to: Destination, answer: Option<Answer<()>>) {
        self.next_route = self.next_route % 268_435_455 + 1;
        let Some(id) = SubscriptionId::new(self.next_route) else { return };
        let mut route = Route { id, filter, qos, packet_id: None, is_granted: false, answer, to };
        if matches!(route.to, Destination::Values { .. }) && self.deltas.is_none() {
            self.deltas = Some(Box::new(deltas::receiver()));
        }
        route.subscribe(session);
        self.routes.push(route);
    }

    /// Says goodbye, or gives up what has no connection.
    fn close(&mut self, session: &Client) {
        self.closing = true;
        if session.is_connected() {
            session.with(|m, _| m.disconnect());
        } else {
            session.close();
        }
    }

    fn connected(&mut self, session: &Client, connected: &Connected) {
        self.outbox.connected(&connected.properties);
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Ok(()));
        } else {
            tracing::info!("connected again");
        }
        self.state.send_replace(true);
        // A session that goes on has its subscriptions. To make them again would bring last values that have come already.
        let is_gone = |route: &&mut Route| !connected.session_present || !route.outlives();
        self.routes.iter_mut().filter(is_gone).for_each(|route| route.subscribe(session));
    }

    /// Nothing came of the first connection.
    fn failed(&mut self, error: MqttError) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(error));
        }
    }

    fn subscribed(&mut self, packet_id: PacketId, reasons: &[ReasonCode], properties: &Properties) {
        let Some(at) = self.routes.iter().position(|r| r.packet_id == Some(packet_id)) else { return };
        let Some(route) = self.routes.get_mut(at) else { return };
        route.packet_id = None;
        route.is_granted = true;
        let refused = reasons.iter().copied().find(|r| r.is_error());
        if let (Destination::Values { .. }, Some(receiver), None) = (&route.to, &mut self.deltas, refused) {
            receiver.handle_suback(&route.filter, deltas::answer(properties).as_deref());
        }
        if let Some(answer) = route.answer.take() {
            let words = || properties.reason_string().map(|words| words.to_string()).unwrap_or_default();
            let _ = answer.send(refused.map_or(Ok(()), |reason| Err(MqttError::Rejected(reason, words()))));
        } else if let Some(reason) = refused {
            tracing::warn!(filter = %route.filter, %reason, "subscription refused");
        }
        if refused.is_some() {
            self.routes.swap_remove(at);
        }
    }

    fn published(&mut self, session: &Client, token: u64, outcome: PublishOutcome) {
        let outbox = &mut self.outbox;
        if let Done::Again(again) = session.with(|m, now| outbox.done(m, now.mono, token, outcome)) {
            // A caller that waits for the value waits on.
            if let Some(waiter) = self.publishes.remove(&token) {
                self.publishes.insert(again, waiter);
            }
            return;
        }
        let words = || session.look(|m| m.refusal(token).map(str::to_owned)).unwrap_or_default();
        match self.publishes.remove(&token) {
            None => {}
            Some(Waiter::Publish(answer)) => drop(answer.send(match outcome {
                PublishOutcome::Answered(reason) if reason.is_error() => Err(MqttError::Rejected(reason, words())),
                PublishOutcome::Answered(_)
                | PublishOutcome::Unknown
                | PublishOutcome::Dropped
                | PublishOutcome::Expired
                | PublishOutcome::TooLarge
                | PublishOutcome::Unsent => Ok(outcome),
            })),
            Some(Waiter::Request(key)) => {
                let error = match outcome {
                    PublishOutcome::Answered(reason) if reason.is_error() => MqttError::Rejected(reason, words()),
                    PublishOutcome::Answered(_) => return,
                    PublishOutcome::Unknown => MqttError::Unknown,
                    PublishOutcome::Dropped | PublishOutcome::Expired => MqttError::Full,
                    PublishOutcome::TooLarge => MqttError::TooLarge,
                    PublishOutcome::Unsent => MqttError::Closed,
                };
                if let Some(answer) = self.requests.remove(&key) {
                    let _ = answer.send(Err(error));
                }
            }
        }
    }

    /// Hands a message to each subscription that it belongs to: those that the server names, or in 3.1.1 those that
    /// match.
    fn message(&mut self, session: &Client, received: &Received) {
        let outbox = &mut self.outbox;
        if session.with(|m, now| outbox.is_request(m, now.mono, received)) {
            return;
        }
        let Some(receiver) = &mut self.deltas else { return self.hand_out(session, received, None) };
        let mut events = Vec::new();
        receiver.handle_publish(deltas::publish(received), &mut events);
        while let Some(topic) = receiver.poll_resync() {
            let ask = |now: Now| deltas::resync(&topic, now);
            // What cannot be sent is asked for by the next connection's first value.
            let _ = session.with(|m, now| ask(now).map(|message| m.publish(message, Qos::AtMostOnce, false)));
        }
        for event in events {
            self.hand_out(session, &deltas::rebuilt(received, &event), Some(&event));
        }
    }

    fn hand_out(&mut self, session: &Client, received: &Received, event: Option<&Event>) {
        let mut gone = Vec::new();
        for route in &self.routes {
            // Routes with deltas have no identifier: it would cost bytes with every message.
            let is_nameless = received.subscription_ids.is_empty() || matches!(route.to, Destination::Values { .. });
            let wanted = if is_nameless {
                route.filter.matches(&received.message.topic)
            } else {
                received.subscription_ids.contains(&route.id)
            };
            if !wanted {
                continue;
            }
            let full = match (&route.to, event) {
                (Destination::Stream { .. } | Destination::Replies, Some(Event::Lost { .. }))
                | (Destination::Values { .. }, None) => continue,
                (Destination::Replies, _) => {
                    answer_request(&mut self.requests, &received.message);
                    continue;
                }
                (Destination::Stream { sink, lost }, _) => (sink.try_send(received.clone()).map_err(is_full), lost),
                (Destination::Values { sink, lost }, Some(event)) => {
                    (sink.try_send(event.clone()).map_err(is_full), lost)
                }
            };
            match full {
                (Ok(()), _) => {}
                (Err(true), lost) => drop(lost.fetch_add(1, Ordering::Relaxed)),
                (Err(false), _) => gone.push(route.id),
            }
        }
        for id in gone {
            self.forget(session, id);
        }
    }

    fn forget(&mut self, session: &Client, id: SubscriptionId) {
        let Some(at) = self.routes.iter().position(|route| route.id == id) else { return };
        let filter = self.routes.swap_remove(at).filter;
        if self.routes.iter().all(|route| route.filter != filter) {
            // Without a connection there is nothing to unsubscribe from.
            if let Ok(packet_id) = session.with(|m, _| m.unsubscribe(core::slice::from_ref(&filter)))
                && self.deltas.is_some()
            {
                self.leaving.push((packet_id, filter));
            }
        }
    }

    fn unsubscribed(&mut self, packet_id: PacketId) {
        let Some(at) = self.leaving.iter().position(|(known, _)| *known == packet_id) else { return };
        let (_, filter) = self.leaving.swap_remove(at);
        if let Some(receiver) = &mut self.deltas {
            receiver.handle_unsuback(&filter);
        }
    }

    /// What both sides know of topics ends with the connection.
    fn disconnected(&mut self) {
        self.state.send_replace(false);
        self.leaving.clear();
        self.outbox.disconnected();
        if let Some(receiver) = &mut self.deltas {
            receiver.handle_disconnect();
        }
    }
}

/// Whether a stream's reader is behind; otherwise it is gone.
fn is_full<T>(error: TrySendError<T>) -> bool {
    matches!(error, TrySendError::Full(_))
}

impl Route {
    /// Whether a session that goes on over another connection has it. Deltas end with the connection.
    const fn outlives(&self) -> bool {
        self.is_granted && !matches!(self.to, Destination::Values { .. })
    }

    /// Asks for the messages; without a connection, that is for [`Desk::connected`] to do.
    fn subscribe(&mut self, session: &Client) {
        let options = SubscriptionOptions { qos: self.qos, ..SubscriptionOptions::default() };
        let wanted = [(self.filter.clone(), options)];
        self.packet_id = match &self.to {
            Destination::Values { .. } => session.with(|m, _| m.subscribe_with(&wanted, deltas::offer())).ok(),
            Destination::Stream { .. } | Destination::Replies => {
                session.with(|m, _| m.subscribe(&wanted, Some(self.id))).ok()
            }
        };
    }
}

fn answer_request(requests: &mut HashMap<u64, Answer<Message>>, message: &Message) {
    let Some(correlation) = message.properties.correlation_data() else { return };
    let Ok(key) = <[u8; 8]>::try_from(&*correlation) else { return };
    if let Some(answer) = requests.remove(&u64::from_be_bytes(key)) {
        let _ = answer.send(Ok(message.clone()));
    }
}

/// Where the session's events arrive.
struct Front(Rc<RefCell<Desk>>);

impl Owner<ClientSession> for Front {
    fn event(&mut self, session: &Client, _: Now, event: ClientEvent) {
        let mut desk = self.0.borrow_mut();
        match event {
            ClientEvent::Connected(connected) => desk.connected(session, &connected),
            ClientEvent::Refused { reason, text } => {
                tracing::warn!(%reason, text, "the server refuses the connection");
                desk.failed(MqttError::Refused(reason, text));
            }
            ClientEvent::Message(received) => desk.message(session, &received),
            ClientEvent::Published { token, outcome } => desk.published(session, token, outcome),
            ClientEvent::Subscribed { packet_id, reasons, properties } => {
                desk.subscribed(packet_id, &reasons, &properties);
            }
            ClientEvent::Unsubscribed { packet_id, .. } => desk.unsubscribed(packet_id),
            ClientEvent::Ended(ClientEnd::Asked) => {}
            ClientEvent::Ended(end) => tracing::warn!(%end, "connection ended"),
        }
    }

    fn closed(&mut self, session: &Client, _: Now, why: Closed) {
        let mut desk = self.0.borrow_mut();
        tracing::debug!(%why, "connection closed");
        desk.failed(match why {
            Closed::Tls(alert) => MqttError::Connect(refused(alert)),
            Closed::Peer
            | Closed::Io(_)
            | Closed::Machine
            | Closed::Owner
            | Closed::Replaced
            | Closed::Slow
            | Closed::Full
            | Closed::Silent
            | Closed::Stuck => MqttError::Lost,
        });
        desk.disconnected();
        if desk.closing {
            session.close();
        }
    }

    fn connect_failed(&mut self, _: &Client, _: Now, error: &std::io::Error, retry: Duration) {
        let mut desk = self.0.borrow_mut();
        if desk.ready.is_none() {
            let retry_s = retry.as_secs_f64();
            tracing::warn!(%error, retry_s, "cannot connect");
        }
        desk.failed(MqttError::Connect(explained(copied(error))));
    }
}
