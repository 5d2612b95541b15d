//! The connection's own thread: commands of the handle in, events of the session out to whoever waits.

use super::MqttError;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{
    Binary, ClientConfig, ClientEnd, ClientEvent, ClientSession, Message, PacketId, Properties, Property,
    PublishOutcome, Qos, ReasonCode, Received, SubscriptionId, SubscriptionOptions, Text,
};
use tieline_net::{Closed, Limits, Owner, Session, Shard, Target, keep_connected};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

type Answer<T> = oneshot::Sender<Result<T, MqttError>>;
type Client = Session<ClientSession>;

/// Octets that the socket may refuse at once: the largest message of MQTT, and what was written along with it.
const UNSENT_OCTETS_MAX: usize = 257 * 1024 * 1024;

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
        sink: mpsc::Sender<Received>,
        lost: Arc<AtomicU64>,
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
    Request {
        topic: Topic,
        payload: Bytes,
        answer: Answer<Message>,
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
    let limits = Limits { unsent_octets_max: UNSENT_OCTETS_MAX, ..Limits::default() };
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
}

/// Where the messages of a subscription go.
struct Route {
    id: SubscriptionId,
    filter: Filter,
    qos: Qos,
    /// SUBSCRIBE under way.
    packet_id: Option<PacketId>,
    answer: Option<Answer<()>>,
    to: Destination,
}

enum Destination {
    Stream { sink: mpsc::Sender<Received>, lost: Arc<AtomicU64> },
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
        }
    }

    fn take(&mut self, session: &Client, command: Command) {
        match command {
            Command::Subscribe { filter, qos, sink, lost, answer } => {
                self.route(session, filter, qos, Destination::Stream { sink, lost }, Some(answer));
            }
            Command::Publish { topic, payload, properties, qos, retain, answer } => {
                let message = |now: Now| Message { topic, payload, properties, received: now.mono };
                match session.with(|m, now| m.publish(message(now), qos, retain)) {
                    Ok(token) => drop(self.publishes.insert(token, Waiter::Publish(answer))),
                    Err(_) => drop(answer.send(Err(MqttError::Full))),
                }
            }
            Command::Request { topic, payload, answer } => self.request(session, topic, payload, answer),
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
        let mut route = Route { id, filter, qos, packet_id: None, answer, to };
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

    fn connected(&mut self, session: &Client) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Ok(()));
        } else {
            tracing::info!("connected again");
        }
        self.state.send_replace(true);
        self.routes.iter_mut().for_each(|route| route.subscribe(session));
    }

    /// Nothing came of the first connection.
    fn failed(&mut self, error: MqttError) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(error));
        }
    }

    fn subscribed(&mut self, packet_id: PacketId, reasons: &[ReasonCode]) {
        let Some(at) = self.routes.iter().position(|r| r.packet_id == Some(packet_id)) else { return };
        let Some(route) = self.routes.get_mut(at) else { return };
        route.packet_id = None;
        let refused = reasons.iter().copied().find(|r| r.is_error());
        if let Some(answer) = route.answer.take() {
            let _ = answer.send(refused.map_or(Ok(()), |reason| Err(MqttError::Rejected(reason))));
        } else if let Some(reason) = refused {
            tracing::warn!(filter = %route.filter, %reason, "subscription refused");
        }
        if refused.is_some() {
            self.routes.swap_remove(at);
        }
    }

    fn published(&mut self, token: u64, outcome: PublishOutcome) {
        match self.publishes.remove(&token) {
            None => {}
            Some(Waiter::Publish(answer)) => drop(answer.send(Ok(outcome))),
            Some(Waiter::Request(key)) => {
                let error = match outcome {
                    PublishOutcome::Answered(reason) if reason.is_error() => MqttError::Rejected(reason),
                    PublishOutcome::Answered(_) => return,
                    PublishOutcome::Unknown => MqttError::Unknown,
                    PublishOutcome::Dropped | PublishOutcome::Expired => MqttError::Full,
                    PublishOutcome::TooLarge => MqttError::TooLarge,
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
        let mut gone = Vec::new();
        for route in &self.routes {
            let wanted = if received.subscription_ids.is_empty() {
                route.filter.matches(&received.message.topic)
            } else {
                received.subscription_ids.contains(&route.id)
            };
            if !wanted {
                continue;
            }
            match &route.to {
                Destination::Replies => answer_request(&mut self.requests, &received.message),
                Destination::Stream { sink, lost } => match sink.try_send(received.clone()) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => drop(lost.fetch_add(1, Ordering::Relaxed)),
                    Err(TrySendError::Closed(_)) => gone.push(route.id),
                },
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
            let _ = session.with(|m, _| m.unsubscribe(&[filter]));
        }
    }
}

impl Route {
    /// Asks for the messages; without a connection, that is for [`Desk::connected`] to do.
    fn subscribe(&mut self, session: &Client) {
        let options = SubscriptionOptions { qos: self.qos, ..SubscriptionOptions::default() };
        let (wanted, id) = ([(self.filter.clone(), options)], Some(self.id));
        self.packet_id = session.with(|m, _| m.subscribe(&wanted, id)).ok();
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
            ClientEvent::Connected(_) => desk.connected(session),
            ClientEvent::Refused { reason, text } => {
                tracing::warn!(%reason, text, "the server refuses the connection");
                desk.failed(MqttError::Refused(reason, text));
            }
            ClientEvent::Message(received) => desk.message(session, &received),
            ClientEvent::Published { token, outcome } => desk.published(token, outcome),
            ClientEvent::Subscribed { packet_id, reasons } => desk.subscribed(packet_id, &reasons),
            ClientEvent::Unsubscribed { .. } => {}
            ClientEvent::Ended(ClientEnd::Asked) => {}
            ClientEvent::Ended(end) => tracing::warn!(?end, "connection ended"),
        }
    }

    fn closed(&mut self, session: &Client, _: Now, why: Closed) {
        let mut desk = self.0.borrow_mut();
        tracing::debug!(%why, "connection closed");
        desk.failed(MqttError::Lost);
        desk.state.send_replace(false);
        if desk.closing {
            session.close();
        }
    }

    fn connect_failed(&mut self, _: &Client, _: Now, error: &std::io::Error, retry: Duration) {
        let mut desk = self.0.borrow_mut();
        if desk.ready.is_none() {
            tracing::warn!(%error, ?retry, "cannot connect");
        }
        desk.failed(MqttError::Connect(std::io::Error::new(error.kind(), error.to_string())));
    }
}
