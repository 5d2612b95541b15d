//! Registries and register maps of the driver `modbus_tk`. A registry names registers; a map, or the registry itself, says
//! what they are.
//!
//! | VOLTTRON | point list |
//! |---|---|
//! | `Address`, by the device's `addressing` | `index`, as on the wire |
//! | `Type`, `Mixed Endian`, by the device's `endian` | `format`, `order` |
//! | `Table`, or `Type` and `Writable` | `type` |
//! | `Default Value` | `revert` |
//! | `Transform` | `scale`, or a `format` of decimal registers |

use super::modbus::{ADDRESSES, Orders, mixed, opposite, set_default, set_registers, set_writable, struct_format};
use super::point::{Cells, Mapped, Refusal, common, every, one_line, refuse, unit};
use tieline_modbus::layout::{Kind, Layout, Order, Size};

/// Its columns in a registry or in a map.
pub const KNOWN: [&str; 11] = [
    "register name",
    "address",
    "type",
    "transform",
    "table",
    "mixed endian",
    "mixed",
    "precision",
    "op mode",
    "modbus register",
    "point address",
];

/// What `addressing` says of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// As on the wire.
    Offset,
    /// From 1.
    OffsetPlus,
    /// As in manuals, from 40001 for holding registers.
    Address,
}

/// What a device says of its registers.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub addressing: Addressing,
    pub orders: Orders,
}

/// A row of a registry, with the row of the map of the same register. What the registry has goes before the map.
pub fn point(row: &Cells<'_>, map: Option<&Cells<'_>>, style: Style) -> Result<Mapped, Refusal> {
    let mut mapped = common(row)?;
    let old_style = row.table.has("point address");
    let both = Both { row, map };
    if !old_style && row.get("register name").is_empty() {
        return refuse("Register Name is empty, expected the name of a register");
    }
    if let Some(map) = map {
        fill_in(&mut mapped, map);
    }
    let is_writable = truth(both.get("writable"), "Writable")?;
    let kind = both.get(if old_style { "modbus register" } else { "type" });
    let (layout, is_bool) = layout(kind, style.orders)?;
    let table = Table::of(both.get("table"), is_bool, is_writable)?;
    let address = wire_address(both.get(if old_style { "point address" } else { "address" }), table, style.addressing)?;
    mapped.point.set("type", table.name());
    if table.is_bits() {
        if !is_bool {
            return refuse(format!("Type is {kind:?} in a table of bits, expected bool"));
        }
        mapped.point.set("index", address.to_string());
    } else {
        let is_mixed = truth(both.get("mixed"), "Mixed")? || truth(both.get("mixed endian"), "Mixed Endian")?;
        let layout = if is_mixed && !is_bool { mixed(layout)? } else { layout };
        registers(&mut mapped, address, layout, both.get("transform"), style.orders)?;
    }
    if is_writable && table.is_read_only() {
        mapped.note(format!("read only: it is in the table {}", table.name()));
    }
    set_writable(&mut mapped, is_writable && !table.is_read_only());
    set_default(&mut mapped, both.get("default value"), |text| truth(text, "Default Value").ok());
    if matches!(mapped.point.cell("revert"), "0" | "false") {
        mapped.note("VOLTTRON overlooks a default value of 0 and restores the value of before");
    }
    every(row, &mut mapped);
    Ok(mapped)
}

/// A cell of the registry, or of the map.
struct Both<'a> {
    row: &'a Cells<'a>,
    map: Option<&'a Cells<'a>>,
}

impl Both<'_> {
    fn get(&self, column: &str) -> &str {
        // A column of the registry replaces that of the map, also where it is empty; people mean the map's then.
        match self.row.get(column) {
            "" => self.map.map(|map| map.get(column)).unwrap_or_default(),
            own => own,
        }
    }
}

/// Words for people from the map, where the registry has none.
fn fill_in(mapped: &mut Mapped, map: &Cells<'_>) {
    if mapped.point.cell("unit").is_empty() {
        mapped.point.set("unit", unit(map.get("units")));
    }
    if mapped.point.cell("description").is_empty() {
        mapped.point.set("description", one_line(map.first(&["description", "notes"])));
    }
}

fn truth(text: &str, column: &str) -> Result<bool, Refusal> {
    match text.to_lowercase().as_str() {
        "t" | "y" | "true" | "yes" | "1" => Ok(true),
        "f" | "n" | "false" | "no" | "0" | "" => Ok(false),
        _ => refuse(format!("{column} is {text:?}, expected TRUE or FALSE")),
    }
}

