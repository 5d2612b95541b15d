//! The broker's column: MQTT sessions over sockets, and what their packets do to the bus.
//!
//! Read first: [`Broker::serve`], then [`ClientOwner`].

use crate::bus::{Client, SharedBus, Wire, wake};
use crate::command::{CommandRequest, REQUEST_PREFIX, answer_json, malformed_json};
use crate::config::MqttConfig;
use crate::history::Receipt;
use crate::reserved::Reserved;
use bytes::Bytes;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Body, Now, Topic, Update};
use tieline_mqtt::{
    Accept, ConnectRequest, Ended, Message, Properties, Property, PublishRequest, Qos, ReasonCode, ServerConfig,
    ServerEvent, ServerSession, SharedFilter, SubscribeRequest, SubscriptionOptions, UnsubscribeRequest, Will,
};
use tieline_net::{Closed, Jitter, Limits, ListenConfig, Listener, Owner, Session, Shard};
use tieline_topics::{Options, RetainHandling, Snapshot, TreeError};

/// Accepts clients and gives each its session.
#[derive(Debug)]
pub struct Broker {
    listener: Listener,
    config: Arc<ServerConfig>,
    queue_octets_max: usize,
    reserved: Arc<Reserved>,
}

impl Broker {
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn bind(shard: &Rc<Shard>, config: &MqttConfig, reserved: Arc<Reserved>) -> std::io::Result<Self> {
        let listen = ListenConfig { sessions_max: config.sessions_max, ..ListenConfig::new(config.listen.to_string()) };
        let listener = Listener::bind(&listen, shard.counters().clone()).await?;
        let server = ServerConfig {
            packet_octets_max: config.packet_octets_max,
            pending_octets_max: config.queue_octets_max,
            // Publishers wait for history with each message; a wide window keeps them busy meanwhile.
            receive_max: 1024,
            ..ServerConfig::default()
        };
        Ok(Self { listener, config: Arc::new(server), queue_octets_max: config.queue_octets_max, reserved })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients until the shard ends.
    pub async fn serve(self, shard: Rc<Shard>, bus: SharedBus) {
        // One write may hold a whole packet and what else a turn makes.
        let packet = usize::try_from(self.config.packet_octets_max).unwrap_or(usize::MAX);
        let limits = Limits { unsent_octets_max: packet.saturating_add(256 * 1024), ..Limits::default() };
        let mut names = Jitter::new(shard.now().utc.micros().cast_unsigned());
        loop {
            let accepted = self.listener.accept().await;
            let random = names.next_unit().to_bits();
            let wire = Wire::new(ServerSession::new(Arc::clone(&self.config), random), self.queue_octets_max);
            let session = Session::new(&shard, wire, limits);
            let (bus, reserved) = (Rc::clone(&bus), Arc::clone(&self.reserved));
            let mut owner = ClientOwner { bus, reserved, peer: accepted.peer, seat: None };
            tokio::task::spawn_local(async move {
                let _place = accepted.place;
                session.run(accepted.stream, &mut owner).await;
            });
        }
    }
}

/// Learns what one client says.
struct ClientOwner {
    bus: SharedBus,
    reserved: Arc<Reserved>,
    peer: SocketAddr,
    seat: Option<Seat>,
}

/// A client that was let in.
struct Seat {
    key: usize,
    generation: u64,
    name: String,
    will: Option<Will>,
}

impl Owner<Wire> for ClientOwner {
    fn event(&mut self, session: &Session<Wire>, now: Now, event: ServerEvent) {
        match event {
            ServerEvent::Connect(request) => self.connect(session, now, *request),
            ServerEvent::Publish(request) => self.publish(session, now, request),
            ServerEvent::Subscribe(request) => self.subscribe(session, &request),
            ServerEvent::Unsubscribe(request) => self.unsubscribe(session, &request),
            ServerEvent::Ended(ended) => self.ended(now, &ended),
        }
        wake(&self.bus.borrow());
    }

