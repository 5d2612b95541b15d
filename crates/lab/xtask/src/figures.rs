//! Writes the tables of measured figures in `docs/` from the result files in `docs/benchmarks/`.
//!
//! A table stands between two comments. The first says what it shows:
//!
//! ```text
//! <!-- figures dnp3.json: experiment=sessions values=10|100
//! sessions | sessions
//! CPU µs an exchange | cpu_us_per_exchange | 1
//! ratio | **ratio_to_floor** | 2
//! ms | latency_us_p50 / 1000 | 2
//! -->
//! …
//! <!-- end of figures -->
//! ```
//!
//! The file and which of its rows (every `member=value|value` must hold; `member?` asks only that the member is there),
//! then a line a column: heading, member (in `**` where it is to stand out, `/` a divisor where it is shown in another
//! unit), decimals of a number. A row with a member `invalid` shows the reason in the first column that is a figure.

use crate::artifact;
use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures ";
const END: &str = "<!-- end of figures -->";

type Row = Map<String, Value>;

/// Writes the tables of all documents, or with `check` proves that they are what the result files say.
///
/// # Errors
/// A comment is malformed, a result file lacks what it names, or a table is not current.
pub fn figures(root: &Path, check: bool) -> anyhow::Result<()> {
    let docs = root.join("docs");
    for entry in fs::read_dir(&docs)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let current = rewritten(&text, |name| {
            let file = docs.join("benchmarks").join(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        })
        .with_context(|| path.display().to_string())?;
        artifact::put(&path, &current, "docs/benchmarks", check)?;
    }
    Ok(())
}

/// The document with each table made again.
fn rewritten(text: &str, read: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let (before, from) = rest.split_at(begin);
        let line = text.len() - rest.len() + before.len();
        let line = text.get(..line).unwrap_or_default().lines().count() + 1;
        let (comment, after) =
            from.split_once("-->").with_context(|| format!("line {line}: a comment without an end"))?;
        let (_, after) = after.split_once(END).with_context(|| format!("line {line}: figures without {END:?}"))?;
        let table = Table::parse(comment).with_context(|| format!("line {line}"))?;
        let rows: Vec<Row> = serde_json::from_str(&read(table.file)?).with_context(|| table.file.to_owned())?;
        let _ = write!(
            out,
            "{before}{comment}-->\n{}{END}",
            table.markdown(&rows).with_context(|| format!("line {line}"))?
        );
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// What one table shows.
struct Table<'a> {
    file: &'a str,
    conditions: Vec<Condition<'a>>,
    columns: Vec<Column<'a>>,
}

/// What must hold for a row to be shown.
enum Condition<'a> {
    OneOf(&'a str, Vec<&'a str>),
    Has(&'a str),
}

struct Column<'a> {
    heading: &'a str,
    member: &'a str,
    divisor: f64,
    decimals: Option<usize>,
    strong: bool,
}

impl<'a> Table<'a> {
    fn parse(comment: &'a str) -> anyhow::Result<Self> {
        let mut lines = comment.trim_start_matches(BEGIN).lines().map(str::trim).filter(|line| !line.is_empty());
        let head = lines.next().context("found nothing, expected FILE: CONDITIONS")?;
        let (file, conditions) =
            head.split_once(':').with_context(|| format!("found {head:?}, expected FILE: CONDITIONS"))?;
        let condition = |word: &'a str| match (word.split_once('='), word.strip_suffix('?')) {
            (Some((member, values)), _) => Ok(Condition::OneOf(member, values.split('|').collect())),
            (None, Some(member)) => Ok(Condition::Has(member)),
            (None, None) => bail!("found the condition {word:?}, expected MEMBER=VALUE|VALUE or MEMBER?"),
        };
        let conditions = conditions.split_whitespace().map(condition).collect::<Result<_, _>>()?;
        let columns: Vec<_> = lines.map(Column::parse).collect::<Result<_, _>>()?;
        ensure!(!columns.is_empty(), "found no column, expected lines of HEADING | MEMBER | DECIMALS");
        Ok(Self { file: file.trim(), conditions, columns })
    }

    fn markdown(&self, rows: &[Row]) -> anyhow::Result<String> {
        let mut out = String::from("|");
        for column in &self.columns {
            let _ = write!(out, " {} |", column.heading);
        }
        out.push_str("\n|");
        let shown: Vec<_> =
            rows.iter().filter(|row| self.conditions.iter().all(|condition| condition.holds(row))).collect();
        ensure!(!shown.is_empty(), "{} has no row that these conditions select", self.file);
        let is_text =
            |column: &Column<'_>| shown.iter().any(|row| row.get(column.member).is_some_and(Value::is_string));
        self.columns.iter().for_each(|column| out.push_str(if is_text(column) { "---|" } else { "---:|" }));
        out.push('\n');
        for row in shown {
            let mut reason = row.get("invalid").and_then(Value::as_str);
            out.push('|');
            for column in &self.columns {
                let cell = match row.get(column.member) {
                    Some(value) => column.cell(value)?,
                    None => reason.take().map_or_else(String::new, |reason| format!("INVALID: {reason}")),
                };
                out.push_str(if cell.is_empty() { "" } else { " " });
                let _ = write!(out, "{cell} |");
            }
            out.push('\n');
        }
        Ok(out)
    }
}

