//! What a client is asked for, and what it tells.

use crate::names::{AbortReason, ConfirmedService, RejectReason};
use crate::service::{IAm, IHave, RangeRequest, Subscription, Write, encode_read_multiple, encode_write_multiple};
use crate::{Date, ObjectId, Peer, PropertyId, PropertyRef, ServiceError, Value};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddrV4;
use core::time::Duration;

/// A request, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What is asked of a peer.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// One property.
    Read(PropertyRef),
    /// Several properties; `all`, `required` and `optional` stand for those of an object.
    ReadMultiple(&'a [PropertyRef]),
    /// Set one property.
    Write(&'a Write),
    /// Set several.
    WriteMultiple(&'a [Write]),
    /// Tell changes of an object, or do not any more.
    Subscribe(Subscription),
    /// A part of a list, such as the records of a trend log.
    ReadRange(RangeRequest),
    /// Any other service and its parameters.
    Other(ConfirmedService, &'a [u8]),
}

impl Request<'_> {
    /// Its service.
    #[must_use]
    pub const fn service(&self) -> ConfirmedService {
        match self {
            Self::Read(_) => ConfirmedService::READ_PROPERTY,
            Self::ReadMultiple(_) => ConfirmedService::READ_PROPERTY_MULTIPLE,
            Self::Write(_) => ConfirmedService::WRITE_PROPERTY,
            Self::WriteMultiple(_) => ConfirmedService::WRITE_PROPERTY_MULTIPLE,
            Self::Subscribe(_) => ConfirmedService::SUBSCRIBE_COV,
            Self::ReadRange(_) => ConfirmedService::READ_RANGE,
            Self::Other(service, _) => *service,
        }
    }

    /// Bytes that most such requests have at most.
    pub(super) const fn bytes_guess(&self) -> usize {
        match self {
            Self::ReadMultiple(references) => 16 * references.len(),
            _ => 32,
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Read(reference) => reference.emit(out),
            Self::ReadMultiple(references) => encode_read_multiple(references, out),
            Self::Write(write) => write.emit(out),
            Self::WriteMultiple(writes) => encode_write_multiple(writes, out),
            Self::Subscribe(subscription) => subscription.emit(out),
            Self::ReadRange(range) => range.emit(out),
            Self::Other(_, parameters) => out.extend_from_slice(parameters),
        }
    }
}

/// Whom a message that is not answered goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One.
    Peer(Peer),
    /// All of the local network.
    Local,
    /// All of one network behind a router.
    Remote(u16),
    /// All of all networks.
    Global,
}

/// Why a request came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer answers with an error.
    Error(ServiceError),
    /// The peer does not understand it.
    Reject(RejectReason),
    /// The peer gave it up.
    Abort(AbortReason),
    /// The peer is silent.
    TimedOut,
    /// A router has no way to the peer's network: its reason.
    Unreachable(u8),
    /// The answer is longer than the client takes.
    AnswerTooLong,
    /// The answer is against the rules.
    Malformed,
    /// The owner no longer wants it.
    Cancelled,
}

impl Failure {
    /// Whether nobody answered. All else shows that the peer is there.
    #[must_use]
    pub const fn is_silence(self) -> bool {
        match self {
            Self::TimedOut | Self::Unreachable(_) | Self::Cancelled => true,
            Self::Error(_) | Self::Reject(_) | Self::Abort(_) | Self::AnswerTooLong | Self::Malformed => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "the device answers with error {error}"),
            Self::Reject(reason) => write!(f, "the device rejects the request: {reason}"),
            Self::Abort(reason) => write!(f, "the device aborts the request: {reason}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Unreachable(reason) => {
                write!(f, "a router has no way to the network of the device (reason {reason})")
            }
            Self::AnswerTooLong => f.write_str("the answer is longer than the limit"),
            Self::Malformed => f.write_str("the answer is against the rules of BACnet"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// It is longer than the peer takes.
    TooLong {
        /// Bytes of the request.
        bytes: usize,
        /// Bytes that the peer takes.
        limit: usize,
    },
    /// Too many requests wait for the peer.
    QueueFull,
    /// Too many peers have requests.
    TooManyPeers,
    /// Events have not been taken.
    EventsFull,
    /// There is no address for broadcasts.
    NoBroadcast,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, limit } => {
                write!(f, "the request has {bytes} bytes, and the device takes at most {limit}")
            }
            Self::QueueFull => f.write_str("too many requests wait for the device"),
            Self::TooManyPeers => f.write_str("too many devices are spoken to at a time"),
            Self::EventsFull => f.write_str("too many events have not been taken"),
            Self::NoBroadcast => f.write_str("no address for broadcasts and no broadcast management device is set"),
        }
    }
}

impl core::error::Error for RequestError {}

/// Changed values of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The subscriber's own number.
    pub process: u32,
    /// The device that tells.
    pub device: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// How long the subscription lasts yet; zero where it has no end.
    pub remaining: Duration,
    /// Each property with its index and its value.
    pub values: Vec<(PropertyId, Option<u32>, Value)>,
    /// Whether the device waited for a confirmation, which it has got.
    pub confirmed: bool,
}

/// What the owner of a client learns.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What a request came to; each has one.
    Answer {
        /// Which request.
        id: RequestId,
        /// Of which peer.
        peer: Peer,
        /// What was asked.
        service: ConfirmedService,
        /// The parameters of the answer, none of a plain acknowledgement.
        result: Result<Vec<u8>, Failure>,
    },
    /// A device says who it is.
    IAm(Peer, IAm),
    /// A device has an object that was looked for.
    IHave(Peer, IHave),
    /// Values have changed.
    Changed(Peer, Change),
    /// A router reaches these networks.
    Router(SocketAddrV4, Vec<u16>),
    /// All Who-Is of a discovery have been sent.
    DiscoverySent(Target),
    /// The broadcast management device took the registration.
    Registered,
    /// The broadcast management device refused it (its result code), or is silent (none).
    NotRegistered(Option<u16>),
    /// A moment that another device wants clocks to be set to; `true` for UTC, else local time.
    TimeSet(Peer, Date, crate::Time, bool),
}
