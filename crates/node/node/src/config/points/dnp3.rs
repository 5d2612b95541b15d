//! The columns of a point of a DNP3 device.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | `binary`, `double-bit`, `binary-output`, `counter`, `frozen-counter`, `analog`, `frozen-analog`, `analog-output`, `octet-string` | required |
//! | `index` | 0 to 65535 | required |
//! | `writable` | `true`, `false` | `true` for outputs |
//! | `control` | the output index that a command goes to | `index` of an output |
//! | `mode` | `select` (before operate), `direct` | `select` |
//! | `operate` | binary: `latch`, `pulse`, `trip-close`; analog: `int16`, `int32`, `float`, `double` | `latch`, `float` |
//! | `dead_band` | analogs: what the device is told to report, in the unit of the value | as the device has it |

use super::list::{List, Row, finite};
use super::{ControlConfig, PointAddress, Takes, ValueKind};
use std::ops::RangeInclusive;
use tieline_core::CommandMode;
use tieline_dnp3::PointType;

/// The columns that no other protocol has.
pub(super) const COLUMNS: [&str; 4] = ["control", "mode", "operate", "dead_band"];

/// A point of a DNP3 device.
#[derive(Clone, Debug, PartialEq)]
pub struct Dnp3Point {
    /// The kind of point.
    pub point_type: PointType,
    /// Its number within the kind.
    pub index: u16,
    /// How far it must move for an event, in the unit of the value: written to the device. None leaves the device's.
    pub dead_band: Option<f64>,
    /// Where commands go; none where it is only read.
    pub output: Option<Dnp3Output>,
}

/// The output that a point is commanded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dnp3Output {
    /// Its index.
    pub index: u16,
    /// What is sent.
    pub operate: Operate,
}

/// The object of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operate {
    /// g12v1, latch on or latch off.
    Latch,
    /// g12v1, pulse on or pulse off.
    Pulse,
    /// g12v1, pulse with close or trip.
    TripClose,
    /// g41v2.
    Int16,
    /// g41v1.
    Int32,
    /// g41v3.
    Float,
    /// g41v4.
    Double,
}

impl Operate {
    /// Whether a binary output is meant.
    const fn is_binary(self) -> bool {
        matches!(self, Self::Latch | Self::Pulse | Self::TripClose)
    }

    fn takes(self) -> Takes {
        match self.raw_range() {
            None => Takes::Bool,
            Some(raw) => Takes::Number { raw, whole: matches!(self, Self::Int16 | Self::Int32) },
        }
    }

    /// The raw numbers that the object holds; none for a binary output.
    fn raw_range(self) -> Option<RangeInclusive<f64>> {
        match self {
            Self::Latch | Self::Pulse | Self::TripClose => None,
            Self::Int16 => Some(f64::from(i16::MIN)..=f64::from(i16::MAX)),
            Self::Int32 => Some(f64::from(i32::MIN)..=f64::from(i32::MAX)),
            Self::Float => Some(f64::from(f32::MIN)..=f64::from(f32::MAX)),
            // A quarter, so that the width of the range is a number too.
            Self::Double => Some(f64::MIN / 4.0..=f64::MAX / 4.0),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "latch" => Self::Latch,
            "pulse" => Self::Pulse,
            "trip-close" => Self::TripClose,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "float" => Self::Float,
            "double" => Self::Double,
            _ => return None,
        })
    }
}

const fn kind_of(point_type: PointType) -> ValueKind {
    match point_type {
        PointType::Binary | PointType::BinaryOutput => ValueKind::Bool,
        PointType::DoubleBit => ValueKind::DoubleBit,
        PointType::Counter | PointType::FrozenCounter => ValueKind::Int,
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => ValueKind::Float,
        PointType::OctetString => ValueKind::Text,
    }
}

/// The type and the index of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<Dnp3Point> {
    let types = PointType::ALL.map(PointType::name).join(", ");
    let point_type = list.cell(row, "type", &format!("one of {types}"), None, PointType::from_name);
    let index = list.cell(row, "index", "a whole number from 0 to 65535", None, |s| s.parse::<u16>().ok());
    Some(Dnp3Point { point_type: point_type?, index: index?, dead_band: None, output: None })
}

/// The rest of a row; none where it is wrong.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    mut point: Dnp3Point,
    scale: f64,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    point.dead_band = dead_band(list, row, point.point_type, scale)?;
    let kind = kind_of(point.point_type);
    let (output, control) = control(list, row, &point)?.unzip();
    point.output = output;
    Some((PointAddress::Dnp3(point), kind, control))
}

/// None where it is wrong.
#[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
fn dead_band(list: &mut List<'_>, row: &Row<'_>, point_type: PointType, scale: f64) -> Option<Option<f64>> {
    let Some(text) = row.cell("dead_band") else { return Some(None) };
    let raw = |band: f64| (band / scale).abs();
    let band = finite(text).filter(|band| *band >= 0.0 && raw(*band) <= f64::from(f32::MAX));
    let expected = match point_type {
        PointType::Analog if band.is_some() => return Some(band),
        PointType::Analog => "a number from 0 up, within single precision before scaling",
        _ => "nothing: only points of type analog have a dead-band (group 34)",
    };
    list.report(row.line, "dead_band", format!("{text:?}"), expected.to_owned());
    None
}

/// The outer option is none where a cell is wrong.
#[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
fn control(list: &mut List<'_>, row: &Row<'_>, point: &Dnp3Point) -> Option<Option<(Dnp3Output, ControlConfig)>> {
    let point_type = point.point_type;
    let output = matches!(point_type, PointType::BinaryOutput | PointType::AnalogOutput);
    let has_control = row.cell("control").is_some();
    if !list.writable(row, output || has_control)? {
        return Some(None);
    }
    if !output && !has_control {
        let found = format!("true for a {} without a control index", point_type.name());
        list.report(row.line, "writable", found, "an output, or the column control with the output's index".to_owned());
        return None;
    }
    let binary = matches!(point_type, PointType::BinaryOutput | PointType::Binary | PointType::DoubleBit);
    let (default, words) = if binary {
        (Operate::Latch, "latch, pulse or trip-close")
    } else {
        (Operate::Float, "int16, int32, float or double")
    };
    let operate =
        list.cell(row, "operate", words, Some(default), |s| Operate::from_name(s).filter(|o| o.is_binary() == binary));
    let mode = list.cell(row, "mode", "select or direct", Some(CommandMode::SelectBeforeOperate), |s| match s {
        "select" => Some(CommandMode::SelectBeforeOperate),
        "direct" => Some(CommandMode::DirectOperate),
        _ => None,
    });
    let index = list.cell(row, "control", "a whole number from 0 to 65535", Some(point.index), |s| s.parse().ok());
    let limits = list.limits(row);
    let (output, (min, max)) = (Dnp3Output { index: index?, operate: operate? }, limits?);
    let takes = output.operate.takes();
    Some(Some((output, ControlConfig { mode: mode?, has_select: true, takes, min, max, rules: Box::default() })))
}
