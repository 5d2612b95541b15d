//! A point list: one CSV row a point.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `name` | the topic below the device's, as in `breaker/closed` | required |
//! | `type` | `binary`, `double-bit`, `binary-output`, `counter`, `frozen-counter`, `analog`, `frozen-analog`, `analog-output`, `octet-string` | required |
//! | `index` | 0 to 65535 | required |
//! | `unit` | `kW`, `A`, … | none |
//! | `scale`, `offset` | value = raw × scale + offset | 1, 0 |
//! | `writable` | `true`, `false` | `true` for outputs |
//! | `control` | the output index that a command goes to | `index` of an output |
//! | `mode` | `select` (before operate), `direct` | `select` |
//! | `operate` | binary: `latch`, `pulse`, `trip-close`; analog: `int16`, `int32`, `float`, `double` | `latch`, `float` |
//! | `min`, `max` | limits of a set point in the unit of the value | none |
//! | `states` | two-state points: the words for false and true, as in `open/closed` | none |
//! | `dead_band` | analogs: what the device is told to report, in the unit of the value | as the device has it |
//! | `description` | for people | none |

use super::reader::{Finding, Findings};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use tieline_core::{CommandMode, Topic};
use tieline_dnp3::PointType;

/// One point of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct PointConfig {
    /// The topic below the device's.
    pub name: String,
    /// The kind of point.
    pub point_type: PointType,
    /// Its number within the kind.
    pub index: u16,
    /// The unit of the scaled value; empty for none.
    pub unit: String,
    /// value = raw × scale + offset.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// How far it must move for an event, in the unit of the value: written to the device. None leaves the device's.
    pub dead_band: Option<f64>,
    /// The words for false and true of a two-state point.
    pub states: Option<States>,
    /// How it is commanded; none where it is only read.
    pub control: Option<ControlConfig>,
    /// Words for people.
    pub description: String,
}

/// The words for the states of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    /// Of false.
    pub off: Box<str>,
    /// Of true.
    pub on: Box<str>,
}

impl States {
    /// Two different words with a slash between them, neither of which means the other state by itself.
    fn parse(text: &str) -> Option<Self> {
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
    /// The output index.
    pub index: u16,
    /// How the device is asked, unless the request says.
    pub mode: CommandMode,
    /// What is sent.
    pub operate: Operate,
    /// The least value taken.
    pub min: Option<f64>,
    /// The greatest value taken.
    pub max: Option<f64>,
}

impl ControlConfig {
    /// The values that are taken, in the unit of the topic: those of the object, narrowed by the limits of the list; none
    /// for a binary output.
    #[must_use]
    pub fn limits(&self, scale: f64, offset: f64) -> Option<RangeInclusive<f64>> {
        let raw = self.operate.raw_range()?;
        let (a, b) = (raw.start() * scale + offset, raw.end() * scale + offset);
        let low = self.min.map_or(a.min(b), |min| min.max(a.min(b)));
        let high = self.max.map_or(a.max(b), |max| max.min(a.max(b)));
        Some(low..=high)
    }
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
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Latch | Self::Pulse | Self::TripClose)
    }

    /// The raw numbers that the object holds; none for a binary output.
    #[must_use]
    pub fn raw_range(self) -> Option<RangeInclusive<f64>> {
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

/// What the first line of a list is.
const HEADER: &str = "a first line that names the columns, as in name,type,index,unit";
/// What the column `states` holds.
const STATES: &str = "the words for false and true with a slash between them, as in open/closed";
/// Characters of the word for a state.
const STATE_MAX: usize = 40;

const COLUMNS: [&str; 15] = [
    "name",
    "type",
    "index",
    "unit",
    "scale",
    "offset",
    "writable",
    "control",
    "mode",
    "operate",
    "min",
    "max",
    "states",
    "dead_band",
    "description",
];

/// Reads a list; none where anything in it is wrong (which has been reported then).
pub fn read_points(findings: &mut Findings, file: &str, text: &str) -> Option<Vec<PointConfig>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).comment(Some(b'#')).from_reader(text.as_bytes());
    let mut list = List { findings, file, ok: true };
    let header = list.header(&mut reader)?;
    let (mut points, mut seen) = (Vec::new(), Seen::default());
    for row in reader.into_records() {
        match row {
            Ok(row) => points.extend(list.point(&header, &row, &mut seen)),
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                list.report(line, "(row)", error.to_string(), "a CSV row".to_owned());
            }
        }
    }
    if points.is_empty() && list.ok {
        list.report(1, "(rows)", "no points".to_owned(), "at least one row below the header".to_owned());
    }
    list.ok.then_some(points)
}

#[derive(Default)]
struct Seen {
    names: HashMap<String, u64>,
    indices: HashSet<(PointType, u16)>,
}

struct List<'a> {
    findings: &'a mut Findings,
    file: &'a str,
    ok: bool,
}