impl Condition<'_> {
    fn holds(&self, row: &Row) -> bool {
        match self {
            Self::Has(member) => row.contains_key(*member),
            Self::OneOf(member, values) => row.get(*member).is_some_and(|value| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                values.contains(&text.as_str())
            }),
        }
    }
}

impl<'a> Column<'a> {
    fn parse(line: &'a str) -> anyhow::Result<Self> {
        let expected = || format!("found the column {line:?}, expected HEADING | MEMBER | DECIMALS");
        let mut parts = line.split('|').map(str::trim);
        let heading = parts.next().with_context(expected)?;
        let member = parts.next().with_context(expected)?;
        let decimals = parts.next().map(str::parse).transpose().with_context(expected)?;
        ensure!(parts.next().is_none(), "{}", expected());
        let strong = member.starts_with("**");
        let member = member.trim_matches('*');
        let (member, divisor) = member.split_once('/').unwrap_or((member, "1"));
        let divisor = divisor.trim().parse().with_context(expected)?;
        Ok(Self { heading, member: member.trim(), divisor, decimals, strong })
    }

    fn cell(&self, value: &Value) -> anyhow::Result<String> {
        let text = match value {
            Value::Bool(on) => String::from(if *on { "on" } else { "off" }),
            Value::String(text) => text.replace('|', "\\|"),
            Value::Number(number) => {
                let number = number.as_f64().context("a number beyond 64 bits")?;
                grouped(number / self.divisor, self.decimals.unwrap_or(0))
            }
            Value::Null | Value::Array(_) | Value::Object(_) => {
                bail!("the member {:?} is {value}, expected a number, a text or true or false", self.member)
            }
        };
        Ok(if self.strong { format!("**{text}**") } else { text })
    }
}

/// A number with so many decimals and commas between thousands.
fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let whole = digits.split('.').next().unwrap_or(digits).len();
    let mut out = String::from(sign);
    for (at, digit) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"[{"kind":"a","n":1,"us":1234.5,"on":true},{"kind":"b","n":64,"us":1234567.25,"on":false},
        {"kind":"a","n":2,"on":true,"invalid":"2 lost"}]"#;

    fn made(comment: &str) -> Result<String, String> {
        let text = format!("before\n<!-- figures r.json: {comment}\n-->\nold\n<!-- end of figures -->\nafter\n");
        rewritten(&text, |_| Ok(ROWS.into())).map_err(|error| format!("{error:#}"))
    }

    fn check(comment: &str, expect: &str) {
        let whole = format!("before\n<!-- figures r.json: {comment}\n-->\n{expect}<!-- end of figures -->\nafter\n");
        assert_eq!(made(comment), Ok(whole.clone()));
        assert_eq!(rewritten(&whole, |_| Ok(ROWS.into())).unwrap(), whole);
    }

    #[test]
    fn tables_are_made_of_the_rows_that_conditions_select() {
        check(
            "kind=b\nkind | kind\nms | **us / 1000** | 2\nbatches | on",
            "| kind | ms | batches |\n|---|---:|---:|\n| b | **1,234.57** | off |\n",
        );
        check(
            "kind=a|b n=1|64 us?\nn | n\nµs | us | 1",
            "| n | µs |\n|---:|---:|\n| 1 | 1,234.5 |\n| 64 | 1,234,567.2 |\n",
        );
        check("n=2\nn | n\nµs | us | 1\nms | us", "| n | µs | ms |\n|---:|---:|---:|\n| 2 | INVALID: 2 lost | |\n");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let check = |comment, expect: &str| assert_eq!(made(comment), Err(expect.to_owned()));
        check("n=3\nn | n", "line 2: r.json has no row that these conditions select");
        check("n\nn | n", "line 2: found the condition \"n\", expected MEMBER=VALUE|VALUE or MEMBER?");
        check("n=1", "line 2: found no column, expected lines of HEADING | MEMBER | DECIMALS");
        check(
            "n=1\nn | n | x",
            "line 2: found the column \"n | n | x\", expected HEADING | MEMBER | DECIMALS: invalid digit found in string",
        );
        let cut = |text: &str| format!("{:#}", rewritten(text, |_| Ok(ROWS.into())).unwrap_err());
        assert_eq!(cut("<!-- figures r.json: n=1"), "line 1: a comment without an end");
        assert_eq!(
            cut("\n<!-- figures r.json: n=1\nn | n\n-->"),
            "line 2: figures without \"<!-- end of figures -->\""
        );
    }
}
