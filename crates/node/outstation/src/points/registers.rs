//! The registers of a list of Modbus points.
//!
//! Each of the four tables ends with its last point; registers between points are 0. A point is written as a whole or in parts.

use super::{ListedPoint, ListedPoints, SWITCH_WORDS, SetError, Teller, WrittenPoint};
use crate::modbus::{ModbusDevice, switched, written};
use crate::treatment::Treatment;
use tieline_core::{Now, Value};
use tieline_modbus::layout::{Kind, Layout, LayoutError};
use tieline_modbus::{ExceptionCode, Identity, Request, Response, Table, Unit};

/// Where a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterPlace {
    /// In which table.
    pub table: Table,
    /// Its first address.
    pub address: u16,
    /// How its value lies there.
    pub layout: Layout,
}

impl RegisterPlace {
    /// The addresses that it takes.
    fn span(&self) -> std::ops::Range<usize> {
        let first = usize::from(self.address);
        first..first + usize::from(self.layout.registers())
    }
}

/// A Modbus device whose points stand in a list.
pub struct RegistersOfPoints {
    listed: ListedPoints<RegisterPlace>,
    identity: Identity,
    told: Teller,
}

impl RegistersOfPoints {
    /// The device of a list. `told` learns what clients write.
    #[must_use]
    pub const fn new(listed: ListedPoints<RegisterPlace>, identity: Identity, told: Teller) -> Self {
        Self { listed, identity, told }
    }

    /// Sets a point that has no curve, as an operator says.
    ///
    /// # Errors
    /// There is no such point, or it cannot be set, or the value is none.
    pub fn set(&mut self, now: Now, name: &str, text: &str) -> Result<(), SetError> {
        self.listed.handle_time(now.mono);
        self.listed.set(name, text, |_| SWITCH_WORDS).map(|_| ())
    }

    /// The addresses of a request, one 16-bit word each; a bit is 0 or 1.
    fn words(&self, table: Table, start: u16, count: u16) -> Result<Vec<u16>, ExceptionCode> {
        let asked = usize::from(start)..usize::from(start) + usize::from(count);
        let points = || self.listed.points.iter().zip(0..).filter(|(point, _)| point.place.table == table);
        let end = points().map(|(point, _)| point.place.span().end).max().unwrap_or(0);
        if asked.end > end {
            return Err(ExceptionCode::ILLEGAL_DATA_ADDRESS);
        }
        let mut words = vec![0; usize::from(count)];
        for (point, at) in points() {
            let span = point.place.span();
            if span.end <= asked.start || span.start >= asked.end {
                continue;
            }
            for (address, word) in span.zip(self.encoded(point, at)) {
                let place = address.checked_sub(asked.start).and_then(|at| words.get_mut(at));
                // Several points may be bits of one register.
                place.into_iter().for_each(|place| *place |= word);
            }
        }
        Ok(words)
    }

    /// The registers of a point. What does not fit is the nearest that does.
    fn encoded(&self, point: &ListedPoint<RegisterPlace>, at: usize) -> Vec<u16> {
        let value = point.raw(self.listed.value(at));
        let layout = point.place.layout;
        let result = layout.encode(&value).or_else(|error| match (error, value.as_f64()) {
            (LayoutError::Range { min, max }, Some(number)) => {
                #[expect(clippy::cast_precision_loss, reason = "the nearest is meant")]
                let nearest = number.clamp(min as f64, max as f64);
                layout.encode(&Value::Float(nearest))
            }
            (error, _) => Err(error),
        });
        result.unwrap_or_else(|_| vec![0; usize::from(layout.registers())])
    }

    /// Writes registers of one table that come one after the other.
    fn write(&mut self, now: Now, table: Table, start: u16, words: &[u16]) -> Result<(), ExceptionCode> {
        let asked = usize::from(start)..usize::from(start) + words.len();
        let mut covered = vec![false; words.len()];
        let mut commands = Vec::new();
        for (point, at) in self.listed.points.iter().zip(0..) {
            let span = point.place.span();
            let is_touched = point.place.table == table && span.start < asked.end && span.end > asked.start;
            if !is_touched || !point.is_writable {
                continue;
            }
            let before = self.encoded(point, at);
            let mut own = before.clone();
            for (address, word) in span.zip(&mut own) {
                let Some(place) = address.checked_sub(asked.start) else { continue };
                if let (Some(new), Some(covered)) = (words.get(place), covered.get_mut(place)) {
                    (*word, *covered) = (*new, true);
                }
            }
            let layout = point.place.layout;
            let raw = layout.decode(&own).map_err(|_| ExceptionCode::ILLEGAL_DATA_VALUE)?;
            // A register of several points: those that stay as they are were not meant.
            if matches!(layout.kind, Kind::Bits { .. }) && layout.decode(&before).as_ref() == Ok(&raw) {
                continue;
            }
            commands.push((at, point.allowed(&raw).ok_or(ExceptionCode::ILLEGAL_DATA_VALUE)?));
        }
        if !covered.iter().all(|covered| *covered) {
            return Err(ExceptionCode::ILLEGAL_DATA_ADDRESS);
        }
        for (at, value) in commands {
            self.listed.command(at, &value).map_err(|_| ExceptionCode::ILLEGAL_DATA_VALUE)?;
            if let Some(point) = self.listed.points.get(at) {
                (self.told)(now, WrittenPoint { name: point.name.clone(), value });
            }
        }
        Ok(())
    }

