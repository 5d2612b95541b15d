//! `tieline dnp3 master ADDRESS VERB`: what one run asks of an outstation.

use crate::args::Mode;
use crate::dnp3::operate::Operation;
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_dnp3::app::{ALL_ATTRIBUTES, AttributeValue, LIST_OF_ATTRIBUTES};
use tieline_dnp3::link::Broadcast;
use tieline_dnp3::master::{Addressee, ControlProcedure, DeadBand, Freeze, Request, Restart, Selection, TimeSync};
use tieline_dnp3::{Classes, DnpTime, EventClass, GroupVar};

/// What one run asks; without any, the master follows what the outstation reports.
#[derive(Clone, Debug, Subcommand)]
pub enum Ask {
    /// Read once: classes 1, 2, 3 and 0, or what is named
    Scan {
        /// class-1, g30v0 (all), g30v5:3-9 (a range), g1v2:3,7 (these), g2v0:first=10 (at most so many)
        #[arg(value_name = "OBJECTS", value_parser = objects)]
        objects: Vec<Selection>,
    },
    /// Operate outputs, in one request
    Operate(OperateArgs),
    /// Restart the outstation
    Restart {
        /// The whole device, or its DNP3 application
        kind: RestartKind,
    },
    /// Freeze counters
    Freeze(FreezeArgs),
    /// Put points into an event class
    AssignClass {
        /// 1, 2 or 3; 0 for no events
        #[arg(value_parser = clap::value_parser!(u8).range(0..=3))]
        class: u8,
        /// Points by their static groups, as in g30v0 or g1v0:3-9
        #[arg(required = true, value_name = "OBJECTS", value_parser = objects)]
        objects: Vec<Selection>,
    },
    /// Let classes report by themselves, or keep them from it
    Unsolicited {
        /// Whether they may
        state: Switch,
        /// Which classes
        #[arg(long, value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u8).range(1..=3))]
        classes: Vec<u8>,
    },
    /// Read device attributes, or write one
    Attributes(AttributeArgs),
    /// Read dead-bands of analog inputs, or write those given as INDEX=VALUE
    DeadBand {
        /// Point and dead-band in its raw unit, as in 3=0.5
        #[arg(value_name = "INDEX=VALUE", value_parser = dead_band)]
        values: Vec<(u16, f64)>,
        /// How they are written
        #[arg(long = "as", value_enum, default_value = "f32")]
        form: Form,
    },
    /// Write octet strings
    String {
        /// Point and text, as in 2=hello; 2=0x00ff gives bytes
        #[arg(required = true, value_name = "INDEX=TEXT", value_parser = octet_string)]
        values: Vec<(u16, Vec<u8>)>,
    },
    /// Set the clock
    Time {
        /// By which procedure
        #[arg(long, value_enum, default_value = "lan", conflicts_with = "read")]
        how: How,
        /// Read it instead
        #[arg(long)]
        read: bool,
    },
    /// Measure how long a request takes
    Delay,
    /// Clear the indication that the outstation restarted
    ClearRestart,
    /// Save the configuration (function 19, deprecated)
    SaveConfiguration,
    /// Make configurations effective (function 31)
    ActivateConfiguration {
        /// Their file names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Send any function code with object headers in hex
    Raw {
        /// Code of the function, 0 to 255, with a meaning or without
        function: u8,
        /// Object headers, as in 3C0106
        #[arg(default_value = "", value_parser = hex)]
        objects: std::vec::Vec<u8>,
    },
}

/// `operate`.
#[derive(Clone, Debug, Args)]
pub struct OperateArgs {
    /// binary-output:3=true, analog-output:0=12.5
    #[arg(required = true, value_name = "TYPE:INDEX=VALUE", value_parser = crate::dnp3::operate::parse)]
    pub controls: Vec<Operation>,
    /// How the device is asked
    #[arg(long, value_enum, default_value = "select")]
    pub mode: Mode,
    /// Send the select alone
    #[arg(long, conflicts_with_all = ["operate_only", "no_response", "mode"])]
    pub select_only: bool,
    /// Send the operate alone, without a select
    #[arg(long, conflicts_with_all = ["no_response", "mode"])]
    pub operate_only: bool,
    /// Operate at once and ask for no answer
    #[arg(long, conflicts_with = "mode")]
    pub no_response: bool,
}

/// `freeze`.
#[derive(Clone, Debug, Args)]
pub struct FreezeArgs {
    /// What to freeze
    #[arg(value_name = "OBJECTS", default_value = "g20v0", value_parser = objects)]
    pub objects: Vec<Selection>,
    /// Let the counters begin at 0 again
    #[arg(long, conflicts_with_all = ["at", "every"])]
    pub clear: bool,
    /// When: RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<DnpTime>,
    /// Again after each such time, as in 15m
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    pub every: Option<Duration>,
    /// Ask for no answer
    #[arg(long)]
    pub no_response: bool,
}

/// `attributes`.
#[derive(Clone, Debug, Args)]
pub struct AttributeArgs {
    /// all, list, or an attribute's number from 1 to 253
    #[arg(default_value = "all", value_parser = attribute)]
    pub which: u8,
    /// The set it belongs to; 0 is the standard's
    #[arg(long, default_value_t = 0)]
    pub set: u16,
    /// Write the one attribute
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub write: Option<String>,
    /// What is written
    #[arg(long = "as", value_enum, default_value = "text", requires = "write")]
    pub form: AttributeForm,
}

/// Which restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestartKind {
    /// The whole device, as after a power cycle
    Cold,
    /// The DNP3 application
    Warm,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// They report
    On,
    /// They wait to be asked
    Off,
}

