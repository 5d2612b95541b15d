//! Messages of an edge's clients to topics of the upstream: they are not applied here. The upstream takes them or not, its answer is
//! the client's, and the value comes back to all who have subscribed.

use super::conditions::with_locks;
use super::mirror::Mirror;
use super::questions::{Unanswered, payload_there};
use super::reasons;
use super::state::{Bus, Subscriber};
use crate::config::TopicPrefix;
use crate::control::command::REQUEST_PREFIX;
use crate::edge::{EdgeInput, with_response_topic};
use std::collections::HashMap;
use std::sync::Arc;
use tieline_core::{Now, Topic};
use tieline_mqtt::{Delivery, Message, PacketId, Property, Qos, ReasonCode, Text};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

/// The user property that says for which user an edge publishes, and that for which of its clients.
pub const FOR_USER: &str = "tieline-for";
pub const FOR_CLIENT: &str = "tieline-for-client";
/// The user property that says which session of the edge a lock is for: no other session of the edge has the same.
pub const FOR_SESSION: &str = "tieline-for-session";
/// The right to speak for a user is that to publish to this topic with the user's name behind it.
pub const SPEAK_PREFIX: &str = "$for/";
/// Messages that wait for answers of the upstream.
const TICKETS_MAX: usize = 4096;

/// Why a message did not go upward, or was refused there.
pub type UpwardRefusal = (ReasonCode, String);

/// Who waits for the upstream's answer.
#[derive(Debug)]
pub enum Ticket {
    /// A client's QoS 1 or 2 message.
    Client {
        /// Its key on the bus.
        key: usize,
        /// Which session has the key.
        number: u64,
        /// What is to be acknowledged.
        packet_id: PacketId,
    },
    /// A call of the API.
    Call(oneshot::Sender<Result<(), UpwardRefusal>>),
    /// Who asks, if the upstream does not take the question; its answer comes by itself.
    Question,
    /// The same for a request for a lock.
    Lock,
    /// Nobody.
    Nobody,
}

/// Messages on their way.
#[derive(Debug, Default)]
pub struct Tickets {
    waiting: HashMap<u64, Ticket>,
    pub(super) last: u64,
    /// Messages that went upward, and how many the upstream refused or never answered.
    pub(super) sent: u64,
    pub(super) refused: u64,
}

/// What a message says of whom it is published for.
#[derive(Debug)]
pub struct OwnWords {
    /// The user; none where the edge knows none.
    pub user: Option<String>,
    /// The client.
    pub client: String,
    /// The client's session, as the edge tells its sessions apart; empty where it does not say.
    pub session: String,
}

/// A message without what says for whom it was published, which is this.
#[must_use]
pub fn own_words(message: &mut Message) -> Option<OwnWords> {
    let names = [FOR_USER, FOR_CLIENT, FOR_SESSION];
    let [user, client, session] = names.map(|name| message.properties.own_property(name).map(str::to_owned));
    if user.is_none() && client.is_none() && session.is_none() {
        return None;
    }
    for name in names {
        message.properties = message.properties.without_user_property(name);
    }
    Some(OwnWords { user, client: client.unwrap_or_default(), session: session.unwrap_or_default() })
}

/// A message that says for which session it is published, too.
pub fn speak_for_session(message: &mut Message, user: Option<&str>, client: &str, session: &str) {
    match user {
        Some(user) => speak_for(message, user, client),
        None => speak_for_client(message, client),
    }
    let pair = Property::UserProperty((Text::truncated(FOR_SESSION), Text::truncated(session)));
    message.properties = message.properties.with(&pair);
}

/// The topic that a message is for: its own, or that of the point that it commands.
#[must_use]
pub fn topic_of(message: &Message) -> &str {
    message.topic.strip_prefix(REQUEST_PREFIX).unwrap_or(&message.topic)
}

/// A message with what says for whom it is published.
pub fn speak_for(message: &mut Message, user: &str, client: &str) {
    let pair = |name, value| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
    message.properties = message.properties.with(&pair(FOR_USER, user));
    speak_for_client(message, client);
}

/// The same where the client has no user.
pub(super) fn speak_for_client(message: &mut Message, client: &str) {
    let pair = Property::UserProperty((Text::truncated(FOR_CLIENT), Text::truncated(client)));
    message.properties = message.properties.with(&pair);
}

/// A message with the names that topics have at the upstream; none where its own has none.
fn message_there(prefix: &TopicPrefix, message: Message) -> Option<Message> {
    if prefix.is_empty() {
        return Some(message);
    }
    let Message { topic, payload, properties, received } = message;
    let answered = properties.response_topic().and_then(|to| Topic::new(prefix.there(&to)?).ok());
    let properties = answered.map_or_else(|| properties.clone(), |to| with_response_topic(&properties, &to));
    let properties = with_locks(&properties, |lock| prefix.there(lock).map(str::to_owned))?;
    let (topic, payload) = match topic.strip_prefix(REQUEST_PREFIX) {
        Some(point) => (format!("{REQUEST_PREFIX}{}", prefix.there(point)?), payload_there(prefix, &topic, payload)),
        None => (prefix.there(&topic)?.to_owned(), payload),
    };
    Some(Message { topic: Topic::new(&topic).ok()?, payload, properties, received })
}