struct Row<'a> {
    line: u64,
    header: &'a [String],
    cells: &'a csv::StringRecord,
}

impl Row<'_> {
    /// The cell of a column; none where it is empty or the column is not there.
    fn cell(&self, column: &str) -> Option<&str> {
        let at = self.header.iter().position(|name| name == column)?;
        self.cells.get(at).filter(|cell| !cell.is_empty())
    }
}

impl List<'_> {
    fn report(&mut self, line: u64, key: &str, found: String, expected: String) {
        self.ok = false;
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let (file, key) = (self.file.to_owned(), key.to_owned());
        self.findings.push(Finding { file, line, column: 1, key, found, expected });
    }

    fn header(&mut self, reader: &mut csv::Reader<&[u8]>) -> Option<Vec<String>> {
        let header: Vec<String> = reader.headers().ok()?.iter().map(str::to_lowercase).collect();
        if !header.iter().any(|name| COLUMNS.contains(&name.as_str())) {
            let found = header.join(",");
            let (found, expected) = match header.first().map(String::as_str).unwrap_or_default() {
                "" if header.len() < 2 => ("an empty file".to_owned(), HEADER.to_owned()),
                one if one.contains(['=', '[']) => (format!("{one:?}, which looks like TOML"), HEADER.to_owned()),
                one if one.contains([';', '\t']) => (format!("{one:?}"), format!("{HEADER}, with commas between them")),
                _ => (format!("{found:?}"), HEADER.to_owned()),
            };
            self.report(1, "(header)", found, expected);
            return None;
        }
        for unknown in header.iter().filter(|name| !COLUMNS.contains(&name.as_str())) {
            self.report(
                1,
                unknown,
                format!("the unknown column {unknown:?}"),
                format!("one of {}", COLUMNS.join(", ")),
            );
        }
        for column in ["name", "type", "index"].into_iter().filter(|column| !header.iter().any(|name| name == column)) {
            self.report(1, column, "nothing".to_owned(), format!("a column {column:?} in the header"));
        }
        self.ok.then_some(header)
    }

    /// Parses a cell; reports and yields none where it is wrong, the default where it is empty.
    fn cell<T>(
        &mut self,
        row: &Row<'_>,
        column: &str,
        expected: &str,
        default: Option<T>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let Some(text) = row.cell(column) else {
            if default.is_none() {
                self.report(row.line, column, "nothing".to_owned(), expected.to_owned());
            }
            return default;
        };
        let parsed = parse(text);
        if parsed.is_none() {
            self.report(row.line, column, format!("{text:?}"), expected.to_owned());
        }
        parsed
    }

    fn point(&mut self, header: &[String], cells: &csv::StringRecord, seen: &mut Seen) -> Option<PointConfig> {
        let row = Row { line: cells.position().map_or(1, csv::Position::line), header, cells };
        if cells.len() > header.len() {
            self.report(row.line, "(row)", format!("{} cells", cells.len()), format!("at most {}", header.len()));
        }
        let name = self.cell(&row, "name", "a name like breaker/closed, without + # or a $ in front", None, parse_name);
        let types = PointType::ALL.map(PointType::name).join(", ");
        let point_type = self.cell(&row, "type", &format!("one of {types}"), None, PointType::from_name);
        let index = self.cell(&row, "index", "a whole number from 0 to 65535", None, |s| s.parse::<u16>().ok());
        let scale = self.cell(&row, "scale", "a number other than 0", Some(1.0), |s| finite(s).filter(|x| *x != 0.0));
        let offset = self.cell(&row, "offset", "a number", Some(0.0), finite);
        let (name, point_type, index) = (name?, point_type?, index?);
        if let Some(line) = seen.names.insert(name.clone(), row.line) {
            self.report(row.line, "name", format!("{name:?}, which line {line} has"), "a name of its own".to_owned());
        }
        if !seen.indices.insert((point_type, index)) {
            let found = format!("{} {index} a second time", point_type.name());
            self.report(row.line, "index", found, "each point once".to_owned());
        }
        let (scale, offset) = (scale?, offset?);
        self.check_numeric(&row, point_type, scale, offset);
        let dead_band = self.dead_band(&row, point_type, scale)?;
        let states = self.states(&row, point_type)?;
        let control = self.control(&row, point_type, index)?;
        if let Some(control) = &control {
            self.check_limits(row.line, control, scale, offset);
        }
        Some(PointConfig {
            name,
            point_type,
            index,
            unit: row.cell("unit").unwrap_or_default().to_owned(),
            scale,
            offset,
            dead_band,
            states,
            control,
            description: row.cell("description").unwrap_or_default().to_owned(),
        })
    }

    /// None where it is wrong.
    fn dead_band(&mut self, row: &Row<'_>, point_type: PointType, scale: f64) -> Option<Option<f64>> {
        let Some(text) = row.cell("dead_band") else { return Some(None) };
        let raw = |band: f64| (band / scale).abs();
        let band = finite(text).filter(|band| *band >= 0.0 && raw(*band) <= f64::from(f32::MAX));
        let expected = match point_type {
            PointType::Analog if band.is_some() => return Some(band),
            PointType::Analog => "a number from 0 up, within single precision before scaling",
            _ => "nothing: only points of type analog have a dead-band (group 34)",
        };
        self.report(row.line, "dead_band", format!("{text:?}"), expected.to_owned());
        None
    }

    /// The outer option is none where it is wrong.
    #[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
    fn states(&mut self, row: &Row<'_>, point_type: PointType) -> Option<Option<States>> {
        let Some(text) = row.cell("states") else { return Some(None) };
        let two = matches!(point_type, PointType::Binary | PointType::BinaryOutput | PointType::DoubleBit);
        let states = States::parse(text).filter(|_| two);
        if states.is_none() {
            let expected = if two { STATES } else { "nothing: only two-state points have words for their states" };
            self.report(row.line, "states", format!("{text:?}"), expected.to_owned());
        }
        states.map(Some)
    }

    /// Columns that say something of numbers, of a point whose value is none: they would do nothing.
    fn check_numeric(&mut self, row: &Row<'_>, point_type: PointType, scale: f64, offset: f64) {
        let words = match point_type {
            PointType::Binary | PointType::BinaryOutput => "true or false",
            PointType::DoubleBit => "one of four states",
            PointType::OctetString => "a text",
            _ => return,
        };
        let idle = |column| match column {
            "scale" => scale == 1.0,
            _ => offset == 0.0,
        };
        let limits = ["min", "max"].into_iter().filter(|column| row.cell(column).is_some());
        let given: Vec<_> = ["scale", "offset"].into_iter().filter(|column| !idle(*column)).chain(limits).collect();
        for column in given {
            let found = format!("{:?}", row.cell(column).unwrap_or_default());
            let expected = format!("nothing: the value of a point of type {} is {words}", point_type.name());
            self.report(row.line, column, found, expected);
        }
    }

    /// Limits that leave no value that the object can hold.
    fn check_limits(&mut self, line: u64, control: &ControlConfig, scale: f64, offset: f64) {
        let Some(range) = control.limits(scale, offset) else { return };
        let crossed = control.min.zip(control.max).is_some_and(|(min, max)| min > max);
        if range.is_empty() && !crossed {
            let shown = |limit: Option<f64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            let found = format!("min {}, max {}", shown(control.min), shown(control.max));
            self.report(line, "min", found, "limits within what the object of the column operate holds".to_owned());
        }
    }

    /// The outer option is none where a cell is wrong.
    #[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
    fn control(&mut self, row: &Row<'_>, point_type: PointType, index: u16) -> Option<Option<ControlConfig>> {
        let output = matches!(point_type, PointType::BinaryOutput | PointType::AnalogOutput);
        let has_control = row.cell("control").is_some();
        let writable = self.cell(row, "writable", "true or false", Some(output || has_control), |s| s.parse().ok())?;
        if !writable {
            return Some(None);
        }
        if !output && !has_control {
            let found = format!("true for a {} without a control index", point_type.name());
            self.report(
                row.line,
                "writable",
                found,
                "an output, or the column control with the output's index".to_owned(),
            );
            return None;
        }
        let binary = matches!(point_type, PointType::BinaryOutput | PointType::Binary | PointType::DoubleBit);
        let (default, words) = if binary {
            (Operate::Latch, "latch, pulse or trip-close")
        } else {
            (Operate::Float, "int16, int32, float or double")
        };
        let operate = self
            .cell(row, "operate", words, Some(default), |s| Operate::from_name(s).filter(|o| o.is_binary() == binary));
        let mode = self.cell(row, "mode", "select or direct", Some(CommandMode::SelectBeforeOperate), |s| match s {
            "select" => Some(CommandMode::SelectBeforeOperate),
            "direct" => Some(CommandMode::DirectOperate),
            _ => None,
        });
        let control = self.cell(row, "control", "a whole number from 0 to 65535", Some(index), |s| s.parse().ok());
        let min = self.cell(row, "min", "a number", Some(None), |s| finite(s).map(Some));
        let max = self.cell(row, "max", "a number", Some(None), |s| finite(s).map(Some));
        if let (Some(Some(min)), Some(Some(max))) = (min, max)
            && min > max
        {
            self.report(row.line, "max", max.to_string(), format!("at least min, which is {min}"));
        }
        Some(Some(ControlConfig { index: control?, mode: mode?, operate: operate?, min: min?, max: max? }))
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

fn parse_name(text: &str) -> Option<String> {
    (!text.starts_with(['$', '/']) && Topic::new(text).is_ok() && text != "all").then(|| text.to_owned())
}