/// How a dead-band is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// g34v1
    U16,
    /// g34v2
    U32,
    /// g34v3
    F32,
}

/// What an attribute is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttributeForm {
    /// VSTR
    Text,
    /// UINT
    Unsigned,
    /// INT
    Signed,
    /// FLT
    Float,
}

/// How a clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Functions 24 and 2 with g50v3: for networks
    Lan,
    /// Functions 23 and 2 with g50v1: for serial lines
    Delay,
    /// Function 2 with g50v1 alone
    Write,
}

/// To whom a request goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// The outstation with the address of --outstation
    #[default]
    Outstation,
    /// FFFC: the one at the other end, which tells its address
    #[value(name = "self")]
    Own,
    /// FFFD: all, none of which asks for a confirm
    All,
    /// FFFE: all, each of which asks for a confirm
    AllConfirm,
    /// FFFF: all, as each likes
    AllOptional,
}

impl To {
    const fn addressee(self) -> Addressee {
        match self {
            Self::Outstation => Addressee::Outstation,
            Self::Own => Addressee::Own,
            Self::All => Addressee::All(Broadcast::ConfirmNever),
            Self::AllConfirm => Addressee::All(Broadcast::ConfirmAlways),
            Self::AllOptional => Addressee::All(Broadcast::ConfirmOptional),
        }
    }

    /// Who is asked, for errors; `outstation` is the address of --outstation.
    pub fn words(self, outstation: u16) -> String {
        match self {
            Self::Outstation => format!("outstation {outstation}"),
            Self::Own => "the outstation of the self-address (FFFC)".to_owned(),
            Self::All => "all outstations (FFFD)".to_owned(),
            Self::AllConfirm => "all outstations (FFFE)".to_owned(),
            Self::AllOptional => "all outstations (FFFF)".to_owned(),
        }
    }
}

impl Ask {
    /// Whether its answer is what it reads, so that success needs no word.
    pub const fn reads(&self) -> bool {
        match self {
            Self::Scan { .. } => true,
            Self::Attributes(args) => args.write.is_none(),
            Self::DeadBand { values, .. } => values.is_empty(),
            Self::Time { read, .. } => *read,
            Self::Operate(_)
            | Self::Restart { .. }
            | Self::Freeze(_)
            | Self::AssignClass { .. }
            | Self::Unsolicited { .. }
            | Self::String { .. }
            | Self::Delay
            | Self::ClearRestart
            | Self::SaveConfiguration
            | Self::ActivateConfiguration { .. }
            | Self::Raw { .. } => false,
        }
    }

