//! Counts of now beside those committed.

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The committed counts.
pub(super) const FILE: &str = "crates/lab/counts/counts.toml";
/// How far a count may be from the committed one, in percent, up or down.
const PERCENT_MAX: f64 = 2.0;

/// The file's contents.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Committed {
    /// Compiler, C library and valgrind.
    pub(super) made_with: String,
    /// Instructions of one operation, by the name of the path.
    pub(super) instructions: BTreeMap<String, u64>,
}

/// A path in the file, now, or both.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    name: String,
    committed: Option<u64>,
    now: Option<u64>,
}

impl Committed {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let how = "cargo xtask counts --accept writes it again";
        let committed: Self = toml::from_str(text).with_context(|| format!("{FILE} cannot be read; {how}"))?;
        let zero = committed.instructions.iter().find(|(_, count)| **count == 0);
        ensure!(zero.is_none(), "{FILE}: a count is 0; {how}");
        Ok(committed)
    }

    /// The file for counts and what each is of.
    pub(super) fn text<'a>(made_with: &str, counted: impl Iterator<Item = (&'a (String, u64), &'a str)>) -> String {
        let mut text = String::from(
            "# Instructions of one operation of each hot path. Written by `cargo xtask counts --accept`, never by hand;\n\
             # docs/benchmarks.md says how a change is accepted.\n\n",
        );
        let _ = writeln!(text, "made_with = {made_with:?}\n\n[instructions]");
        for ((name, count), what) in counted {
            let _ = writeln!(text, "# {what}\n{name} = {count}");
        }
        text
    }
}

/// All paths of now, then those that are gone.
pub(super) fn compare(committed: &Committed, counted: &[(String, u64)]) -> Vec<Row> {
    let old = &committed.instructions;
    let row =
        |(name, now): &(String, u64)| Row { name: name.clone(), committed: old.get(name).copied(), now: Some(*now) };
    let is_gone = |name: &&String| !counted.iter().any(|(counted, _)| counted == *name);
    let gone = old.keys().filter(is_gone);
    let gone = gone.map(|name| Row { name: name.clone(), committed: old.get(name).copied(), now: None });
    counted.iter().map(row).chain(gone).collect()
}

impl Row {
    /// How far the count is from the committed one, in percent.
    fn difference(&self) -> Option<f64> {
        let (committed, now) = (self.committed? as f64, self.now? as f64);
        Some((now - committed) / committed * 100.0)
    }

    fn is_well(&self) -> bool {
        self.difference().is_some_and(|percent| percent.abs() <= PERCENT_MAX)
    }

    fn line(&self) -> String {
        let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let difference = match (self.committed, self.difference()) {
            (_, Some(percent)) => format!("{percent:+.2} %"),
            (None, None) => "new".to_owned(),
            (Some(_), None) => "gone".to_owned(),
        };
        let mark = if self.is_well() { "" } else { "  <--" };
        format!("{:20} {:>12} {:>12} {difference:>10}{mark}", self.name, count(self.committed), count(self.now))
    }
}

/// The table; and what is said below it, as an error where a count differs.
pub(super) fn report(rows: &[Row]) -> (String, Result<String, String>) {
    let mut table = format!("{:20} {:>12} {:>12} {:>10}\n", "path", "committed", "now", "difference");
    rows.iter().for_each(|row| _ = writeln!(table, "{}", row.line()));
    let wrong: Vec<&str> = rows.iter().filter(|row| !row.is_well()).map(|row| row.name.as_str()).collect();
    if wrong.is_empty() {
        let farthest = rows.iter().filter_map(Row::difference).fold(0.0, |far: f64, percent| far.max(percent.abs()));
        let counts = rows.len();
        return (
            table,
            Ok(format!("measured: {counts} counts of instructions, at most {farthest:.2} % from those committed")),
        );
    }
    let first = wrong.first().copied().unwrap_or_default();
    let why = format!(
        "{} of {} counts are not as committed, within {PERCENT_MAX} %: {}.\n\
         Fewer instructions count as well: what was won is committed, or the next change may lose it unseen.\n\
         Where they are: callgrind_annotate target/counts/{first}.out, here and at the commit before.\n\
         If it has to be so: cargo xtask counts --accept, then commit {FILE} and say why in the commit.",
        wrong.len(),
        rows.len(),
        wrong.join(", "),
    );
    (table, Err(why))
}

/// What callgrind counted in all, from the file that it wrote.
pub(super) fn total(text: &str) -> anyhow::Result<u64> {
    let events = text.lines().find_map(|line| line.strip_prefix("events: "));
    let events = events.context("callgrind's file names no events")?;
    ensure!(events.split_whitespace().next() == Some("Ir"), "callgrind counted {events:?} and not instructions");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).context("callgrind's file has no total")?;
    let total: u64 =
        total.split_whitespace().next().unwrap_or_default().parse().context("callgrind's total is no number")?;
    ensure!(total > 0, "callgrind counted nothing: has the counted section another name?");
    Ok(total)
}
