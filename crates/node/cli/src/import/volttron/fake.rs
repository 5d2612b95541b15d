//! Registries of the fake driver, as points of a simulated device.

use super::point::{Cells, Mapped, Refusal, common, every, set_revert, writable};

/// The columns, in their order.
pub const COLUMNS: [&str; 9] = ["name", "type", "value", "unit", "writable", "revert", "every", "tags", "description"];
/// Its columns in a registry.
pub const KNOWN: [&str; 2] = ["starting value", "type"];

/// A row as a point.
pub fn point(cells: &Cells<'_>) -> Result<Mapped, Refusal> {
    let mut mapped = common(cells)?;
    if cells.table.has("point name") && cells.get("point name").is_empty() {
        return Err(Refusal::NotNeeded("without a Point Name, so that VOLTTRON skips it, too".to_owned()));
    }
    let written = cells.get("type");
    let kind = match written.to_lowercase().as_str() {
        "bool" | "boolean" => "bool",
        "int" | "integer" => "int",
        "float" | "double" => "float",
        "string" | "str" | "text" | "" => "text",
        _ => {
            mapped.note(format!("Type is {written:?}, which is a text to VOLTTRON"));
            "text"
        }
    };
    mapped.point.set("type", kind);
    if cells.get("point name").starts_with("EKG") {
        mapped.note("a constant: the curves of points named EKG are not simulated");
    } else {
        value(cells.first(&["starting value", "default value", "default"]), kind, &mut mapped);
    }
    match (writable(cells, &mut mapped), kind) {
        (true, "text") => mapped.note("read only: texts cannot be commanded"),
        (true, _) => mapped.point.set("writable", "true"),
        (false, _) => {}
    }
    // VOLTTRON reverts a point to the value that it begins with.
    let begins = mapped.point.cell("value").to_owned();
    set_revert(&mut mapped, &begins, |text| Some(text.to_owned()));
    every(cells, &mut mapped);
    Ok(mapped)
}

fn value(text: &str, kind: &str, mapped: &mut Mapped) {
    let value = match kind {
        "bool" => match text.to_lowercase().as_str() {
            "0" | "false" | "off" | "no" | "f" => Some("false".to_owned()),
            "1" | "true" | "on" | "yes" | "t" => Some("true".to_owned()),
            _ => None,
        },
        "int" => text.parse::<i64>().ok().map(|number| number.to_string()),
        "float" => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.to_string()),
        _ => Some(text.split(char::is_control).collect::<Vec<_>>().join(" ")),
    };
    match value {
        Some(value) => mapped.point.set("value", value),
        None if text.is_empty() => {}
        None => mapped.note(format!("Starting Value is {text:?}, which is no {kind}: as if there were none")),
    }
}
