//! The broker's column: MQTT sessions over sockets, and what their packets do to the bus.
//!
//! Read first: [`Broker::serve`], then [`ClientOwner`].

mod alarms;
mod authentication;
mod control;
pub mod listeners;
mod locks;
mod messages;
mod publisher;
mod refusal;
mod reply;
mod unauthenticated;
mod upward;
mod wrong_port;

pub use wrong_port::http_answer;

use self::authentication::Authentication;
use self::listeners::MqttListener;
use self::publisher::Publisher;
use self::refusal::Refusal;
use self::unauthenticated::UnauthenticatedConnections;
use crate::access::Entrance;
use crate::bus::locks::REQUEST_PREFIX as LOCKS_PREFIX;
use crate::bus::{DeltaStart, Entered, KeptLimits, LastWill, SharedBus, Wire, wake, wake_after_update, watch_of};
use crate::bus::{delivery_options, fetch, reasons};
use crate::config::MqttConfig;
use crate::control::command::REQUEST_PREFIX;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{Filter, Now};
use tieline_mqtt::{
    Accept, ConnectRequest, Ended, Qos, ReasonCode, ServerConfig, ServerEvent, ServerSession, SharedFilter,
    SubscribeRequest, SubscriptionOptions, Text, UnsubscribeRequest,
};
use tieline_net::{Closed, Connection, Jitter, Limits, Owner, Session, Shard, SocketShards};
use tieline_topics::Snapshot;

/// How long a client that was told why its connection ends has to read that.
const LINGER: Duration = Duration::from_secs(5);

/// How long a client may take nothing while something waits for it.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Bytes of a word that a client is told when it has its last values.
const WORD_BYTES_MAX: usize = 64;

/// How long a proxy may take to say who is behind it.
const PROXIED_WITHIN: Duration = Duration::from_secs(10);

/// Accepts clients and gives each its session.
#[derive(Debug)]
pub struct Broker {
    listeners: Vec<MqttListener>,
    config: Arc<ServerConfig>,
    queue_bytes_max: usize,
    limits: Rc<Limits>,
    /// Threads that have the sockets; none where this one has them.
    sockets: Rc<SocketShards>,
}

impl Broker {
    /// A broker that accepts clients at these listeners; a client that speaks HTTP gets `http_answer`.
    #[must_use]
    pub fn new(
        listeners: Vec<MqttListener>,
        config: &MqttConfig,
        http_answer: Box<[u8]>,
        sockets: Rc<SocketShards>,
    ) -> Self {
        let server = ServerConfig {
            packet_bytes_max: config.packet_bytes_max,
            pending_bytes_max: config.queue_bytes_max,
            away: KeptLimits::of(config).each,
            // Publishers wait for history with each message; a wide window keeps them busy meanwhile.
            receive_max: 1024,
            keep_alive_s_max: u16::try_from(config.keep_alive_max.as_secs()).unwrap_or(u16::MAX),
            shared_available: true,
            http_answer,
            ..ServerConfig::default()
        };
        let limits = limits_for(config.packet_bytes_max).into();
        Self { listeners, config: Arc::new(server), queue_bytes_max: config.queue_bytes_max, limits, sockets }
    }

    /// Serves clients until the shard ends.
    pub fn serve(mut self, shard: &Rc<Shard>, bus: &SharedBus) {
        let listeners = std::mem::take(&mut self.listeners);
        let broker = Rc::new(self);
        for listener in listeners {
            tokio::task::spawn_local(Rc::clone(&broker).serve_listener(listener, Rc::clone(shard), Rc::clone(bus)));
        }
    }