/// The layout of a type, and whether it is `bool`.
fn layout(text: &str, (words, bytes): Orders) -> Result<(Layout, bool), Refusal> {
    let named = |kind| Ok((Layout { kind, words, bytes }, false));
    match text.to_lowercase().as_str() {
        "bool" => Ok((Layout { kind: Kind::Bool, words, bytes }, true)),
        "int16" => named(Kind::Signed(Size::One)),
        "uint16" => named(Kind::Unsigned(Size::One)),
        "int32" => named(Kind::Signed(Size::Two)),
        "uint32" => named(Kind::Unsigned(Size::Two)),
        "int64" => named(Kind::Signed(Size::Four)),
        "uint64" => named(Kind::Unsigned(Size::Four)),
        "float" => named(Kind::Float32),
        "" => refuse("Type is empty, expected a type, as in uint16"),
        array if array.starts_with("array") => {
            refuse("Type is an array, expected one value: write a row for each register")
        }
        string if string.starts_with("string[") => {
            let length = string.strip_prefix("string[").and_then(|rest| rest.strip_suffix(']'));
            let length = length.and_then(|length| length.parse::<u16>().ok()).filter(|length| *length <= 250);
            match length {
                // Whole registers.
                Some(length @ 1..) => {
                    let kind = Kind::Text(length + length % 2);
                    Ok((Layout { kind, words: Order::Big, bytes: Order::Big }, false))
                }
                _ => refuse(format!("Type is {text:?}, expected string[1] to string[250]")),
            }
        }
        _ if text.starts_with(['>', '<']) => struct_format(text, "Type").map(|layout| (layout, false)),
        _ => refuse(format!("Type is {text:?}, expected a type, as in uint16, float, string[8] or >f")),
    }
}

/// One of the four tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Coils,
    DiscreteInputs,
    InputRegisters,
    HoldingRegisters,
}

impl Table {
    fn of(text: &str, is_bool: bool, is_writable: bool) -> Result<Self, Refusal> {
        Ok(match (text.to_lowercase().as_str(), is_bool, is_writable) {
            ("discrete_output_coils", ..) | ("", true, true) => Self::Coils,
            ("discrete_input_contacts", ..) | ("", true, false) => Self::DiscreteInputs,
            ("analog_input_registers", ..) | ("", false, false) => Self::InputRegisters,
            ("analog_output_holding_registers", ..) | ("", false, true) => Self::HoldingRegisters,
            _ => {
                let tables = "discrete_output_coils, discrete_input_contacts, analog_input_registers or \
                              analog_output_holding_registers";
                return refuse(format!("Table is {text:?}, expected {tables}"));
            }
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Coils => "coil",
            Self::DiscreteInputs => "discrete-input",
            Self::InputRegisters => "input-register",
            Self::HoldingRegisters => "holding-register",
        }
    }

    const fn is_bits(self) -> bool {
        matches!(self, Self::Coils | Self::DiscreteInputs)
    }

    const fn is_read_only(self) -> bool {
        matches!(self, Self::DiscreteInputs | Self::InputRegisters)
    }

    /// The number of its first address in manuals.
    const fn first(self) -> i64 {
        match self {
            Self::Coils => 1,
            Self::DiscreteInputs => 10_001,
            Self::InputRegisters => 30_001,
            Self::HoldingRegisters => 40_001,
        }
    }
}

/// The address on the wire.
fn wire_address(text: &str, table: Table, addressing: Addressing) -> Result<i64, Refusal> {
    let lower = text.to_lowercase();
    let number = match lower.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => lower.parse().ok(),
    };
    let Some(number) = number.filter(|number| (0..=999_999).contains(number)) else {
        return refuse(format!("Address is {text:?}, expected {ADDRESSES}, or a hexadecimal one, as in 0x200"));
    };
    let (first, last) = match addressing {
        Addressing::Offset => (0, 65_535),
        Addressing::OffsetPlus => (1, 10_001),
        Addressing::Address => (table.first(), table.first() + 10_000),
    };
    if !(first..=last).contains(&number) {
        let why = format!(
            "Address is {number}, expected {first} to {last} for the table {} by this addressing",
            table.name()
        );
        return refuse(why);
    }
    Ok(number - first)
}

/// Sets the place, the format and the scale of a point in registers.
fn registers(
    mapped: &mut Mapped,
    address: i64,
    layout: Layout,
    transform: &str,
    device: Orders,
) -> Result<(), Refusal> {
    let Some((name, argument)) = transform.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        if !transform.is_empty() {
            return refuse(format!("Transform is {transform:?}, expected one like scale(0.1)"));
        }
        return set_registers(mapped, address, layout, device);
    };
    match name {
        "scale" | "scale_int" => {
            let scale = argument.parse::<f64>().ok().filter(|scale| scale.is_finite() && *scale != 0.0);
            let Some(scale) = scale else {
                return refuse(format!("Transform is {transform:?}, expected a factor other than 0"));
            };
            if matches!(layout.kind, Kind::Text(_) | Kind::Bool) {
                return refuse(format!("Transform is {transform:?}, which needs a number"));
            }
            set_registers(mapped, address, layout, device)?;
            if scale.to_bits() != 1.0_f64.to_bits() {
                mapped.point.set("scale", scale.to_string());
                if name == "scale_int" {
                    mapped.note("not cut to a whole number after scaling");
                }
            }
            Ok(())
        }
        "mod10k" | "mod10k48" | "mod10k64" => {
            let is_reversed = truth(argument, "the argument of Transform")?;
            let (skipped, layout) = decimal(name, layout, is_reversed)?;
            set_registers(mapped, address + skipped, layout, device)
        }
        "scale_reg" | "scale_reg_pow_10" => refuse(format!(
            "Transform is {transform:?}: the scale is in another register, which Tieline does not apply"
        )),
        "scale_decimal_int_signed" => {
            refuse(format!("Transform is {transform:?}: sign and magnitude is a format that Tieline does not have"))
        }
        _ => refuse(format!("Transform is {transform:?}, which VOLTTRON does not know, either")),
    }
}

