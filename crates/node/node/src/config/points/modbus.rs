//! The columns of a point of a Modbus device.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | `coil`, `discrete-input`, `holding-register`, `input-register` | required |
//! | `index` | the first address, from 0, or from 1 with `first_address = 1` | required |
//! | `format` | registers: `u16`, `i32`, `f32`, `bit[3]`, `string[16]`, `>f` …: [`Layout`] | `u16` |
//! | `order` | bytes as they come: `abcd`, `cdab` (the low word first), `badc`, `dcba` | as the device has it |
//! | `every` | how often it is read, as in `1s` | as often as the device |
//! | `writable` | `true`, `false` | `false` |

use super::list::{List, Row};
use super::{ControlConfig, PointAddress, Takes, ValueKind};
use tieline_core::CommandMode;
use tieline_modbus::Table;
use tieline_modbus::layout::{Kind, Layout, Order, Size};

/// The columns that not every protocol has.
pub(super) const COLUMNS: [&str; 3] = ["format", "order", "every"];

/// A point of a Modbus device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModbusPoint {
    /// Which of the four tables.
    pub table: Table,
    /// Its first address, as the list has it.
    pub address: u16,
    /// What it is.
    pub kind: Kind,
    /// The order of registers and of their bytes; none: that of the device.
    pub order: Option<(Order, Order)>,
}

impl ModbusPoint {
    /// How many registers it takes, or bits.
    #[must_use]
    pub const fn count(&self) -> u16 {
        Layout::new(self.kind).registers()
    }

    /// How it lies in its registers, at a device with these orders.
    #[must_use]
    pub fn layout(&self, device: (Order, Order)) -> Layout {
        let (words, bytes) = self.order.unwrap_or(device);
        Layout { kind: self.kind, words, bytes }
    }

    /// The word for its table.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self.table {
            Table::Coils => "coil",
            Table::DiscreteInputs => "discrete-input",
            Table::HoldingRegisters => "holding-register",
            Table::InputRegisters => "input-register",
        }
    }
}

fn table_of(name: &str) -> Option<Table> {
    Some(match name {
        "coil" => Table::Coils,
        "discrete-input" => Table::DiscreteInputs,
        "holding-register" => Table::HoldingRegisters,
        "input-register" => Table::InputRegisters,
        _ => return None,
    })
}

fn order_of(name: &str) -> Option<(Order, Order)> {
    Some(match name.to_ascii_lowercase().as_str() {
        "abcd" => (Order::Big, Order::Big),
        "cdab" => (Order::Little, Order::Big),
        "badc" => (Order::Big, Order::Little),
        "dcba" => (Order::Little, Order::Little),
        _ => return None,
    })
}

/// The table, the address and the format of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<ModbusPoint> {
    let tables = "one of coil, discrete-input, holding-register, input-register";
    let table = list.cell(row, "type", tables, None, table_of);
    let address = list.cell(row, "index", "a whole number from 0 to 65535", None, |s| s.parse::<u16>().ok());
    let formats = "bool, u16, i16, u32, i32, u64, i64, f32, f64, bit[0] to bit[15], bits[FIRST..LAST], bcd16, string[BYTES], \
                   bytes[REGISTERS], mod10k32, or a Python struct format such as >f";
    let is_bits = table.is_some_and(Table::is_bits);
    let default = Layout::new(if is_bits { Kind::Bool } else { Kind::Unsigned(Size::One) });
    let layout = list.cell(row, "format", formats, Some(default), |s| s.parse::<Layout>().ok())?;
    if is_bits && layout.kind != Kind::Bool {
        let found = format!("{:?}", row.cell("format").unwrap_or_default());
        list.report(row.line, "format", found, "bool, or nothing: coils and discrete inputs are bits".to_owned());
        return None;
    }
    // A struct format of Python says the order, too.
    let said = (layout != Layout::new(layout.kind)
        || row.cell("format").is_some_and(|text| text.starts_with(['>', '!'])))
    .then_some((layout.words, layout.bytes));
    let orders = "abcd, cdab (the low word first), badc (the low byte first in each word) or dcba";
    let order = list.cell(row, "order", orders, Some(said), |s| order_of(s).map(Some))?;
    let point = ModbusPoint { table: table?, address: address?, kind: layout.kind, order };
    if point.address.checked_add(point.count() - 1).is_none() {
        list.report(row.line, "index", format!("{} and {} registers", point.address, point.count()), END.to_owned());
        return None;
    }
    Some(point)
}

