//! What an outstation of ours serves: `tieline dnp3 outstation --config FILE`.
//!
//! ```toml
//! address = 10                 # link addresses
//! master = 1
//! unsolicited = true           # whether a master may enable unsolicited responses
//! events_max = 1000            # events of each type that are kept for the master
//!
//! [[point]]
//! type = "binary"              # as in point lists
//! index = 0                    # or indices = [0, 41], or range = "0-19"
//! class = 1                    # 1, 2, 3, or 0 for no events
//! static = "g1v2"
//! event = "g2v2"
//! dead_band = 0.5
//! value = true
//! flags = 1
//! command_class = 2            # outputs: events that tell of each control
//! command = "g13v2"
//! operate = "success"          # what a control of an output is answered with
//!
//! [[master]]                   # instead of master = 1: several, each with its own events
//! address = 1
//! from = "192.0.2.7"           # so that it is spoken to before it was heard
//!
//! [attributes]                 # what the device says of itself; see `attributes.rs`
//! name = "Feeder 3"
//! ```

mod attributes;
mod files;
#[cfg(test)]
mod secure_tests;
mod settings;
mod several;

pub use files::FolderConfig;
pub use several::load_all;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use tieline_dnp3::app::CommandStatus;
use tieline_dnp3::lean::{Carrier, LeanConfig, Side};
use tieline_dnp3::outstation::{
    DeviceAttributes, EventLimits, MASTERS_MAX, OutstationConfig, PointConfig, UnsolicitedConfig,
};
use tieline_dnp3::{Classes, DoubleBit, Flags, Measured, Measurement, PointType};
use tieline_service::parse;
use tieline_service::reader::{ConfigError, Document, Expected, Findings, Section, read_text};
use tieline_service::setting::Legal;
use tieline_transport::classes::{event_class, event_classes};
use tieline_transport::secure::{StationSecurity, read_station_security};
use toml::de::DeValue;

/// An outstation's file, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct OutstationFile {
    /// How it behaves.
    pub config: OutstationConfig,
    /// Its points.
    pub points: Vec<OutstationPoint>,
    /// What it says of itself.
    pub attributes: DeviceAttributes,
    /// Its secure authentication, where it has any.
    pub secure: Option<StationSecurity>,
    /// The files that it serves.
    pub files: Option<FolderConfig>,
    /// Its masters, where there are several.
    pub masters: Vec<MasterFile>,
}

/// One of several masters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterFile {
    /// Its link address.
    pub address: u16,
    /// Where it connects from, if only it does.
    pub from: Option<IpAddr>,
}

impl OutstationFile {
    /// Its masters: one, or several.
    #[must_use]
    pub fn all_masters(&self) -> Vec<MasterFile> {
        match self.masters.as_slice() {
            [] => vec![MasterFile { address: self.config.master, from: None }],
            several => several.to_vec(),
        }
    }
}

/// One point of an outstation.
#[derive(Clone, Debug, PartialEq)]
pub struct OutstationPoint {
    /// Its first value.
    pub start: Measurement,
    /// How it is reported.
    pub config: PointConfig,
    /// What a control of it is answered with.
    pub operate: CommandStatus,
}

/// Reads an outstation's file.
///
/// # Errors
/// Everything that is wrong in it.
pub fn load(path: &Path) -> Result<OutstationFile, ConfigError> {
    from_text(&path.display().to_string(), &read_text(path)?)
}

/// Reads an outstation's file from text.
///
/// # Errors
/// Everything that is wrong in it.
pub fn from_text(file: &str, text: &str) -> Result<OutstationFile, ConfigError> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut findings = Findings::default();
    let read = Document::read(file, text, &mut findings, |doc, s| read_file(doc, s, folder));
    if findings.is_empty() { Ok(read) } else { Err(ConfigError(findings.sorted())) }
}

