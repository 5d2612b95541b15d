//! What blocks bring, as readings of points.

use crate::config::{ModbusConfig, ModbusPoint, PointConfig};
use std::sync::Arc;
use tieline_core::{PointId, Quality, Reading, Value};
use tieline_modbus::layout::Layout;
use tieline_modbus::plan::{Block, Place, WantedPoint};
use tieline_modbus::{Response, Table, Unit};

/// A point's place and its layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub(super) place: Place,
    pub(super) layout: Layout,
}

/// The points of a device by their numbers. What they are called is the poller's.
#[derive(Debug)]
pub(super) struct Registers {
    points: Arc<[PointConfig]>,
    unit: Unit,
    first_address: u16,
    orders: (tieline_modbus::layout::Order, tieline_modbus::layout::Order),
}

impl Registers {
    pub(super) fn new(points: Arc<[PointConfig]>, modbus: &ModbusConfig) -> Self {
        let ModbusConfig { unit, first_address, words, bytes, .. } = *modbus;
        Self { points, unit, first_address, orders: (words, bytes) }
    }

    /// A point; none where the list does not have it.
    pub(super) fn get(&self, point: PointId) -> Option<Register> {
        let config = self.points.get(usize::try_from(point.0).ok()?)?;
        Some(self.register(config.address.modbus()?))
    }

    fn register(&self, point: &ModbusPoint) -> Register {
        let start = point.address.saturating_sub(self.first_address);
        let place = Place { unit: self.unit, table: point.table, start, count: point.count() };
        Register { place, layout: point.layout(self.orders) }
    }

    /// The point that has the name of another list's.
    pub(super) fn same(&self, other: &Self, point: PointId) -> Option<PointId> {
        let name = &other.points.get(usize::try_from(point.0).ok()?)?.name;
        let at = self.points.iter().position(|point| point.name == *name)?;
        u32::try_from(at).ok().map(PointId)
    }

    /// All, with the number of each one's interval.
    pub(super) fn wanted(&self, polls: &[std::time::Duration]) -> Vec<WantedPoint> {
        let number = |point: &PointConfig| polls.iter().position(|every| Some(*every) == point.every).unwrap_or(0);
        let wanted = |(point, key): (&PointConfig, u32)| {
            let rate = u32::try_from(number(point)).unwrap_or(0);
            Some(WantedPoint { key, place: self.register(point.address.modbus()?).place, rate })
        };
        self.points.iter().zip(0..).filter_map(wanted).collect()
    }

    /// What a block's answer says of its points.
    pub(super) fn readings<'a>(
        &'a self,
        block: &'a Block,
        response: &'a Response,
    ) -> impl Iterator<Item = Reading> + 'a {
        let registers = block.registers(response).filter_map(|(point, registers)| {
            let point = PointId(point.key);
            Some(reading(point, self.get(point)?.layout.decode(registers).ok()))
        });
        let bits = block.bits(response).map(|(point, bit)| reading(PointId(point.key), Some(Value::Bool(bit))));
        registers.chain(bits)
    }

    /// The request-sized block of one point alone.
    pub(super) fn alone(&self, point: PointId) -> Option<Block> {
        let place = self.get(point)?.place;
        Some(Block { place, rate: 0, points: vec![WantedPoint { key: point.0, place, rate: 0 }] })
    }
}

/// A value, or registers that hold none.
fn reading(point: PointId, value: Option<Value>) -> Reading {
    let quality = match &value {
        Some(Value::Float(number)) if !number.is_finite() => Quality::OVER_RANGE,
        Some(_) => Quality::GOOD,
        None => Quality::OVER_RANGE,
    };
    Reading { point, value: value.unwrap_or_default(), quality, time: None, event: false }
}

/// A point that the device refuses to give.
pub(super) const fn refused(point: PointId) -> Reading {
    Reading { point, value: Value::Null, quality: Quality::OFFLINE, time: None, event: false }
}

/// The word for a table in messages to people.
pub(super) const fn table_name(table: Table) -> &'static str {
    match table {
        Table::Coils => "coil",
        Table::DiscreteInputs => "discrete input",
        Table::HoldingRegisters => "holding register",
        Table::InputRegisters => "input register",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_hold_no_number_are_of_bad_quality() {
        let quality = |value| reading(PointId(0), value).quality;
        assert_eq!(quality(Some(Value::Float(f64::NAN))), Quality::OVER_RANGE);
        assert_eq!(quality(None), Quality::OVER_RANGE);
        assert_eq!(quality(Some(Value::Int(3))), Quality::GOOD);
    }
}
