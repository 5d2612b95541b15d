//! The lines that rows of settings have in the example and in pages.

use super::{Setting, Type, by_thousands, decimal};
use anyhow::ensure;
use std::fmt::Write as _;

/// The column of comments in the example, and in its tables of devices.
const COMMENT_AT: [usize; 2] = [28, 32];
/// The device of the example.
const EXAMPLE_DEVICE: &str = "relay1";

/// A line that a row replaces, in a section of a file: its new text; none where it is not the row's.
pub(super) type Replaced = anyhow::Result<Option<String>>;

/// Replaces the lines of rows, and says how many each has.
pub(super) fn replace(
    text: &str,
    all: &[Setting],
    line_of: fn(&Setting, &str, &str) -> Replaced,
    section_of: fn(&str) -> Option<String>,
) -> anyhow::Result<(String, Vec<usize>)> {
    let (mut replaced, mut section, mut counts) = (String::new(), String::new(), vec![0; all.len()]);
    for old in text.lines() {
        section = section_of(old).unwrap_or(section);
        let mut line = old.to_owned();
        for (setting, count) in all.iter().zip(&mut counts) {
            if let Some(new) = line_of(setting, &section, old)? {
                line = new;
                *count += 1;
                ensure!(*count == 1, "{} has a second line: {old}", setting.key);
            }
        }
        replaced += &line;
        replaced.push('\n');
    }
    Ok((replaced, counts))
}

/// The table of a line of the example that begins one.
pub(super) fn toml_section(line: &str) -> Option<String> {
    let name = line.strip_prefix("# ").unwrap_or(line).strip_prefix('[')?.split(']').next()?;
    Some(name.trim_start_matches('[').replace(EXAMPLE_DEVICE, "NAME"))
}

/// The table of a line of a page that begins one: a heading, `` `[name]`: ``, or the first row of a table of its keys.
pub(super) fn page_section(line: &str) -> Option<String> {
    if let Some(heading) = line.strip_prefix("## ") {
        return Some(heading.to_owned());
    }
    let quoted =
        line.strip_prefix("| key of `").or_else(|| line.strip_prefix('`').filter(|rest| rest.starts_with('[')))?;
    Some(quoted.split('`').next()?.trim_matches(['[', ']']).to_owned())
}

/// The line of the example that is a row's.
pub(super) fn default_line(setting: &Setting, section: &str, old: &str) -> Replaced {
    let (own, key) = setting.place();
    let (Some(comment), Some(default)) = (&setting.comment, &setting.default) else { return Ok(None) };
    // A table within a table is an example there.
    let sign = if old.starts_with("# ") { "# " } else { "" };
    let start = format!("{sign}{key} = ");
    if own != section || !old.starts_with(&start) {
        return Ok(None);
    }
    let [at, of_device] = COMMENT_AT;
    let at = if own.starts_with("device.") { of_device } else { at };
    let value = format!("{start}{default}");
    Ok(Some(if value.len() < at { format!("{value:<at$}# {comment}") } else { format!("{value} # {comment}") }))
}

/// The row of a table of a page that is a row's.
pub(super) fn page_row(setting: &Setting, section: &str, old: &str) -> Replaced {
    let Some((cell, _)) = old.strip_prefix("| `").and_then(|row| row.split_once("` |")) else { return Ok(None) };
    // In a table of one section, words stand for its keys alone.
    let of_device = setting.key.strip_prefix("device.NAME.").filter(|_| !section.contains('.'));
    let is_of = cell == setting.key || of_device == Some(cell) || setting.key == format!("{section}.{cell}");
    if !is_of {
        return Ok(None);
    }
    let quoted = |words: &[String]| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
    let mut legal = match setting.r#type {
        Type::Flag => "true, false".to_owned(),
        Type::Text => "text".to_owned(),
        Type::Address => "address".to_owned(),
        Type::Names => "list of names".to_owned(),
        Type::Networks => "list of addresses and networks".to_owned(),
        Type::Filters => "list of filters".to_owned(),
        Type::Choice => quoted(&setting.words),
        Type::Count => within(setting, |number| by_thousands(number, ',', 4))?,
        Type::Number => setting.limits(decimal).map(|[_, low, high]| format!("{low} to {high}"))?,
        Type::Size => format!("size, {}", within(setting, size_words)?),
        Type::Duration if setting.or_zero => format!("`0s`, or {}", within(setting, duration_words)?),
        Type::Duration => format!("duration, {}", within(setting, duration_words)?),
    };
    if let Some(note) = &setting.note {
        write!(legal, "; {note}")?;
    }
    let default = setting.default.as_ref().map(|default| format!("`{default}`"));
    let default = default.or_else(|| setting.absent.clone()).unwrap_or_default();
    Ok(Some(format!("| `{cell}` | {legal} | {default} | {} |", setting.meaning)))
}

fn within(setting: &Setting, words: fn(u64) -> String) -> anyhow::Result<String> {
    let [_, low, high] = setting.limits(|value| setting.whole(value))?.map(words);
    Ok(format!("{low} to {high}"))
}

fn size_words(bytes: u64) -> String {
    in_units(bytes, &[("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)])
}

fn duration_words(millis: u64) -> String {
    in_units(millis, &[("d", 86_400_000), ("h", 3_600_000), ("s", 1000), ("ms", 1)])
}

/// A number in the largest unit that divides it.
fn in_units(number: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, each)| number > 0 && number.is_multiple_of(*each));
    unit.map_or_else(|| number.to_string(), |(unit, each)| format!("{} {unit}", by_thousands(number / each, ',', 4)))
}
