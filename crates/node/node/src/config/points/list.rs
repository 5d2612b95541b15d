//! Reads a point list: its header, the columns of all protocols, and each row's point.

use super::rules;
use super::{
    ControlConfig, PointAddress, PointConfig, States, ValueKind, bacnet, dnp3, goose, iec104, modbus, simulated,
};
use crate::config::ProtocolName;
use crate::config::names::Pattern;
use crate::config::settings::DEVICE_POLL_EVERY;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;
use tieline_core::Topic;
use tieline_model::Model;
use tieline_service::reader::{Finding, Findings};

/// What the first line of a list is.
const HEADER: &str = "a first line that names the columns, as in name,type,index,unit";
/// What the column `states` holds.
const STATES: &str = "the words for false and true with a slash between them, as in open/closed";
/// The columns of all protocols.
const COLUMNS: [&str; 19] = [
    "name",
    "type",
    "index",
    "unit",
    "scale",
    "offset",
    "writable",
    "min",
    "max",
    "states",
    "tags",
    "description",
    "revert",
    "step_max",
    "rate_max",
    "interval_min",
    "allow_when",
    "read_back",
    "tolerance",
];

/// All columns of a protocol's lists.
fn columns(protocol: ProtocolName) -> Vec<&'static str> {
    let own: &[&str] = match protocol {
        ProtocolName::Dnp3 => &dnp3::COLUMNS,
        ProtocolName::Modbus => &modbus::COLUMNS,
        ProtocolName::Bacnet => &bacnet::COLUMNS,
        ProtocolName::Iec104 => &iec104::COLUMNS,
        ProtocolName::Goose => &goose::COLUMNS,
        ProtocolName::Simulated => &simulated::COLUMNS,
    };
    let served: &[&str] = match protocol {
        ProtocolName::Modbus | ProtocolName::Bacnet | ProtocolName::Iec104 => &simulated::SERVED_COLUMNS,
        ProtocolName::Dnp3 | ProtocolName::Goose | ProtocolName::Simulated => &[],
    };
    COLUMNS.iter().chain(own).chain(served).copied().collect()
}

/// Reads a list; none where anything in it is wrong (which has been reported then).
pub fn read_points(
    findings: &mut Findings,
    file: &str,
    text: &str,
    protocol: ProtocolName,
) -> Option<Vec<PointConfig>> {
    read_named_points(findings, file, text, (protocol, None))
}

/// The same where names must match a pattern.
pub fn read_named_points(
    findings: &mut Findings,
    file: &str,
    text: &str,
    (protocol, names): (ProtocolName, Option<&Pattern>),
) -> Option<Vec<PointConfig>> {
    let mut reader = reader_of(text);
    let mut list = List { findings, file, protocol, names, ok: true };
    let header = list.header(&mut reader)?;
    let (mut points, mut lines, mut seen) = (Vec::new(), Vec::new(), Seen::default());
    for row in reader.into_records() {
        match row {
            Ok(row) => {
                if let Some(point) = list.point(&header, &row, &mut seen) {
                    points.push(point);
                    lines.push(row.position().map_or(1, csv::Position::line));
                }
            }
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                list.report(line, "(row)", error.to_string(), "a CSV row".to_owned());
            }
        }
    }
    if points.is_empty() && list.ok {
        list.report(1, "(rows)", "no points".to_owned(), "at least one row below the header".to_owned());
    }
    rules::check(&mut list, &points, &lines);
    if protocol == ProtocolName::Simulated && list.ok {
        simulated::check(&mut list, &points, &lines);
    }
    list.ok.then_some(points)
}

fn reader_of(text: &str) -> csv::Reader<&[u8]> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).comment(Some(b'#')).from_reader(text.as_bytes())
}

/// The list of a device that is to be served.
#[derive(Debug)]
pub struct ServedPoints {
    /// Its points.
    pub points: Vec<PointConfig>,
    /// The line of each.
    pub lines: Vec<u64>,
    /// What they show, in the same order.
    pub model: Model,
}

