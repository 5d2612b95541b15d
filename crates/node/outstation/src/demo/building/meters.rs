//! The building's electric meters: three units behind one Modbus gateway.
//!
//! ```text
//! input registers   0 voltage L1, L2, L3 (0.1 V)   3 current L1, L2, L3 (0.01 A)   6 active power (i32, W)
//!                   8 reactive power (i32, var)    10 power factor (i16, 0.001)    11 frequency (0.01 Hz)
//!                  12 energy taken (u32, Wh)       14 energy given (u32, Wh)       16 demand (u32, W)
//!                  18 maximum demand (u32, W)
//! coils             0 reset of the maximum demand, which falls back by itself      1 charging points (main meter)
//! ```

use super::Site;
use super::electric::{Grid, Meter};
use super::fault::Fault;
use crate::modbus::{ModbusDevice, Registers, read_bits, switched};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::Now;
use tieline_modbus::{ExceptionCode, Identity, Request, Response, Table, Unit};

/// The units: a meter of each floor, and the main meter.
pub const UNITS: [u8; 3] = [1, 2, 3];
const MAIN: usize = 2;
const RESET: u16 = 0;
const CHARGING: u16 = 1;

/// Where the meters are below `demo/`, and their point lists.
pub const METERS: [(&str, (&str, &str)); 3] = [
    ("floor1/meter", ("meter.csv", include_str!("meter.csv"))),
    ("floor2/meter", ("meter.csv", include_str!("meter.csv"))),
    ("main/meter", ("main-meter.csv", include_str!("main-meter.csv"))),
];

/// All meters.
pub struct Meters {
    site: Rc<RefCell<Site>>,
}

impl Meters {
    /// Those of a site.
    #[must_use]
    pub const fn new(site: Rc<RefCell<Site>>) -> Self {
        Self { site }
    }
}

impl ModbusDevice for Meters {
    fn answer(&mut self, _now: Now, unit: Unit, request: &Request) -> Result<Response, ExceptionCode> {
        let at = UNITS.iter().position(|known| Unit(*known) == unit).ok_or(ExceptionCode::GATEWAY_PATH_UNAVAILABLE)?;
        let Site { building, fault, .. } = &mut *self.site.borrow_mut();
        if *fault == Some(Fault::MeterAway(at)) {
            return Err(ExceptionCode::GATEWAY_TARGET_FAILED);
        }
        if let Some(coils) = switched(request) {
            let is_known = |address: u16| address == RESET || (address == CHARGING && at == MAIN);
            if !coils.iter().all(|(address, _)| is_known(*address)) {
                return Err(ExceptionCode::ILLEGAL_DATA_ADDRESS);
            }
            for (address, on) in coils {
                match address {
                    CHARGING => building.charging = on,
                    _ => building.meter_mut(at).into_iter().for_each(|meter| meter.is_resetting |= on),
                }
            }
            return Ok(Response::Written);
        }
        let meter = building.meter(at).ok_or(ExceptionCode::SERVER_DEVICE_FAILURE)?;
        match request {
            Request::Read { table: Table::InputRegisters, start, count } => {
                registers(meter, &building.grid).read(*start, *count)
            }
            Request::Read { table: Table::Coils, start, count } if at == MAIN => {
                read_bits(&[meter.is_resetting, building.charging], *start, *count)
            }
            Request::Read { table: Table::Coils, start, count } => read_bits(&[meter.is_resetting], *start, *count),
            Request::Read { .. } | Request::WriteRegister { .. } | Request::WriteRegisters { .. } => {
                Err(ExceptionCode::ILLEGAL_DATA_ADDRESS)
            }
            Request::Identification { code, object } => {
                let mut identity = Identity::new("Tieline", "demo meter", env!("CARGO_PKG_VERSION"));
                identity.set(4, b"Three-phase meter");
                Ok(Response::Identification(identity.page(*code, *object)?))
            }
            Request::WriteCoil { .. }
            | Request::WriteCoils { .. }
            | Request::MaskWrite { .. }
            | Request::ReadWrite { .. } => Err(ExceptionCode::ILLEGAL_FUNCTION),
        }
    }
}

/// The input registers of a meter.
fn registers(meter: &Meter, grid: &Grid) -> Registers {
    let mut registers = Registers::from(0);
    registers.extend(grid.volts.map(|volts| word(volts * 10.0)));
    registers.extend(meter.amps.map(|amps| word(amps * 100.0)));
    registers.push_u32(signed(meter.power_w));
    registers.push_u32(signed(meter.reactive_var));
    registers.extend([short(meter.power_factor() * 1000.0), word(grid.hertz * 100.0)]);
    for number in [meter.taken_wh, meter.given_wh, meter.demand_w, meter.demand_max_w] {
        registers.push_u32(double_word(number));
    }
    registers
}

/// The nearest number that a register holds.
pub fn word(number: f64) -> u16 {
    number.round() as u16
}

/// The same of a signed one.
pub fn short(number: f64) -> u16 {
    (number.round() as i16).cast_unsigned()
}

/// The same of two registers. An energy begins again at 0.
pub fn double_word(number: f64) -> u32 {
    number.round().rem_euclid(4_294_967_296.0) as u32
}

fn signed(number: f64) -> u32 {
    (number.round() as i32).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::building::model::Building;
    use tieline_core::{Instant, Timestamp};
    use tieline_model::Seed;

    #[test]
    fn meters_are_read_reset_and_away() {
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
        let building = Building::new(Seed::of(1, "building"), 0.0);
        let site = Rc::new(RefCell::new(Site { building, fault: None }));
        let mut meters = Meters::new(Rc::clone(&site));
        let mut check = |unit: u8, request: &Request, expect: Result<&[u16], ExceptionCode>| {
            let answer = meters.answer(now, Unit(unit), request).map(|response| match response {
                Response::Registers(registers) => registers.into_vec(),
                _ => Vec::new(),
            });
            assert_eq!(answer, expect.map(<[u16]>::to_vec), "{unit} {request:?}");
        };
        let read = |start, count| Request::Read { table: Table::InputRegisters, start, count };
        check(1, &read(12, 2), Ok(&[0x0112, 0xA880])); // 18 MWh
        check(3, &read(14, 2), Ok(&[0x00A7, 0xD8C0])); // 11 MWh
        check(1, &read(19, 2), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
        check(4, &read(0, 1), Err(ExceptionCode::GATEWAY_PATH_UNAVAILABLE));
        let switch = |address, on| Request::WriteCoil { address, on };
        check(1, &switch(CHARGING, false), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
        check(3, &switch(CHARGING, false), Ok(&[]));
        check(2, &switch(RESET, true), Ok(&[]));
        assert!(!site.borrow().building.charging && site.borrow().building.floors[1].meter.is_resetting);
        site.borrow_mut().fault = Some(Fault::MeterAway(1));
        check(2, &read(0, 1), Err(ExceptionCode::GATEWAY_TARGET_FAILED));
        check(1, &read(18, 1), Ok(&[0]));
    }
}
