//! A point list: one CSV row a point. What it holds depends on the protocol of the devices that name it.
//!
//! Of all protocols:
//!
//! | column | holds | default |
//! |---|---|---|
//! | `name` | the topic below the device's, as in `breaker/closed` | required |
//! | `type`, `index` | which point of the device: see the protocol's file | required |
//! | `unit` | `kW`, `A`, … | none |
//! | `scale`, `offset` | value = raw × scale + offset | 1, 0 |
//! | `writable` | `true`, `false` | the protocol's |
//! | `min`, `max` | limits of a set point in the unit of the value | none |
//! | `states` | two-state points: the words for false and true, as in `open/closed` | none |
//! | `revert` | writable points: what a revert does: `none`, `previous`, `relinquish`, or a value | the protocol's |
//! | `step_max`, `rate_max` | the greatest change by one command, and a second | none |
//! | `interval_min` | the least time between two commands, as in `3m` | none |
//! | `allow_when` | what other points must show, as in `door == false; /site/mode == "auto"` | nothing |
//! | `read_back`, `tolerance` | the point that shows a command, and how far a number may be off | itself, 0 |
//! | `tags` | words by which people and programs find the point, as in `room=2.14;comfort` | none |
//! | `description` | for people | none |
//!
//! Read first: this file, `list.rs`, then one protocol, such as `modbus.rs`.

mod bacnet;
mod dnp3;
mod goose;
mod iec104;
mod list;
mod modbus;
mod rules;
mod simulated;

pub use bacnet::{BacnetPoint, WriteAs};
pub use dnp3::{Dnp3Output, Dnp3Point, Operate};
pub use goose::{GooseKind, GoosePoint};
pub use iec104::{Iec104Command, Iec104Kind, Iec104Output, Iec104Point, Iec104Served};
pub use list::{ServedPoints, TAGS, parse_tag, read_named_points, read_points, read_served_points};
pub use modbus::ModbusPoint;
pub use rules::RulesConfig;
pub use simulated::{SimulatedPoint, model_of};

use std::ops::RangeInclusive;
use std::time::Duration;
use tieline_core::CommandMode;

/// One point of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct PointConfig {
    /// The topic below the device's.
    pub name: String,
    /// Where it is in the device.
    pub address: PointAddress,
    /// What its readings are.
    pub kind: ValueKind,
    /// The unit of the scaled value; empty for none.
    pub unit: String,
    /// value = raw × scale + offset.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// How often it is polled, where the protocol polls points; none: as often as its device.
    pub every: Option<Duration>,
    /// The words for false and true of a two-state point.
    pub states: Option<States>,
    /// How it is commanded; none where it is only read.
    pub control: Option<ControlConfig>,
    /// Words by which people and programs find it.
    pub tags: Vec<String>,
    /// Words for people.
    pub description: String,
}

/// Where a point is in its device.
#[derive(Clone, Debug, PartialEq)]
pub enum PointAddress {
    /// IEEE 1815.
    Dnp3(Dnp3Point),
    /// Modbus.
    Modbus(ModbusPoint),
    /// BACnet.
    Bacnet(BacnetPoint),
    /// IEC 60870-5-104.
    Iec104(Iec104Point),
    /// GOOSE.
    Goose(GoosePoint),
    /// None.
    Simulated(SimulatedPoint),
}

