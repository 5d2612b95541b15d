//! A row of a registry as a row of a point list: what is the same for all drivers.

use super::table::{Row, Table};
use tieline_core::Topic;

/// A row of a point list, by column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub cells: Vec<(&'static str, String)>,
}

impl Point {
    /// Sets a column; what is empty is left out.
    pub fn set(&mut self, column: &'static str, cell: impl Into<String>) {
        let cell = cell.into();
        if !cell.is_empty() {
            self.cells.push((column, cell));
        }
    }

    /// Takes a column out.
    pub fn take(&mut self, column: &str) -> Option<String> {
        let at = self.cells.iter().position(|(name, _)| *name == column)?;
        Some(self.cells.remove(at).1)
    }

    pub fn cell(&self, column: &str) -> &str {
        self.cells.iter().find(|(name, _)| *name == column).map(|(_, cell)| cell.as_str()).unwrap_or_default()
    }
}

/// A row that became a point.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    pub point: Point,
    pub notes: Vec<String>,
}

impl Mapped {
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Why a row did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// VOLTTRON does not read it, either.
    NotNeeded(String),
    /// It is lost.
    LeftOut(String),
}

pub fn refuse<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::LeftOut(why.into()))
}

/// A row with the names of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a> {
    pub table: &'a Table,
    pub row: &'a Row,
}

impl<'a> Cells<'a> {
    pub fn get(&self, column: &str) -> &'a str {
        self.table.cell(self.row, column)
    }

    /// The first of these columns that has something.
    pub fn first(&self, columns: &[&str]) -> &'a str {
        columns.iter().map(|column| self.get(column)).find(|cell| !cell.is_empty()).unwrap_or_default()
    }

    /// A whole number as Python's `int` takes it.
    pub fn number<T: TryFrom<i64>>(&self, column: &str, shown: &str, expected: &str) -> Result<T, Refusal> {
        let text = self.get(column);
        let number = text.parse::<i64>().ok().and_then(|number| T::try_from(number).ok());
        match number {
            Some(number) => Ok(number),
            None if text.is_empty() => refuse(format!("{shown} is empty, expected {expected}")),
            None => refuse(format!("{shown} is {text:?}, expected {expected}")),
        }
    }
}

/// What all drivers read of a row: the name of the point, its unit, words for people.
pub fn common(cells: &Cells<'_>) -> Result<Mapped, Refusal> {
    let name = cells.get("volttron point name");
    if cells.row.is_blank() {
        return Err(Refusal::NotNeeded(
            if cells.row.cells.len() > 1 { "an empty row" } else { "a blank line" }.to_owned(),
        ));
    }
    if cells.row.is_comment() && (name.is_empty() || name.starts_with('#')) {
        return Err(Refusal::NotNeeded("a comment".to_owned()));
    }
    if name.is_empty() {
        return Err(Refusal::NotNeeded("without a Volttron Point Name, so that VOLTTRON skips it, too".to_owned()));
    }
    if cells.get("active").eq_ignore_ascii_case("false") {
        return refuse("it is not active");
    }
    let mut mapped = Mapped::default();
    if cells.row.is_comment() {
        mapped.note("VOLTTRON has no comments in registries and reads this row");
    }
    let topic = topic_name(name)?;
    if topic != name {
        mapped.note(format!("renamed from {name:?}, which cannot be a topic"));
    }
    mapped.point.set("name", topic);
    mapped.point.set("unit", unit(cells.get("units")));
    let reference = cells.first(&["point name", "reference point name", "register name"]);
    let tag = format!("reference={reference}");
    let fits = tag.chars().count() <= 64 && !tag.contains([',', ';']) && !tag.chars().any(char::is_control);
    match reference {
        same if same.is_empty() || same == name => {}
        _ if fits => mapped.point.set("tags", tag),
        _ => mapped.note(format!("its name in the device, {reference:?}, fits no tag")),
    }
    mapped.point.set("description", description(cells));
    Ok(mapped)
}

/// Sets `revert` of a point that can be commanded to the value to which VOLTTRON reverts it; what is no value of the point is
/// said. A word such as `none` has a meaning of its own in a point list: only what `value` makes of the text is written.
pub fn set_revert(mapped: &mut Mapped, text: &str, value: impl FnOnce(&str) -> Option<String>) {
    if text.is_empty() || mapped.point.cell("writable") != "true" {
        return;
    }
    match value(text) {
        Some(value) => mapped.point.set("revert", value),
        None => mapped.note(no_default(text)),
    }
}

/// A word on a default value that a point does not take.
pub fn no_default(text: &str) -> String {
    format!("its default value {text:?} is no value of the point: a revert restores the value of before")
}

/// A word on a default value that the driver of VOLTTRON does not read.
pub fn note_unread_default(cells: &Cells<'_>, mapped: &mut Mapped) {
    if mapped.point.cell("writable") == "true" && !cells.get("default value").is_empty() {
        mapped.note("VOLTTRON does not read its default value");
    }
}

/// A name that may be a topic below that of the device.
pub fn topic_name(name: &str) -> Result<String, Refusal> {
    let one = |c: char| if matches!(c, '+' | '#') || c.is_control() { '_' } else { c };
    let name: String = name.chars().map(one).collect();
    let name = name.trim_start_matches(['$', '/']);
    let name = if name == "all" { "all_" } else { name };
    match Topic::new(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(error) => refuse(format!("{name:?} cannot be a topic: {error}")),
    }
}

/// The unit, where there is one.
pub fn unit(text: &str) -> String {
    let none = ["", "na", "n/a", "none", "null", "-"];
    if none.contains(&text.to_lowercase().as_str()) { String::new() } else { one_line(text) }
}

fn description(cells: &Cells<'_>) -> String {
    let notes = one_line(cells.first(&["notes", "description"]));
    let details = one_line(cells.first(&["unit details", "units details"]));
    match (notes.as_str(), details.as_str()) {
        (_, "") => notes,
        ("", _) => details,
        (notes, details) if notes.contains(details) => notes.to_owned(),
        (notes, details) => format!("{notes} ({details})"),
    }
}

pub fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether the column `Writable` says so to most drivers.
pub fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Sets `writable`, with a word on what looks like true and is not.
pub fn writable(cells: &Cells<'_>, mapped: &mut Mapped) -> bool {
    let text = cells.get("writable");
    let is = is_true(text);
    if !is && ["t", "yes", "y", "1", "x", "rw", "r/w"].contains(&text.to_lowercase().as_str()) {
        mapped.note(format!("Writable is {text:?}, which is not TRUE: read only, as in VOLTTRON"));
    }
    is
}

/// Sets `every`, which newer versions of VOLTTRON have for each point.
pub fn every(cells: &Cells<'_>, mapped: &mut Mapped) {
    let text = cells.get("polling interval");
    match text.parse::<f64>().ok().and_then(seconds) {
        Some(every) => mapped.point.set("every", every),
        None if text.is_empty() => {}
        None => {
            mapped.note(format!("polling_interval is {text:?}, no number from 0.1 to 604800: as often as the device"))
        }
    }
    if !matches!(cells.get("data source").to_lowercase().as_str(), "" | "short_poll") {
        mapped.note("its Data Source is not kept: it is polled");
    }
}

/// Seconds as a duration; none below 100 ms and above 7 days.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub fn seconds(number: f64) -> Option<String> {
    let ms = (number * 1000.0).round();
    if !(100.0..=604_800_000.0).contains(&ms) {
        return None;
    }
    let ms = ms as u64;
    Some(if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") })
}
