//! Writes what comes from the table of settings, `crates/node/node/src/config/settings.toml`: the constants of the parser, the
//! lines of default.toml, the rows of docs/configuration.md.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const TABLE: &str = "crates/node/node/src/config/settings.toml";
const RUST: &str = "crates/node/node/src/config/settings.rs";
const SERVICE_RUST: &str = "crates/node/service/src/http/settings.rs";
const DEFAULTS: &str = "crates/node/node/src/config/default.toml";
const PAGE: &str = "docs/configuration.md";
/// The column of comments in default.toml.
const COMMENT_AT: usize = 28;

#[derive(Deserialize)]
struct Table {
    setting: Vec<Setting>,
}

/// One row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    key: String,
    r#type: Type,
    default: toml::Value,
    range: Option<[toml::Value; 2]>,
    #[serde(default)]
    or_zero: bool,
    #[serde(default)]
    words: Vec<String>,
    note: Option<String>,
    comment: Option<String>,
    meaning: String,
    #[serde(default)]
    home: Home,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Type {
    Flag,
    Count,
    Size,
    Duration,
    Choice,
    Text,
    Address,
    Names,
    Networks,
    Filters,
}

/// The crate that reads it.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Home {
    #[default]
    Node,
    Service,
}

/// Writes the files, or with `check` proves that they are what the table says.
///
/// # Errors
/// The table is wrong, a file cannot be read or written or has no place for a row, or is not current.
pub fn settings(root: &Path, check: bool) -> anyhow::Result<()> {
    let table: Table = toml::from_str(&read(root, TABLE)?).with_context(|| format!("in {TABLE}"))?;
    let all = table.setting;
    for setting in &all {
        setting.check().with_context(|| format!("in {TABLE}, {}", setting.key))?;
    }
    let defaults = replace(&read(root, DEFAULTS)?, &all, default_line, toml_section).context(DEFAULTS)?;
    let page = replace(&read(root, PAGE)?, &all, page_row, page_section).context(PAGE)?;
    let files = [
        (RUST, constants(&all, Home::Node)?),
        (SERVICE_RUST, constants(&all, Home::Service)?),
        (DEFAULTS, defaults),
        (PAGE, page),
    ];
    for (name, text) in files {
        if !check {
            fs::write(root.join(name), text).with_context(|| format!("writing {name}"))?;
        } else if fs::read_to_string(root.join(name)).unwrap_or_default() != text {
            bail!("{name} is not what {TABLE} says: run cargo xtask gen");
        }
    }
    Ok(())
}

fn read(root: &Path, name: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"))
}

impl Setting {
    /// The section, and the key in it.
    fn place(&self) -> (&str, &str) {
        self.key.rsplit_once('.').unwrap_or(("", &self.key))
    }