    async fn serve_listener(self: Rc<Self>, listener: MqttListener, shard: Rc<Shard>, bus: SharedBus) {
        let mut names = Jitter::new(shard.now().utc.micros().cast_unsigned());
        let unauthenticated = UnauthenticatedConnections::default();
        let admission = Rc::clone(bus.borrow().admission());
        loop {
            // A connection that cannot be served yet waits in the kernel's backlog, where it costs nothing.
            unauthenticated.room().await;
            let accepted = admission.run_new(listener.listener.accept()).await;
            if accepted.is_over() {
                let mqtt = ServerSession::new(Arc::clone(&self.config), 0);
                let wire = Wire::new(mqtt, self.queue_bytes_max).over(listener.web.as_ref());
                let session = Session::new(&shard, wire, Rc::clone(&self.limits));
                let admission = Rc::clone(&admission);
                tokio::task::spawn_local(async move {
                    admission.run_new(session.run(Box::new(accepted.stream), &mut Refusal)).await;
                    drop(accepted.place);
                });
                continue;
            }
            let Some(unauthenticated) = unauthenticated.enter() else {
                bus.borrow_mut().count_unauthenticated_refused();
                continue;
            };
            let random = names.next_unit().to_bits();
            let mqtt = ServerSession::new(Arc::clone(&self.config), random);
            let wire = Wire::new(mqtt, self.queue_bytes_max).over(listener.web.as_ref());
            let session = Session::new(&shard, wire, Rc::clone(&self.limits));
            let authentication = Authentication::new(&listener.entrance, accepted.peer, unauthenticated);
            let mut owner = self.owner(&bus, accepted.peer, authentication);
            let (admission, place, mut connection) = (Rc::clone(&admission), accepted.place, Box::new(accepted.stream));
            let is_of_proxy = listener.proxies.holds(accepted.peer.ip());
            tokio::task::spawn_local(async move {
                // Boxed: few come by a proxy, and all would have room for what that takes.
                if is_of_proxy && !Box::pin(owner.learn_peer(&mut connection)).await {
                    return;
                }
                let Some(connection) = owner.broker.place(*connection) else { return };
                admission.run_new(session.run(connection, &mut owner)).await;
                admission.run_new(async { owner.go() }).await;
                drop(place);
            });
        }
    }

    /// Serves one client over a connection, until it ends.
    pub async fn serve_one(
        self: Rc<Self>,
        shard: &Rc<Shard>,
        bus: &SharedBus,
        connection: Connection,
        (random, believes): (u64, bool),
    ) {
        let Some(unauthenticated) = UnauthenticatedConnections::default().enter() else { return };
        let mqtt = ServerSession::new(Arc::clone(&self.config), random);
        let session = Session::new(shard, Wire::new(mqtt, self.queue_bytes_max), Rc::clone(&self.limits));
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let authentication = match believes {
            true => Authentication::believing(unknown, unauthenticated),
            false => Authentication::new(&Entrance::Open, unknown, unauthenticated),
        };
        let mut owner = self.owner(bus, unknown, authentication);
        let Some(connection) = self.place(connection) else { return };
        session.run(connection, &mut owner).await;
        owner.go();
    }

    /// Gives the socket of a connection to a thread that has sockets, where there are such.
    fn place(&self, connection: Connection) -> Option<Box<Connection>> {
        let placed = self.sockets.place(connection);
        placed
            .inspect_err(|error| tracing::warn!(%error, "a connection cannot be handed to a socket shard"))
            .ok()
            .map(Box::new)
    }

    fn owner(self: &Rc<Self>, bus: &SharedBus, peer: SocketAddr, authentication: Authentication) -> ClientOwner {
        let (broker, bus) = (Rc::clone(self), Rc::clone(bus));
        ClientOwner { broker, bus, peer, authentication, publisher: RefCell::default(), client: None, gone: None }
    }

    /// Bytes that may be held of a client that sends what changed, and of one value.
    fn held_max(&self) -> [usize; 2] {
        [self.queue_bytes_max, usize::try_from(self.config.packet_bytes_max).unwrap_or(usize::MAX)]
    }
}

/// One write may hold a whole packet and what else a turn makes.
fn limits_for(packet_bytes_max: u32) -> Limits {
    let packet = usize::try_from(packet_bytes_max).unwrap_or(usize::MAX);
    Limits { unsent_bytes_max: packet.saturating_add(256 * 1024), linger: LINGER, stall: STALL }
}

/// Handles the events of one client's session.
struct ClientOwner {
    broker: Rc<Broker>,
    bus: SharedBus,
    peer: SocketAddr,
    authentication: Authentication,
    publisher: RefCell<Publisher>,
    client: Option<ConnectedClient>,
    /// How the session ended, where its connection broke.
    gone: Option<Box<Ended>>,
}

/// A connected client: its session on the bus.
struct ConnectedClient {
    key: usize,
    generation: u64,
    /// The session's number.
    number: u64,
    name: Arc<str>,
    will: Option<Box<LastWill>>,
}

