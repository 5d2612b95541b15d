//! What is known of an alarm, and what is said about it.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{Timestamp, Topic, Value, Words};

use crate::RouteId;

/// Topics that say whether receivers fail are below it, each by the name of its receiver.
pub const RECEIVER_TOPICS: &str = "$SYS/conditions/receiver/";

/// Which alarm: there is one for each topic and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmName {
    /// The alarmed topic.
    pub topic: Topic,
    /// The word of its kind.
    pub kind: Arc<str>,
}

impl AlarmName {
    /// Whether it says that this receiver fails: it is not told so itself.
    pub(crate) fn is_about(&self, receiver: &str) -> bool {
        self.topic.strip_prefix(RECEIVER_TOPICS) == Some(receiver)
    }
}

/// Whether an alarm calls somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Active, not acknowledged, not hidden, and no consequence of another.
    Calling,
    /// Active, and acknowledged.
    Acknowledged,
    /// Shelved, suppressed, or out of service.
    Hidden,
    /// Active, and the consequence of another alarm.
    Consequence,
    /// Not active.
    Returned,
}

impl Words for Standing {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("calling", Self::Calling),
        ("acknowledged", Self::Acknowledged),
        ("hidden", Self::Hidden),
        ("consequence", Self::Consequence),
        ("returned", Self::Returned),
    ];
}

/// What holds of an alarm.
#[expect(clippy::struct_excessive_bools, reason = "the flags of an alarm do not exclude each other")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    /// Its rule is met.
    pub is_active: bool,
    /// A person acknowledged the occurrence.
    pub is_acked: bool,
    /// It is shelved, suppressed, or out of service.
    pub is_hidden: bool,
    /// It is the consequence of another alarm.
    pub is_consequence: bool,
    /// It comes and goes too often: all of that is one occurrence.
    pub is_chattering: bool,
}

impl Standing {
    /// Of what holds. An alarm that chatters has not returned until that ends.
    #[must_use]
    pub const fn of(holds: Holds) -> Self {
        if !holds.is_active && !holds.is_chattering {
            Self::Returned
        } else if holds.is_hidden {
            Self::Hidden
        } else if holds.is_acked {
            Self::Acknowledged
        } else if holds.is_consequence {
            Self::Consequence
        } else {
            Self::Calling
        }
    }
}

/// An alarm as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Which alarm.
    pub alarm: AlarmName,
    /// Its occurrence: a later one has a greater number.
    pub seq: u64,
    /// Whether it calls somebody.
    pub standing: Standing,
    /// The word of its priority.
    pub priority: Arc<str>,
    /// The same as a number, 1 to 1000; the greater the more urgent.
    pub severity: u16,
    /// The word of its state.
    pub state: Arc<str>,
    /// The group of its rule; empty without one.
    pub group: Arc<str>,
    /// The text of its rule.
    pub text: Arc<str>,
    /// The value that raised it.
    pub value: Value,
    /// When the occurrence began.
    pub since: Timestamp,
    /// Alarms that are its consequences.
    pub count: u32,
}

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// An alarm calls: a step of a route.
    Raised,
    /// It still does.
    Repeated,
    /// An alarm has returned, and its receiver was told of it.
    Resolved,
    /// There are more alarms than anybody can read: how many call, and the worst.
    Flood,
    /// The flood is over: how many still call.
    FloodOver,
    /// A person wants to know whether messages arrive.
    Test,
    /// The node is up. It is never in the outbox: the caller sends it.
    Heartbeat,
}

impl Words for MessageKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("raised", Self::Raised),
        ("repeated", Self::Repeated),
        ("resolved", Self::Resolved),
        ("flood", Self::Flood),
        ("flood_over", Self::FloodOver),
        ("test", Self::Test),
        ("heartbeat", Self::Heartbeat),
    ];
}

/// A message to one receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its number in the outbox: a later one has a greater number.
    pub id: u64,
    /// The name of the receiver.
    pub to: Arc<str>,
    /// When it was made.
    pub made: Timestamp,
    /// Why it is sent.
    pub kind: MessageKind,
    /// The route whose step it is; 0 where no route is the reason.
    pub route: RouteId,
    /// The step of the route, from 0.
    pub step: u16,
    /// How often it was repeated.
    pub repeats: u32,
    /// How many alarms it is about.
    pub total: u32,
    /// The alarm; of a flood, the worst.
    pub alarms: Vec<Notice>,
}

impl Message {
    /// What a receiver drops doubles by: the same for the same message, however often it is sent.
    #[must_use]
    pub fn key(&self) -> String {
        let seq = self.alarms.first().map_or(0, |alarm| alarm.seq);
        let (route, step, made) = (self.route.0, self.step, self.made.micros());
        match self.kind {
            MessageKind::Raised => format!("{seq}.{route:08x}.{step}"),
            MessageKind::Repeated => format!("{seq}.{route:08x}.{step}.{}", self.repeats),
            MessageKind::Resolved => format!("{seq}.resolved"),
            MessageKind::Flood => format!("flood.{made}.{}", self.id),
            MessageKind::FloodOver => format!("flood_over.{made}.{}", self.id),
            MessageKind::Test => format!("test.{made}.{}", self.id),
            MessageKind::Heartbeat => format!("heartbeat.{made}"),
        }
    }
}