/// Reads the list of a device of Modbus or BACnet that is to be served; none where anything in it is wrong (which has been
/// reported then).
pub fn read_served_points(
    findings: &mut Findings,
    file: &str,
    text: &str,
    protocol: ProtocolName,
) -> Option<ServedPoints> {
    let points = read_points(findings, file, text, protocol)?;
    let mut reader = reader_of(text);
    let mut list = List { findings, file, protocol, names: None, ok: true };
    let header = list.header(&mut reader)?;
    let records: Vec<_> = reader.into_records().filter_map(Result::ok).collect();
    let row =
        |cells| Row { line: csv::StringRecord::position(cells).map_or(1, csv::Position::line), header: &header, cells };
    let rows: Vec<_> = records.iter().map(row).collect();
    let model = simulated::read_model(&mut list, &points, &rows)?;
    let lines = rows.iter().map(|row| row.line).collect();
    list.ok.then_some(ServedPoints { points, lines, model })
}

#[derive(Default)]
struct Seen {
    names: HashMap<String, u64>,
    places: HashSet<(&'static str, u32, Option<u16>)>,
}

/// A list that is being read.
pub(super) struct List<'a> {
    findings: &'a mut Findings,
    file: &'a str,
    protocol: ProtocolName,
    /// What names must match.
    names: Option<&'a Pattern>,
    ok: bool,
}

/// A row of it.
pub(super) struct Row<'a> {
    pub(super) line: u64,
    header: &'a [String],
    cells: &'a csv::StringRecord,
}

impl Row<'_> {
    /// The cell of a column; none where it is empty or the column is not there.
    pub(super) fn cell(&self, column: &str) -> Option<&str> {
        let at = self.header.iter().position(|name| name == column)?;
        self.cells.get(at).filter(|cell| !cell.is_empty())
    }
}

