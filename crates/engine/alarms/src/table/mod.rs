//! Rules as a file: `alarms.csv`.
//!
//! ```text
//! topic,kind,limit,hysteresis,on_delay,off_delay,priority,latch,group,suppress_when,text
//! site/+/relay/current,high,400,10,2s,5s,high,,feeders,,overload
//! site/+/relay/breaker,state,false,,0s,,critical,yes,feeders,site/{1}/maintenance=true,tripped
//! ```
//!
//! The first line names the columns, in any order; `topic`, `kind` and `priority` must be there.

mod csv;
mod row;

use crate::Rule;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use hashbrown::HashMap;
use tieline_core::Words;

/// Errors of one file that are told; a further one says that there are more.
const ERRORS_MAX: usize = 100;

/// A column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Topic,
    Kind,
    Limit,
    Hysteresis,
    Reference,
    OnDelay,
    OffDelay,
    Priority,
    Latch,
    Group,
    SuppressWhen,
    Text,
    Cause,
    Consequence,
    Action,
    RespondIn,
}

impl Words for Column {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("topic", Self::Topic),
        ("kind", Self::Kind),
        ("limit", Self::Limit),
        ("hysteresis", Self::Hysteresis),
        ("reference", Self::Reference),
        ("on_delay", Self::OnDelay),
        ("off_delay", Self::OffDelay),
        ("priority", Self::Priority),
        ("latch", Self::Latch),
        ("group", Self::Group),
        ("suppress_when", Self::SuppressWhen),
        ("text", Self::Text),
        ("cause", Self::Cause),
        ("consequence", Self::Consequence),
        ("action", Self::Action),
        ("respond_in", Self::RespondIn),
    ];
}

/// The columns without which there is no rule.
const REQUIRED: [Column; 3] = [Column::Topic, Column::Kind, Column::Priority];

/// What is wrong with a cell of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The line, from 1.
    pub line: u32,
    /// The name of the column; empty where the line as a whole is wrong.
    pub column: &'static str,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: Cow<'static, str>,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.column.is_empty() {
            write!(f, ", column {}", self.column)?;
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)
    }
}

impl core::error::Error for RuleError {}

/// Rules that are legal, in the order of their file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub(crate) Vec<Arc<Rule>>);

impl Rules {
    /// Reads the text of a file with at most `rules_max` rows. Where `is_strict`, rows of priority critical and high must say
    /// their cause, consequence, action and the time to respond.
    ///
    /// # Errors
    /// Every error of the file, up to 100.
    pub fn parse(text: &str, rules_max: usize, is_strict: bool) -> Result<Self, Vec<RuleError>> {
        let mut reader = csv::Reader::new(text);
        let mut errors = Vec::new();
        let Some(columns) = header(&mut reader, &mut errors) else { return Err(errors) };
        let mut rules: Vec<Arc<Rule>> = Vec::new();
        let mut known: HashMap<(tieline_core::Filter, crate::Kind), u32> = HashMap::new();
        while let Some(record) = reader.next() {
            let parsed = record.map_err(|(line, broken)| alloc::vec![of_csv(line, broken)]);
            match parsed.and_then(|record| row::parse(&record, &columns, is_strict)) {
                Ok(rule) if rules.len() >= rules_max => {
                    let expected = format!("at most {rules_max} rows");
                    errors.push(whole(rule.line, String::from("one row more"), expected));
                    break;
                }
                Ok(rule) => {
                    if let Some(line) = known.insert((rule.filter.clone(), rule.kind), rule.line) {
                        let found = format!("{} of {} again", rule.kind.word(), rule.filter.as_str());
                        errors.push(whole(rule.line, found, format!("one row, and line {line} is it")));
                    }
                    rules.push(Arc::new(rule));
                }
                Err(more) => errors.extend(more),
            }
            if errors.len() >= ERRORS_MAX {
                errors.truncate(ERRORS_MAX);
                let line = errors.last().map_or(0, |error| error.line);
                errors.push(whole(line, format!("{ERRORS_MAX} errors"), "fewer: the rest was not read"));
                break;
            }
        }
        if errors.is_empty() { Ok(Self(rules)) } else { Err(errors) }
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|rule| &**rule)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().map(Arc::new).collect())
    }
}

/// The columns of the file, in its order; none where the first line is not such a line.
fn header(reader: &mut csv::Reader<'_>, errors: &mut Vec<RuleError>) -> Option<Vec<Column>> {
    let names: Vec<&str> = Column::words().collect();
    let expected = || format!("the names of columns, of these: {}", names.join(", "));
    let record = match reader.next() {
        Some(Ok(record)) => record,
        Some(Err((line, broken))) => {
            errors.push(of_csv(line, broken));
            return None;
        }
        None => {
            errors.push(whole(1, String::from("an empty file"), expected()));
            return None;
        }
    };
    let mut columns = Vec::new();
    for cell in &record.cells {
        match Column::of_word(cell) {
            Some(column) if columns.contains(&column) => {
                errors.push(whole(record.line, format!("the column {cell} again"), "each column once"));
            }
            Some(column) => columns.push(column),
            None => errors.push(whole(record.line, quoted(cell), expected())),
        }
    }
    for column in REQUIRED.iter().filter(|column| !columns.contains(column)) {
        let found = format!("no column {}", column.word());
        errors.push(whole(record.line, found, "at least topic, kind and priority"));
    }
    errors.is_empty().then_some(columns)
}

fn of_csv(line: u32, broken: csv::Broken) -> RuleError {
    match broken {
        csv::Broken::Unclosed => whole(line, String::from("a quoted cell without an end"), "a closing quote"),
        csv::Broken::BehindQuote => {
            whole(line, String::from("text behind a closing quote"), "a comma or the end of the line; a quote is \"\"")
        }
    }
}

fn whole(line: u32, found: String, expected: impl Into<Cow<'static, str>>) -> RuleError {
    RuleError { line, column: "", found, expected: expected.into() }
}

/// A cell as an error shows it: in quotes, and not all of a long one.
fn quoted(cell: &str) -> String {
    let mut shown: String = cell.chars().take(40).collect();
    if shown.len() < cell.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests;
