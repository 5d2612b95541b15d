//! An MQTT client that comes back.
//!
//! The handle talks to a thread of its own, which keeps the connection: it connects again with growing waits,
//! subscribes again, and sends what was published meanwhile.

mod deltas;
mod driver;
mod error;
mod outbox;

#[cfg(test)]
mod tests;

pub use error::MqttError;
pub use outbox::{Done, Outbox, offer};

use bytes::Bytes;
use driver::{Command, Destination, Settings};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_core::{Filter, Topic};
use tieline_delta::{Event, SenderStats};
use tieline_mqtt::{Binary, ClientConfig, Message, Properties, Property, PublishOutcome};
use tieline_mqtt::{Qos, ReasonCode, Received, Text, Version};
use tieline_net::tls::ClientTls;
use tieline_net::{ClientSide, Clock, ConnectOver, Counters, ShardThread, Target, TlsConnect};
use tokio::sync::{mpsc, oneshot, watch};

/// Commands on their way to the connection's thread; callers wait for room.
const COMMANDS_MAX: usize = 256;
/// Messages that a [`Subscription`] holds; the newest are then dropped and counted by [`Subscription::lost`].
const SUBSCRIPTION_MESSAGES_MAX: usize = 16_384;

/// How to connect.
#[derive(Clone, Debug)]
pub struct MqttOptions {
    /// `host:port`.
    pub address: String,
    /// The version to speak; requests need 5.0.
    pub version: Version,
    /// The client's name; empty makes one up.
    pub client_id: String,
    /// Whether a session of before is to be forgotten.
    pub clean_start: bool,
    /// The longest silence in seconds; 0 is without limit.
    pub keep_alive_s: u16,
    /// What a connection over TLS is made with; none for TCP alone.
    pub tls: Option<ClientTls>,
    /// User name and password.
    pub credentials: Option<(String, String)>,
    /// How long the first connection may take.
    pub connect_timeout: Duration,
    /// The longest wait between attempts to connect again; the first is an eighth of it.
    pub retry_max: Duration,
    /// Whether the server is asked to take what changed of topics: [`MqttClient::publish_value`]. 5.0 only.
    pub deltas: bool,
    /// The topic below which answers to requests come back; the client's name follows.
    pub reply_prefix: String,
}

impl MqttOptions {
    /// A 5.0 client without a name, for the server at `host:port`.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            version: Version::V5,
            client_id: String::new(),
            clean_start: true,
            keep_alive_s: 30,
            tls: None,
            credentials: None,
            connect_timeout: Duration::from_secs(10),
            retry_max: Duration::from_secs(8),
            deltas: false,
            reply_prefix: "reply".to_owned(),
        }
    }

    fn session(&self) -> Result<ClientConfig, MqttError> {
        let credentials = self.credentials.as_ref();
        Ok(ClientConfig {
            version: self.version,
            client_id: Text::new(&self.client_name())?,
            clean_start: self.clean_start,
            // A session that is to be found again has to be kept; an hour outlives any restart of either side.
            session_expiry_s: if self.clean_start { 0 } else { 3600 },
            keep_alive_s: self.keep_alive_s,
            user_name: credentials.map(|(user, _)| Text::new(user)).transpose()?,
            password: credentials.map(|(_, word)| Binary::new(word.clone().into_bytes())).transpose()?,
            user_properties: if self.deltas { outbox::offer() } else { Vec::new() },
            answer_timeout: self.connect_timeout,
            topic_alias_max: u16::MAX,
            ..ClientConfig::default()
        })
    }

    /// A name of one's own keeps the reply topic the same over reconnections.
    fn client_name(&self) -> String {
        if self.client_id.is_empty() { format!("tieline-{:016x}", random()) } else { self.client_id.clone() }
    }
}

/// A number that differs from call to call; not for secrets.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A connection to an MQTT server. Dropping it cuts the connection; [`MqttClient::close`] says goodbye.
#[derive(Debug)]
pub struct MqttClient {
    commands: mpsc::Sender<Command>,
    connected: watch::Receiver<bool>,
    _thread: ShardThread,
}