impl Bus {
    /// Sends a message to the upstream of its topic. Who waits hears what became of it, unless it is refused here.
    ///
    /// # Errors
    /// The upstream is away, or too much waits for it.
    pub fn publish_up(
        &mut self,
        now: Now,
        message: Message,
        qos: Qos,
        retain: bool,
        ticket: Ticket,
    ) -> Result<(), UpwardRefusal> {
        let up = self.upstream_of(topic_of(&message));
        self.publish_up_by(now, up, (message, qos, retain), ticket)
    }

    /// The same over one of the sessions with its upstream.
    ///
    /// # Errors
    /// As of [`Bus::publish_up`].
    pub fn publish_up_by(
        &mut self,
        now: Now,
        up: Option<usize>,
        (message, qos, retain): (Message, Qos, bool),
        ticket: Ticket,
    ) -> Result<(), UpwardRefusal> {
        let prefix = up.and_then(|up| self.mirrors.get(up)).map(|mirror| &mirror.prefix);
        let there = prefix.and_then(|prefix| message_there(prefix, message));
        match up.zip(there) {
            Some((up, message)) => self.publish_to(now, up, (message, qos, retain), ticket),
            None => Err((ReasonCode::ImplementationSpecificError, reasons::UPSTREAM_AWAY.to_owned())),
        }
    }

    /// The same for a message as the upstream has it.
    pub(super) fn publish_to(
        &mut self,
        now: Now,
        up: usize,
        (message, qos, retain): (Message, Qos, bool),
        ticket: Ticket,
    ) -> Result<(), UpwardRefusal> {
        // The answer may come to a topic that was subscribed just now.
        self.ask_upstream(now);
        let is_up = self.mirrors.get(up).is_some_and(Mirror::is_up);
        if !is_up {
            return Err((ReasonCode::ImplementationSpecificError, reasons::UPSTREAM_AWAY.to_owned()));
        }
        self.hand_up(up, (message, qos, retain), ticket).map(drop)
    }

    /// Gives a message to the session with the upstream; the number by which its answer names it.
    pub(super) fn hand_up(
        &mut self,
        up: usize,
        (message, qos, retain): (Message, Qos, bool),
        ticket: Ticket,
    ) -> Result<u64, UpwardRefusal> {
        let Some(mirror) = self.mirrors.get_mut(up) else {
            return Err((ReasonCode::ImplementationSpecificError, reasons::UPSTREAM_AWAY.to_owned()));
        };
        let full = || (ReasonCode::QuotaExceeded, reasons::UPSTREAM_BUSY.to_owned());
        if mirror.is_behind() || mirror.tickets.waiting.len() >= TICKETS_MAX {
            return Err(full());
        }
        mirror.tickets.last += 1;
        let number = mirror.tickets.last;
        let connection = mirror.connection;
        let input = EdgeInput::Publish { ticket: number, message: Box::new(message), qos, retain, connection };
        match mirror.handle.inputs.try_send(input) {
            Ok(()) => {
                mirror.tickets.sent += 1;
                mirror.tickets.waiting.insert(number, ticket);
                Ok(number)
            }
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Err(full()),
        }
    }

    /// The upstream has answered, or will not.
    pub(super) fn answered_above(&mut self, now: Now, (up, ticket): (usize, u64), refused: Option<UpwardRefusal>) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let Some(waiting) = mirror.tickets.waiting.remove(&ticket) else { return };
        mirror.tickets.refused += u64::from(refused.is_some());
        match waiting {
            Ticket::Nobody => {}
            Ticket::Question => {
                if let Some(refusal) = refused {
                    // The upstream refuses requests for other reasons; this one is of a message without an answer.
                    let may_be_done = refusal.0 == ReasonCode::ImplementationSpecificError;
                    self.answered_question((up, ticket), Err(Unanswered { refusal, may_be_done }));
                }
            }
            Ticket::Lock => {
                if let Some((reason, words)) = refused {
                    self.lock_not_asked((up, ticket), reason, words);
                }
            }
            Ticket::Call(answer) => drop(answer.send(refused.map_or(Ok(()), Err))),
            Ticket::Client { key, number, packet_id } => {
                let Some((reason, words)) = refused else {
                    return self.answer_client(now, (key, number), packet_id, Ok(()));
                };
                match self.subscribers.get_mut(key) {
                    Some(Subscriber::Client(client)) if client.number == number => {
                        client.refuse(packet_id, reason, &words);
                    }
                    Some(_) | None => self.answer_client(now, (key, number), packet_id, Err(&words)),
                }
            }
        }
    }

    /// Gives a client an answer that nobody else gets.
    pub fn tell_alone(&self, (key, number): (usize, u64), message: Message) {
        let Some(Subscriber::Client(client)) = self.subscribers.get(key) else { return };
        if client.number != number {
            return;
        }
        let (message, qos) = (Arc::new(message), Qos::AtLeastOnce);
        let delivery = Delivery { message, qos, retain: false, subscription_ids: Vec::new() };
        if let Err(error) = client.session.send(|wire, _| wire.mqtt.deliver(delivery)) {
            tracing::warn!(client = %client.id, %error, "the answer to a request could not be sent");
        }
    }

    /// The same as [`Bus::publish`] for a topic of the upstream.
    ///
    /// # Errors
    /// As of [`Bus::publish_up`].
    pub fn publish_up_for_call(
        &mut self,
        now: Now,
        message: Message,
        retain: bool,
    ) -> Result<oneshot::Receiver<Result<(), UpwardRefusal>>, UpwardRefusal> {
        let (answer, hears) = oneshot::channel();
        self.publish_up(now, message, Qos::AtLeastOnce, retain, Ticket::Call(answer))?;
        self.work.notify_one();
        Ok(hears)
    }
}