impl Owner<Wire> for ClientOwner {
    fn event(&mut self, session: &Session<Wire>, now: Now, event: ServerEvent) {
        match event {
            ServerEvent::Connect(request) => self.connect(session, now, *request),
            ServerEvent::Publish(request) => {
                let is_request = request.message.topic.starts_with('$');
                self.publish(session, now, request);
                if !is_request {
                    return wake_after_update(&self.bus.borrow());
                }
            }
            ServerEvent::Subscribe(request) => self.subscribe(session, now, &request),
            ServerEvent::Unsubscribe(request) => self.unsubscribe(session, now, &request),
            ServerEvent::Auth(step) => {
                if let Some(request) = self.authentication.step(session, now, &self.bus, &step) {
                    self.enter(session, now, &request);
                }
            }
            ServerEvent::Ended(ended) if session.is_connected() => self.ended(now, &ended),
            ServerEvent::Ended(ended) => self.gone = Some(Box::new(ended)),
        }
        wake(&self.bus.borrow());
    }

    fn ending(&mut self, _session: &Session<Wire>) {
        self.bus.borrow().admission().requeue();
    }

    fn closed(&mut self, session: &Session<Wire>, _now: Now, why: Closed) {
        tracing::debug!(peer = %self.peer, %why, "client gone");
        if session.look(|wire| wire.mqtt.is_http()) {
            tracing::info!(peer = %self.peer, "an HTTP request came to the MQTT address, and was told where HTTP is");
        }
        let is_faulty = session.look(Wire::is_faulty);
        self.bus.borrow_mut().count_closed(!self.authentication.is_unauthenticated(), is_faulty);
    }
}

/// Whether a filter selects nothing but requests to the node, which are not passed on.
fn is_request(filter: &str) -> bool {
    let is_below = [REQUEST_PREFIX, LOCKS_PREFIX].iter().any(|prefix| filter.starts_with(prefix));
    is_below || [fetch::REQUEST_TOPIC, tieline_delta::RESYNC_TOPIC].contains(&filter)
}

impl ClientOwner {
    /// Reads the client's address from a proxy; false when the proxy's header is invalid.
    async fn learn_peer(&mut self, connection: &mut Connection) -> bool {
        match connection.read_proxied(PROXIED_WITHIN).await {
            Ok(Some(peer)) => {
                self.peer = peer;
                self.authentication.comes_from(peer);
                true
            }
            Ok(None) => true,
            Err(error) => {
                tracing::info!(proxy = %self.peer, %error, "a connection of a proxy is closed");
                false
            }
        }
    }

    fn connect(&mut self, session: &Session<Wire>, now: Now, request: ConnectRequest) {
        if request.properties.authentication_method().is_some_and(|method| !self.authentication.knows(&method)) {
            let words = "no such method of enhanced authentication is known";
            return session.with(|wire, _| wire.mqtt.refuse(ReasonCode::BadAuthenticationMethod, words));
        }
        let window = delivery_options::write_window(&request.properties);
        if let Err(words) = window.map(|window| session.with(|wire, _| wire.set_write_window(window))) {
            return session.with(|wire, _| wire.mqtt.refuse(ReasonCode::ImplementationSpecificError, &words));
        }
        if let Some(request) = self.authentication.admit(session, now, &self.bus, request) {
            self.enter(session, now, &request);
        }
    }

    /// Gives a client that may come in its place.
    fn enter(&mut self, session: &Session<Wire>, now: Now, request: &ConnectRequest) {
        let peer = self.peer;
        let Entered { name, key, generation, number, resume, expiry_s } =
            self.bus.borrow_mut().enter(now.mono, session, request);
        let response_information = Some(Text::truncated(&format!("reply/{name}")));
        let resumed = resume.is_some();
        let agreed = self.publisher.get_mut().agree(&self.bus, &request.properties, self.broker.held_max());
        let options = Accept {
            resume,
            session_expiry_s: expiry_s,
            response_information,
            authentication_data: self.authentication.answer(),
            agreed,
        };
        if !session.with(|wire, _| wire.mqtt.accept(now, options)) {
            self.authentication.leave(&self.bus);
            return self.bus.borrow_mut().leave(now, (key, generation, number), None, None);
        }
        self.authentication.joined(&self.bus, key, generation, resumed);
        tracing::debug!(%peer, client = %*name, resumed, "client connected");
        let will = request.will.as_ref().and_then(|will| LastWill::new(now, will));
        let will = will.filter(|will| !self.is_reserved(will.topic()) && !will.is_marked());
        let will = will.map(|will| Box::new(self.will_of_user(&name, will)));
        let mut bus = self.bus.borrow_mut();
        bus.keep_session(now, key, will.as_deref());
        bus.hold_output(now, key, session);
        drop(bus);
        self.client = Some(ConnectedClient { key, generation, number, name, will });
    }