    /// The request.
    ///
    /// # Errors
    /// A value does not fit its object.
    pub fn request(&self, to: To) -> Result<Request> {
        let request = match self {
            Self::Scan { objects } if objects.is_empty() => Request::read_classes(Classes::ALL),
            Self::Scan { objects } => Request::read(objects),
            Self::Operate(args) => args.request()?,
            Self::Restart { kind: RestartKind::Cold } => Request::restart(Restart::Cold),
            Self::Restart { kind: RestartKind::Warm } => Request::restart(Restart::Warm),
            Self::Freeze(args) => Request::freeze(args.freeze(), !args.no_response, &args.objects),
            Self::AssignClass { class, objects } => Request::assign_class(&[(event_class(*class), objects)]),
            Self::Unsolicited { state, classes } => {
                let classes = classes.iter().filter_map(|class| event_class(*class)).map(Classes::from);
                Request::unsolicited(*state == Switch::On, classes.fold(Classes::NONE, Classes::with))
            }
            Self::Attributes(args) => args.request()?,
            Self::DeadBand { values, .. } if values.is_empty() => {
                Request::read(&[Selection::all(GroupVar::new(34, 0))])
            }
            Self::DeadBand { values, form } => {
                let bands: Result<Vec<_>> =
                    values.iter().map(|(index, value)| Ok((*index, form.dead_band(*value)?))).collect();
                Request::write_dead_bands(&bands?)?
            }
            Self::String { values } => {
                let strings: Vec<_> = values.iter().map(|(index, bytes)| (*index, bytes.as_slice())).collect();
                Request::write_strings(&strings)?
            }
            Self::Time { read: true, .. } => Request::read(&[Selection::count(GroupVar::new(50, 1), 1)]),
            Self::Time { how: How::Lan, .. } => Request::sync_time(TimeSync::Lan),
            Self::Time { how: How::Delay, .. } => Request::sync_time(TimeSync::DelayMeasure),
            Self::Time { how: How::Write, .. } => Request::sync_time(TimeSync::Write),
            Self::Delay => Request::measure_delay(),
            Self::ClearRestart => Request::clear_restart(),
            Self::SaveConfiguration => Request::save_configuration(),
            Self::ActivateConfiguration { names } => {
                Request::activate_configuration(&names.iter().map(String::as_str).collect::<Vec<_>>())?
            }
            Self::Raw { function, objects } => Request::raw(*function, objects),
        };
        Ok(request.to(to.addressee()))
    }
}

impl OperateArgs {
    /// One control.
    pub fn one(operation: Operation, mode: Mode) -> Self {
        Self { controls: vec![operation], mode, select_only: false, operate_only: false, no_response: false }
    }

    fn request(&self) -> Result<Request> {
        let procedure = match (self.select_only, self.operate_only, self.no_response, self.mode) {
            (true, ..) => ControlProcedure::Select,
            (_, true, ..) => ControlProcedure::Operate,
            (_, _, true, _) => ControlProcedure::DirectNoResponse,
            (.., Mode::Select) => ControlProcedure::SelectBeforeOperate,
            (.., Mode::Direct) => ControlProcedure::Direct,
        };
        let controls: Vec<_> = self.controls.iter().map(|one| (one.index, one.control)).collect();
        Ok(Request::control(procedure, &controls, None)?)
    }
}

impl FreezeArgs {
    fn freeze(&self) -> Freeze {
        if self.clear {
            return Freeze::Clear;
        }
        if self.at.is_none() && self.every.is_none() {
            return Freeze::Immediate;
        }
        let interval_ms = self.every.map_or(0, |every| u32::try_from(every.as_millis()).unwrap_or(u32::MAX));
        Freeze::AtTime { time: self.at.unwrap_or_default(), interval_ms }
    }
}

impl AttributeArgs {
    fn request(&self) -> Result<Request> {
        let Some(text) = &self.write else { return Ok(Request::read_attributes(self.set, self.which)) };
        if matches!(self.which, ALL_ATTRIBUTES | LIST_OF_ATTRIBUTES) {
            bail!("--write needs an attribute's number from 1 to 253");
        }
        let value = match self.form {
            AttributeForm::Text => Some(AttributeValue::text(text)),
            AttributeForm::Unsigned => text.parse().ok().map(AttributeValue::Unsigned),
            AttributeForm::Signed => text.parse().ok().map(AttributeValue::Signed),
            AttributeForm::Float => text.parse().ok().map(AttributeValue::Float),
        };
        let value =
            value.ok_or_else(|| anyhow!("--write is {text:?}, expected a number of the type that --as names"))?;
        Ok(Request::write_attribute(self.set, self.which, &value)?)
    }
}

impl Form {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked; single precision is what was asked for"
    )]
    fn dead_band(self, value: f64) -> Result<DeadBand> {
        let max = match self {
            Self::U16 => f64::from(u16::MAX),
            Self::U32 => f64::from(u32::MAX),
            Self::F32 => f64::from(f32::MAX),
        };
        let whole = self == Self::F32 || value.fract() == 0.0;
        if !whole || !(0.0..=max).contains(&value) {
            bail!("the dead-band is {value}, expected a {}number from 0 to {max}", if whole { "" } else { "whole " });
        }
        Ok(match self {
            Self::U16 => DeadBand::U16(value as u16),
            Self::U32 => DeadBand::U32(value as u32),
            Self::F32 => DeadBand::F32(value as f32),
        })
    }
}

const fn event_class(class: u8) -> Option<EventClass> {
    match class {
        1 => Some(EventClass::Class1),
        2 => Some(EventClass::Class2),
        3 => Some(EventClass::Class3),
        _ => None,
    }
}

