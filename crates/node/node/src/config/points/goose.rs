//! The columns of a point of a GOOSE data set.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | `boolean`, `double-point`, `bit-string`, `integer`, `unsigned`, `float32`, `float64`, `octet-string`, `visible-string`, `mms-string`, `utc-time`, `binary-time` | required |
//! | `index` | where the value is in the data set, from 1: `2`, or `2.1` within a structure or an array | required |
//! | `quality` | where its quality is | none |
//! | `time` | where its time is | none: that of the message |
//! | `bits` | how many bits a `bit-string` has that is published, 1 to 63 | required of these |
//! | `initial` | the value at the start of what is published | false, 0 or empty |

use super::list::{List, Row};
use super::{ControlConfig, PointAddress, Takes, ValueKind};
use crate::config::goose::MODE;
use tieline_goose::{Path, TimeQuality, UtcTime, Value};

/// The columns that not every protocol has.
pub(super) const COLUMNS: [&str; 4] = ["quality", "time", "bits", "initial"];

/// Bits of the longest bit string.
const BITS_MAX: u8 = 63;

/// A point of a GOOSE data set.
#[derive(Clone, Debug, PartialEq)]
pub struct GoosePoint {
    /// What it is.
    pub kind: GooseKind,
    /// Where it is.
    pub path: Path,
    /// Where its quality is.
    pub quality: Option<Path>,
    /// Where its time is.
    pub time: Option<Path>,
    /// What is published at the start.
    pub initial: Value,
}

impl GoosePoint {
    /// A value of it from words; none where they are no such value.
    #[must_use]
    pub fn value_of(&self, text: &str) -> Option<Value> {
        let bits = if let Value::Bits { count, .. } = self.initial { count } else { 0 };
        self.kind.value(bits, Some(text))
    }
}

/// What the value of a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GooseKind {
    /// True or false.
    Boolean,
    /// Two bits: intermediate, off, on, bad state.
    DoublePoint,
    /// Bits.
    BitString,
    /// A signed number.
    Integer,
    /// An unsigned number.
    Unsigned,
    /// A number of 4 bytes.
    Float32,
    /// A number of 8 bytes.
    Float64,
    /// Bytes.
    OctetString,
    /// A text of ASCII.
    VisibleString,
    /// A text of UTF-8.
    MmsString,
    /// A moment.
    UtcTime,
    /// A time of day.
    BinaryTime,
}

impl GooseKind {
    const ALL: [Self; 12] = [
        Self::Boolean,
        Self::DoublePoint,
        Self::BitString,
        Self::Integer,
        Self::Unsigned,
        Self::Float32,
        Self::Float64,
        Self::OctetString,
        Self::VisibleString,
        Self::MmsString,
        Self::UtcTime,
        Self::BinaryTime,
    ];

