//! Reads a TOML document key by key, so that all errors come at once, each with its line and its key.
//!
//! A [`Section`] hands out the values of one table, remembers which keys were asked for, and reports the others when
//! it is finished. Values go through parsers that say what they expect; a wrong value yields the default, so that
//! reading goes on.

mod text;

pub use text::read_text;

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key of a finding that is of no line.
const WHOLE_FILE: &str = "(file)";

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the key, as in `device.relay1.dnp3.outstation`.
    pub key: String,
    /// What stands there.
    pub found: String,
    /// What should stand there.
    pub expected: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, key, found, expected } = self;
        if key == WHOLE_FILE {
            return write!(f, "{file}: found {found}, expected {expected}");
        }
        write!(f, "{file}:{line}:{column}: {key}: found {found}, expected {expected}")
    }
}

/// Everything that is wrong in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    found: Vec<Finding>,
}

impl Findings {
    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        self.found.push(finding);
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of file and line.
    #[must_use]
    pub fn sorted(mut self) -> Vec<Finding> {
        self.found.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        // What is wrong with a template is found by each that takes it.
        self.found.dedup();
        self.found
    }
}

/// Findings that are shown to people.
const SHOWN_MAX: usize = 100;

/// Findings of the syntax of a file: those after the first few are most often consequences of the first.
const SYNTAX_SHOWN_MAX: usize = 5;

/// A configuration that cannot be used: all that is wrong with it.
#[derive(Debug)]
pub struct ConfigError(pub Vec<Finding>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.0.iter().take(SHOWN_MAX) {
            writeln!(f, "{finding}")?;
        }
        let count = self.0.len();
        if count > SHOWN_MAX {
            writeln!(f, "… and {} more", count - SHOWN_MAX)?;
        }
        write!(f, "{count} error{} in the configuration", if count == 1 { "" } else { "s" })
    }
}

impl std::error::Error for ConfigError {}

/// What a parser expected, in words that end the sentence "expected …".
pub type Expected = String;

/// One document: its name, its text, and what was found wrong in it.
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    /// Where lines begin, once that was asked for.
    lines: OnceCell<Vec<usize>>,
    findings: &'a mut Findings,
}

impl<'a> Document<'a> {
    fn new(file: &'a str, text: &'a str, findings: &'a mut Findings) -> Self {
        Self { file, text, lines: OnceCell::new(), findings }
    }

    /// Parses the document and lets `read` take its root table. Where the syntax is broken, only that is reported:
    /// what the rest would mean is a guess.
    pub fn read<T>(
        file: &str,
        text: &str,
        findings: &mut Findings,
        read: impl FnOnce(&mut Document<'_>, Section<'_>) -> T,
    ) -> T {
        let (root, mut errors) = DeTable::parse_recoverable(text);
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut unread = Findings::default();
        let broken = !errors.is_empty();
        let more = errors.len().saturating_sub(SYNTAX_SHOWN_MAX);
        for (error, at_most) in errors.iter().zip((0..=SYNTAX_SHOWN_MAX).rev()) {
            let at = error.span().map_or(0, |span| span.start);
            let found = match at_most {
                0 => format!("{more} more places of invalid TOML, the first of them here"),
                _ => format!("invalid TOML: {}", error.message()),
            };
            Document::new(file, text, findings).report(at, "(syntax)", found, "a TOML document".to_owned());
        }
        let findings = if broken { &mut unread } else { findings };
        let (path, table) = (TablePath::default(), Some(root.get_ref()));
        let section = Section { path, at: 0, table, template: None, asked: Vec::new() };
        read(&mut Document::new(file, text, findings), section)
    }

    /// The line and the column of a byte of the text, from 1.
    #[must_use]
    pub fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let ends = || self.text.match_indices('\n').map(|(end, _)| end + 1);
        let lines = self.lines.get_or_init(|| std::iter::once(0).chain(ends()).collect());
        let line = lines.partition_point(|begins| *begins <= before.len());
        let begins = lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        (line, before.get(begins..).unwrap_or_default().chars().count() + 1)
    }

    /// Reports what is wrong at a byte of the text.
    pub fn report(&mut self, at: usize, key: &str, found: String, expected: Expected) {
        let (line, column) = self.place(at);
        self.findings.push(Finding { file: self.file.to_owned(), line, column, key: key.to_owned(), found, expected });
    }

    /// The findings, for a reader of another file that this one names.
    pub fn findings(&mut self) -> &mut Findings {
        self.findings
    }
}

