//! One row of the file, cell by cell.

use super::csv::Record;
use super::{Column, RuleError, quoted, whole};
use crate::rule::{Limit, Rule, Suppression, TopicPattern};
use crate::{Kind, Priority};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Filter, Value, Words, parse_duration};

/// Bytes of one cell.
const CELL_BYTES_MAX: usize = 1024;
/// The longest time of a cell: longer is a mistake.
const TIME_MAX: Duration = Duration::from_secs(31 * 86_400);

/// The cells of a row, and what is wrong with them.
struct Cells<'a> {
    record: &'a Record<'a>,
    columns: &'a [Column],
    errors: Vec<RuleError>,
}

/// Reads a row.
pub(super) fn parse(record: &Record<'_>, columns: &[Column], is_strict: bool) -> Result<Rule, Vec<RuleError>> {
    if record.cells.len() > columns.len() {
        let found = format!("{} cells", record.cells.len());
        let expected = format!("at most {}, one for each column; a cell with a comma is quoted", columns.len());
        return Err(alloc::vec![whole(record.line, found, expected)]);
    }
    let mut cells = Cells { record, columns, errors: Vec::new() };
    cells.lengths();
    let (filter, kind, priority) = (cells.filter(), cells.kind(), cells.word(Column::Priority));
    let (Some(filter), Some(kind), Some(priority)) = (filter, kind, priority) else { return Err(cells.errors) };
    if priority == Priority::Off {
        return if cells.errors.is_empty() { Ok(off(filter, kind, record.line)) } else { Err(cells.errors) };
    }
    let rule = Rule {
        kind,
        limit: cells.limit(kind),
        hysteresis: cells.hysteresis(kind),
        reference: cells.reference(kind, &filter),
        on_delay: cells.on_delay(kind),
        off_delay: cells.time(Column::OffDelay).unwrap_or_default(),
        priority,
        is_latching: cells.is_latching(),
        group: cells.text(Column::Group).into(),
        suppress_when: cells.suppression(&filter),
        text: cells.text(Column::Text).into(),
        cause: cells.text(Column::Cause).into(),
        consequence: cells.text(Column::Consequence).into(),
        action: cells.text(Column::Action).into(),
        respond_in: cells.time(Column::RespondIn),
        line: record.line,
        is_built_in: false,
        filter,
    };
    if is_strict {
        cells.rationalised(priority);
    }
    if cells.errors.is_empty() { Ok(rule) } else { Err(cells.errors) }
}

/// A row that takes the alarm of a template away.
fn off(filter: Filter, kind: Kind, line: u32) -> Rule {
    Rule {
        filter,
        kind,
        limit: Limit::None,
        hysteresis: 0.0,
        reference: None,
        on_delay: Duration::ZERO,
        off_delay: Duration::ZERO,
        priority: Priority::Off,
        is_latching: false,
        group: "".into(),
        suppress_when: None,
        text: "".into(),
        cause: "".into(),
        consequence: "".into(),
        action: "".into(),
        respond_in: None,
        line,
        is_built_in: false,
    }
}

