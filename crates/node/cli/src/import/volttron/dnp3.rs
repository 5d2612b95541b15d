//! Registries of the DNP3 driver, which is a master.
//!
//! | VOLTTRON | point list |
//! |---|---|
//! | `Group`, `Index` | `type`, `index` |
//! | `Variation` of outputs | `operate` |
//! | `Writable` of outputs | `writable`, and `mode` `direct`, as VOLTTRON operates |
//! | `Scaling` | `scale` |

use super::point::{Cells, Mapped, Refusal, common, note_unread_default, refuse, writable};

/// The columns, in their order.
pub const COLUMNS: [&str; 10] =
    ["name", "type", "index", "unit", "scale", "writable", "mode", "operate", "tags", "description"];
/// Its columns in a registry.
pub const KNOWN: [&str; 4] = ["group", "variation", "index", "scaling"];

/// A row as a point.
pub fn point(cells: &Cells<'_>) -> Result<Mapped, Refusal> {
    let mut mapped = common(cells)?;
    let group: u16 = cells.number("group", "Group", "a group of objects, as in 30")?;
    let Some(kind) = type_of(group) else {
        return refuse(format!("Group is {group}, expected one of points, as in 1, 3, 10, 20, 21, 30, 31, 40 or 110"));
    };
    let index: u16 = cells.number("index", "Index", "a whole number from 0 to 65535")?;
    mapped.point.set("type", kind);
    mapped.point.set("index", index.to_string());
    scale(cells, kind, &mut mapped)?;
    let is_output = matches!(kind, "binary-output" | "analog-output");
    match (writable(cells, &mut mapped), is_output) {
        (true, true) => {
            mapped.point.set("mode", "direct");
            note_unread_default(cells, &mut mapped);
            if kind == "analog-output" {
                mapped.point.set("operate", operate(cells.get("variation")));
            }
        }
        (false, true) => mapped.point.set("writable", "false"),
        (true, false) => mapped.note(format!("read only: a point of type {kind} takes no commands")),
        (false, false) => {}
    }
    Ok(mapped)
}

const fn type_of(group: u16) -> Option<&'static str> {
    Some(match group {
        1 | 2 => "binary",
        3 | 4 => "double-bit",
        10..=13 => "binary-output",
        20 | 22 => "counter",
        21 | 23 => "frozen-counter",
        30 | 32 => "analog",
        31 | 33 => "frozen-analog",
        40..=43 => "analog-output",
        110 | 111 => "octet-string",
        _ => return None,
    })
}

/// The object of a command: that of a command's own variation, or as wide as the status that the registry reads.
fn operate(variation: &str) -> &'static str {
    match variation {
        "1" => "int32",
        "2" => "int16",
        "4" => "double",
        _ => "float",
    }
}

fn scale(cells: &Cells<'_>, kind: &str, mapped: &mut Mapped) -> Result<(), Refusal> {
    let text = cells.get("scaling");
    if text.is_empty() {
        return Ok(());
    }
    let Some(scale) = text.parse::<f64>().ok().filter(|scale| scale.is_finite() && *scale != 0.0) else {
        return refuse(format!("Scaling is {text:?}, expected a number other than 0"));
    };
    let is_number = matches!(kind, "counter" | "frozen-counter" | "analog" | "frozen-analog" | "analog-output");
    if scale.to_bits() == 1.0_f64.to_bits() {
        return Ok(());
    }
    if is_number {
        mapped.point.set("scale", scale.to_string());
        mapped.note("Scaling is applied, which VOLTTRON 9 does not do");
    } else {
        mapped.note(format!("Scaling is not used for a point of type {kind}"));
    }
    Ok(())
}