impl PointAddress {
    /// The word of the column `type`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Dnp3(point) => point.point_type.name(),
            Self::Modbus(point) => point.type_name(),
            Self::Bacnet(point) => point.type_name(),
            Self::Iec104(point) => point.kind.name(),
            Self::Goose(point) => point.kind.name(),
            Self::Simulated(point) => point.type_name(),
        }
    }

    /// The number of the column `index`.
    #[must_use]
    pub fn index(&self) -> u32 {
        match self {
            Self::Dnp3(point) => point.index.into(),
            Self::Modbus(point) => point.address.into(),
            Self::Bacnet(point) => point.reference.object.instance(),
            Self::Iec104(point) => point.address.raw(),
            Self::Goose(point) => point.path.member().into(),
            Self::Simulated(point) => point.index,
        }
    }

    /// In DNP3; none of a point of another protocol.
    #[must_use]
    pub const fn dnp3(&self) -> Option<&Dnp3Point> {
        match self {
            Self::Dnp3(point) => Some(point),
            Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// In Modbus; none of a point of another protocol.
    #[must_use]
    pub const fn modbus(&self) -> Option<&ModbusPoint> {
        match self {
            Self::Modbus(point) => Some(point),
            Self::Dnp3(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// What is simulated; none of a point of a device that exists.
    #[must_use]
    pub const fn simulated(&self) -> Option<&SimulatedPoint> {
        match self {
            Self::Simulated(point) => Some(point),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) => None,
        }
    }

    /// In BACnet; none of a point of another protocol.
    #[must_use]
    pub const fn bacnet(&self) -> Option<&BacnetPoint> {
        match self {
            Self::Bacnet(point) => Some(point),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// In GOOSE; none of a point of another protocol.
    #[must_use]
    pub const fn goose(&self) -> Option<&GoosePoint> {
        match self {
            Self::Goose(point) => Some(point),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Simulated(_) => None,
        }
    }

    /// In IEC 60870-5-104; none of a point of another protocol.
    #[must_use]
    pub const fn iec104(&self) -> Option<&Iec104Point> {
        match self {
            Self::Iec104(point) => Some(point),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }
}

/// What the readings of a point are, before scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// True or false.
    Bool,
    /// One of four states: 0 intermediate, 1 off, 2 on, 3 indeterminate.
    DoubleBit,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A text.
    Text,
}

impl ValueKind {
    /// What a value is, in words that end "the value of the point is …".
    const fn words(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::DoubleBit => "one of four states",
            Self::Int | Self::Float => "a number",
            Self::Text => "a text",
        }
    }

    const fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Float)
    }

    const fn has_two_states(self) -> bool {
        matches!(self, Self::Bool | Self::DoubleBit)
    }
}

/// The words for the states of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    /// Of false.
    pub off: Box<str>,
    /// Of true.
    pub on: Box<str>,
}

/// Characters of the word for a state.
const STATE_MAX: usize = 40;

impl States {
    /// Two different words with a slash between them, neither of which means the other state by itself.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (off, on) = text.split_once('/')?;
        let (off, on) = (off.trim(), on.trim());
        let is = |word: &str, of: [&str; 3]| of.contains(&word.to_lowercase().as_str());
        let fits = |word: &str| !word.is_empty() && word.chars().count() <= STATE_MAX && !word.contains('/');
        let plain = |word: &str| !word.chars().any(char::is_control);
        let clear = !is(off, ["on", "true", "1"]) && !is(on, ["off", "false", "0"]);
        let legal = clear && [off, on].into_iter().all(|word| fits(word) && plain(word));
        (legal && off.to_lowercase() != on.to_lowercase()).then(|| Self { off: off.into(), on: on.into() })
    }
}

/// How a point is commanded.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// How the device is asked, unless the request says.
    pub mode: CommandMode,
    /// Whether its protocol has a select before the operate.
    pub has_select: bool,
    /// What the device takes.
    pub takes: Takes,
    /// The least value taken.
    pub min: Option<f64>,
    /// The greatest value taken.
    pub max: Option<f64>,
    /// What holds beside.
    pub rules: Box<RulesConfig>,
}

/// The raw values that a device takes for a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Takes {
    /// True and false.
    Bool,
    /// Numbers of a range.
    Number {
        /// From the least to the greatest.
        raw: RangeInclusive<f64>,
        /// Whether only whole numbers.
        whole: bool,
    },
}

impl ControlConfig {
    /// The values that are taken, in the unit of the topic: those that the device takes, narrowed by the limits of the
    /// list; none of a point of two states.
    #[must_use]
    pub fn limits(&self, scale: f64, offset: f64) -> Option<RangeInclusive<f64>> {
        let Takes::Number { raw, .. } = &self.takes else { return None };
        let (a, b) = (raw.start() * scale + offset, raw.end() * scale + offset);
        let low = self.min.map_or(a.min(b), |min| min.max(a.min(b)));
        let high = self.max.map_or(a.max(b), |max| max.min(a.max(b)));
        Some(low..=high)
    }
}