impl List<'_> {
    pub(super) fn report(&mut self, line: u64, key: &str, found: String, expected: String) {
        self.ok = false;
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let (file, key) = (self.file.to_owned(), key.to_owned());
        self.findings.push(Finding { file, line, column: 1, key, found, expected });
    }

    fn header(&mut self, reader: &mut csv::Reader<&[u8]>) -> Option<Vec<String>> {
        let header: Vec<String> = reader.headers().ok()?.iter().map(str::to_lowercase).collect();
        let columns = columns(self.protocol);
        if !header.iter().any(|name| columns.contains(&name.as_str())) {
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
        for unknown in header.iter().filter(|name| !columns.contains(&name.as_str())) {
            self.report(
                1,
                unknown,
                format!("the unknown column {unknown:?}"),
                format!("one of {}", columns.join(", ")),
            );
        }
        // What is simulated has no address.
        let required: &[_] = match self.protocol {
            ProtocolName::Simulated => &["name", "type"],
            ProtocolName::Dnp3
            | ProtocolName::Modbus
            | ProtocolName::Bacnet
            | ProtocolName::Iec104
            | ProtocolName::Goose => &["name", "type", "index"],
        };
        for column in required.iter().filter(|column| !header.iter().any(|name| name == *column)) {
            self.report(1, column, "nothing".to_owned(), format!("a column {column:?} in the header"));
        }
        self.ok.then_some(header)
    }

    /// Parses a cell; reports and yields none where it is wrong, the default where it is empty.
    pub(super) fn cell<T>(
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
        let expected = "a name like breaker/closed, not all, without + or #, and no $ or / in front";
        let name = self.cell(&row, "name", expected, None, parse_name);
        let place = match self.protocol {
            ProtocolName::Dnp3 => dnp3::read_place(self, &row).map(PointAddress::Dnp3),
            ProtocolName::Modbus => modbus::read_place(self, &row).map(PointAddress::Modbus),
            ProtocolName::Bacnet => bacnet::read_place(self, &row).map(PointAddress::Bacnet),
            ProtocolName::Iec104 => iec104::read_place(self, &row).map(PointAddress::Iec104),
            ProtocolName::Goose => goose::read_place(self, &row).map(PointAddress::Goose),
            ProtocolName::Simulated => simulated::read_place(self, &row).map(PointAddress::Simulated),
        };
        let scale = self.cell(&row, "scale", "a number other than 0", Some(1.0), |s| finite(s).filter(|x| *x != 0.0));
        let offset = self.cell(&row, "offset", "a number", Some(0.0), finite);
        let (name, place) = (name?, place?);
        if let Some(line) = seen.names.insert(name.clone(), row.line) {
            self.report(row.line, "name", format!("{name:?}, which line {line} has"), "a name of its own".to_owned());
        }
        if let Some(names) = self.names.filter(|names| !names.matches(&name)) {
            let expected = format!("a name that matches names.points, {names}");
            self.report(row.line, "name", format!("{name:?}"), expected);
        }
        let (type_name, index) = (place.type_name(), place.index());
        if is_second(&place, seen) {
            let found = format!("{type_name} {index} a second time");
            self.report(row.line, "index", found, "each point once".to_owned());
        }
        let (scale, offset) = (scale?, offset?);
        let (address, kind, mut control) = match place {
            PointAddress::Dnp3(point) => dnp3::read_rest(self, &row, point, scale)?,
            PointAddress::Modbus(point) => modbus::read_rest(self, &row, point)?,
            PointAddress::Bacnet(point) => bacnet::read_rest(self, &row, point)?,
            PointAddress::Iec104(point) => iec104::read_rest(self, &row, point)?,
            PointAddress::Goose(point) => goose::read_rest(self, &row, point)?,
            PointAddress::Simulated(point) => simulated::read_rest(self, &row, point)?,
        };
        self.check_numeric(&row, (type_name, kind), scale, offset);
        let states = self.states(&row, kind)?;
        let every = match self.protocol {
            ProtocolName::Dnp3 | ProtocolName::Iec104 | ProtocolName::Goose => None,
            ProtocolName::Modbus | ProtocolName::Bacnet | ProtocolName::Simulated => self.every(&row)?,
        };
        let tags = self.cell(&row, "tags", TAGS, Some(Vec::new()), |s| s.split(';').map(parse_tag).collect())?;
        if let Some(control) = &control {
            self.check_limits(row.line, control, scale, offset);
        }
        let read = rules::read(self, &row, (&address, control.as_ref(), states.as_ref()), (scale, offset))?;
        if let Some(control) = &mut control {
            *control.rules = read;
        }
        Some(PointConfig {
            name,
            address,
            kind,
            unit: row.cell("unit").unwrap_or_default().to_owned(),
            scale,
            offset,
            every,
            states,
            control,
            tags,
            description: row.cell("description").unwrap_or_default().to_owned(),
        })
    }

    /// How often a point is read; the outer option is none where the cell is wrong.
    #[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
    fn every(&mut self, row: &Row<'_>) -> Option<Option<Duration>> {
        let expected = format!("an interval from {}, as in 1s", DEVICE_POLL_EVERY.range_words());
        self.cell(row, "every", &expected, Some(None), |s| DEVICE_POLL_EVERY.parse_cell(s).map(Some))
    }

    /// The outer option is none where it is wrong.
    #[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
    fn states(&mut self, row: &Row<'_>, kind: ValueKind) -> Option<Option<States>> {
        let Some(text) = row.cell("states") else { return Some(None) };
        let two = kind.has_two_states();
        let states = States::parse(text).filter(|_| two);
        if states.is_none() {
            let expected = if two { STATES } else { "nothing: only two-state points have words for their states" };
            self.report(row.line, "states", format!("{text:?}"), expected.to_owned());
        }
        states.map(Some)
    }

    /// Columns that say something of numbers, of a point whose value is none: they would do nothing.
    fn check_numeric(&mut self, row: &Row<'_>, (type_name, kind): (&str, ValueKind), scale: f64, offset: f64) {
        if kind.is_number() {
            return;
        }
        let idle = |column| match column {
            "scale" => scale == 1.0,
            _ => offset == 0.0,
        };
        let limits = ["min", "max"].into_iter().filter(|column| row.cell(column).is_some());
        let given: Vec<_> = ["scale", "offset"].into_iter().filter(|column| !idle(*column)).chain(limits).collect();
        for column in given {
            let found = format!("{:?}", row.cell(column).unwrap_or_default());
            let expected = format!("nothing: the value of a point of type {type_name} is {}", kind.words());
            self.report(row.line, column, found, expected);
        }
    }

    /// Where files that the list names are.
    pub(super) fn folder(&self) -> &Path {
        Path::new(self.file).parent().unwrap_or(Path::new(""))
    }

    /// Whether the point can be commanded; none where the cell is wrong.
    pub(super) fn writable(&mut self, row: &Row<'_>, default: bool) -> Option<bool> {
        self.cell(row, "writable", "true or false", Some(default), |s| s.parse().ok())
    }

    /// The least and the greatest value that are taken; none where a cell is wrong.
    pub(super) fn limits(&mut self, row: &Row<'_>) -> Option<(Option<f64>, Option<f64>)> {
        let min = self.cell(row, "min", "a number", Some(None), |s| finite(s).map(Some));
        let max = self.cell(row, "max", "a number", Some(None), |s| finite(s).map(Some));
        if let (Some(Some(min)), Some(Some(max))) = (min, max)
            && min > max
        {
            self.report(row.line, "max", max.to_string(), format!("at least min, which is {min}"));
        }
        Some((min?, max?))
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
}

/// A finite number.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

/// What tags are.
pub const TAGS: &str = "tags like room=2.14 or comfort, each of 1 to 64 characters without commas and semicolons";
/// Characters of a tag.
const TAG_MAX: usize = 64;

/// A word by which a point or a device is found.
pub fn parse_tag(text: &str) -> Option<String> {
    let tag = text.trim();
    let fits = !tag.is_empty() && tag.chars().count() <= TAG_MAX;
    let plain = !tag.chars().any(|c| c.is_control() || matches!(c, ',' | ';'));
    (fits && plain).then(|| tag.to_owned())
}

fn parse_name(text: &str) -> Option<String> {
    (!text.starts_with(['$', '/']) && Topic::new(text).is_ok() && text != "all").then(|| text.to_owned())
}

/// Whether another point has the place already. Several may be parts of one register, or properties of one object.
fn is_second(place: &PointAddress, seen: &mut Seen) -> bool {
    match place {
        PointAddress::Dnp3(_) => !seen.places.insert((place.type_name(), place.index(), None)),
        // An object has one type.
        PointAddress::Iec104(point) => !seen.places.insert(("", place.index(), point.common_address)),
        PointAddress::Modbus(_) | PointAddress::Bacnet(_) | PointAddress::Goose(_) | PointAddress::Simulated(_) => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::columns;
    use crate::config::ProtocolName;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The page with the columns of a protocol's lists.
    const fn page(protocol: ProtocolName) -> &'static str {
        match protocol {
            ProtocolName::Dnp3 => "devices.md",
            ProtocolName::Modbus => "modbus.md",
            ProtocolName::Bacnet => "bacnet.md",
            ProtocolName::Iec104 => "iec104.md",
            ProtocolName::Goose => "goose.md",
            ProtocolName::Simulated => "simulated.md",
        }
    }

    /// The names in the first cells of a page's table of columns.
    fn documented(text: &str) -> BTreeSet<&str> {
        let rows = text.lines().skip_while(|line| !line.starts_with("| column |"));
        let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_columns_of_a_protocol_are_those_of_its_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
        for protocol in ProtocolName::ALL {
            let text = std::fs::read_to_string(docs.join(page(protocol))).expect("the page of a protocol");
            let known: BTreeSet<&str> = columns(protocol).into_iter().collect();
            assert_eq!(documented(&text), known, "{}", page(protocol));
        }
    }
}
