//! A log that several nodes append to, each on the condition that it knows the last message.

use crate::{Fabric, FabricError};
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::fmt;
use std::time::Duration;

/// The header with the term of a message.
const TERM: &str = "Tieline-Term";

/// A log and its place.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The name of the stream: no spaces, no dots.
    pub name: String,
    /// The subject that is appended to.
    pub subject: String,
    /// How many servers keep it: 1, 3 or 5.
    pub replicas: usize,
    /// Beyond so many bytes the oldest messages are removed; none: it grows as far as the servers allow.
    pub bytes_max: Option<u64>,
}

/// A log.
#[derive(Clone, Debug)]
pub struct Log {
    jetstream: jetstream::Context,
    stream: Stream,
    subject: String,
}

/// The last message of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Its sequence; 0 where there is none.
    pub sequence: u64,
    /// The term of its writer.
    pub term: u64,
}

/// A message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub sequence: u64,
    /// The term of its writer.
    pub term: u64,
    /// Its content.
    pub body: Bytes,
}

/// Why a message is not known to be in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The last message is another one than the caller knew: it is not in the log.
    WrongLast,
    /// No answer, or an election: it may be in the log, or get there yet.
    Unknown(String),
    /// The server refuses, and will again: it is not in the log.
    Refused(String),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongLast => f.write_str("the log has another last message"),
            Self::Unknown(words) => write!(f, "it is not known whether the message is in the log: {words}"),
            Self::Refused(words) => write!(f, "the log refuses the message: {words}"),
        }
    }
}

impl std::error::Error for AppendError {}

impl Fabric {
    /// Opens a log, or makes it where there is none.
    ///
    /// # Errors
    /// The servers do not answer, refuse, or have a log of that name with other options.
    pub async fn log(&self, options: LogOptions) -> Result<Log, FabricError> {
        let LogOptions { name, subject, replicas, bytes_max } = options;
        let config = Config {
            max_bytes: bytes_max.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1),
            name,
            subjects: vec![subject.clone()],
            num_replicas: replicas,
            deny_delete: true,
            ..Config::default()
        };
        // A stream that is there with the same options is taken for a new one.
        let stream = self.jetstream.create_stream(config).await.map_err(|error| match error.kind() {
            CreateStreamErrorKind::TimedOut | CreateStreamErrorKind::JetStreamUnavailable => {
                FabricError::Away(error.to_string())
            }
            CreateStreamErrorKind::JetStream(cause) if cause.error_code() == NO_ROOM => {
                FabricError::Refused(no_room(bytes_max, &cause))
            }
            CreateStreamErrorKind::JetStream(cause) => of_jetstream(&cause),
            CreateStreamErrorKind::EmptyStreamName
            | CreateStreamErrorKind::InvalidStreamName
            | CreateStreamErrorKind::DomainAndExternalSet => FabricError::Misused(error.to_string()),
            CreateStreamErrorKind::Response
            | CreateStreamErrorKind::NotFound
            | CreateStreamErrorKind::ResponseParse => FabricError::Away(error.to_string()),
        })?;
        Ok(Log { jetstream: self.jetstream.clone(), stream, subject })
    }
}

/// A server that reserves a stream's limit of bytes has less than that left.
const NO_ROOM: ErrorCode = ErrorCode(10047);

fn no_room(bytes_max: Option<u64>, cause: &jetstream::Error) -> String {
    let limit = bytes_max.map_or_else(String::new, |bytes| format!(" of {} MiB", bytes >> 20));
    format!(
        "the server has not enough space for a log{limit}: free its disk, or raise `max_file_store` in its configuration, or lower \
         `stream_bytes_max` ({cause})"
    )
}

/// What a server says while it has no leader is not a refusal.
pub(crate) fn of_jetstream(cause: &jetstream::Error) -> FabricError {
    const PASSING: [ErrorCode; 3] =
        [ErrorCode::CLUSTER_NOT_AVAILABLE, ErrorCode::CLUSTER_NO_PEERS, ErrorCode::INSUFFICIENT_RESOURCES];
    let words = cause.to_string();
    if PASSING.contains(&cause.error_code()) { FabricError::Away(words) } else { FabricError::Refused(words) }
}

impl Log {
    /// Appends a message behind the one with the sequence `expected`, 0 where there is none, and returns its sequence, `expected` + 1. It
    /// is on the disks of a majority of the servers then.
    ///
    /// # Errors
    /// It is not, or that is not known.
    pub async fn append_if(
        &self,
        expected: u64,
        term: u64,
        body: Bytes,
        timeout: Duration,
    ) -> Result<u64, AppendError> {
        let mut headers = HeaderMap::new();
        headers.insert(TERM, term.to_string());
        let message = PublishMessage::build().headers(headers).payload(body).expected_last_sequence(expected);
        let appended = async {
            let sent = self.jetstream.send_publish(self.subject.clone(), message).await?;
            sent.await
        };
        let appended = tokio::time::timeout(timeout, appended).await;
        let acknowledged = appended.map_err(|_| AppendError::Unknown(format!("no answer in {timeout:?}")))?;
        match acknowledged {
            Ok(acknowledged) => Ok(acknowledged.sequence),
            Err(error) => Err(match error.kind() {
                PublishErrorKind::WrongLastSequence => AppendError::WrongLast,
                PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::WrongLastMessageId => {
                    AppendError::Refused(error.to_string())
                }
                // No stream: what a server says while the stream has no leader.
                PublishErrorKind::StreamNotFound
                | PublishErrorKind::TimedOut
                | PublishErrorKind::BrokenPipe
                | PublishErrorKind::MaxAckPending
                | PublishErrorKind::Other => AppendError::Unknown(error.to_string()),
            }),
        }
    }

