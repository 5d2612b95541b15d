//! Writes what comes from the tables of settings: the constants of the parsers, the lines of default.toml, the rows of tables in
//! docs/.

mod lines;

use crate::artifact;
use anyhow::{Context, bail, ensure};
use lines::{default_line, page_row, page_section, replace, toml_section};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The tables, each in the crate that reads the settings; the constants are in settings.rs beside it.
const TABLES: [&str; 5] = [
    "crates/node/service/src/http/settings.toml",
    "crates/node/transport/src/settings.toml",
    "crates/node/node/src/config/settings.toml",
    "crates/node/outstation/src/config/settings.toml",
    "crates/node/seal/src/config/settings.toml",
];
/// The crate that has the types of the constants.
const SERVICE: &str = "crates/node/service/";
/// Characters of a line of Rust.
const LINE_MAX: usize = 120;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    pages: Vec<String>,
    example: Option<String>,
    setting: Vec<Setting>,
}

/// One row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    key: String,
    r#type: Type,
    default: Option<toml::Value>,
    absent: Option<String>,
    range: Option<[toml::Value; 2]>,
    #[serde(default = "bits_of_most")]
    bits: u32,
    #[serde(default)]
    or_zero: bool,
    #[serde(default)]
    words: Vec<String>,
    note: Option<String>,
    comment: Option<String>,
    meaning: String,
}

