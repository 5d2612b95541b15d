//! Registries of the drivers of Modbus, and what both have in common: formats and orders.
//!
//! | VOLTTRON | point list |
//! |---|---|
//! | `Modbus Register` | `format` and `order`; `BOOL` is a coil or a discrete input |
//! | `Writable` | `writable`; and `holding-register` or `coil`, otherwise `input-register` or `discrete-input` |
//! | `Point Address` | `index` |
//! | `Mixed Endian` | `order` |
//! | `Default Value` | `revert` |

use super::point::{Cells, Mapped, Refusal, common, every, is_true, refuse, set_revert, writable};
use tieline_modbus::layout::{Kind, Layout, Order, Size};

/// The columns, in their order.
pub const COLUMNS: [&str; 12] =
    ["name", "type", "index", "format", "order", "unit", "scale", "writable", "revert", "every", "tags", "description"];
/// Its columns in a registry.
pub const KNOWN: [&str; 3] = ["modbus register", "point address", "mixed endian"];
/// Which comes first, of words and of bytes, at a device.
pub type Orders = (Order, Order);
/// The order of the standard.
pub const BIG: Orders = (Order::Big, Order::Big);
/// What addresses are.
pub const ADDRESSES: &str = "a whole number from 0 to 65535";

/// A row of the driver `modbus` as a point.
pub fn point(cells: &Cells<'_>) -> Result<Mapped, Refusal> {
    let mut mapped = common(cells)?;
    let register = cells.get("modbus register");
    let address: u16 = cells.number("point address", "Point Address", ADDRESSES)?;
    let is_writable = writable(cells, &mut mapped);
    if register.eq_ignore_ascii_case("bool") {
        mapped.point.set("type", if is_writable { "coil" } else { "discrete-input" });
        mapped.point.set("index", address.to_string());
    } else {
        let mut layout = struct_format(register, "Modbus Register")?;
        if is_true(cells.get("mixed endian")) {
            layout = mixed(layout)?;
        }
        mapped.point.set("type", if is_writable { "holding-register" } else { "input-register" });
        set_registers(&mut mapped, address.into(), layout, BIG)?;
    }
    set_writable(&mut mapped, is_writable);
    set_default(&mut mapped, cells.get("default value"), |text| Some(bit(text)));
    every(cells, &mut mapped);
    Ok(mapped)
}

/// A struct format of Python that is one value in whole registers.
pub fn struct_format(text: &str, column: &str) -> Result<Layout, Refusal> {
    let expected = "expected BOOL or a struct format of Python of one value in whole registers, as in >f or <H";
    let code = text.trim_start_matches(['>', '<', '!', '=', '@']).chars().last();
    let one = code.is_some_and(|code| "hHiIlLqQfds".contains(code));
    let layout = text.parse::<Layout>().ok().filter(|layout| one && !matches!(layout.kind, Kind::Bytes(_)));
    match layout {
        Some(layout) => Ok(layout),
        None if text.is_empty() => refuse(format!("{column} is empty, {expected}")),
        None => refuse(format!("{column} is {text:?}, {expected}")),
    }
}

/// The registers in the opposite order.
pub fn mixed(layout: Layout) -> Result<Layout, Refusal> {
    match layout.kind {
        Kind::Text(_) | Kind::Bytes(_) => refuse("Mixed Endian of a text, expected a number"),
        _ => Ok(Layout { words: opposite(layout.words), ..layout }),
    }
}

pub const fn opposite(order: Order) -> Order {
    match order {
        Order::Big => Order::Little,
        Order::Little => Order::Big,
    }
}

/// Sets `index`, `format` and `order` of a point in registers. The order is left out where it is that of the device.
pub fn set_registers(mapped: &mut Mapped, address: i64, layout: Layout, device: Orders) -> Result<(), Refusal> {
    let last = address + i64::from(layout.registers()) - 1;
    if !(0..=65_535).contains(&address) || last > 65_535 {
        return refuse(format!("its registers are {address} to {last}, expected registers from 0 to 65535"));
    }
    mapped.point.set("index", address.to_string());
    mapped.point.set("format", format_name(layout.kind));
    mapped.point.set("order", order_name(layout, device));
    Ok(())
}