/// Decimal registers: how many registers of the integer come before them, and their layout. The driver takes an integer of
/// all registers apart. `mod10k` begins with the most significant register, `mod10k64` and `mod10k48` with the least; of
/// four registers `mod10k48` takes three.
fn decimal(name: &str, layout: Layout, is_reversed: bool) -> Result<(i64, Layout), Refusal> {
    let (registers, size, from_least) = match name {
        "mod10k" => (2, Size::Two, false),
        "mod10k48" => (3, Size::Four, true),
        _ => (4, Size::Four, true),
    };
    if layout.kind != Kind::Unsigned(size) && layout.kind != Kind::Signed(size) {
        return refuse(format!("Transform is {name} of a Type that is no integer of {} bits", size.registers() * 16));
    }
    let is_little = layout.words == Order::Little;
    let words = if from_least != is_reversed { opposite(layout.words) } else { layout.words };
    match name {
        "mod10k48" => {
            // The three registers at the end of the integer's significance that is not used begin or end the four.
            let skipped = i64::from(is_reversed != is_little);
            let words = opposite(layout.words);
            Ok((skipped, Layout { kind: Kind::Mod10k(registers), words, ..layout }))
        }
        _ => Ok((0, Layout { kind: Kind::Mod10k(registers), words, ..layout })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The registers of a value in the order in which a device sends them, as modbus_tk reads them.
    fn integer(registers: &[u16], words: Order) -> u64 {
        let join = |value: u64, register: &u16| value << 16 | u64::from(*register);
        match words {
            Order::Big => registers.iter().fold(0, join),
            Order::Little => registers.iter().rev().fold(0, join),
        }
    }

    /// What modbus_tk makes of it.
    fn transformed(name: &str, value: u64, is_reversed: bool) -> u64 {
        let part = |at: u32| value >> (16 * at) & 0xffff;
        let sum = |parts: &[u64]| parts.iter().fold(0, |sum, part| sum * 10_000 + part);
        match (name, is_reversed) {
            ("mod10k", false) => sum(&[part(1), part(0)]),
            ("mod10k", true) => sum(&[part(0), part(1)]),
            ("mod10k64", false) => sum(&[part(0), part(1), part(2), part(3)]),
            ("mod10k64", true) => sum(&[part(3), part(2), part(1), part(0)]),
            ("mod10k48", false) => sum(&[part(1), part(2), part(3)]),
            _ => sum(&[part(0), part(1), part(2)]),
        }
    }

    proptest! {
        #[test]
        fn decimal_registers_are_what_modbus_tk_makes_of_them(
            all in proptest::array::uniform4(0..10_000_u16), is_reversed: bool, is_little: bool, name in 0..3_usize,
        ) {
            let name = ["mod10k", "mod10k48", "mod10k64"][name];
            let size = if name == "mod10k" { Size::Two } else { Size::Four };
            let registers = &all[..size.registers().into()];
            let words = if is_little { Order::Little } else { Order::Big };
            let device = Layout { kind: Kind::Unsigned(size), words, bytes: Order::Big };
            let (skipped, layout) = decimal(name, device, is_reversed).unwrap();
            let Kind::Mod10k(count) = layout.kind else { panic!() };
            let from = usize::try_from(skipped).unwrap();
            let taken = &registers[from..from + usize::from(count)];
            let sum = |sum: u64, register: &u16| sum * 10_000 + u64::from(*register);
            let found = match layout.words {
                Order::Big => taken.iter().fold(0, sum),
                Order::Little => taken.iter().rev().fold(0, sum),
            };
            prop_assert_eq!(found, transformed(name, integer(registers, words), is_reversed));
        }
    }

    #[test]
    fn addresses() {
        let check = |text: &str, table, addressing, expect: Result<i64, &str>| {
            let expect = expect.map_err(|why| Refusal::LeftOut(why.to_owned()));
            assert_eq!(wire_address(text, table, addressing), expect, "{text}");
        };
        check("0x200", Table::HoldingRegisters, Addressing::Offset, Ok(512));
        check("40001", Table::HoldingRegisters, Addressing::Address, Ok(0));
        check("30100", Table::InputRegisters, Addressing::Address, Ok(99));
        check("1", Table::Coils, Addressing::OffsetPlus, Ok(0));
        check(
            "0",
            Table::Coils,
            Addressing::OffsetPlus,
            Err("Address is 0, expected 1 to 10001 for the table coil by this addressing"),
        );
        check(
            "-1",
            Table::Coils,
            Addressing::Offset,
            Err("Address is \"-1\", expected a whole number from 0 to 65535, or a hexadecimal one, as in 0x200"),
        );
    }
}