    /// The last message, as the leader of the stream knows it. A server that was cut off and does not know that it leads no longer may
    /// say an earlier one.
    ///
    /// # Errors
    /// The servers do not answer or refuse.
    pub async fn last(&self) -> Result<Last, FabricError> {
        match self.stream.get_last_raw_message_by_subject(&self.subject).await {
            Ok(message) => Ok(Last { sequence: message.sequence, term: term(Some(&message.headers)) }),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => self.last_of_empty().await,
                LastRawMessageErrorKind::JetStream(cause) => Err(of_jetstream(&cause)),
                LastRawMessageErrorKind::InvalidSubject | LastRawMessageErrorKind::Other => {
                    Err(FabricError::Away(error.to_string()))
                }
            },
        }
    }

    /// A log without a message has none before it either: nothing is removed but what a later message stands for.
    async fn last_of_empty(&self) -> Result<Last, FabricError> {
        let info = self.stream.get_info().await.map_err(|error| FabricError::Away(error.to_string()))?;
        match info.state.last_sequence {
            0 => Ok(Last::default()),
            sequence => Err(FabricError::Away(format!("the message {sequence} came in between"))),
        }
    }

    /// Reads on from a sequence: what is there, and what comes.
    ///
    /// # Errors
    /// The servers do not answer or refuse.
    pub async fn read_from(&self, sequence: u64) -> Result<Reader, FabricError> {
        let deliver_policy = DeliverPolicy::ByStartSequence { start_sequence: sequence.max(1) };
        let config = OrderedConfig { deliver_policy, ..OrderedConfig::default() };
        let consumer: Result<Consumer<OrderedConfig>, _> = self.stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| FabricError::Away(error.to_string()))?;
        let messages = consumer.messages().await.map_err(|error| FabricError::Away(error.to_string()))?;
        Ok(Reader { messages, next: None })
    }

    /// Removes all messages before a sequence; that one must be there, as all that follows continues from it.
    ///
    /// # Errors
    /// The servers do not answer or refuse.
    pub async fn remove_before(&self, sequence: u64) -> Result<(), FabricError> {
        let last = self.last().await?.sequence;
        if sequence > last {
            return Err(FabricError::Misused(format!("the log ends with {last}, {sequence} is not there")));
        }
        let purged = self.stream.purge().sequence(sequence).await;
        purged.map(drop).map_err(|error| FabricError::Away(error.to_string()))
    }

    /// The sequences of the first message and of the last one; the first is above the last where there is none.
    ///
    /// # Errors
    /// The servers do not answer or refuse.
    pub async fn range(&self) -> Result<(u64, u64), FabricError> {
        let info = self.stream.get_info().await.map_err(|error| FabricError::Away(error.to_string()))?;
        Ok((info.state.first_sequence.max(1), info.state.last_sequence))
    }

    /// The server that leads the stream, where there is one.
    ///
    /// # Errors
    /// The servers do not answer or refuse.
    pub async fn leader(&self) -> Result<Option<String>, FabricError> {
        let info = self.stream.get_info().await.map_err(|error| FabricError::Away(error.to_string()))?;
        Ok(info.cluster.and_then(|cluster| cluster.leader))
    }
}

/// Messages of a log, in order.
pub struct Reader {
    messages: Ordered,
    next: Option<u64>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Reader {
    /// The next message. It may begin above the sequence that was asked for, where all before it was removed; after that, each follows
    /// the one before.
    ///
    /// # Errors
    /// The reader must be made again, with the sequence after the last message.
    pub async fn next(&mut self) -> Result<Entry, FabricError> {
        let ended = || FabricError::Away("the reader has ended".into());
        let message = self.messages.next().await.ok_or_else(ended)?;
        let message = message.map_err(|error| FabricError::Away(error.to_string()))?;
        let info = message.info().map_err(|error| FabricError::Refused(error.to_string()))?;
        let found = info.stream_sequence;
        if let Some(expected) = self.next.filter(|expected| *expected != found) {
            return Err(FabricError::Gap { expected, found });
        }
        self.next = Some(found + 1);
        let term = term(message.headers.as_ref());
        Ok(Entry { sequence: found, term, body: message.message.payload })
    }
}

fn term(headers: Option<&HeaderMap>) -> u64 {
    headers.and_then(|headers| headers.get(TERM)?.as_str().parse().ok()).unwrap_or_default()
}