    /// Whether only the node publishes there.
    fn is_reserved(&self, topic: &str) -> bool {
        let bus = self.bus.borrow();
        bus.is_reserved(topic) || bus.derives(topic)
    }

    fn subscribe(&self, session: &Session<Wire>, now: Now, request: &SubscribeRequest) {
        let Some(client) = &self.client else { return };
        let properties = &request.properties;
        let (delivery_options, selector, last) = match delivery_options::read_all(properties) {
            Ok(asked) => asked,
            Err(words) => {
                let reasons = vec![ReasonCode::ImplementationSpecificError; request.subscriptions.len()];
                return session.with(|wire, _| wire.mqtt.suback_because(request.packet_id, &reasons, &words));
            }
        };
        let selector = selector.map(|selector| selector.owned_by(self.owner(client)));
        let may_have_deltas = request.subscriptions.iter().any(|(filter, _)| filter.share.is_none());
        let offer = properties.own_property(tieline_delta::PROPERTY).filter(|_| may_have_deltas);
        let counts = properties.own_property(tieline_delta::VERSION) == Some(tieline_delta::MARK);
        let mut agreed = offer.and_then(|offer| self.bus.borrow_mut().agree_deltas(client.key, offer, counts));
        let mut has_deltas = false;
        self.bus.borrow_mut().begin_act();
        let (mut reasons, mut refusals) = (Vec::new(), reasons::Refusals::default());
        for (of @ SharedFilter { share, filter }, asked) in &request.subscriptions {
            if let Some(reason) = self.refuses(now, client, share.is_some(), selector.is_some(), filter) {
                refusals.add(filter, reasons::subscription(reason));
                reasons.push(reason);
                continue;
            }
            let mut bus = self.bus.borrow_mut();
            let id = request.subscription_id;
            // A session with deltas holds what was told last, not messages: QoS 0.
            let deltas = agreed.is_some() && share.is_none();
            let options = if deltas || watch_of(filter).is_some() {
                SubscriptionOptions { qos: Qos::AtMostOnce, ..*asked }
            } else {
                *asked
            };
            let delivery_options = if deltas { delivery_options.deltas() } else { delivery_options };
            let wanted = delivery_options::options_of(&options, id.map(|id| id.number()), delivery_options);
            // Section 4.8.2: a shared subscription gets no last values.
            let made = match share {
                Some(share) => bus.share(client.key, share, filter, wanted).map(|_| false),
                None => bus
                    .subscribe_narrowed(client.key, filter, selector.as_ref(), wanted)
                    .map(|subscribed| subscribed.snapshot),
            };
            reasons.push(match made {
                Ok(snapshot) => {
                    let due = snapshot && options.qos > Qos::AtMostOnce;
                    bus.keep_subscription(now, client.key, of, (asked, &request.properties), due);
                    bus.miss(filter);
                    has_deltas |= deltas;
                    if snapshot || deltas {
                        let restart = deltas.then_some(if snapshot { DeltaStart::Sent } else { DeltaStart::Later });
                        let walk = Snapshot::new(filter.clone()).narrowed(selector.clone());
                        bus.replay_retained(client.key, walk, options.qos, id, (restart, last));
                    }
                    options.qos.granted()
                }
                Err(error) => {
                    tracing::debug!(client = %client.name, %error, "subscription refused");
                    refusals.add(filter, &error.to_string());
                    ReasonCode::QuotaExceeded
                }
            });
        }
        agreed = agreed.filter(|_| has_deltas);
        self.bus.borrow_mut().count_refused_subscriptions(&reasons);
        self.bus.borrow_mut().hold_output(now, client.key, session);
        self.answer_subscribe(session, (now, client.key), request, (&reasons, refusals.words()), agreed);
    }

