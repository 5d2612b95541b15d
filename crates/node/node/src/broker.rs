//! The broker's column: MQTT sessions over sockets, and what their packets do to the bus.
//!
//! Read first: [`Broker::serve`], then [`ClientOwner`].

use crate::access::{Strangers, Turnstile};
use crate::bus::{Entered, LastWill, SharedBus, Wire, wake};
use crate::command::{CommandRequest, REQUEST_PREFIX, answer_json, malformed_json};
use crate::config::MqttConfig;
use crate::doors::Ingress;
use crate::history::Receipt;
use crate::reserved::Reserved;
use crate::wishes;
use bytes::Bytes;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_core::{Body, Now, Topic, Update};
use tieline_mqtt::{
    Accept, ConnectRequest, Ended, Message, Properties, Property, PublishRequest, Qos, ReasonCode, ServerConfig,
    ServerEvent, ServerSession, SharedFilter, SubscribeRequest, SubscriptionOptions, Text, UnsubscribeRequest, Version,
};
use tieline_net::{Closed, Jitter, Limits, Owner, Session, Shard};
use tieline_topics::{Options, RetainHandling, Snapshot, TreeError, Wish};

/// Accepts clients and gives each its session.
#[derive(Debug)]
pub struct Broker {
    doors: Vec<Ingress>,
    config: Arc<ServerConfig>,
    queue_octets_max: usize,
    reserved: Arc<Reserved>,
}

impl Broker {
    /// Lets clients in by these doors.
    #[must_use]
    pub fn new(doors: Vec<Ingress>, config: &MqttConfig, reserved: Arc<Reserved>) -> Self {
        let server = ServerConfig {
            packet_octets_max: config.packet_octets_max,
            pending_octets_max: config.queue_octets_max,
            // Publishers wait for history with each message; a wide window keeps them busy meanwhile.
            receive_max: 1024,
            shared_available: true,
            ..ServerConfig::default()
        };
        Self { doors, config: Arc::new(server), queue_octets_max: config.queue_octets_max, reserved }
    }

    /// Serves clients until the shard ends.
    pub fn serve(mut self, shard: &Rc<Shard>, bus: &SharedBus) {
        let doors = std::mem::take(&mut self.doors);
        let broker = Rc::new(self);
        for door in doors {
            tokio::task::spawn_local(Rc::clone(&broker).serve_door(door, Rc::clone(shard), Rc::clone(bus)));
        }
    }