    fn check(&self) -> anyhow::Result<()> {
        let has_range = matches!(self.r#type, Type::Count | Type::Size | Type::Duration);
        ensure!(has_range == self.range.is_some(), "a range is of a count, a size or a duration");
        ensure!((self.r#type == Type::Choice) != self.words.is_empty(), "words are of a choice");
        ensure!(!self.or_zero || self.r#type == Type::Duration, "or_zero is of a duration");
        if let Some([low, high]) = &self.range {
            let (low, high, default) = (self.number(low)?, self.number(high)?, self.number(&self.default)?);
            ensure!((low..=high).contains(&default) || (self.or_zero && default == 0), "the default is not legal");
        }
        ensure!(self.words.is_empty() || self.word()? < self.words.len(), "the default is none of the words");
        Ok(())
    }

    /// A count, bytes, or milliseconds.
    fn number(&self, value: &toml::Value) -> anyhow::Result<u64> {
        if let Some(number) = value.as_integer() {
            return Ok(u64::try_from(number)?);
        }
        let text = value.as_str().context("a number or a text")?;
        let unit_at = text.find(|c: char| !c.is_ascii_digit()).with_context(|| format!("{text}: no unit"))?;
        let (digits, unit) = text.split_at(unit_at);
        let each = match (self.r#type, unit) {
            (Type::Size, "B") | (Type::Duration, "ms") => 1,
            (Type::Size, "KiB") => 1 << 10,
            (Type::Size, "MiB") => 1 << 20,
            (Type::Size, "GiB") => 1 << 30,
            (Type::Duration, "s") => 1000,
            (Type::Duration, "m") => 60_000,
            (Type::Duration, "h") => 3_600_000,
            (Type::Duration, "d") => 86_400_000,
            _ => bail!("{text}: the unit is unknown"),
        };
        digits.parse::<u64>()?.checked_mul(each).with_context(|| format!("{text} is too large"))
    }

    /// The place of the default among the words.
    fn word(&self) -> anyhow::Result<usize> {
        let default = self.default.as_str().context("a word")?;
        Ok(self.words.iter().position(|word| word == default).unwrap_or(usize::MAX))
    }
}

/// The constants of one crate.
fn constants(all: &[Setting], home: Home) -> anyhow::Result<String> {
    let mut text = String::from(
        "//! Written by `cargo xtask gen` from crates/node/node/src/config/settings.toml: change that file.\n\n",
    );
    let (mut body, mut types) = (String::new(), Vec::new());
    for setting in all.iter().filter(|setting| setting.home == home) {
        let Some((name, value)) = constant(setting)? else { continue };
        let (section, key) = setting.place();
        let constant = format!("{section}_{key}").replace('.', "_").to_uppercase();
        let base = name.split('<').next().unwrap_or(&name).to_owned();
        if !types.contains(&base) {
            types.push(base);
        }
        writeln!(body, "/// `{}`.\npub const {constant}: {name} = {value};", setting.key)?;
    }
    types.sort();
    let from = if home == Home::Node { "tieline_service" } else { "crate" };
    let names = if let [one] = &types[..] { one.clone() } else { format!("{{{}}}", types.join(", ")) };
    write!(text, "use {from}::setting::{names};\n\n{body}")?;
    Ok(text)
}

/// The type and the value of a constant; lists have none.
fn constant(setting: &Setting) -> anyhow::Result<Option<(String, String)>> {
    let (_, key) = setting.place();
    let range = |setting: &Setting| -> anyhow::Result<[u64; 3]> {
        let [low, high] = setting.range.as_ref().context("no range")?;
        Ok([setting.number(&setting.default)?, setting.number(low)?, setting.number(high)?])
    };
    let (name, arguments) = match setting.r#type {
        Type::Flag => ("Flag", setting.default.to_string()),
        Type::Text | Type::Address => ("Text", setting.default.to_string()),
        Type::Count => ("Count", range(setting)?.map(grouped).join(", ")),
        Type::Size => ("Size", range(setting)?.map(shifted).join(", ")),
        Type::Duration => {
            let name = if setting.or_zero { "Span::or_zero" } else { "Span" };
            (name, range(setting)?.map(grouped).join(", "))
        }
        Type::Choice => ("Choice", format!("{:?}, {}", setting.words, setting.word()?)),
        Type::Names | Type::Networks | Type::Filters => return Ok(None),
    };
    let (name, make) = name.split_once("::").unwrap_or((name, "new"));
    let of = if setting.words.is_empty() { String::new() } else { format!("<{}>", setting.words.len()) };
    Ok(Some((format!("{name}{of}"), format!("{name}::{make}({key:?}, {arguments})"))))
}

/// Bytes as Rust writes them.
fn shifted(bytes: u64) -> String {
    let shift = (1..=5).rev().map(|step| 10 * step).find(|shift| bytes > 0 && bytes.is_multiple_of(1 << shift));
    shift.map_or_else(|| grouped(bytes), |shift| format!("{} << {shift}", bytes >> shift))
}

/// A number as Rust writes it.
fn grouped(number: u64) -> String {
    by_thousands(number, '_', 5)
}

/// Digits in groups of three, of numbers with so many digits or more.
fn by_thousands(number: u64, between: char, from: usize) -> String {
    let digits = number.to_string();
    if digits.len() < from {
        return digits;
    }
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(between);
        }
        text.push(digit);
    }
    text
}

/// Replaces the line of each row, which stands in its section.
fn replace(
    text: &str,
    all: &[Setting],
    line_of: fn(&Setting) -> anyhow::Result<(String, String)>,
    section_of: fn(&str) -> Option<&str>,
) -> anyhow::Result<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let sections: Vec<String> = lines
        .iter()
        .scan(String::new(), |section, line| {
            if let Some(name) = section_of(line) {
                name.clone_into(section);
            }
            Some(section.clone())
        })
        .collect();
    for setting in all {
        let (start, line) = line_of(setting)?;
        let mut places = (0..lines.len()).filter(|at| {
            sections.get(*at).is_some_and(|section| *section == setting.place().0)
                && lines.get(*at).is_some_and(|line| line.starts_with(&start))
        });
        let (first, second) = (places.next(), places.next());
        let at =
            first.filter(|_| second.is_none()).with_context(|| format!("{} needs one line, {start}…", setting.key))?;
        if let Some(place) = lines.get_mut(at) {
            *place = line;
        }
    }
    Ok(lines.join("\n") + "\n")
}

fn toml_section(line: &str) -> Option<&str> {
    line.strip_prefix("# ").unwrap_or(line).strip_prefix('[')?.split(']').next()
}

fn page_section(line: &str) -> Option<&str> {
    line.strip_prefix("## ").or_else(|| line.strip_prefix("`[")?.split_once("]`").map(|(name, _)| name))
}