impl MqttClient {
    /// Connects, and keeps connected from then on.
    ///
    /// # Errors
    /// The first attempt fails: nobody answers, or the server turns the client away.
    pub async fn connect(options: &MqttOptions) -> Result<Self, MqttError> {
        let mut target = Target::new(&options.address);
        target.timeout = options.connect_timeout;
        target.backoff.max = options.retry_max;
        target.backoff.first = options.retry_max / 8;
        if let Some(tls) = &options.tls {
            target.over = ConnectOver::Tls(TlsConnect { tls: ClientSide::Once(tls.clone()), name: None });
        }
        (target.send_buffer, target.receive_buffer) = (None, None);
        let session = options.session()?;
        let reply = Topic::new(&options.reply_prefix)?.join(&session.client_id)?;
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let (ready, first) = oneshot::channel();
        let (state, connected) = watch::channel(false);
        let settings = Settings { session, target, reply, seed: random() };
        let thread = ShardThread::spawn("mqtt-client", Clock::start(), Arc::new(Counters::default()), move |shard| {
            driver::run(shard, settings, asked, ready, state)
        });
        let thread = thread.map_err(MqttError::Connect)?;
        first.await.map_err(|_| MqttError::Closed)??;
        Ok(Self { commands, connected, _thread: thread })
    }

    /// Whether the connection is up; it comes back by itself.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    /// Subscribes, now and after each reconnection, and returns the stream of messages once the server has agreed.
    /// Dropping the stream unsubscribes at the next message. In 3.1.1, where a server may send a message once for
    /// each of several filters that overlap and never says for which, each stream gets every copy.
    ///
    /// # Errors
    /// The filter is none, or the server refuses it.
    pub async fn subscribe(&self, filter: &str, qos: Qos) -> Result<Subscription, MqttError> {
        let (sink, messages) = mpsc::channel(SUBSCRIPTION_MESSAGES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        self.route(filter, qos, Destination::Stream { sink, lost: Arc::clone(&lost) }).await?;
        Ok(Subscription { messages, lost })
    }

    /// Subscribes as [`MqttClient::subscribe`] does at QoS 0, and asks for deltas (docs/delta.md): what the server sends is
    /// what changed, what comes out are whole values. From a server that knows nothing of them values come as they were
    /// published. 5.0 only.
    ///
    /// # Errors
    /// The filter is none, or the server refuses it.
    pub async fn subscribe_values(&self, filter: &str) -> Result<Values, MqttError> {
        let (sink, events) = mpsc::channel(SUBSCRIPTION_MESSAGES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        self.route(filter, Qos::AtMostOnce, Destination::Values { sink, lost: Arc::clone(&lost) }).await?;
        Ok(Values { events, lost })
    }

    async fn route(&self, filter: &str, qos: Qos, to: Destination) -> Result<(), MqttError> {
        let (answer, answered) = oneshot::channel();
        let filter = Filter::new(filter)?;
        self.ask(Command::Subscribe { filter, qos, to, answer }).await?;
        answered.await.map_err(|_| MqttError::Closed)?
    }

    /// Publishes bytes, and returns when they are written (QoS 0) or acknowledged (QoS 1 and 2). While the
    /// connection is away, that is after it is back.
    ///
    /// # Errors
    /// The topic is none; the server refuses the message; the connection was lost before the answer, so that it may
    /// have arrived or not.
    pub async fn publish(
        &self,
        topic: &str,
        payload: impl Into<Bytes>,
        qos: Qos,
        retain: bool,
    ) -> Result<ReasonCode, MqttError> {
        self.send(Topic::new(topic)?, payload.into(), Properties::default(), qos, retain).await
    }

    /// Publishes bytes as [`MqttClient::publish`] does, and returns when they are on their way: messages go out in the order of
    /// these calls, and their acknowledgements come later.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn begin_publish(
        &self,
        topic: &Topic,
        payload: impl Into<Bytes>,
        qos: Qos,
        retain: bool,
    ) -> Result<Publishing, MqttError> {
        let (answer, answered) = oneshot::channel();
        let (payload, properties) = (payload.into(), Properties::default());
        self.ask(Command::Publish { topic: topic.clone(), payload, properties, qos, retain, answer }).await?;
        Ok(Publishing { topic: topic.clone(), answered })
    }

    /// Publishes a topic's value as [`MqttClient::publish`] does; over the wire goes what changed since the last one, where
    /// [`MqttOptions::deltas`] asked for that and the server takes it (docs/delta.md, Publishers). What the server cannot
    /// apply is sent again, whole, unless a newer value of the topic has gone out: that is an error of this call then.
    ///
    /// # Errors
    /// As with `publish`.
    pub async fn publish_value(
        &self,
        topic: &str,
        value: impl Into<Bytes>,
        qos: Qos,
        retain: bool,
    ) -> Result<ReasonCode, MqttError> {
        let (answer, answered) = oneshot::channel();
        let (topic, value) = (Topic::new(topic)?, value.into());
        self.ask(Command::PublishValue { topic, value, qos, retain, answer }).await?;
        outcome(answered.await.map_err(|_| MqttError::Closed)??)
    }

    /// How many values went out whole, as what changed, and were refused as that, by now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn sender_stats(&self) -> Result<SenderStats, MqttError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Command::Stats { answer }).await?;
        answered.await.map_err(|_| MqttError::Closed)
    }