    /// The word of the column `type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::DoublePoint => "double-point",
            Self::BitString => "bit-string",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::OctetString => "octet-string",
            Self::VisibleString => "visible-string",
            Self::MmsString => "mms-string",
            Self::UtcTime => "utc-time",
            Self::BinaryTime => "binary-time",
        }
    }

    const fn value_kind(self) -> ValueKind {
        match self {
            Self::Boolean => ValueKind::Bool,
            Self::DoublePoint => ValueKind::DoubleBit,
            Self::BitString | Self::Integer | Self::Unsigned => ValueKind::Int,
            Self::Float32 | Self::Float64 => ValueKind::Float,
            Self::OctetString | Self::VisibleString | Self::MmsString | Self::UtcTime | Self::BinaryTime => {
                ValueKind::Text
            }
        }
    }

    /// What a command may give it; none of texts and times.
    fn takes(self, bits: u8) -> Option<Takes> {
        let number = |raw, whole| Some(Takes::Number { raw, whole });
        // From here on not every whole number is a double.
        let exact = 9_007_199_254_740_992.0;
        match self {
            Self::Boolean | Self::DoublePoint => Some(Takes::Bool),
            Self::BitString => number(0.0..=(2_f64.powi(bits.into()) - 1.0).min(exact), true),
            Self::Integer => number(-2_147_483_648.0..=2_147_483_647.0, true),
            Self::Unsigned => number(0.0..=4_294_967_295.0, true),
            Self::Float32 => number(f32::MIN.into()..=f32::MAX.into(), false),
            // A quarter, so that the width of the range is a number too.
            Self::Float64 => number(f64::MIN / 4.0..=f64::MAX / 4.0, false),
            Self::OctetString | Self::VisibleString | Self::MmsString | Self::UtcTime | Self::BinaryTime => None,
        }
    }

    /// A value from the words of a cell.
    fn value(self, bits: u8, text: Option<&str>) -> Option<Value> {
        let on = || text.map_or(Some(false), |text| text.parse().ok());
        Some(match self {
            Self::Boolean => Value::Boolean(on()?),
            Self::DoublePoint => {
                let state = text.map_or(Some(0), |text| text.parse().ok().filter(|state| *state < 4_u64))?;
                Value::Bits { count: 2, bits: state }
            }
            Self::BitString => {
                let number = text.map_or(Some(0), |text| text.parse().ok())?;
                Value::Bits { count: bits, bits: Some(number).filter(|number| *number < 1_u64 << bits)? }
            }
            Self::Integer => Value::Integer(text.map_or(Some(0), |text| text.parse::<i32>().ok())?.into()),
            Self::Unsigned => Value::Unsigned(text.map_or(Some(0), |text| text.parse::<u32>().ok())?.into()),
            Self::Float32 => Value::Float32(text.map_or(Some(0.0), |text| text.parse().ok())?),
            Self::Float64 => Value::Float64(text.map_or(Some(0.0), |text| text.parse().ok())?),
            Self::OctetString => Value::Octets(text.unwrap_or_default().as_bytes().into()),
            Self::VisibleString => Value::VisibleString(text.unwrap_or_default().into()),
            Self::MmsString => Value::MmsString(text.unwrap_or_default().into()),
            Self::UtcTime => {
                let time = text.map_or(Some(tieline_core::Timestamp::from_millis(0)), |text| text.parse().ok())?;
                Value::UtcTime(UtcTime::new(time, TimeQuality::UNSYNCHRONIZED))
            }
            Self::BinaryTime => Value::BinaryTime(Box::new([0; 6])),
        })
    }
}

/// The type and the places of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<GoosePoint> {
    let types = format!("one of {}", GooseKind::ALL.map(GooseKind::name).join(", "));
    let kind = list.cell(row, "type", &types, None, |s| GooseKind::ALL.into_iter().find(|kind| kind.name() == s));
    let places = "places from 1 with dots between them, as in 2 or 2.1";
    let path = list.cell(row, "index", places, None, |s| s.parse().ok());
    let mut other = |column| list.cell(row, column, places, Some(None), |s| s.parse().ok().map(Some));
    let (quality, time) = (other("quality"), other("time"));
    let kind = kind?;
    let bits = match kind {
        GooseKind::BitString => list.cell(row, "bits", "a number of bits from 1 to 63", Some(0), |s| {
            s.parse().ok().filter(|bits| (1..=BITS_MAX).contains(bits))
        }),
        _ => list.cell(row, "bits", "nothing: only a bit-string says how many", Some(2), |_| None),
    };
    let bits = bits?;
    let initial =
        list.cell(row, "initial", "a value of this type", kind.value(bits, None), |s| kind.value(bits, Some(s)));
    Some(GoosePoint { kind, path: path?, quality: quality?, time: time?, initial: initial? })
}

/// The rest of a row; none where it is wrong. Whether it can be commanded its device says.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    point: GoosePoint,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    let bits = if let Value::Bits { count, .. } = point.initial { count } else { 0 };
    let takes = point.kind.takes(bits);
    let control = if list.writable(row, takes.is_some())? {
        let Some(takes) = takes else {
            let expected = "false: texts, bytes and times cannot be commanded".to_owned();
            list.report(row.line, "writable", "true".to_owned(), expected);
            return None;
        };
        let (min, max) = list.limits(row)?;
        Some(ControlConfig { mode: MODE, has_select: false, takes, min, max, rules: Box::default() })
    } else {
        None
    };
    let kind = point.kind.value_kind();
    Some((PointAddress::Goose(point), kind, control))
}