fn read_file(doc: &mut Document<'_>, mut s: Section<'_>, folder: &Path) -> OutstationFile {
    let default = OutstationConfig::default();
    let unsolicited = read_unsolicited(doc, &mut s);
    // A number, or tables of several.
    let master = s.optional(doc, "master", |v| match v {
        DeValue::Array(_) => Ok(None),
        _ => settings::MASTER.parse(v).map(Some),
    });
    let config = OutstationConfig {
        address: settings::ADDRESS.read(&mut s, doc),
        master: master.flatten().unwrap_or(settings::MASTER.default),
        answers_self_address: settings::SELF_ADDRESS.read(&mut s, doc),
        confirm_timeout: settings::CONFIRM_TIMEOUT.read(&mut s, doc),
        select_timeout: settings::SELECT_TIMEOUT.read(&mut s, doc),
        controls_max: settings::CONTROLS_MAX.read(&mut s, doc),
        need_time_every: settings::NEED_TIME_EVERY.optional(&mut s, doc),
        // Nobody has compared the clock of this machine with that of a master.
        clock_synchronized: false,
        event_limits: EventLimits::all(settings::EVENTS_MAX.read(&mut s, doc)),
        unsolicited: settings::UNSOLICITED.read(&mut s, doc).then_some(unsolicited),
        lean: settings::LEAN.read(&mut s, doc).then_some(LeanConfig { side: Side::Accepts, carrier: Carrier::Stream }),
        ..default
    };
    let points = read_points(doc, &mut s);
    let attributes = attributes::read(doc, &mut s);
    let secure = read_station_security(doc, &mut s, folder);
    let files = files::read(doc, &mut s, folder);
    let masters = if master == Some(None) { read_masters(doc, &mut s) } else { Vec::new() };
    if !masters.is_empty() && (secure.is_some() || files.is_some() || config.lean.is_some()) {
        // Users, open files and lean messages are of one association.
        let expected = "one master with secure authentication, files or lean messages".to_owned();
        doc.report(s.value_at("master"), "master", format!("{} masters", masters.len()), expected);
    }
    s.finish(doc);
    OutstationFile { config, points, attributes, secure, files, masters }
}

fn read_points(doc: &mut Document<'_>, s: &mut Section<'_>) -> Vec<OutstationPoint> {
    let (mut points, mut known) = (Vec::new(), HashSet::new());
    for section in s.array(doc, "point") {
        let (at, path) = (section.at(), section.path());
        for point in read_point(doc, section) {
            let Measurement { point_type, index, .. } = point.start;
            if !known.insert((point_type, index)) {
                let found = format!("{} {index} a second time", point_type.name());
                doc.report(at, &path.key("index"), found, "each point once".to_owned());
            }
            points.push(point);
        }
    }
    points
}

fn read_unsolicited(doc: &mut Document<'_>, s: &mut Section<'_>) -> UnsolicitedConfig {
    UnsolicitedConfig {
        confirm_timeout: settings::UNSOLICITED_CONFIRM_TIMEOUT.read(s, doc),
        retries_max: settings::UNSOLICITED_RETRIES_MAX.optional(s, doc),
        hold_time: settings::UNSOLICITED_HOLD_TIME.read(s, doc),
        events_before_hold_ends: settings::UNSOLICITED_HOLD_EVENTS.read(s, doc),
        protection: s.or(doc, "unsolicited_protection", Classes::NONE, event_classes),
        events_max: settings::UNSOLICITED_EVENTS_MAX.read(s, doc),
        ..UnsolicitedConfig::default()
    }
}

fn read_masters(doc: &mut Document<'_>, s: &mut Section<'_>) -> Vec<MasterFile> {
    let mut masters: Vec<MasterFile> = Vec::new();
    for mut section in s.array(doc, "master") {
        let (place, key) = (section.at(), section.key("address"));
        let address = section.required(doc, "address", "the link address of the master", |v| settings::MASTER.parse(v));
        let from = section.optional(doc, "from", |v| {
            v.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| "an IP address".to_owned())
        });
        section.finish(doc);
        let Some(address) = address else { continue };
        if masters.iter().any(|known| known.address == address) {
            doc.report(place, &key, format!("{address} a second time"), "each master once".to_owned());
        }
        if masters.len() == MASTERS_MAX {
            doc.report(place, &key, "one more".to_owned(), format!("{MASTERS_MAX} masters at most"));
        }
        masters.push(MasterFile { address, from });
    }
    masters
}