fn default_line(setting: &Setting) -> anyhow::Result<(String, String)> {
    let (section, key) = setting.place();
    // A table within a table is an example there.
    let start = if section.contains('.') { format!("# {key} = ") } else { format!("{key} = ") };
    let value = format!("{start}{}", setting.default);
    let line = match &setting.comment {
        Some(comment) if value.len() < COMMENT_AT => format!("{value:<COMMENT_AT$}# {comment}"),
        Some(comment) => format!("{value} # {comment}"),
        None => value,
    };
    Ok((start, line))
}

fn page_row(setting: &Setting) -> anyhow::Result<(String, String)> {
    let start = format!("| `{}` |", setting.place().1);
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
        Type::Size => format!("size, {}", within(setting, size_words)?),
        Type::Duration if setting.or_zero => format!("`0s`, or {}", within(setting, duration_words)?),
        Type::Duration => format!("duration, {}", within(setting, duration_words)?),
    };
    if let Some(note) = &setting.note {
        write!(legal, "; {note}")?;
    }
    Ok((start.clone(), format!("{start} {legal} | `{}` | {} |", setting.default, setting.meaning)))
}

fn within(setting: &Setting, words: fn(u64) -> String) -> anyhow::Result<String> {
    let [low, high] = setting.range.as_ref().context("no range")?;
    Ok(format!("{} to {}", words(setting.number(low)?), words(setting.number(high)?)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> anyhow::Result<Setting> {
        let setting: Setting = toml::from_str(&format!("key = 'mqtt.x'\nmeaning = 'words'\n{text}"))?;
        setting.check()?;
        Ok(setting)
    }

    #[test]
    fn a_row_is_a_constant_a_default_and_a_row_of_the_page() {
        for (text, rust, line, legal) in [
            ("type = 'flag'\ndefault = true", "Flag = Flag::new(\"x\", true)", "x = true", "true, false | `true`"),
            (
                "type = 'count'\ndefault = 10000\nrange = [1, 1000000]\ncomment = 'many'",
                "Count = Count::new(\"x\", 10_000, 1, 1_000_000)",
                "x = 10000                   # many",
                "1 to 1,000,000 | `10000`",
            ),
            (
                "type = 'size'\ndefault = '16MiB'\nrange = ['4KiB', '1024GiB']\nnote = 'two'",
                "Size = Size::new(\"x\", 16 << 20, 4 << 10, 1 << 40)",
                "x = \"16MiB\"",
                "size, 4 KiB to 1 TiB; two | `\"16MiB\"`",
            ),
            (
                "type = 'duration'\ndefault = '0s'\nrange = ['100ms', '18h']\nor_zero = true",
                "Span = Span::or_zero(\"x\", 0, 100, 64_800_000)",
                "x = \"0s\"",
                "`0s`, or 100 ms to 18 h | `\"0s\"`",
            ),
            (
                "type = 'choice'\ndefault = 'b'\nwords = ['a', 'b']",
                "Choice<2> = Choice::new(\"x\", [\"a\", \"b\"], 1)",
                "x = \"b\"",
                "`\"a\"`, `\"b\"` | `\"b\"`",
            ),
        ] {
            let setting = row(text).unwrap();
            let (name, value) = constant(&setting).unwrap().unwrap();
            assert_eq!(format!("{name} = {value}"), rust);
            assert_eq!(default_line(&setting).unwrap().1, line);
            assert_eq!(page_row(&setting).unwrap().1, format!("| `x` | {legal} | words |"));
        }
    }

    #[test]
    fn a_row_that_contradicts_itself_is_refused() {
        for (text, words) in [
            ("type = 'count'\ndefault = 5", "a range is of"),
            ("type = 'count'\ndefault = 5\nrange = [6, 7]", "the default is not legal"),
            ("type = 'duration'\ndefault = '0s'\nrange = ['1s', '2s']", "the default is not legal"),
            ("type = 'choice'\ndefault = 'c'\nwords = ['a', 'b']", "none of the words"),
            ("type = 'size'\ndefault = '5MB'\nrange = ['1B', '2B']", "the unit is unknown"),
            ("type = 'flag'\ndefault = true\nrange = [1, 2]", "a range is of"),
        ] {
            let error = row(text).err().unwrap().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn each_row_has_one_line_in_its_section() {
        let all = [row("type = 'flag'\ndefault = true").unwrap()];
        let replaced = |text| replace(text, &all, default_line, toml_section);
        assert_eq!(replaced("[http]\nx = 1\n[mqtt]\nx = false # old\n").unwrap(), "[http]\nx = 1\n[mqtt]\nx = true\n");
        for text in ["[http]\nx = 1\n[mqtt]\n", "[mqtt]\nx = 1\nx = 2\n"] {
            assert!(replaced(text).unwrap_err().to_string().contains("mqtt.x needs one line"));
        }
    }
}