/// What a point beyond the last address should be.
const END: &str = "registers up to 65535";

/// The rest of a row; none where it is wrong.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    point: ModbusPoint,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    let kind = kind_of(point.kind);
    let control = control(list, row, &point)?;
    Some((PointAddress::Modbus(point), kind, control))
}

const fn kind_of(kind: Kind) -> ValueKind {
    match kind {
        Kind::Bool | Kind::Bits { count: 1, .. } => ValueKind::Bool,
        Kind::Bits { .. } | Kind::Unsigned(_) | Kind::Signed(_) | Kind::Bcd(_) | Kind::Mod10k(_) => ValueKind::Int,
        Kind::Float32 | Kind::Float64 => ValueKind::Float,
        Kind::Text(_) | Kind::Bytes(_) => ValueKind::Text,
    }
}

/// The outer option is none where a cell is wrong.
#[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
fn control(list: &mut List<'_>, row: &Row<'_>, point: &ModbusPoint) -> Option<Option<ControlConfig>> {
    if !list.writable(row, false)? {
        return Some(None);
    }
    let refused = match (point.table, takes(point.kind)) {
        (Table::DiscreteInputs | Table::InputRegisters, _) => "false: only coils and holding registers can be written",
        (Table::Coils | Table::HoldingRegisters, None) => "false: texts and bytes cannot be commanded",
        (Table::Coils | Table::HoldingRegisters, Some(takes)) => {
            let (min, max) = list.limits(row)?;
            let mode = CommandMode::DirectOperate;
            return Some(Some(ControlConfig { mode, has_select: false, takes, min, max, rules: Box::default() }));
        }
    };
    list.report(row.line, "writable", "true".to_owned(), refused.to_owned());
    None
}

/// What can be written; none of texts and bytes.
fn takes(kind: Kind) -> Option<Takes> {
    let whole = |low: f64, high: f64| Some(Takes::Number { raw: low..=high, whole: true });
    match kind {
        Kind::Bool | Kind::Bits { count: 1, .. } => Some(Takes::Bool),
        Kind::Bits { count, .. } => whole(0.0, f64::from((1_u32 << count) - 1)),
        Kind::Unsigned(size) => whole(0.0, power_of_two(size, 0) - 1.0),
        Kind::Signed(size) => whole(-power_of_two(size, 1), power_of_two(size, 1) - 1.0),
        Kind::Bcd(Size::One) => whole(0.0, 9_999.0),
        Kind::Bcd(Size::Two) => whole(0.0, 99_999_999.0),
        Kind::Bcd(Size::Four) => whole(0.0, 9_999_999_999_999_999.0),
        Kind::Mod10k(registers) => {
            let most = 10_000_f64.powi(i32::from(registers)) - 1.0;
            whole(-most, most)
        }
        Kind::Float32 => Some(Takes::Number { raw: f64::from(f32::MIN)..=f64::from(f32::MAX), whole: false }),
        // A quarter, so that the width of the range is a number too.
        Kind::Float64 => Some(Takes::Number { raw: f64::MIN / 4.0..=f64::MAX / 4.0, whole: false }),
        Kind::Text(_) | Kind::Bytes(_) => None,
    }
}

/// 2 to the number of bits of a size, less some. Of 64 bits it is the largest whole number that a double has one of its own
/// for: what is beyond cannot be written to the last digit.
fn power_of_two(size: Size, less: i32) -> f64 {
    let bits = match size {
        Size::One => 16,
        Size::Two => 32,
        Size::Four => return 9_007_199_254_740_992.0,
    };
    2_f64.powi(bits - less)
}