fn read_point(doc: &mut Document<'_>, mut s: Section<'_>) -> Vec<OutstationPoint> {
    let parse_type = |v: &DeValue<'_>| {
        let types = || PointType::ALL.map(|t| format!("\"{}\"", t.name())).join(", ");
        v.as_str().and_then(PointType::from_name).ok_or_else(|| format!("one of {}", types()))
    };
    let point_type = s.required(doc, "type", "the type of the point", parse_type).unwrap_or(PointType::Binary);
    let indices = read_indices(doc, &mut s);
    let default = PointConfig::of(point_type);
    let config = PointConfig {
        class: s.or(doc, "class", default.class, |v| parse::integer(0..=3)(v).map(event_class)),
        in_class_0: s.or(doc, "in_class_0", true, parse::boolean),
        static_variation: s.or(doc, "static", default.static_variation, |v| variation(v, point_type.static_group())),
        event_variation: s.or(doc, "event", default.event_variation, |v| variation(v, point_type.event_group())),
        #[expect(clippy::cast_possible_truncation, reason = "group 34 has single precision")]
        dead_band: s.or(doc, "dead_band", 0.0, |v| parse::number(v).map(|x| x as f32)),
        command_class: s.or(doc, "command_class", None, |v| parse::integer(0..=3)(v).map(event_class)),
        command_variation: s.or(doc, "command", default.command_variation, |v| variation(v, command_group(point_type))),
    };
    let value = s.optional(doc, "value", |v| measured(v, point_type)).unwrap_or_else(|| zero(point_type));
    let flags = Flags(s.or(doc, "flags", Flags::ONLINE.0, parse::integer(0..=255)));
    let operate = s.or(doc, "operate", CommandStatus::Success, status);
    if let Err(error) = config.check(point_type) {
        let expected = format!("variations that {} points have", point_type.name());
        let known = ["static", "event", "command"];
        let key = known.into_iter().find(|name| s.has(name)).unwrap_or("type");
        doc.report(s.value_at(key), &s.key(key), error.to_string(), expected);
    }
    s.finish(doc);
    let point = |index| OutstationPoint {
        start: Measurement { point_type, index, value: value.clone(), flags, stamp: None },
        config,
        operate,
    };
    indices.into_iter().map(point).collect()
}

fn read_indices(doc: &mut Document<'_>, s: &mut Section<'_>) -> Vec<u16> {
    let one = s.optional(doc, "index", parse::integer(0..=65_535)).map(|index| vec![index]);
    let list = s.optional(doc, "indices", |v| {
        let words = || "a list of whole numbers from 0 to 65535".to_owned();
        let items = v.as_array().ok_or_else(words)?;
        items.iter().map(|item| parse::integer(0..=65_535)(item.get_ref()).map_err(|_| words())).collect()
    });
    let range = s.optional(doc, "range", |v| {
        let bounds = v.as_str().and_then(|text| text.split_once('-'));
        let bounds = bounds.and_then(|(a, b)| Some((a.trim().parse::<u16>().ok()?, b.trim().parse::<u16>().ok()?)));
        let bounds = bounds.filter(|(a, b)| a <= b).ok_or_else(|| "a range like \"0-19\"".to_owned())?;
        Ok((bounds.0..=bounds.1).collect())
    });
    let given = ["index", "indices", "range"].iter().filter(|name| s.has(name)).count();
    if given != 1 {
        let expected = "one of index = 0, indices = [0, 41] and range = \"0-19\"".to_owned();
        doc.report(s.at(), &s.key("index"), format!("{given} of index, indices and range"), expected);
    }
    one.or(list).or(range).unwrap_or_default()
}

