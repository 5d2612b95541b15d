//! Registries of the BACnet driver.
//!
//! | VOLTTRON | point list |
//! |---|---|
//! | `BACnet Object Type` | `type`, in the words of the standard |
//! | `Index` | `index` |
//! | `Property`, `Array Index` | `property`, `array_index` |
//! | `Writable`, `Write Priority` | `writable`, `write_priority` |
//! | `COV Flag` | `cov` |

use super::point::{Cells, Mapped, Refusal, common, every, is_true, note_unread_default, refuse, writable};

/// The columns, in their order.
pub const COLUMNS: [&str; 12] = [
    "name",
    "type",
    "index",
    "property",
    "array_index",
    "unit",
    "writable",
    "write_priority",
    "cov",
    "every",
    "tags",
    "description",
];
/// Its columns in a registry.
pub const KNOWN: [&str; 6] = ["bacnet object type", "property", "index", "array index", "write priority", "cov flag"];
/// The greatest instance of an object.
const INSTANCE_MAX: i64 = 4_194_302;
/// Objects that have values.
const TYPES: [&str; 25] = [
    "analog-input",
    "analog-output",
    "analog-value",
    "binary-input",
    "binary-output",
    "binary-value",
    "multi-state-input",
    "multi-state-output",
    "multi-state-value",
    "accumulator",
    "averaging",
    "loop",
    "pulse-converter",
    "life-safety-point",
    "life-safety-zone",
    "integer-value",
    "positive-integer-value",
    "large-analog-value",
    "characterstring-value",
    "octetstring-value",
    "bitstring-value",
    "lighting-output",
    "binary-lighting-output",
    "schedule",
    "device",
];

/// A row as a point. Writes below the least priority of the device are errors in VOLTTRON.
pub fn point(cells: &Cells<'_>, min_priority: u8) -> Result<Mapped, Refusal> {
    let mut mapped = common(cells)?;
    let written = cells.get("bacnet object type");
    let plain = kebab(written).replace('-', "");
    let Some(kind) = TYPES.iter().find(|kind| kind.replace('-', "") == plain).copied() else {
        return refuse(format!(
            "BACnet Object Type is {written:?}, expected an object with a value, as in analogInput"
        ));
    };
    let index: i64 = cells.number("index", "Index", "an instance from 0 to 4194302")?;
    if !(0..=INSTANCE_MAX).contains(&index) {
        return refuse(format!("Index is {index}, expected an instance from 0 to {INSTANCE_MAX}"));
    }
    let property = kebab(cells.get("property"));
    if !property.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return refuse(format!("Property is {:?}, expected a property, as in presentValue", cells.get("property")));
    }
    mapped.point.set("type", kind);
    mapped.point.set("index", index.to_string());
    if property != "present-value" {
        mapped.point.set("property", property);
    }
    if !cells.get("array index").is_empty() {
        let at: u32 = cells.number("array index", "Array Index", "a whole number from 0")?;
        mapped.point.set("array_index", at.to_string());
    }
    if writable(cells, &mut mapped) {
        mapped.point.set("writable", "true");
        priority(cells, &mut mapped, min_priority)?;
    }
    if is_true(cells.get("cov flag")) {
        mapped.point.set("cov", "true");
    }
    note_unread_default(cells, &mut mapped);
    every(cells, &mut mapped);
    Ok(mapped)
}

fn priority(cells: &Cells<'_>, mapped: &mut Mapped, least: u8) -> Result<(), Refusal> {
    if cells.get("write priority").is_empty() {
        return Ok(());
    }
    let priority: u8 = cells.number("write priority", "Write Priority", "a priority from 1 to 16")?;
    if !(1..=16).contains(&priority) {
        return refuse(format!("Write Priority is {priority}, expected a priority from 1 to 16"));
    }
    if priority < least {
        return refuse(format!("Write Priority is {priority}, and min_priority of the device is {least}"));
    }
    if priority != 16 {
        mapped.point.set("write_priority", priority.to_string());
    }
    Ok(())
}

/// The name of the standard: `analog-input` of `analogInput` or `Analog Input`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    let mut after_lower = false;
    for c in name.trim().chars() {
        if c.is_whitespace() || matches!(c, '-' | '_') {
            after_lower = false;
            if !kebab.ends_with('-') {
                kebab.push('-');
            }
            continue;
        }
        if c.is_ascii_uppercase() && after_lower {
            kebab.push('-');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_standard() {
        let check = |name: &str, expect: &str| assert_eq!(kebab(name), expect, "{name}");
        check("analogInput", "analog-input");
        check("multiStateValue", "multi-state-value");
        check("Multistate Output", "multistate-output");
        check("BINARY_VALUE", "binary-value");
        check("presentValue", "present-value");
        check("analog-value", "analog-value");
        check("largeAnalogValue", "large-analog-value");
        check("", "");
    }
}