pub fn set_writable(mapped: &mut Mapped, is_writable: bool) {
    match mapped.point.cell("format") {
        text if is_writable && text.starts_with("string") => mapped.note("read only: texts cannot be commanded"),
        _ if is_writable => mapped.point.set("writable", "true"),
        _ => {}
    }
}

/// A bit as the driver `modbus` reads it: a number other than 0, or a word like true.
fn bit(text: &str) -> bool {
    let word = text.to_lowercase();
    text.parse::<i64>().map_or_else(|_| word.starts_with('t') || word == "on", |number| number != 0)
}

/// Sets `revert` to a default value: a bit as the driver reads bits, otherwise a number of the format.
pub fn set_default(mapped: &mut Mapped, text: &str, bit: impl FnOnce(&str) -> Option<bool>) {
    let point = &mapped.point;
    let (format, is_scaled) = (point.cell("format"), !point.cell("scale").is_empty());
    let (is_bit, is_float) = (point.cell("type") == "coil" || format == "bool", format.starts_with('f') || is_scaled);
    set_revert(mapped, text, |text| match () {
        () if is_bit => bit(text).map(|on| on.to_string()),
        () if is_float => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.to_string()),
        () => text.parse::<i64>().ok().map(|number| number.to_string()),
    });
}

/// The name of a format in point lists; that of one unsigned register is the default.
fn format_name(kind: Kind) -> String {
    let bits = |size: Size| size.registers() * 16;
    match kind {
        Kind::Bool => "bool".to_owned(),
        Kind::Bits { first, count } => format!("bits[{first}..{}]", first + count - 1),
        Kind::Unsigned(size) => format!("u{}", bits(size)),
        Kind::Signed(size) => format!("i{}", bits(size)),
        Kind::Float32 => "f32".to_owned(),
        Kind::Float64 => "f64".to_owned(),
        Kind::Bcd(size) => format!("bcd{}", bits(size)),
        Kind::Mod10k(registers) => format!("mod10k{}", u16::from(registers) * 16),
        Kind::Text(bytes) => format!("string[{bytes}]"),
        Kind::Bytes(registers) => format!("bytes[{registers}]"),
    }
}

fn order_name(layout: Layout, device: Orders) -> &'static str {
    let whole = matches!(layout.kind, Kind::Text(_) | Kind::Bytes(_));
    let has_words = layout.registers() > 1 && !whole;
    let has_bytes = !matches!(layout.kind, Kind::Bool);
    let (words, bytes) = (layout.words, layout.bytes);
    if (words == device.0 || !has_words) && (bytes == device.1 || !has_bytes) {
        return "";
    }
    match (if has_words { words } else { Order::Big }, bytes) {
        (Order::Big, Order::Big) => "abcd",
        (Order::Little, Order::Big) => "cdab",
        (Order::Big, Order::Little) => "badc",
        (Order::Little, Order::Little) => "dcba",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let check = |text: &str, is_mixed: bool, expect: Result<(&str, &str), ()>| {
            let found = struct_format(text, "Modbus Register").and_then(|layout| match is_mixed {
                true => mixed(layout),
                false => Ok(layout),
            });
            let mut mapped = Mapped::default();
            let found = found.and_then(|layout| set_registers(&mut mapped, 1, layout, BIG));
            let point = mapped.point;
            let found = found.map(|()| (point.cell("format"), point.cell("order"))).map_err(drop);
            assert_eq!(found, expect, "{text} {is_mixed}");
        };
        check(">f", false, Ok(("f32", "")));
        check(">f", true, Ok(("f32", "cdab")));
        check("<f", false, Ok(("f32", "dcba")));
        check("<f", true, Ok(("f32", "badc")));
        check(">H", true, Ok(("u16", "")));
        check("<h", false, Ok(("i16", "badc")));
        check("l", false, Ok(("i64", "dcba")));
        check("!Q", false, Ok(("u64", "")));
        check(">8s", false, Ok(("string[8]", "")));
        check(">8s", true, Err(()));
        for wrong in ["", ">2H", ">b", "?", ">e", "f32", "uint16", ">", "°"] {
            check(wrong, false, Err(()));
        }
    }
}