    async fn send(
        &self,
        topic: Topic,
        payload: Bytes,
        properties: Properties,
        qos: Qos,
        retain: bool,
    ) -> Result<ReasonCode, MqttError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Command::Publish { topic, payload, properties, qos, retain, answer }).await?;
        outcome(answered.await.map_err(|_| MqttError::Closed)??)
    }

    /// Publishes a request at QoS 1 with a response topic and correlation data, and returns the first answer.
    /// 5.0 only.
    ///
    /// # Errors
    /// The topic is none; the server refuses the request; no answer within `timeout`.
    pub async fn request(
        &self,
        topic: &str,
        payload: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<Message, MqttError> {
        let (answer, answered) = oneshot::channel();
        let (topic, payload) = (Topic::new(topic)?, payload.into());
        self.ask(Command::Request { topic, payload, answer }).await?;
        let answered = tokio::time::timeout(timeout, answered).await.map_err(|_| MqttError::NoAnswer(timeout))?;
        answered.map_err(|_| MqttError::Closed)?
    }

    /// Answers a request: publishes to its response topic at QoS 1 with its correlation data. 5.0 only.
    ///
    /// # Errors
    /// The message asks for no answer; the server refuses it; the connection was lost before the server had it.
    pub async fn respond(&self, request: &Message, payload: impl Into<Bytes>) -> Result<(), MqttError> {
        let topic = request.properties.response_topic().ok_or(MqttError::NoResponseTopic)?;
        let topic = Topic::new(&topic)?;
        let properties = request.properties.correlation_data().map(Property::CorrelationData);
        let properties = properties.into_iter().collect();
        self.send(topic, payload.into(), properties, Qos::AtLeastOnce, false).await.map(drop)
    }

    /// Says goodbye and waits until the connection is closed, 2 s at most.
    pub async fn close(self) {
        let Self { commands, mut connected, _thread: thread } = self;
        drop(commands);
        let gone = async { while connected.changed().await.is_ok() {} };
        // The other side may not read any more; the thread's end cuts the connection then.
        let _ = tokio::time::timeout(Duration::from_secs(2), gone).await;
        drop(thread);
    }

    async fn ask(&self, command: Command) -> Result<(), MqttError> {
        self.commands.send(command).await.map_err(|_| MqttError::Closed)
    }
}

fn outcome(outcome: PublishOutcome) -> Result<ReasonCode, MqttError> {
    match outcome {
        PublishOutcome::Answered(reason) if reason.is_error() => Err(MqttError::Rejected(reason, String::new())),
        PublishOutcome::Answered(reason) => Ok(reason),
        PublishOutcome::Unknown => Err(MqttError::Unknown),
        PublishOutcome::Dropped | PublishOutcome::Expired => Err(MqttError::Full),
        PublishOutcome::TooLarge => Err(MqttError::TooLarge),
        PublishOutcome::Unsent => Err(MqttError::Closed),
    }
}

/// A message on its way.
#[derive(Debug)]
pub struct Publishing {
    topic: Topic,
    answered: oneshot::Receiver<Result<PublishOutcome, MqttError>>,
}

impl Publishing {
    /// Its topic.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Returns when it is written (QoS 0) or acknowledged (QoS 1 and 2).
    ///
    /// # Errors
    /// The server refuses it, or the connection was lost before the answer.
    pub async fn answered(self) -> Result<ReasonCode, MqttError> {
        outcome(self.answered.await.map_err(|_| MqttError::Closed)??)
    }
}

/// The values of one subscription with deltas.
#[derive(Debug)]
pub struct Values {
    events: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

impl Values {
    /// The next value of a topic, or that a topic's value is unknown until its next one; none when the client is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Values dropped because [`Values::next`] was not called often enough.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The messages of one subscription.
#[derive(Debug)]
pub struct Subscription {
    messages: mpsc::Receiver<Received>,
    lost: Arc<AtomicU64>,
}

impl Subscription {
    /// The next message; none when the client is gone, or the server refuses the subscription after a reconnection.
    pub async fn next(&mut self) -> Option<Received> {
        self.messages.recv().await
    }

    /// Messages dropped because [`Subscription::next`] was not called often enough.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