    async fn serve_door(self: Rc<Self>, door: Ingress, shard: Rc<Shard>, bus: SharedBus) {
        // One write may hold a whole packet and what else a turn makes.
        let packet = usize::try_from(self.config.packet_octets_max).unwrap_or(usize::MAX);
        let limits = Limits { unsent_octets_max: packet.saturating_add(256 * 1024), ..Limits::default() };
        let mut names = Jitter::new(shard.now().utc.micros().cast_unsigned());
        let strangers = Strangers::default();
        loop {
            let accepted = door.listener.accept().await;
            let Some(stranger) = strangers.enter() else {
                bus.borrow_mut().count_turned_away();
                continue;
            };
            let random = names.next_unit().to_bits();
            let mqtt = ServerSession::new(Arc::clone(&self.config), random);
            let wire = Wire::new(mqtt, self.queue_octets_max).over(door.web.as_ref());
            let session = Session::new(&shard, wire, limits);
            let (bus, reserved) = (Rc::clone(&bus), Arc::clone(&self.reserved));
            let turnstile = Turnstile::new(&door.entrance, accepted.peer, stranger);
            let mut owner = ClientOwner { bus, reserved, peer: accepted.peer, turnstile, seat: None };
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
    turnstile: Turnstile,
    seat: Option<Seat>,
}

/// A client that was let in.
struct Seat {
    key: usize,
    generation: u64,
    /// The session's number.
    number: u64,
    name: String,
    will: Option<LastWill>,
}

impl Owner<Wire> for ClientOwner {
    fn event(&mut self, session: &Session<Wire>, now: Now, event: ServerEvent) {
        match event {
            ServerEvent::Connect(request) => self.connect(session, now, *request),
            ServerEvent::Publish(request) => self.publish(session, now, request),
            ServerEvent::Subscribe(request) => self.subscribe(session, now, &request),
            ServerEvent::Unsubscribe(request) => self.unsubscribe(session, &request),
            ServerEvent::Auth(step) => {
                if let Some(request) = self.turnstile.step(session, now, &self.bus, &step) {
                    self.enter(session, now, &request);
                }
            }
            ServerEvent::Ended(ended) => self.ended(now, &ended),
        }
        wake(&self.bus.borrow());
    }

    fn closed(&mut self, _session: &Session<Wire>, now: Now, why: Closed) {
        tracing::debug!(peer = %self.peer, %why, "client gone");
        self.leave(now, None, true);
    }
}

impl ClientOwner {
    fn connect(&mut self, session: &Session<Wire>, now: Now, request: ConnectRequest) {
        if request.properties.authentication_method().is_some_and(|method| !self.turnstile.knows(&method)) {
            let words = "no such method of enhanced authentication is known";
            return session.with(|wire, _| wire.mqtt.refuse(ReasonCode::BadAuthenticationMethod, words));
        }
        if let Some(request) = self.turnstile.admit(session, now, &self.bus, request) {
            self.enter(session, now, &request);
        }
    }

    /// Gives a client that may come in its place.
    fn enter(&mut self, session: &Session<Wire>, now: Now, request: &ConnectRequest) {
        let (name, peer) = (&request.client_id, self.peer);
        let Entered { key, generation, number, resume, expiry_s } = self.bus.borrow_mut().enter(session, request);
        let response_information = Some(Text::truncated(&format!("reply/{name}")));
        let resumed = resume.is_some();
        let options = Accept {
            resume,
            session_expiry_s: expiry_s,
            response_information,
            authentication_data: self.turnstile.answer(),
        };
        if !session.with(|wire, _| wire.mqtt.accept(now, options)) {
            self.turnstile.leave(&self.bus);
            return self.bus.borrow_mut().leave(now, (key, generation, number), None, None);
        }
        self.turnstile.seat(&self.bus, key, generation, resumed);
        tracing::debug!(%peer, client = %**name, resumed, "client let in");
        let will = request.will.as_ref().and_then(|will| LastWill::new(now, will));
        let will = will.filter(|will| !self.reserved.contains(will.topic()));
        self.seat = Some(Seat { key, generation, number, name: name.to_string(), will });
    }

    fn publish(&mut self, session: &Session<Wire>, now: Now, request: PublishRequest) {
        let Some(seat) = &self.seat else { return };
        let PublishRequest { message, qos, packet_id, retain, .. } = request;
        let answer = |reason| {
            if let Some(packet_id) = packet_id {
                session.with(|wire, _| wire.mqtt.acknowledge(packet_id, reason));
            }
        };
        let refuse = |reason| {
            self.bus.borrow_mut().count_publish_refused();
            match (session.look(|wire| wire.mqtt.version()), packet_id) {
                // 3.1.1 knows no refusal, and would take an answer for success.
                (Version::V311, Some(_)) => session.with(|wire, _| wire.mqtt.disconnect(reason, "")),
                (Version::V5 | Version::V311, _) => answer(reason),
            }
        };
        if !self.turnstile.spend(&self.bus, now, message.payload.len() + message.topic.len()) {
            return refuse(ReasonCode::QuotaExceeded);
        }
        if let Some(topic) = message.topic.strip_prefix(REQUEST_PREFIX) {
            if !self.turnstile.may(&self.bus, now, &seat.name, Verb::Command, topic) {
                return refuse(ReasonCode::NotAuthorized);
            }
            // The node must not be made to write where the client may not.
            let answered = message.properties.response_topic();
            if answered.is_some_and(|to| !self.turnstile.may(&self.bus, now, &seat.name, Verb::Publish, &to)) {
                return refuse(ReasonCode::NotAuthorized);
            }
            let user = self.turnstile.user(&self.bus).map(|user| format!(" {user}")).unwrap_or_default();
            let who = format!("mqtt {}{user} {}", self.peer, seat.name);
            command(&self.bus, &self.reserved, now, topic, &message, &who);
            return answer(ReasonCode::Success);
        }
        if *message.topic == *tieline_delta::RESYNC_TOPIC {
            if let Ok(topic) = std::str::from_utf8(&message.payload) {
                self.bus.borrow_mut().resync(now, seat.key, topic);
            }
            return answer(ReasonCode::Success);
        }
        if self.reserved.contains(&message.topic) {
            self.bus.borrow_mut().count_publish_refused();
            return answer(ReasonCode::NotAuthorized);
        }
        if !self.turnstile.may(&self.bus, now, &seat.name, Verb::Publish, &message.topic) {
            return refuse(ReasonCode::NotAuthorized);
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

    fn subscribe(&self, session: &Session<Wire>, now: Now, request: &SubscribeRequest) {
        let Some(seat) = &self.seat else { return };
        let wish = match wishes::read(&request.properties) {
            Ok(wish) => wish,
            Err(words) => {
                let reasons = vec![ReasonCode::ImplementationSpecificError; request.subscriptions.len()];
                return session.with(|wire, _| wire.mqtt.suback_because(request.packet_id, &reasons, &words));
            }
        };
        let offer = request.properties.user_properties().find(|(name, _)| **name == *tieline_delta::PROPERTY);
        let agreed = offer.and_then(|(_, offer)| self.bus.borrow_mut().agree_deltas(seat.key, &offer));
        let mut reasons = Vec::new();
        for (SharedFilter { share, filter }, options) in &request.subscriptions {
            if let Some(reason) = self.turnstile.refuses(&self.bus, now, seat.key, &seat.name, filter) {
                reasons.push(reason);
                continue;
            }
            let mut bus = self.bus.borrow_mut();
            let id = request.subscription_id;
            // A session with deltas holds what was told last, not messages: QoS 0.
            let deltas = agreed.is_some() && share.is_none();
            let options = if deltas { SubscriptionOptions { qos: Qos::AtMostOnce, ..*options } } else { *options };
            let wish = if deltas { wish.deltas() } else { wish };
            let wanted = options_of(&options, id.map(|id| id.number()), wish);
            // Section 4.8.2: a shared subscription gets no last values.
            let made = match share {
                Some(share) => bus.share(seat.key, share, filter, wanted).map(|_| false),
                None => bus.subscribe(seat.key, filter, wanted).map(|subscribed| subscribed.snapshot),
            };
            reasons.push(match made {
                Ok(snapshot) => {
                    if snapshot {
                        bus.catch_up(seat.key, Snapshot::new(filter.clone()), options.qos, id, deltas);
                    }
                    options.qos.granted()
                }
                Err(error) => {
                    tracing::debug!(client = seat.name, %error, "subscription refused");
                    ReasonCode::QuotaExceeded
                }
            });
        }
        session.with(|wire, _| match agreed {
            Some(words) => {
                let pair = (Text::truncated(tieline_delta::PROPERTY), Text::truncated(&words));
                wire.mqtt.suback_agreeing(request.packet_id, &reasons, pair);
            }
            None => wire.mqtt.suback(request.packet_id, &reasons),
        });
    }

    fn unsubscribe(&self, session: &Session<Wire>, request: &UnsubscribeRequest) {
        let Some(seat) = &self.seat else { return };
        let mut bus = self.bus.borrow_mut();
        let ended = |SharedFilter { share, filter }: &SharedFilter| {
            let ended = match share {
                Some(share) => bus.unshare(seat.key, share, filter),
                None => bus.unsubscribe(seat.key, filter),
            };
            if ended { ReasonCode::Success } else { ReasonCode::NoSubscriptionExisted }
        };
        let reasons: Vec<_> = request.filters.iter().map(ended).collect();
        bus.void_told(seat.key);
        drop(bus);
        session.with(|wire, _| wire.mqtt.unsuback(request.packet_id, &reasons));
    }

    fn ended(&mut self, now: Now, ended: &Ended) {
        tracing::debug!(peer = %self.peer, cause = ?ended.cause, "client ended");
        self.leave(now, ended.session_expiry_s, ended.publish_will);
    }

    fn leave(&mut self, now: Now, expiry_s: Option<u32>, publish_will: bool) {
        if let Some(Seat { key, generation, number, name, will }) = self.seat.take() {
            // Judged while it is known who the client is; a delayed one is published by the rights of this moment.
            let may = |will: &LastWill| self.turnstile.may(&self.bus, now, &name, Verb::Publish, will.topic());
            let will = will.filter(|will| publish_will && may(will));
            self.turnstile.leave(&self.bus);
            self.bus.borrow_mut().leave(now, (key, generation, number), expiry_s, will);
        }
    }
}

const fn options_of(options: &SubscriptionOptions, subscription_id: Option<u32>, wish: Wish) -> Options {
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
        wish,
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