/// The group of the events that tell of controls; inputs have none.
const fn command_group(point_type: PointType) -> u8 {
    match point_type {
        PointType::BinaryOutput => 13,
        PointType::AnalogOutput => 43,
        _ => 0,
    }
}

fn variation(value: &DeValue<'_>, group: u8) -> Result<u8, Expected> {
    let named = value.as_str().and_then(|text| text.strip_prefix(&format!("g{group}v"))?.parse().ok());
    named.or_else(|| parse::integer(0..=255)(value).ok()).ok_or_else(|| format!("a variation like \"g{group}v1\""))
}

fn status(value: &DeValue<'_>) -> Result<CommandStatus, Expected> {
    let known = (0..=126).map(CommandStatus::from_byte).filter(|status| *status != CommandStatus::Undefined);
    let mut all = known.chain([CommandStatus::Undefined]);
    let text = value.as_str().unwrap_or_default();
    let found = all.clone().find(|status| status.name() == text);
    found.ok_or_else(|| {
        let first = all.next().map(CommandStatus::name).unwrap_or_default().to_owned();
        all.fold(format!("one of {first}"), |words, status| words + ", " + status.name())
    })
}

fn measured(value: &DeValue<'_>, point_type: PointType) -> Result<Measured, Expected> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Integer(_) | DeValue::Float(_) => parse::number(value)?.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => String::new(),
    };
    parse_value(point_type, &text)
}

/// The value of a point of some type, as people write it.
///
/// # Errors
/// What was expected.
pub fn parse_value(point_type: PointType, text: &str) -> Result<Measured, String> {
    match point_type {
        PointType::Binary | PointType::BinaryOutput => match text {
            "true" | "on" | "1" => Ok(Measured::Bit(true)),
            "false" | "off" | "0" => Ok(Measured::Bit(false)),
            _ => Err("true or false".to_owned()),
        },
        PointType::DoubleBit => match text {
            "intermediate" | "0" => Ok(Measured::DoubleBit(DoubleBit::Intermediate)),
            "off" | "1" => Ok(Measured::DoubleBit(DoubleBit::Off)),
            "on" | "2" => Ok(Measured::DoubleBit(DoubleBit::On)),
            "indeterminate" | "3" => Ok(Measured::DoubleBit(DoubleBit::Indeterminate)),
            _ => Err("intermediate, off, on or indeterminate".to_owned()),
        },
        PointType::Counter | PointType::FrozenCounter => {
            text.parse().map(Measured::Count).map_err(|_| "a whole number from 0 to 4294967295".to_owned())
        }
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => {
            text.parse().map(Measured::Analog).map_err(|_| "a number".to_owned())
        }
        PointType::OctetString => match text.len() {
            1..=255 => Ok(Measured::Bytes(text.as_bytes().into())),
            _ => Err("1 to 255 bytes".to_owned()),
        },
    }
}