    fn write_all(&mut self, now: Now, table: Table, words: &[(u16, u16)]) -> Result<Response, ExceptionCode> {
        let start = words.first().map_or(0, |(address, _)| *address);
        let words: Vec<u16> = words.iter().map(|(_, word)| *word).collect();
        self.write(now, table, start, &words)?;
        Ok(Response::Written)
    }
}

impl ModbusDevice for RegistersOfPoints {
    fn treat(&mut self, now: Now) -> Treatment {
        self.listed.treat(now.mono)
    }

    fn answer(&mut self, now: Now, _unit: Unit, request: &Request) -> Result<Response, ExceptionCode> {
        self.listed.handle_time(now.mono);
        if let Some(registers) = written(request) {
            return self.write_all(now, Table::HoldingRegisters, &registers);
        }
        if let Some(coils) = switched(request) {
            let coils: Vec<_> = coils.into_iter().map(|(address, on)| (address, u16::from(on))).collect();
            return self.write_all(now, Table::Coils, &coils);
        }
        match request {
            Request::Read { table, start, count } if table.is_bits() => {
                let bits = self.words(*table, *start, *count)?.into_iter().map(|word| word != 0);
                Ok(Response::Bits(bits.collect()))
            }
            Request::Read { table, start, count } => {
                Ok(Response::Registers(self.words(*table, *start, *count)?.into()))
            }
            Request::MaskWrite { address, and, or } => {
                let before = self.words(Table::HoldingRegisters, *address, 1)?.first().copied().unwrap_or(0);
                self.write(now, Table::HoldingRegisters, *address, &[(before & and) | (or & !and)])?;
                Ok(Response::Written)
            }
            Request::ReadWrite { read_start, read_count, write_start, values } => {
                self.words(Table::HoldingRegisters, *read_start, *read_count)?;
                self.write(now, Table::HoldingRegisters, *write_start, values)?;
                Ok(Response::Registers(self.words(Table::HoldingRegisters, *read_start, *read_count)?.into()))
            }
            Request::Identification { code, object } => {
                Ok(Response::Identification(self.identity.page(*code, *object)?))
            }
            Request::WriteCoil { .. }
            | Request::WriteCoils { .. }
            | Request::WriteRegister { .. }
            | Request::WriteRegisters { .. } => Err(ExceptionCode::ILLEGAL_FUNCTION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Faults, Pace};
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;
    use tieline_core::{Instant, Timestamp};
    use tieline_model::{Curve, Kind as ModelKind, Model, PointSpec};

    const BIT: Layout = Layout::new(Kind::Bool);
    const START: Now = Now { mono: Instant(0), utc: Timestamp::from_millis(1_800_000_000_000) };

    struct Rows(Vec<ListedPoint<RegisterPlace>>, Vec<PointSpec>);

    impl Rows {
        fn add(
            &mut self,
            name: &str,
            (table, address): (Table, u16),
            format: &str,
            scale: f64,
            curve: &str,
            start: f64,
        ) {
            let layout = if table.is_bits() { BIT } else { format.parse().unwrap() };
            let kind = if layout.kind == Kind::Bool || format.starts_with("bit[") {
                ModelKind::Bool
            } else {
                ModelKind::Float
            };
            let curve = match curve {
                "" => Curve::Held,
                text => Curve::parse(text, &mut |_: &str| Err(String::new())).unwrap(),
            };
            let is_held = curve == Curve::Held;
            let is_writable = is_held && matches!(table, Table::Coils | Table::HoldingRegisters);
            self.0.push(ListedPoint {
                name: name.into(),
                place: RegisterPlace { table, address, layout },
                scale,
                offset: 0.0,
                is_writable,
                limits: (name == "limit").then_some(0.0..=100.0),
                unit: "".into(),
                states: None,
                description: "".into(),
            });
            self.1.push(PointSpec {
                start: is_held.then_some(start),
                curve,
                writable: is_held,
                ..PointSpec::new(name, kind)
            });
        }
    }

    fn device(told: Teller) -> RegistersOfPoints {
        let mut rows = Rows(Vec::new(), Vec::new());
        rows.add("limit", (Table::HoldingRegisters, 2), "u16", 0.1, "", 50.0);
        rows.add("goal", (Table::HoldingRegisters, 4), "f32", 1.0, "", 20.5);
        rows.add("on", (Table::HoldingRegisters, 6), "bit[3]", 1.0, "", 0.0);
        rows.add("local", (Table::HoldingRegisters, 6), "bit[0]", 1.0, "", 1.0);
        rows.add("ramp", (Table::InputRegisters, 0), "i16", 0.1, "ramp(0 8640 1d)", 0.0);
        rows.add("double", (Table::InputRegisters, 1), "u16", 1.0, "linear(limit 2000)", 0.0);
        rows.add("relay", (Table::Coils, 1), "", 1.0, "", 0.0);
        let pace = Pace { seed: 1, start: Some(Timestamp::from_millis(0)), speed: 60.0 };
        let listed = ListedPoints::new(rows.0, Model::new(rows.1).unwrap(), "device", pace, Faults::default(), START);
        RegistersOfPoints::new(listed, Identity::new("Tieline", "test", "1"), told)
    }

    fn later(seconds: u64) -> Now {
        Now { mono: Instant(0) + Duration::from_secs(seconds), utc: START.utc }
    }

    #[test]
    fn registers_are_what_the_curves_say_and_clients_write() {
        let all: Rc<RefCell<Vec<String>>> = Rc::default();
        let into = Rc::clone(&all);
        let mut device =
            device(Box::new(move |_, written| into.borrow_mut().push(format!("{} {:?}", written.name, written.value))));
        let mut check = |now: Now, request: Request, expect: Result<&[u16], u8>| {
            let answer = device.answer(now, Unit(1), &request).map(|answer| match answer {
                Response::Registers(registers) => registers.into_vec(),
                Response::Bits(bits) => bits.iter().map(u16::from).collect(),
                _ => Vec::new(),
            });
            let expect = expect.map(<[u16]>::to_vec).map_err(ExceptionCode);
            assert_eq!(answer, expect, "{request:?}");
        };
        let read = |table, start, count| Request::Read { table, start, count };
        let write = |address, value| Request::WriteRegister { address, value };
        let holding = Table::HoldingRegisters;
        // 20.5 is 0x41A40000; register 3 belongs to nobody.
        check(START, read(holding, 2, 5), Ok(&[500, 0, 0x41A4, 0, 0x0001]));
        check(START, read(holding, 2, 6), Err(2));
        check(START, read(Table::DiscreteInputs, 0, 1), Err(2));
        // A minute of the model passes in a second; what does not fit a register is its largest value.
        check(later(10), read(Table::InputRegisters, 0, 2), Ok(&[600, 65_535]));
        check(later(10), write(2, 1001), Err(3));
        check(later(10), write(2, 1000), Ok(&[]));
        check(later(10), write(3, 1), Err(2));
        check(later(10), Request::WriteRegisters { start: 4, values: [0x4248, 0].into() }, Ok(&[]));
        check(later(10), Request::MaskWrite { address: 6, and: 0xFFF7, or: 8 }, Ok(&[]));
        check(later(10), read(holding, 2, 5), Ok(&[1000, 0, 0x4248, 0, 0x0009]));
        // Half of a number is written, too.
        check(later(10), write(4, 0x41A4), Ok(&[]));
        let both = Request::ReadWrite { read_start: 4, read_count: 2, write_start: 2, values: [7].into() };
        check(later(10), both, Ok(&[0x41A4, 0]));
        check(later(10), Request::WriteCoil { address: 1, on: true }, Ok(&[]));
        check(later(10), read(Table::Coils, 0, 2), Ok(&[0, 1]));
        check(later(10), Request::WriteCoil { address: 0, on: true }, Err(2));
        drop(device);
        let told = all.borrow();
        assert_eq!((told.len(), &*told[0], &*told[1]), (6, "limit Float(100.0)", "goal Float(50.0)"));
    }

    proptest::proptest! {
        #[test]
        fn any_legal_request_has_an_answer(bytes in proptest::collection::vec(0_u8..=255, 1..40)) {
            if let Ok(request) = Request::parse(&bytes) {
                let mut device = device(Box::new(|_, _| {}));
                if let Ok(response) = device.answer(START, Unit(1), &request) {
                    proptest::prop_assert!(response.emit(&request, &mut Vec::new()).is_ok(), "{request:?}");
                }
            }
        }
    }

    #[test]
    fn an_operator_sets_what_has_no_curve() {
        let mut device = device(Box::new(|_, _| {}));
        let mut check = |name: &str, text: &str, expect: &str| {
            let said = device.set(START, name, text).map_or_else(|error| error.to_string(), |()| "ok".to_owned());
            assert_eq!(said, expect);
        };
        check("limit", "12.5", "ok");
        check("relay", "on", "ok");
        check("ramp", "1", "the point \"ramp\" has a curve, or is a text");
        check("lmit", "1", "there is no point \"lmit\"");
        check("limit", "warm", "the value is \"warm\", expected a number, or one of off, on, false, true");
        let answer =
            device.answer(START, Unit(1), &Request::Read { table: Table::HoldingRegisters, start: 2, count: 1 });
        assert_eq!(answer, Ok(Response::Registers([125].into())));
    }
}
