//! A registry becomes a point list, row by row.

use super::driver::Driver;
use super::modbus_tk::Style;
use super::point::{Cells, Mapped, Point, Refusal, no_default, refuse};
use super::table::{Row, Table};
use super::write::rows_text;
use crate::import::report::{Outcome, Place, Report, Target};
use std::collections::HashMap;
use tieline_node::config::{Finding, Findings, ProtocolName, read_points};

/// Columns of all drivers.
const COMMON: [&str; 18] = [
    "point name",
    "reference point name",
    "volttron point name",
    "units",
    "unit details",
    "units details",
    "writable",
    "starting value",
    "default value",
    "default",
    "type",
    "notes",
    "description",
    "polling interval",
    "data source",
    "active",
    "stale timeout",
    "mixed endian",
];
/// Columns that only drivers have for which Tieline has none.
const OTHERS: [(&str, &str); 7] = [
    ("attribute name", "chargepoint"),
    ("readable", "ecobee"),
    ("obix point name", "obix"),
    ("ieee2030 5 resource name", "IEEE2030_5"),
    ("entity id", "home_assistant"),
    ("endpoint", "restful"),
    ("dnp3 point name", "DNP3, of an old version,"),
];

/// A registry or a register map with the name that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub file: &'a str,
    pub table: &'a Table,
}

impl Named<'_> {
    fn place(&self, row: &Row) -> Place {
        Place { file: self.file.to_owned(), line: row.line, last_line: row.last_line, key: row.key.clone() }
    }

    /// Of the header, where there is one.
    pub fn header(&self) -> Option<Place> {
        let line = self.table.header_line?;
        Some(Place { file: self.file.to_owned(), line, last_line: line, key: String::new() })
    }

    /// All is left out for one reason; blank lines and comments are of no use all the same.
    pub fn refuse(&self, why: &str, report: &mut Report) {
        let why = Outcome::LeftOut(why.to_owned());
        if let Some(place) = self.header() {
            report.add(&place, why.clone());
        }
        for row in &self.table.rows {
            let outcome = if row.is_blank() || row.is_comment() {
                Outcome::NotNeeded("blank or a comment".to_owned())
            } else {
                why.clone()
            };
            report.add(&self.place(row), outcome);
        }
        if self.table.header_line.is_none() && self.table.rows.is_empty() {
            let whole = Place { file: self.file.to_owned(), line: 0, last_line: 0, key: String::new() };
            report.add(&whole, Outcome::NotNeeded("an empty file".to_owned()));
        }
    }
}

/// The points of a registry, and what became of each row.
#[derive(Debug)]
pub struct Converted {
    pub points: Vec<Point>,
    /// For each row of the registry.
    rows: Vec<Result<(usize, Vec<String>), Refusal>>,
    /// For each row of the register map: the row of the registry.
    map_rows: Vec<Option<usize>>,
}

/// Converts a registry. A map says what the registers of `modbus_tk` are that it names.
pub fn convert(table: &Table, map: Option<&Table>, driver: Driver, style: Style, min_priority: u8) -> Converted {
    let by_name = |table: &Table| -> HashMap<String, usize> {
        table.rows.iter().enumerate().map(|(at, row)| (table.cell(row, "register name").to_owned(), at)).collect()
    };
    let registers = map.map(by_name).unwrap_or_default();
    let mut map_rows = vec![None; map.map_or(0, |map| map.rows.len())];
    let mut rows: Vec<Result<Mapped, Refusal>> = Vec::new();
    for row in &table.rows {
        let cells = Cells { table, row };
        let name = cells.get("register name");
        let at = registers.get(name).copied().filter(|_| !name.is_empty());
        let of_map = at.and_then(|at| Some(Cells { table: map?, row: map?.rows.get(at)? }));
        let mapped = driver.point(&cells, of_map.as_ref(), style, min_priority);
        rows.push(match (mapped, at) {
            (Err(Refusal::LeftOut(_)), None) if map.is_some() => {
                refuse(format!("the register map has no register {name:?}"))
            }
            (mapped, _) => mapped,
        });
        if let Some(place) = at.and_then(|at| map_rows.get_mut(at)) {
            *place = Some(rows.len() - 1);
        }
    }
    refuse_illegal(driver, &mut rows);
    refuse_duplicates(table, driver, &mut rows);
    let mut points = Vec::new();
    let rows = rows.into_iter().map(|row| {
        row.map(|mapped| {
            points.push(mapped.point);
            (points.len() - 1, mapped.notes)
        })
    });
    let rows = rows.collect();
    Converted { points, rows, map_rows }
}

/// What the node would not read is left out, with what it says of it.
fn refuse_illegal(driver: Driver, rows: &mut [Result<Mapped, Refusal>]) {
    let Some(protocol) = ProtocolName::ALL.into_iter().find(|protocol| protocol.word() == driver.protocol()) else {
        return;
    };
    for row in rows {
        let Ok(mapped) = row else { continue };
        let mut wrong = first_finding(driver, protocol, &mapped.point);
        if wrong.as_ref().is_some_and(|Finding { key, .. }| key == "revert")
            && let Some(text) = mapped.point.take("revert")
        {
            mapped.note(no_default(&text));
            wrong = first_finding(driver, protocol, &mapped.point);
        }
        if let Some(Finding { key, found, expected, .. }) = wrong {
            *row = refuse(format!("{key}: found {found}, expected {expected}"));
        }
    }
}