const fn bits_of_most() -> u32 {
    u32::BITS
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Type {
    Flag,
    Count,
    Number,
    Size,
    Duration,
    Choice,
    Text,
    Address,
    Names,
    Networks,
    Filters,
}

/// Writes the files, or with `check` proves that they are what the tables say.
///
/// # Errors
/// A table is wrong, a file cannot be read or written or has no place for a row, or is not current.
pub fn settings(root: &Path, check: bool) -> anyhow::Result<()> {
    let mut files = BTreeMap::new();
    for name in TABLES {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"))?;
        let table: Table = toml::from_str(&text).with_context(|| format!("in {name}"))?;
        for setting in &table.setting {
            setting.check().with_context(|| format!("in {name}, {}", setting.key))?;
        }
        files.insert(name.replace(".toml", ".rs"), constants(name, &table.setting)?);
        place_rows(root, &table, &mut files).with_context(|| format!("in {name}"))?;
    }
    for (name, text) in files {
        artifact::put(&root.join(name), &text, "settings.toml", check)?;
    }
    Ok(())
}

/// Brings the rows of a table to the files that show them.
fn place_rows(root: &Path, table: &Table, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    let mut shown = vec![0; table.setting.len()];
    for page in &table.pages {
        let counts = replace_in(files, root, page, |text| replace(text, &table.setting, page_row, page_section))?;
        shown.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    if let Some(example) = &table.example {
        let counts =
            replace_in(files, root, example, |text| replace(text, &table.setting, default_line, toml_section))?;
        for (setting, count) in table.setting.iter().zip(counts) {
            ensure!(count == usize::from(setting.comment.is_some()), "{} needs a line in {example}", setting.key);
        }
    }
    for (setting, count) in table.setting.iter().zip(shown) {
        ensure!(count > 0, "{} needs a row in one of {}", setting.key, table.pages.join(", "));
    }
    Ok(())
}

/// Replaces lines of a file, which is read where no table was before, and says how many each row has.
fn replace_in(
    files: &mut BTreeMap<String, String>,
    root: &Path,
    name: &str,
    replace: impl FnOnce(&str) -> anyhow::Result<(String, Vec<usize>)>,
) -> anyhow::Result<Vec<usize>> {
    let text = match files.remove(name) {
        Some(text) => text,
        None => fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"))?,
    };
    let (text, counts) = replace(&text).with_context(|| name.to_owned())?;
    files.insert(name.to_owned(), text);
    Ok(counts)
}

impl Setting {
    /// The section, and the key in it.
    fn place(&self) -> (&str, &str) {
        self.key.rsplit_once('.').unwrap_or(("", &self.key))
    }

    fn check(&self) -> anyhow::Result<()> {
        let has_range = matches!(self.r#type, Type::Count | Type::Number | Type::Size | Type::Duration);
        ensure!(has_range == self.range.is_some(), "a range is of a count, a number, a size or a duration");
        ensure!((self.r#type == Type::Choice) != self.words.is_empty(), "words are of a choice");
        ensure!(!self.or_zero || self.r#type == Type::Duration, "or_zero is of a duration");
        ensure!(matches!(self.bits, 8 | 16 | 32), "a count has 8, 16 or 32 bits");
        ensure!(self.default.is_some() != self.absent.is_some(), "either a default, or what holds where it is absent");
        if self.r#type == Type::Number {
            let [default, low, high] = self.limits(decimal)?;
            ensure!((low..=high).contains(&default), "the default is not legal");
        } else if has_range {
            let [default, low, high] = self.limits(|value| self.whole(value))?;
            ensure!((low..=high).contains(&default) || (self.or_zero && default == 0), "the default is not legal");
            ensure!(self.r#type != Type::Count || high >> self.bits == 0, "the count needs more bits");
        }
        ensure!(self.words.is_empty() || self.word()? < self.words.len(), "the default is none of the words");
        Ok(())
    }

    /// The default, which is the lowest value where there is none, and both ends of the range.
    fn limits<T>(&self, of: impl Fn(&toml::Value) -> anyhow::Result<T>) -> anyhow::Result<[T; 3]> {
        let [low, high] = self.range.as_ref().context("no range")?;
        Ok([of(self.default.as_ref().unwrap_or(low))?, of(low)?, of(high)?])
    }

    /// A count, bytes, or milliseconds.
    fn whole(&self, value: &toml::Value) -> anyhow::Result<u64> {
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
        let Some(default) = &self.default else { return Ok(0) };
        let default = default.as_str().context("a word")?;
        Ok(self.words.iter().position(|word| word == default).unwrap_or(usize::MAX))
    }
}

/// A number that need not be whole.
fn decimal(value: &toml::Value) -> anyhow::Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a limit that a person wrote")]
    let whole = value.as_integer().map(|whole| whole as f64);
    value.as_float().or(whole).context("a number")
}

/// The constants of the table of this name.
fn constants(name: &str, all: &[Setting]) -> anyhow::Result<String> {
    let (mut body, mut types) = (String::new(), BTreeSet::new());
    for setting in all {
        let Some((of, value)) = constant(setting)? else { continue };
        let constant = setting.key.replace("NAME.", "").replace('.', "_").to_uppercase();
        let names = of.split(['<', '>']).filter(|name| name.contains(char::is_lowercase) && !name.starts_with('u'));
        types.extend(names.map(str::to_owned));
        let head = format!("pub const {constant}: {of} =");
        // As rustfmt has it.
        let between = if head.len() + value.len() + 2 > LINE_MAX { "\n    " } else { " " };
        writeln!(body, "/// `{}`.\n{head}{between}{value};", setting.key)?;
    }
    let from = if name.starts_with(SERVICE) { "crate" } else { "tieline_service" };
    let names = types.into_iter().collect::<Vec<_>>().join(", ");
    let names = if names.contains(',') { format!("{{{names}}}") } else { names };
    Ok(format!(
        "//! Written by `cargo xtask gen` from {name}: change that file.\n\nuse {from}::setting::{names};\n\n{body}"
    ))
}

/// The type and the value of a constant; lists have none.
fn constant(setting: &Setting) -> anyhow::Result<Option<(String, String)>> {
    let (_, key) = setting.place();
    let default = || setting.default.as_ref().map(ToString::to_string).context("no default");
    let whole =
        |text: fn(u64) -> String| anyhow::Ok(setting.limits(|value| setting.whole(value))?.map(text).join(", "));
    let (name, arguments) = match setting.r#type {
        Type::Flag => ("Flag", default()?),
        Type::Text | Type::Address => ("Text", default()?),
        Type::Count => ("Count", whole(grouped)?),
        Type::Number => ("Number", setting.limits(decimal)?.map(|number| format!("{number:?}")).join(", ")),
        Type::Size => ("Size", whole(shifted)?),
        Type::Duration if setting.or_zero => ("Span::or_zero", whole(grouped)?),
        Type::Duration => ("Span", whole(grouped)?),
        Type::Choice => ("Choice", format!("{:?}, {}", setting.words, setting.word()?)),
        Type::Names | Type::Networks | Type::Filters => return Ok(None),
    };
    let (name, make) = name.split_once("::").unwrap_or((name, "new"));
    let of = match setting.words.len() {
        0 if setting.bits < u32::BITS => format!("{name}<u{}>", setting.bits),
        0 => name.to_owned(),
        words => format!("{name}<{words}>"),
    };
    let value = format!("{name}::{make}({key:?}, {arguments})");
    Ok(Some(match setting.default {
        Some(_) => (of, value),
        None => (format!("NoDefault<{of}>"), format!("NoDefault::new({value})")),
    }))
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
        for (text, rust, value, legal) in [
            ("type = 'flag'\ndefault = true", "Flag = Flag::new(\"x\", true)", "true", "true, false | `true`"),
            (
                "type = 'count'\ndefault = 10000\nrange = [1, 1000000]",
                "Count = Count::new(\"x\", 10_000, 1, 1_000_000)",
                "10000",
                "1 to 1,000,000 | `10000`",
            ),
            (
                "type = 'count'\nbits = 8\ndefault = 1\nrange = [0, 255]",
                "Count<u8> = Count::new(\"x\", 1, 0, 255)",
                "1",
                "0 to 255 | `1`",
            ),
            (
                "type = 'number'\ndefault = 1\nrange = [0.001, 3600]",
                "Number = Number::new(\"x\", 1.0, 0.001, 3600.0)",
                "1",
                "0.001 to 3600 | `1`",
            ),
            (
                "type = 'size'\ndefault = '16MiB'\nrange = ['4KiB', '1024GiB']\nnote = 'two'",
                "Size = Size::new(\"x\", 16 << 20, 4 << 10, 1 << 40)",
                "\"16MiB\"",
                "size, 4 KiB to 1 TiB; two | `\"16MiB\"`",
            ),
            (
                "type = 'duration'\ndefault = '0s'\nrange = ['100ms', '18h']\nor_zero = true",
                "Span = Span::or_zero(\"x\", 0, 100, 64_800_000)",
                "\"0s\"",
                "`0s`, or 100 ms to 18 h | `\"0s\"`",
            ),
            (
                "type = 'choice'\ndefault = 'b'\nwords = ['a', 'b']",
                "Choice<2> = Choice::new(\"x\", [\"a\", \"b\"], 1)",
                "\"b\"",
                "`\"a\"`, `\"b\"` | `\"b\"`",
            ),
        ] {
            let setting = row(&format!("{text}\ncomment = 'it'")).unwrap();
            let (name, constant) = constant(&setting).unwrap().unwrap();
            assert_eq!(format!("{name} = {constant}"), rust);
            let line = default_line(&setting, "mqtt", "x = ?").unwrap().unwrap();
            assert_eq!(line, format!("{:<28}# it", format!("x = {value}")));
            for cell in ["x", "mqtt.x"] {
                let line = page_row(&setting, "mqtt", &format!("| `{cell}` | ? |")).unwrap().unwrap();
                assert_eq!(line, format!("| `{cell}` | {legal} | words |"));
            }
        }
    }

    #[test]
    fn a_row_without_a_default_says_what_holds() {
        let setting = row("type = 'duration'\nabsent = 'never'\nrange = ['1s', '7d']").unwrap();
        let expect = ("NoDefault<Span>", "NoDefault::new(Span::new(\"x\", 1000, 1000, 604_800_000))");
        assert_eq!(constant(&setting).unwrap(), Some((expect.0.to_owned(), expect.1.to_owned())));
        let line = page_row(&setting, "", "| `mqtt.x` |").unwrap();
        assert_eq!(line.as_deref(), Some("| `mqtt.x` | duration, 1 s to 7 d | never | words |"));
    }

    #[test]
    fn a_row_that_contradicts_itself_is_refused() {
        for (text, words) in [
            ("type = 'count'\ndefault = 5", "a range is of"),
            ("type = 'count'\ndefault = 5\nrange = [6, 7]", "the default is not legal"),
            ("type = 'count'\nbits = 8\ndefault = 5\nrange = [5, 256]", "needs more bits"),
            ("type = 'count'\nrange = [5, 6]", "either a default"),
            ("type = 'number'\ndefault = 0\nrange = [0.1, 1]", "the default is not legal"),
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
    fn a_row_has_its_lines_in_its_section() {
        let all = [row("type = 'flag'\ndefault = true\ncomment = 'it'").unwrap()];
        let replaced = |text| replace(text, &all, default_line, toml_section);
        let (text, counts) = replaced("[http]\nx = 1\n[mqtt]\n# x = false # old\n").unwrap();
        assert_eq!(text, format!("[http]\nx = 1\n[mqtt]\n{:<28}# it\n", "# x = true"));
        assert_eq!(counts, [1]);
        assert_eq!(replaced("[http]\nx = 1\n[mqtt]\n").unwrap().1, [0]);
        assert!(replaced("[mqtt]\nx = 1\nx = 2\n").unwrap_err().to_string().contains("mqtt.x has a second line"));
    }

    #[test]
    fn a_section_is_named_in_several_ways() {
        for (line, name) in [
            ("## http", "http"),
            ("`[access.jwt]`:", "access.jwt"),
            ("| key of `[device.NAME.poll]` | meaning |", "device.NAME.poll"),
            ("| key of `[[device.NAME.freeze]]` | meaning |", "device.NAME.freeze"),
        ] {
            assert_eq!(page_section(line).as_deref(), Some(name));
        }
        assert_eq!(page_section("`--http` and more"), None);
        assert_eq!(toml_section("# [device.relay1.dnp3]").as_deref(), Some("device.NAME.dnp3"));
    }
}