    /// Answers with a reason for each filter, and what was agreed on of deltas.
    fn answer_subscribe(
        &self,
        session: &Session<Wire>,
        (now, key): (Now, usize),
        request: &SubscribeRequest,
        (reasons, words): (&[ReasonCode], &str),
        agreed: Option<String>,
    ) {
        let word = request.properties.own_property(tieline_delta::CAUGHT_UP);
        let word = word.filter(|word| agreed.is_some() && word.len() <= WORD_BYTES_MAX);
        session.with(|wire, _| match agreed {
            Some(codecs) => {
                let pair = (Text::truncated(tieline_delta::PROPERTY), Text::truncated(&codecs));
                wire.mqtt.suback_agreeing(request.packet_id, reasons, words, pair);
            }
            None => wire.mqtt.suback_because(request.packet_id, reasons, words),
        });
        if let Some(word) = word {
            self.bus.borrow_mut().tell_caught_up(now, key, word);
        }
    }

    /// On whose account a client's selectors are.
    fn owner(&self, client: &ConnectedClient) -> u64 {
        delivery_options::owner(self.authentication.user(&self.bus).as_deref().unwrap_or(&client.name))
    }

    /// Why a subscription is not taken; none where it may be.
    fn refuses(
        &self,
        now: Now,
        client: &ConnectedClient,
        shared: bool,
        narrowed: bool,
        filter: &Filter,
    ) -> Option<ReasonCode> {
        if is_request(filter) {
            return Some(ReasonCode::UnspecifiedError);
        }
        let watch = watch_of(filter);
        if narrowed && (shared || watch.is_some()) {
            return Some(ReasonCode::ImplementationSpecificError);
        }
        // A client that watches topics is told only of those that it may read.
        let read = match &watch {
            None => filter,
            Some(Ok(watch)) if !shared => &watch.filter,
            Some(_) => return Some(ReasonCode::TopicFilterInvalid),
        };
        let has_room = self.bus.borrow().may_watch(client.key, filter);
        let refused = self.authentication.refuses(&self.bus, now, client.key, &client.name, read);
        refused.or_else(|| (!has_room).then_some(ReasonCode::QuotaExceeded))
    }

    fn unsubscribe(&self, session: &Session<Wire>, now: Now, request: &UnsubscribeRequest) {
        let Some(client) = &self.client else { return };
        let (mut bus, mut refusals) = (self.bus.borrow_mut(), reasons::Refusals::default());
        bus.begin_act();
        let ended = |of: &SharedFilter| {
            let SharedFilter { share, filter } = of;
            let ended = match share {
                Some(share) => bus.unshare(client.key, share, filter),
                None => bus.unsubscribe(client.key, filter),
            };
            if ended {
                bus.forget_subscription(now, client.key, of);
                return ReasonCode::Success;
            }
            refusals.add(filter, reasons::NO_SUBSCRIPTION);
            ReasonCode::NoSubscriptionExisted
        };
        let reasons: Vec<_> = request.filters.iter().map(ended).collect();
        bus.hold_output(now, client.key, session);
        drop(bus);
        session.with(|wire, _| wire.mqtt.unsuback_because(request.packet_id, &reasons, refusals.words()));
    }

    /// The connection is no more: the client leaves the bus, where it has not said so itself. Not as it is closed: when
    /// thousands break at once, those who stay have their turns meanwhile.
    fn go(&mut self) {
        let now = self.bus.borrow().now();
        if let Some(ended) = self.gone.take() {
            self.ended(now, &ended);
        }
        self.leave(now, None, true);
        wake(&self.bus.borrow());
    }

    fn ended(&mut self, now: Now, ended: &Ended) {
        tracing::debug!(peer = %self.peer, cause = ?ended.cause, "client ended");
        self.bus.borrow_mut().count_end(&ended.cause);
        self.leave(now, ended.session_expiry_s, ended.publish_will);
    }

    fn leave(&mut self, now: Now, expiry_s: Option<u32>, publish_will: bool) {
        if let Some(ConnectedClient { key, generation, number, name, will }) = self.client.take() {
            // Judged while it is known who the client is; a delayed one is published by the rights of this moment.
            let may = |topic: &str| self.authentication.may(&self.bus, now, &name, Verb::Publish, topic);
            let will = will.filter(|will| publish_will && may(will.topic()));
            self.authentication.leave(&self.bus);
            self.bus.borrow_mut().leave(now, (key, generation, number), expiry_s, will.map(|will| *will));
        }
    }
}