    fn closed(&mut self, _session: &Session<Wire>, _now: Now, why: Closed) {
        tracing::debug!(peer = %self.peer, %why, "client gone");
        self.leave();
    }
}

impl ClientOwner {
    fn connect(&mut self, session: &Session<Wire>, now: Now, request: ConnectRequest) {
        let accepted = session.with(|wire, _| wire.mqtt.accept(now, Accept::default()));
        if !accepted {
            return;
        }
        let (name, peer) = (request.client_id, self.peer);
        let (key, generation) =
            self.bus.borrow_mut().add_client(|number| Client::new(session.clone(), name.clone(), number));
        tracing::debug!(%peer, client = %*name, "client let in");
        self.seat = Some(Seat { key, generation, name: name.to_string(), will: request.will });
    }

    fn publish(&mut self, session: &Session<Wire>, now: Now, request: PublishRequest) {
        let Some(seat) = &self.seat else { return };
        let PublishRequest { message, qos, packet_id, retain, .. } = request;
        let answer = |reason| {
            if let Some(packet_id) = packet_id {
                session.with(|wire, _| wire.mqtt.acknowledge(packet_id, reason));
            }
        };
        if let Some(topic) = message.topic.strip_prefix(REQUEST_PREFIX) {
            let who = format!("mqtt {} {}", self.peer, seat.name);
            command(&self.bus, &self.reserved, now, topic, &message, &who);
            return answer(ReasonCode::Success);
        }
        if self.reserved.contains(&message.topic) {
            self.bus.borrow_mut().count_publish_refused();
            return answer(ReasonCode::NotAuthorized);
        }
        let mut bus = self.bus.borrow_mut();
        let update = Update { topic: message.topic.clone(), body: Body::Opaque(message.payload.clone()) };
        match bus.take_message(now, message, qos, retain, seat.key) {
            Err(error) => {
                drop(bus);
                tracing::debug!(client = seat.name, %error, "publish refused");
                answer(ReasonCode::QuotaExceeded);
            }
            Ok(()) => {
                let (key, generation) = (seat.key, seat.generation);
                let receipt = packet_id.map(|packet_id| Receipt::Client { key, generation, packet_id });
                let waits = bus.record(now, &update, receipt);
                drop(bus);
                if !waits {
                    answer(ReasonCode::Success);
                }
            }
        }
    }

    fn subscribe(&self, session: &Session<Wire>, request: &SubscribeRequest) {
        let Some(seat) = &self.seat else { return };
        let mut bus = self.bus.borrow_mut();
        let mut reasons = Vec::new();
        for (SharedFilter { share, filter }, options) in &request.subscriptions {
            if share.is_some() {
                reasons.push(ReasonCode::SharedSubscriptionsNotSupported);
                continue;
            }
            let id = request.subscription_id;
            let made = bus.subscribe(seat.key, filter, options_of(options, id.map(|id| id.number())));
            reasons.push(match made {
                Ok(subscribed) => {
                    if subscribed.snapshot {
                        bus.catch_up(seat.key, Snapshot::new(filter.clone()), options.qos, id);
                    }
                    options.qos.granted()
                }
                Err(error) => {
                    tracing::debug!(client = seat.name, %error, "subscription refused");
                    ReasonCode::QuotaExceeded
                }
            });
        }
        drop(bus);
        session.with(|wire, _| wire.mqtt.suback(request.packet_id, &reasons));
    }

    fn unsubscribe(&self, session: &Session<Wire>, request: &UnsubscribeRequest) {
        let Some(seat) = &self.seat else { return };
        let mut bus = self.bus.borrow_mut();
        let ended = |filter: &SharedFilter| match filter.share.is_none() && bus.unsubscribe(seat.key, &filter.filter) {
            true => ReasonCode::Success,
            false => ReasonCode::NoSubscriptionExisted,
        };
        let reasons: Vec<_> = request.filters.iter().map(ended).collect();
        drop(bus);
        session.with(|wire, _| wire.mqtt.unsuback(request.packet_id, &reasons));
    }