/// What the node says first of a row; none where it reads it.
fn first_finding(driver: Driver, protocol: ProtocolName, point: &Point) -> Option<Finding> {
    let text = rows_text(driver.columns(), std::slice::from_ref(point));
    let mut findings = Findings::default();
    read_points(&mut findings, "", &text, protocol);
    findings.sorted().first().cloned()
}

/// Of rows with the same name VOLTTRON takes the last. A list has each point of a device once, except of Modbus.
fn refuse_duplicates(table: &Table, driver: Driver, rows: &mut [Result<Mapped, Refusal>]) {
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let line = |at: usize| table.rows.get(at).map_or(0, |row| row.line);
    for at in (0..rows.len()).rev() {
        let Some(Ok(mapped)) = rows.get_mut(at) else { continue };
        let name = mapped.point.cell("name").to_owned();
        if let Some(later) = names.get(&name) {
            let written = |at: usize| table.rows.get(at).map(|row| table.cell(row, "volttron point name"));
            let (line, is_same) = (line(*later), written(at) == written(*later));
            rows[at] = match is_same {
                true => refuse(format!("line {line} has the name {name:?}, too, and VOLTTRON takes the last")),
                false => refuse(format!("it would be renamed to {name:?}, and line {line} has this name")),
            };
            continue;
        }
        let columns = ["type", "index", "property", "array_index"].map(|column| mapped.point.cell(column));
        let place = columns.join(" ");
        names.insert(name, at);
        if matches!(driver, Driver::Dnp3 | Driver::Bacnet)
            && let Some(later) = places.insert(place, at)
        {
            rows[at] = refuse(format!("line {} has the same point under another name", line(later)));
        }
    }
}

impl Converted {
    /// Reports all rows; the points are in a list.
    pub fn report(&self, registry: Named<'_>, map: Option<Named<'_>>, list: usize, report: &mut Report) {
        for (row, outcome) in registry.table.rows.iter().zip(&self.rows) {
            let place = registry.place(row);
            match outcome {
                Ok((row, notes)) => {
                    report.add(&place, Outcome::Mapped(Target::Row { list, row: Some(*row) }));
                    for note in notes {
                        report.add(&place, Outcome::Note(note.clone()));
                    }
                }
                Err(Refusal::NotNeeded(why)) => report.add(&place, Outcome::NotNeeded(why.clone())),
                Err(Refusal::LeftOut(why)) => report.add(&place, Outcome::LeftOut(why.clone())),
            }
        }
        let Some(map) = map else { return };
        for (row, of) in map.table.rows.iter().zip(&self.map_rows) {
            let place = map.place(row);
            let mapped = of.and_then(|of| self.rows.get(of)?.as_ref().ok());
            report.add(
                &place,
                match (mapped, of) {
                    (Some((row, _)), _) => Outcome::Mapped(Target::Row { list, row: Some(*row) }),
                    (None, Some(_)) => Outcome::LeftOut("its row of the registry is left out".to_owned()),
                    (None, None) if row.is_blank() => Outcome::NotNeeded("a blank line".to_owned()),
                    (None, None) => {
                        Outcome::NotNeeded("the registry does not name it, so that it is not read".to_owned())
                    }
                },
            );
        }
    }
}

/// Reports the header: the columns that are not used.
pub fn report_header(named: Named<'_>, driver: Driver, list: usize, encoding: Option<&str>, report: &mut Report) {
    let Some(place) = named.header() else { return };
    report.add(&place, Outcome::Mapped(Target::Row { list, row: None }));
    let known = |name: &&String| !COMMON.contains(&name.as_str()) && !driver.known().contains(&name.as_str());
    let unknown: Vec<&str> = named.table.header.iter().filter(known).map(String::as_str).collect();
    let unknown: Vec<&str> = unknown.into_iter().filter(|name| !name.is_empty()).collect();
    if !unknown.is_empty() {
        report.add(&place, Outcome::Note(format!("columns that are not used: {}", unknown.join(", "))));
    }
    if named.table.has("stale timeout") {
        report.add(&place, Outcome::Note("stale_timeout is a key of devices, not of points".to_owned()));
    }
    if let Some(separator) = named.table.separator {
        report
            .add(&place, Outcome::Note(format!("cells are separated by {separator:?}, which VOLTTRON does not read")));
    }
    if let Some(encoding) = encoding {
        report.add(&place, Outcome::Note(format!("read as {encoding}")));
    }
}

/// The driver of a registry that no device names, by its columns.
pub fn guess(table: &Table) -> Result<Driver, String> {
    if let Some((_, driver)) = OTHERS.iter().find(|(column, _)| table.has(column)) {
        return Err(format!("Tieline has no driver for {driver}"));
    }
    if !table.has("volttron point name") {
        return Err("no column \"Volttron Point Name\"".to_owned());
    }
    let has = |columns: &[&str]| columns.iter().all(|column| table.has(column));
    if has(&["bacnet object type"]) {
        Ok(Driver::Bacnet)
    } else if has(&["modbus register", "point address"]) {
        Ok(Driver::Modbus)
    } else if has(&["register name", "address"]) {
        Ok(Driver::ModbusTk)
    } else if has(&["register name"]) {
        Err("no device says which register map it needs".to_owned())
    } else if has(&["group", "index"]) {
        Ok(Driver::Dnp3)
    } else if has(&["starting value", "type"]) {
        Ok(Driver::Fake)
    } else {
        Err("its columns are of no driver that Tieline has a protocol for".to_owned())
    }
}