/// The dotted path of a table, which is written out where it is told: most tables have nothing wrong.
#[derive(Clone, Debug, Default)]
pub struct TablePath {
    /// That of the table, or of the array that it is in.
    path: Rc<str>,
    /// Its place in the array.
    index: Option<usize>,
}

impl TablePath {
    /// The path of a key of the table.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{self}.{name}") }
    }
}

impl fmt::Display for TablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.index.map_or(Ok(()), |index| write!(f, "[{index}]"))
    }
}

/// One table being read. The keys handed out are remembered.
pub struct Section<'a> {
    path: TablePath,
    at: usize,
    table: Option<&'a DeTable<'a>>,
    /// Has the keys that the table leaves out.
    template: Option<Template<'a>>,
    asked: Vec<&'static str>,
}

/// A table whose keys hold for other tables that do not have them.
#[derive(Clone)]
pub struct Template<'a> {
    path: TablePath,
    table: &'a DeTable<'a>,
}

impl<'a> Template<'a> {
    /// The table of the same name below this one.
    fn child(&self, name: &str) -> Option<Self> {
        let table = self.table.get(name)?.get_ref().as_table()?;
        Some(Self { path: TablePath { path: self.path.key(name).into(), index: None }, table })
    }
}

impl<'a> Section<'a> {
    /// The dotted path of a key: of this table, or of the template that has it.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        match &self.template {
            Some(template) if self.own(name).is_none() && template.table.get(name).is_some() => template.path.key(name),
            Some(_) | None => self.path.key(name),
        }
    }

    /// Its path, for what is found after it was read.
    #[must_use]
    pub fn path(&self) -> TablePath {
        self.path.clone()
    }

    /// Where the table begins in the text.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether the key stands in the table.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.lookup(name).is_some()
    }

    fn own(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(name)
    }

    fn lookup(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.own(name).or_else(|| self.template.as_ref()?.table.get(name))
    }

    /// What this table holds, for tables that take it where they say nothing themselves; none of what is no table.
    #[must_use]
    pub fn into_template(self) -> Option<Template<'a>> {
        Some(Template { path: self.path, table: self.table? })
    }

    /// From here on, what the table leaves out is as in a template.
    pub fn take_template(&mut self, template: Template<'a>) {
        self.template = Some(template);
    }

    /// Where the key's value stands; the table where the key is missing.
    #[must_use]
    pub fn value_at(&self, name: &str) -> usize {
        self.lookup(name).map_or(self.at, |value| value.span().start)
    }

    /// The value of an optional key; none where it is missing or wrong.
    pub fn optional<T>(
        &mut self,
        doc: &mut Document<'_>,
        name: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Expected>,
    ) -> Option<T> {
        self.asked.push(name);
        let value = self.lookup(name)?;
        match parse(value.get_ref()) {
            Ok(legal) => Some(legal),
            Err(expected) => {
                doc.report(value.span().start, &self.key(name), shown(value.get_ref()), expected);
                None
            }
        }
    }

    /// The value of a key that has a default.
    pub fn or<T>(
        &mut self,
        doc: &mut Document<'_>,
        name: &'static str,
        default: T,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Expected>,
    ) -> T {
        self.optional(doc, name, parse).unwrap_or(default)
    }

    /// The texts of a list, each parsed by itself, so that what is wrong with one is told where it stands.
    pub fn each_text<T>(
        &mut self,
        doc: &mut Document<'_>,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Vec<T> {
        self.asked.push(name);
        let Some(value) = self.lookup(name) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            doc.report(value.span().start, &self.key(name), shown(value.get_ref()), expected.to_owned());
            return Vec::new();
        };
        let mut all = Vec::new();
        for item in items {
            let parsed = item.get_ref().as_str().ok_or_else(|| expected.to_owned()).and_then(&parse);
            match parsed {
                Ok(parsed) => all.push(parsed),
                Err(expected) => {
                    doc.report(item.span().start, &self.key(name), shown(item.get_ref()), expected);
                }
            }
        }
        all
    }

    /// The value of a key that must be there; `expected` says so where it is not.
    pub fn required<T>(
        &mut self,
        doc: &mut Document<'_>,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Expected>,
    ) -> Option<T> {
        if !self.has(name) {
            self.asked.push(name);
            doc.report(self.at, &self.key(name), "nothing".to_owned(), expected.to_owned());
            return None;
        }
        self.optional(doc, name, parse)
    }

    /// A table below this one; an empty one where it is missing or not a table.
    pub fn section(&mut self, doc: &mut Document<'_>, name: &'static str) -> Section<'a> {
        self.asked.push(name);
        self.child(doc, name)
    }

    fn child(&self, doc: &mut Document<'_>, name: &str) -> Section<'a> {
        let path = TablePath { path: self.key(name).into(), index: None };
        let Some(value) = self.lookup(name) else {
            return Section { path, at: self.at, table: None, template: None, asked: Vec::new() };
        };
        let template = self.own(name).and(self.template.as_ref()).and_then(|template| template.child(name));
        let table = value.get_ref().as_table();
        if table.is_none() {
            doc.report(value.span().start, &path.to_string(), shown(value.get_ref()), "a table".to_owned());
        }
        Section { path, at: value.span().start, table, template, asked: Vec::new() }
    }

    /// Every table below this one that was not asked for, with its key, in the order of the text.
    pub fn sections(&mut self, doc: &mut Document<'_>) -> Vec<(String, Section<'a>)> {
        let Some(table) = self.table else { return Vec::new() };
        let others = table.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref()));
        let mut all: Vec<_> = others.map(|key| (key.get_ref().to_string(), self.child(doc, key.get_ref()))).collect();
        all.sort_by_key(|(_, section)| section.at);
        self.table = None;
        all
    }

    /// Whether the key is an array of tables (`[[name]]`), and no list of other values.
    #[must_use]
    pub fn has_tables(&self, name: &str) -> bool {
        let items = self.lookup(name).and_then(|value| value.get_ref().as_array());
        items.is_some_and(|items| items.iter().any(|item| item.get_ref().as_table().is_some()))
    }

    /// The tables of an array of tables (`[[name]]`).
    pub fn array(&mut self, doc: &mut Document<'_>, name: &'static str) -> Vec<Section<'a>> {
        self.asked.push(name);
        let Some(value) = self.lookup(name) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            doc.report(
                value.span().start,
                &self.key(name),
                shown(value.get_ref()),
                "tables, as in [[point]]".to_owned(),
            );
            return Vec::new();
        };
        let array: Rc<str> = self.key(name).into();
        let section = |(index, item): (usize, &'a Spanned<DeValue<'a>>)| {
            let path = TablePath { path: Rc::clone(&array), index: Some(index) };
            let table = item.get_ref().as_table();
            if table.is_none() {
                doc.report(item.span().start, &path.to_string(), shown(item.get_ref()), "a table".to_owned());
            }
            Section { path, at: item.span().start, table, template: None, asked: Vec::new() }
        };
        items.iter().enumerate().map(section).collect()
    }

    /// Ends the reading of this table: every key that nobody asked for is a finding.
    pub fn finish(self, doc: &mut Document<'_>) {
        let own = self.table.iter().flat_map(|table| table.keys());
        let others = self.template.iter().flat_map(|template| template.table.keys());
        for key in own.chain(others).filter(|key| !self.asked.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let near = self.asked.iter().copied().min_by_key(|known| distance(known, name));
            let now = renamed(name).filter(|now| self.asked.contains(&now.as_str()));
            let expected = match (now, near) {
                (Some(now), _) => format!("{now}, its new name: see docs/upgrade.md"),
                (None, Some(near)) if distance(near, name) <= 2 => near.to_owned(),
                (None, _) => format!("one of {}", self.asked.join(", ")),
            };
            doc.report(key.span().start, &self.key(name), format!("the unknown key \"{name}\""), expected);
        }
    }
}

/// The new name of a key that had another once.
fn renamed(name: &str) -> Option<String> {
    const WORDS: [(&str, &str); 1] = [("octets", "bytes")];
    WORDS.iter().find(|(old, _)| name.contains(old)).map(|(old, new)| name.replace(old, new))
}

/// A value as an error message shows it: short, and with its type where the text does not say it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", abridged(text)),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(time) => format!("the date {time}"),
        DeValue::Array(items) => format!("an array of {}", items.len()),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn abridged(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// The Levenshtein distance, for suggestions.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(b.chars()) {
            let best = (diagonal + usize::from(ca != cb)).min(*cell + 1).min(left + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