fn objects(text: &str) -> Result<Selection, String> {
    let wrong =
        || "expected class-0 to class-3, or objects as in g30v0, g30v5:3-9, g1v2:3,7 or g2v0:first=10".to_owned();
    if let Some(class) = text.strip_prefix("class-") {
        let variations = [("0", 1), ("1", 2), ("2", 3), ("3", 4)];
        let (_, variation) = variations.into_iter().find(|(name, _)| *name == class).ok_or_else(wrong)?;
        return Ok(Selection::all(GroupVar::new(60, variation)));
    }
    let (name, points) = text.split_once(':').map_or((text, None), |(name, points)| (name, Some(points)));
    let (group, variation) = name.strip_prefix('g').and_then(|rest| rest.split_once('v')).ok_or_else(wrong)?;
    let number = |text: &str| text.parse().map_err(|_| wrong());
    let object = GroupVar::new(group.parse().map_err(|_| wrong())?, variation.parse().map_err(|_| wrong())?);
    let Some(points) = points else { return Ok(Selection::all(object)) };
    if let Some(count) = points.strip_prefix("first=") {
        return Ok(Selection::count(object, number(count)?));
    }
    if let Some((first, last)) = points.split_once('-') {
        return Ok(Selection::span(object, number(first)?, number(last)?));
    }
    let indices: Vec<u16> = points.split(',').map(number).collect::<Result<_, _>>()?;
    Ok(Selection::indices(object, &indices))
}

fn attribute(text: &str) -> Result<u8, String> {
    match text {
        "all" => Ok(ALL_ATTRIBUTES),
        "list" => Ok(LIST_OF_ATTRIBUTES),
        _ => {
            let number = text.parse().ok().filter(|number| (1..=253).contains(number));
            number.ok_or_else(|| "expected all, list, or a number from 1 to 253".to_owned())
        }
    }
}

fn dead_band(text: &str) -> Result<(u16, f64), String> {
    let wrong = || "expected INDEX=VALUE, as in 3=0.5".to_owned();
    let (index, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((index.parse().map_err(|_| wrong())?, value.parse().map_err(|_| wrong())?))
}

fn octet_string(text: &str) -> Result<(u16, Vec<u8>), String> {
    let wrong = || "expected INDEX=TEXT with 1 to 255 bytes, as in 2=hello or 2=0x00ff".to_owned();
    let (index, value) = text.split_once('=').ok_or_else(wrong)?;
    let bytes = match value.strip_prefix("0x") {
        Some(digits) => hex(digits)?,
        None => value.as_bytes().to_vec(),
    };
    let fits = (1..=255).contains(&bytes.len());
    Ok((index.parse().map_err(|_| wrong())?, fits.then_some(bytes).ok_or_else(wrong)?))
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
    bytes.ok_or_else(|| "expected pairs of hexadecimal digits".to_owned())
}

fn time(text: &str) -> Result<DnpTime, String> {
    let time: Result<Timestamp, _> = text.parse();
    time.map(DnpTime::from).map_err(|_| "expected a time, as in 2026-11-20T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<Selection>) {
        assert_eq!(objects(text).ok(), expect, "{text}");
    }

    #[test]
    fn objects_are_read() {
        let g30 = |variation| GroupVar::new(30, variation);
        check("class-1", Some(Selection::all(GroupVar::new(60, 2))));
        check("g30v0", Some(Selection::all(g30(0))));
        check("g30v5:3-9", Some(Selection::span(g30(5), 3, 9)));
        check("g30v5:3,700", Some(Selection::indices(g30(5), &[3, 700])));
        check("g30v5:first=10", Some(Selection::count(g30(5), 10)));
        for wrong in ["class-4", "30v0", "g30", "g300v0", "g30v0:", "g30v0:70000", "g30v0:3-", "g30v0:first="] {
            check(wrong, None);
        }
    }

    #[test]
    fn values_that_fit_no_object_are_refused() {
        assert_eq!(hex("3C 01 06"), Ok(vec![0x3C, 1, 6]));
        assert!(hex("3C0").is_err() && hex("zz").is_err());
        assert!(octet_string("2=").is_err() && octet_string(&format!("2={}", "a".repeat(256))).is_err());
        assert_eq!(octet_string("2=0x00ff"), Ok((2, vec![0, 255])));
        assert!(Form::U16.dead_band(0.5).is_err() && Form::U16.dead_band(65_536.0).is_err());
        assert!(Form::F32.dead_band(-1.0).is_err() && Form::F32.dead_band(f64::NAN).is_err());
        assert_eq!(Form::U32.dead_band(7.0).ok(), Some(DeadBand::U32(7)));
    }
}
