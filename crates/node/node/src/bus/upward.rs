//! Messages of an edge's clients to topics of the upstream: they are not applied here. The upstream takes them or not, its answer is
//! the client's, and the value comes back to all who have subscribed.

use super::reasons;
use super::state::{Bus, Subscriber};
use crate::edge::EdgeInput;
use std::collections::HashMap;
use tieline_core::Now;
use tieline_mqtt::{Message, PacketId, Property, Qos, ReasonCode, Text};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

/// The user property that says for which user an edge publishes, and that for which of its clients.
pub const FOR_USER: &str = "tieline-for";
pub const FOR_CLIENT: &str = "tieline-for-client";
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
    /// Nobody.
    Nobody,
}

/// Messages on their way.
#[derive(Debug, Default)]
pub struct Tickets {
    waiting: HashMap<u64, Ticket>,
    last: u64,
    /// Messages that went upward, and how many the upstream refused or never answered.
    pub(super) sent: u64,
    pub(super) refused: u64,
}

/// A message without what says for whom it was published.
#[must_use]
pub fn own_words(message: &mut Message) -> Option<(String, String)> {
    let user = message.properties.own_property(FOR_USER)?.to_owned();
    let client = message.properties.own_property(FOR_CLIENT).unwrap_or_default().to_owned();
    message.properties = message.properties.without_user_property(FOR_USER).without_user_property(FOR_CLIENT);
    Some((user, client))
}

/// A message with what says for whom it is published.
pub fn speak_for(message: &mut Message, user: &str, client: &str) {
    let pair = |name, value| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
    message.properties = message.properties.with(&pair(FOR_USER, user)).with(&pair(FOR_CLIENT, client));
}

impl Bus {
    /// Sends a message to the upstream. Who waits hears what became of it, unless it is refused here.
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
        // The answer may come to a topic that was subscribed just now.
        self.ask_upstream(now);
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return Err((ReasonCode::ImplementationSpecificError, reasons::UPSTREAM_AWAY.to_owned()));
        };
        if !mirror.is_up() {
            return Err((ReasonCode::ImplementationSpecificError, reasons::UPSTREAM_AWAY.to_owned()));
        }
        let full = || (ReasonCode::QuotaExceeded, reasons::UPSTREAM_BUSY.to_owned());
        if mirror.is_behind() || mirror.tickets.waiting.len() >= TICKETS_MAX {
            return Err(full());
        }
        mirror.tickets.last += 1;
        let number = mirror.tickets.last;
        let input = EdgeInput::Publish { ticket: number, message: Box::new(message), qos, retain };
        match mirror.handle.inputs.try_send(input) {
            Ok(()) => {
                mirror.tickets.sent += 1;
                mirror.tickets.waiting.insert(number, ticket);
                Ok(())
            }
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Err(full()),
        }
    }

    /// The upstream has answered, or will not.
    pub(super) fn answered_above(&mut self, now: Now, ticket: u64, refused: Option<UpwardRefusal>) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        let Some(waiting) = mirror.tickets.waiting.remove(&ticket) else { return };
        mirror.tickets.refused += u64::from(refused.is_some());
        match waiting {
            Ticket::Nobody => {}
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