    fn ended(&mut self, now: Now, ended: &Ended) {
        let will = self.seat.as_mut().and_then(|seat| seat.will.take());
        if let Some(will) = will.filter(|_| ended.publish_will) {
            publish_will(&self.bus, &self.reserved, now, will);
        }
        tracing::debug!(peer = %self.peer, cause = ?ended.cause, "client ended");
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            let mut bus = self.bus.borrow_mut();
            if bus.client(seat.key, seat.generation).is_some() {
                bus.remove_client(seat.key);
            }
        }
    }
}

const fn options_of(options: &SubscriptionOptions, subscription_id: Option<u32>) -> Options {
    Options {
        qos: options.qos.bits(),
        no_local: options.no_local,
        retain_as_published: options.retain_as_published,
        retain_handling: match options.retain_handling {
            tieline_mqtt::RetainHandling::Always => RetainHandling::Send,
            tieline_mqtt::RetainHandling::IfNew => RetainHandling::SendIfNew,
            tieline_mqtt::RetainHandling::Never => RetainHandling::Skip,
        },
        subscription_id,
    }
}

fn publish_will(bus: &SharedBus, reserved: &Reserved, now: Now, will: Will) {
    let Ok(topic) = Topic::new(&will.topic) else { return };
    if reserved.contains(&topic) {
        return;
    }
    // The delay ends with the session at the latest, and the session ends with its connection (MQTT 5.0, 3.1.3.2.2).
    let properties = will.properties.iter().filter(|property| !matches!(property, Property::WillDelay(_))).collect();
    let message = Message { topic, payload: will.payload.bytes(), properties, received: now.mono };
    let update = Update { topic: message.topic.clone(), body: Body::Opaque(message.payload.clone()) };
    let mut bus = bus.borrow_mut();
    if bus.apply_message(now, message, will.qos, will.retain, None).is_ok() {
        bus.record(now, &update, None);
    }
}

/// Takes a command request; the answer goes to its response topic, if it has one.
fn command(bus: &SharedBus, reserved: &Reserved, now: Now, topic: &str, message: &Message, who: &str) {
    let reply = Reply::of(message, reserved);
    let parsed = Topic::new(topic).map_err(|e| e.to_string()).and_then(|topic| {
        let body = serde_json::from_slice(&message.payload).map_err(|e| {
            format!("the payload is not JSON ({e}), expected true, false, a number or {{\"value\": …}}")
        })?;
        CommandRequest::from_json(&body, Some(topic))
    });
    match parsed {
        Ok(request) => {
            let shown = request.clone();
            let answer = move |bus: &mut crate::bus::Bus, done| {
                let now = bus.now();
                reply.send(bus, now, answer_json(&shown, &done));
            };
            bus.borrow_mut().request(now, request, who, Box::new(answer));
        }
        Err(detail) => {
            tracing::debug!(who, detail, "malformed command");
            reply.send(&mut bus.borrow_mut(), now, malformed_json(&detail));
        }
    }
}

/// Where an answer goes: the response topic, with the correlation data of the request (MQTT 5.0 section 4.10).
struct Reply {
    topic: Option<Topic>,
    properties: Properties,
}

impl Reply {
    fn of(message: &Message, reserved: &Reserved) -> Self {
        let topic = message.properties.response_topic().and_then(|text| Topic::new(&text).ok());
        let topic = topic.filter(|topic| !reserved.contains(topic));
        let correlation = message.properties.correlation_data().map(|data| Property::CorrelationData(data.clone()));
        Self { topic, properties: correlation.into_iter().collect() }
    }

    fn send(self, bus: &mut crate::bus::Bus, now: Now, text: String) {
        let Some(topic) = self.topic else { return };
        let message = Message { topic, payload: Bytes::from(text), properties: self.properties, received: now.mono };
        let sent: Result<(), TreeError> = bus.apply_message(now, message, Qos::AtLeastOnce, false, None);
        if let Err(error) = sent {
            tracing::warn!(%error, "the answer to a command could not be published");
        }
    }
}
