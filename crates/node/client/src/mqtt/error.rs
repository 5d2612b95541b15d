//! Why something asked of an MQTT server did not happen.

use std::time::Duration;
use std::{fmt, io};
use tieline_core::{FilterError, TopicError};
use tieline_mqtt::{FieldError, ReasonCode};

/// Why something asked of an MQTT server did not happen.
#[derive(Debug)]
pub enum MqttError {
    /// Nobody answers at the address.
    Connect(io::Error),
    /// The server turns the client away, with its reason and its words.
    Refused(ReasonCode, String),
    /// The first connection ended before the server let the client in.
    Lost,
    /// The server refuses the message or the subscription, with its reason and its words.
    Rejected(ReasonCode, String),
    /// The connection was lost before the answer: the message may have arrived or not.
    Unknown,
    /// Too many messages wait for the connection.
    Full,
    /// The message is larger than the server takes.
    TooLarge,
    /// No answer to a request within this time.
    NoAnswer(Duration),
    /// The message names no topic for an answer.
    NoResponseTopic,
    /// The client was closed.
    Closed,
    /// The text is not a topic.
    Topic(TopicError),
    /// The text is not a filter.
    Filter(FilterError),
    /// A name or password does not fit into MQTT.
    Field(FieldError),
}

impl fmt::Display for MqttError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Refused(reason, text) if text.is_empty() => write!(f, "the server refuses the connection: {reason}"),
            Self::Refused(reason, text) => write!(f, "the server refuses the connection: {reason}, {text}"),
            Self::Lost => f.write_str("the connection was closed before it was answered; is this an address of MQTT?"),
            Self::Rejected(reason, text) if text.is_empty() => write!(f, "the server refuses: {reason}"),
            Self::Rejected(reason, text) => write!(f, "the server refuses: {reason}, {text}"),
            Self::Unknown => f.write_str("the connection was lost before the answer; the message may have arrived"),
            Self::Full => f.write_str("too many messages wait for the connection"),
            Self::TooLarge => f.write_str("the message is larger than the server takes"),
            Self::NoAnswer(after) => write!(f, "no answer within {} s", after.as_secs_f64()),
            Self::NoResponseTopic => f.write_str("the message names no response topic"),
            Self::Closed => f.write_str("the client was closed"),
            Self::Topic(error) => error.fmt(f),
            Self::Filter(error) => error.fmt(f),
            Self::Field(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MqttError {}

impl From<TopicError> for MqttError {
    fn from(error: TopicError) -> Self {
        Self::Topic(error)
    }
}

impl From<FilterError> for MqttError {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

impl From<FieldError> for MqttError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}