/// The value of a point that has none yet.
fn zero(point_type: PointType) -> Measured {
    match point_type {
        PointType::Binary | PointType::BinaryOutput => Measured::Bit(false),
        PointType::DoubleBit => Measured::DoubleBit(DoubleBit::Off),
        PointType::Counter | PointType::FrozenCounter => Measured::Count(0),
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => Measured::Analog(0.0),
        PointType::OctetString => Measured::Bytes([0].into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(text: &str, expect: Result<usize, &[&str]>) {
        let found = from_text("o.toml", text).map(|file| file.points.len());
        let found = found.map_err(|ConfigError(all)| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = found.as_ref().map_err(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.copied(), expect.map_err(<[&str]>::to_vec), "{text}");
    }

    #[test]
    fn a_hold_time_has_an_end() {
        let file = from_text("o.toml", "unsolicited_hold_time='2s'\nunsolicited_hold_events=3\n").unwrap();
        let unsolicited = file.config.unsolicited.unwrap();
        assert_eq!((unsolicited.hold_time, unsolicited.events_before_hold_ends), (Duration::from_secs(2), 3));
        check(
            "unsolicited_hold_events=0\n",
            Err(&["o.toml:1:25: unsolicited_hold_events: found 0, expected a whole number from 1 to 65535"]),
        );
    }

    /// Many points cost what they are: with work that grows by the square of them this takes minutes.
    #[test]
    fn two_hundred_thousand_points_are_read_at_once() {
        let began = std::time::Instant::now();
        let types = ["analog", "counter", "double-bit", "binary"];
        let text: String = types.iter().map(|name| format!("[[point]]\ntype='{name}'\nrange='0-49999'\n")).collect();
        let file = from_text("o.toml", &text).unwrap();
        assert_eq!(file.points.len(), 200_000);
        // The same, a table each and every one of them wrong.
        let text: String =
            (0..200_000).map(|index| format!("[[point]]\ntype='analog'\nindex={}\n", 65_536 + index)).collect();
        let ConfigError(wrong) = from_text("o.toml", &text).unwrap_err();
        assert_eq!((wrong.len(), wrong.last().unwrap().line), (200_000, 600_000));
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(ConfigError(wrong).to_string().lines().count(), 102);
        check(
            "[[point]]\ntype='binary'\nrange='0-3'\n[[point]]\ntype='counter'\nindex=3\n[[point]]\ntype='binary'\nindex=3\n",
            Err(&["o.toml:7:1: point[2].index: found binary 3 a second time, expected each point once"]),
        );
    }

    #[test]
    fn nobody_has_compared_the_clock_at_the_start() {
        assert!(!from_text("o.toml", "").unwrap().config.clock_synchronized);
    }

    #[test]
    fn several_masters_are_read() {
        let file = from_text("o.toml", "[[master]]\naddress=1\n[[master]]\naddress=2\nfrom='192.0.2.7'\n").unwrap();
        let from = Some(IpAddr::from([192, 0, 2, 7]));
        assert_eq!(file.masters, [MasterFile { address: 1, from: None }, MasterFile { address: 2, from }]);
        check(
            "[[master]]\naddress=1\nfrom='here'\n[[master]]\naddress=1\n[[master]]\n",
            Err(&[
                "o.toml:3:6: master[0].from: found \"here\", expected an IP address",
                "o.toml:4:1: master[1].address: found 1 a second time, expected each master once",
                "o.toml:6:1: master[2].address: found nothing, expected the link address of the master",
            ]),
        );
        check("master='one'\n", Err(&["o.toml:1:8: master: found \"one\", expected a whole number from 0 to 65519"]));
    }

    #[test]
    fn files_are_read_or_say_what_is_wrong() {
        check(
            "address=1024\n[[point]]\ntype='binary'\nindices=[0,41,1024,65535]\nclass=1\n[[point]]\ntype='analog-output'\nrange='0-19'\nvalue=1.5\n",
            Ok(24),
        );
        check(
            "[[point]]\ntype='analog'\nindex=0\nstatic='g30v9'\n",
            Err(&[
                "o.toml:4:8: point[0].static: found the point's type has no such variation, expected variations that analog points have",
            ]),
        );
        check(
            "[[point]]\ntype='binary'\nvalue=12\noperate='maybe'\n",
            Err(&[
                "o.toml:1:1: point[0].index: found 0 of index, indices and range, expected one of index = 0, indices = [0, 41] and range = \"0-19\"",
                "o.toml:3:7: point[0].value: found 12, expected true or false",
                "o.toml:4:9: point[0].operate: found \"maybe\", expected one of success, timeout, no_select, format_error, not_supported, already_active, hardware_error, local, too_many_ops, not_authorized, automation_inhibit, processing_limited, out_of_range, downstream_local, already_complete, blocked, cancelled, blocked_other_master, downstream_fail, non_participating, undefined",
            ]),
        );
    }
}
