//! Requests to serve, and messages.

use crate::FabricError;
use crate::connection::publish_error;
use async_nats::{Client, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;

/// Requests of one subject.
#[derive(Debug)]
pub struct Service {
    client: Client,
    subscriber: Subscriber,
}

/// A request, which waits for an answer.
#[derive(Debug)]
pub struct Request {
    /// The subject that was asked.
    pub subject: String,
    /// What was asked.
    pub body: Bytes,
    client: Client,
    reply: Option<Subject>,
}

impl Service {
    pub(crate) const fn new(client: Client, subscriber: Subscriber) -> Self {
        Self { client, subscriber }
    }

    /// The next request; none once the connection is closed.
    pub async fn next(&mut self) -> Option<Request> {
        let message = self.subscriber.next().await?;
        let subject = message.subject.into_string();
        Some(Request { subject, body: message.payload, client: self.client.clone(), reply: message.reply })
    }
}

impl Request {
    /// Answers. Nobody learns whether the answer arrives.
    ///
    /// # Errors
    /// The answer is too long, or the connection is closed.
    pub async fn answer(self, body: Bytes) -> Result<(), FabricError> {
        let Some(reply) = self.reply else { return Ok(()) };
        self.client.publish(reply, body).await.map_err(|error| publish_error(&error))
    }
}

/// Messages of a subscription.
#[derive(Debug)]
pub struct Subscription(Subscriber);

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its subject.
    pub subject: String,
    /// Its content.
    pub body: Bytes,
}

impl Subscription {
    pub(crate) const fn new(subscriber: Subscriber) -> Self {
        Self(subscriber)
    }

    /// The next message; none once the connection is closed.
    pub async fn next(&mut self) -> Option<Message> {
        let message = self.0.next().await?;
        Some(Message { subject: message.subject.into_string(), body: message.payload })
    }
}
