//! Turns `crates/wire/dnp3/objects.toml` into the layouts that the DNP3 codec reads.

use crate::artifact;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// One group of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    #[serde(default)]
    kind: Kind,
    point: Option<Point>,
    v: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Static,
    Event,
    Command,
    #[default]
    Other,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Point {
    Binary,
    DoubleBit,
    BinaryOutput,
    Counter,
    FrozenCounter,
    Analog,
    FrozenAnalog,
    AnalogOutput,
    OctetString,
}

/// What the fields of one variation add up to, as the words of `objects/mod.rs`.
struct Form {
    size: String,
    flags: &'static str,
    value: &'static str,
    time: &'static str,
    delta: bool,
}

/// Writes `generated.rs`, or with `check` proves that it is what the table says.
///
/// # Errors
/// The table is wrong, a file cannot be read or written, or the committed file is not current.
pub fn objects(check: bool) -> anyhow::Result<()> {
    let folder = folder();
    let table = folder.join("objects.toml");
    let target = folder.join("src/objects/generated.rs");
    let text = fs::read_to_string(&table).with_context(|| format!("reading {}", table.display()))?;
    let rust = generate(&text).with_context(|| format!("in {}", table.display()))?;
    artifact::put(&target, &rust, "objects.toml", check)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/dnp3")
}

fn generate(text: &str) -> anyhow::Result<String> {
    let groups: BTreeMap<String, Group> = toml::from_str(text)?;
    let mut by_number = BTreeMap::new();
    for (number, group) in &groups {
        by_number.insert(number.parse::<u8>().with_context(|| format!("group [{number}]"))?, group);
    }
    let (mut rows, mut arms) = (String::new(), String::new());
    let mut position = 0_usize;
    for (number, group) in by_number {
        for (variation, pattern, fields) in variations(&group.v).with_context(|| format!("group [{number}]"))? {
            let form = form(fields).with_context(|| format!("group [{number}] v.{pattern}"))?;
            writeln!(rows, "    {},", row(number, variation, group, &form))?;
            writeln!(arms, "        ({number}, {pattern}) => {position},")?;
            position += 1;
        }
    }
    Ok(format!(
        "//! Written by `cargo xtask gen` from objects.toml: change that file.\n\n\
         use super::{{FlagsForm, Kind, Layout, Size, TimeForm, ValueForm}};\n\
         use crate::{{GroupVar, PointType}};\n\n\
         /// The layouts, by group and variation.\n\
         pub(super) static LAYOUTS: [Layout; {position}] = [\n{rows}];\n\n\
         /// Where in [`LAYOUTS`] a group and variation is.\n\
         #[expect(clippy::too_many_lines, reason = \"a table: one line a variation\")]\n\
         pub(super) const fn position(group: u8, variation: u8) -> Option<usize> {{\n    \
             Some(match (group, variation) {{\n{arms}        _ => return None,\n    }})\n}}\n"
    ))
}

/// The variations of a group in their order, `any` last: number for the layout, pattern for the match, fields.
fn variations(v: &BTreeMap<String, String>) -> anyhow::Result<Vec<(u8, String, &str)>> {
    let mut numbered = Vec::new();
    for (variation, fields) in v.iter().filter(|(variation, _)| *variation != "any") {
        let number: u8 = variation.parse().with_context(|| format!("v.{variation}"))?;
        ensure!(number != 0, "v.0 stands for any variation in requests and has no layout");
        numbered.push((number, number.to_string(), fields.as_str()));
    }
    numbered.sort_unstable_by_key(|(number, ..)| *number);
    numbered.extend(v.get("any").map(|fields| (1, "1..=255".to_owned(), fields.as_str())));
    Ok(numbered)
}

fn row(group: u8, variation: u8, about: &Group, form: &Form) -> String {
    let point = match about.point {
        Some(point) if !form.delta => format!("Some(PointType::{point:?})"),
        Some(_) | None => "None".to_owned(),
    };
    format!(
        "Layout {{ object: GroupVar::new({group}, {variation}), name: {:?}, kind: Kind::{:?}, point_type: {point}, \
         size: Size::{}, flags: FlagsForm::{}, value: ValueForm::{}, time: TimeForm::{} }}",
        about.name, about.kind, form.size, form.flags, form.value, form.time
    )
}

fn form(fields: &str) -> anyhow::Result<Form> {
    let mut form = Form { size: String::new(), flags: "None", value: "None", time: "None", delta: false };
    let mut bytes = 0_u8;
    for word in fields.split_whitespace() {
        let added = match word {
            "bit" | "bit2" | "length" | "own" | "prefixed" => {
                ensure!(fields == word, "{word} stands alone, found {fields:?}");
                (form.size, form.value) = match word {
                    "bit" => ("Bits(1)".to_owned(), "Bit"),
                    "bit2" => ("Bits(2)".to_owned(), "DoubleBit"),
                    "length" => ("Variation".to_owned(), "Bytes"),
                    "own" => ("Own".to_owned(), "None"),
                    _ => ("Prefixed".to_owned(), "None"),
                };
                return Ok(form);
            }
            "none" => 0,
            "delta" => {
                form.delta = true;
                0
            }
            _ => field(word, &mut form)?,
        };
        bytes = bytes.checked_add(added).context("more than 255 bytes")?;
    }
    form.size = format!("Bytes({bytes})");
    Ok(form)
}

/// Notes one field and returns its bytes.
fn field(word: &str, form: &mut Form) -> anyhow::Result<u8> {
    let (place, name, bytes) = match word {
        "flags" => (&mut form.flags, "Flags", 1),
        "flags-bit" => (&mut form.flags, "FlagsBit", 1),
        "flags-bit2" => (&mut form.flags, "FlagsDoubleBit", 1),
        "status" => (&mut form.flags, "Status", 1),
        "status-bit" => (&mut form.flags, "StatusBit", 1),
        "u8" => (&mut form.value, "U8", 1),
        "u16" => (&mut form.value, "U16", 2),
        "u32" => (&mut form.value, "U32", 4),
        "i16" => (&mut form.value, "I16", 2),
        "i32" => (&mut form.value, "I32", 4),
        "f32" => (&mut form.value, "F32", 4),
        "f64" => (&mut form.value, "F64", 8),
        "time" => (&mut form.time, "Absolute", 6),
        "relative" => (&mut form.time, "Relative", 2),
        _ => match word.strip_prefix("bytes:") {
            Some(count) => (&mut form.value, "Bytes", count.parse().with_context(|| format!("the size in {word:?}"))?),
            None => bail!("{word:?} is no field: see the head of the file"),
        },
    };
    ensure!(*place == "None", "{word:?} stands where {place} is already");
    *place = name;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_layouts_are_current() {
        objects(true).unwrap();
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let check = |table: &str, expect: &str| {
            let error = format!("{:#}", generate(table).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("[1]\nname = \"x\"\nv.0 = \"bit\"", "v.0");
        check("[1]\nname = \"x\"\nv.1 = \"flags bit\"", "stands alone");
        check("[1]\nname = \"x\"\nv.1 = \"u32 i16\"", "stands where");
        check("[1]\nname = \"x\"\nv.1 = \"nibble\"", "no field");
        check("[256]\nname = \"x\"\nv.1 = \"bit\"", "group [256]");
    }
}