impl<'a> Cells<'a> {
    fn text(&self, column: Column) -> &'a str {
        let at = self.columns.iter().position(|known| *known == column);
        at.and_then(|at| self.record.cells.get(at)).map_or("", |cell| &**cell)
    }

    fn wrong(&mut self, column: Column, expected: impl Into<Cow<'static, str>>) {
        let cell = self.text(column);
        let found = if cell.is_empty() { String::from("nothing") } else { quoted(cell) };
        let (line, column, expected) = (self.record.line, column.word(), expected.into());
        self.errors.push(RuleError { line, column, found, expected });
    }

    fn lengths(&mut self) {
        for (_, column) in Column::WORDS {
            if self.text(*column).len() > CELL_BYTES_MAX {
                self.wrong(*column, format!("at most {CELL_BYTES_MAX} bytes"));
            }
        }
    }

    fn filter(&mut self) -> Option<Filter> {
        let filter = Filter::new(self.text(Column::Topic));
        match filter {
            Ok(filter) => Some(filter),
            Err(error) => {
                self.wrong(Column::Topic, format!("a topic or a filter: {error}"));
                None
            }
        }
    }

    fn kind(&mut self) -> Option<Kind> {
        self.word(Column::Kind)
    }

    fn word<T: Words>(&mut self, column: Column) -> Option<T> {
        let value = T::of_word(self.text(column));
        if value.is_none() {
            let words: Vec<&str> = T::words().collect();
            self.wrong(column, format!("one of: {}", words.join(", ")));
        }
        value
    }

    /// A finite number; none where the cell is empty or wrong.
    fn number(&mut self, column: Column, expected: &'static str, is_legal: impl Fn(f64) -> bool) -> Option<f64> {
        let number = self.text(column).parse().ok().filter(|number: &f64| number.is_finite() && is_legal(*number));
        if number.is_none() {
            self.wrong(column, expected);
        }
        number
    }

    fn limit(&mut self, kind: Kind) -> Limit {
        const ABOVE_ZERO: &str = "a number above 0";
        let text = self.text(Column::Limit);
        match kind {
            Kind::HighHigh | Kind::High | Kind::LowLow | Kind::Low => {
                self.number(Column::Limit, "a number", |_| true).map_or(Limit::None, Limit::Number)
            }
            Kind::Deviation | Kind::Rate => {
                self.number(Column::Limit, ABOVE_ZERO, |number| number > 0.0).map_or(Limit::None, Limit::Number)
            }
            Kind::State => {
                if text.is_empty() {
                    self.wrong(Column::Limit, "the value that is an alarm: true, false, a number or a text");
                }
                Limit::Is(value(text))
            }
            Kind::Stale if text.is_empty() => Limit::None,
            Kind::Stale => self.time(Column::Limit).map_or(Limit::None, Limit::Within),
            Kind::Away | Kind::Change | Kind::Bad | Kind::CommandFailed => {
                if !text.is_empty() {
                    self.wrong(Column::Limit, format!("nothing: {} has no limit", kind.word()));
                }
                Limit::None
            }
        }
    }

    fn hysteresis(&mut self, kind: Kind) -> f64 {
        if self.text(Column::Hysteresis).is_empty() {
            return 0.0;
        }
        let has_one =
            matches!(kind, Kind::HighHigh | Kind::High | Kind::LowLow | Kind::Low | Kind::Deviation | Kind::Rate);
        if !has_one {
            self.wrong(Column::Hysteresis, format!("nothing: {} has no hysteresis", kind.word()));
            return 0.0;
        }
        self.number(Column::Hysteresis, "a number, 0 or above", |number| number >= 0.0).unwrap_or_default()
    }

    fn reference(&mut self, kind: Kind, filter: &Filter) -> Option<TopicPattern> {
        let text = self.text(Column::Reference);
        if kind != Kind::Deviation {
            if !text.is_empty() {
                self.wrong(Column::Reference, format!("nothing: {} has no reference", kind.word()));
            }
            return None;
        }
        let pattern = TopicPattern::new(text, filter);
        if pattern.is_none() {
            self.wrong(Column::Reference, PATTERN);
        }
        pattern
    }

    fn on_delay(&mut self, kind: Kind) -> Duration {
        let delay = self.time(Column::OnDelay).unwrap_or_default();
        if kind.is_momentary() && !delay.is_zero() {
            self.wrong(Column::OnDelay, format!("0s: {} lasts for a moment", kind.word()));
        }
        delay
    }

    fn time(&mut self, column: Column) -> Option<Duration> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        let time = parse_duration(text).filter(|time| *time <= TIME_MAX);
        if time.is_none() {
            self.wrong(column, "a time like 500ms, 2s, 10m or 8h, at most 31d");
        }
        time
    }

    fn is_latching(&mut self) -> bool {
        match self.text(Column::Latch) {
            "yes" | "true" => true,
            "" | "no" | "false" => false,
            _ => {
                self.wrong(Column::Latch, "yes, no or nothing");
                false
            }
        }
    }

    fn suppression(&mut self, filter: &Filter) -> Option<Suppression> {
        let text = self.text(Column::SuppressWhen);
        if text.is_empty() {
            return None;
        }
        let parts = text.split_once('=').filter(|(_, value)| !value.trim().is_empty());
        let found = parts.and_then(|(topic, state)| {
            let topic = TopicPattern::new(topic.trim(), filter)?;
            Some(Suppression { topic, value: value(state.trim()) })
        });
        if found.is_none() {
            self.wrong(Column::SuppressWhen, "TOPIC=VALUE, with {1} for what the first wildcard of topic has selected");
        }
        found
    }

    /// Whether a row of high priority says what an operator needs.
    fn rationalised(&mut self, priority: Priority) {
        if !matches!(priority, Priority::Critical | Priority::High) {
            return;
        }
        for column in [Column::Cause, Column::Consequence, Column::Action, Column::RespondIn] {
            if self.text(column).is_empty() {
                self.wrong(column, format!("a text: strict rules of priority {} need it", priority.word()));
            }
        }
    }
}

const PATTERN: &str = "a topic, with {1} for what the first wildcard of the column topic has selected";

/// A value as it is written in a cell.
fn value(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => {
            let int = text.parse().ok().map(Value::Int);
            let float = || text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float);
            int.or_else(float).unwrap_or_else(|| Value::from(text))
        }
    }
}
