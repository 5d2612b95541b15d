//! The building's inverters as SunSpec has them: a chain of models in holding registers from 40000 on.
//!
//! ```text
//! 40000 "SunS" │ 1 common (66) │ 103 inverter of three phases (50) │ 120 nameplate (26) │ 123 immediate controls (24) │
//!       160 strings (48) │ end
//! ```
//!
//! Written are `Conn`, `WMaxLimPct` and `WMaxLim_Ena` of model 123; its timers are not implemented. Scale factors never change.

use super::Site;
use super::electric::{Grid, Inverter, State};
use super::meters::{double_word, short, word};
use crate::modbus::{ModbusDevice, Registers, written};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::Now;
use tieline_modbus::{ExceptionCode, Identity, Request, Response, Table, Unit};

/// Where the inverters are below `demo/`, and their point list.
pub const INVERTERS: [&str; 2] = ["roof/pv1", "roof/pv2"];
/// Their point list.
pub const LIST: (&str, &str) = ("inverter.csv", include_str!("inverter.csv"));
/// Where the chain begins.
const BASE: u16 = 40_000;
/// What is not implemented: of unsigned numbers, of signed ones and scale factors.
const NONE: u16 = 0xFFFF;
const NONE_SIGNED: u16 = 0x8000;
/// Registers of model 123 that are written.
const CONN: u16 = 40_154;
const LIMIT: u16 = 40_155;
const LIMIT_ENABLED: u16 = 40_159;
/// 100 % of `WMaxLimPct`.
const FULL: u16 = 10_000;
/// Bits of `Evt1`: it was told to stop, an over-voltage of the grid has tripped it.
const MANUAL_SHUTDOWN: u32 = 1 << 6;
const AC_OVER_VOLT: u32 = 1 << 10;

/// One of them.
pub struct OneInverter {
    site: Rc<RefCell<Site>>,
    at: usize,
}

impl OneInverter {
    /// The one of that number, from 0.
    #[must_use]
    pub const fn new(site: Rc<RefCell<Site>>, at: usize) -> Self {
        Self { site, at }
    }

    fn identity(&self) -> Identity {
        Identity::new("Tieline", "demo inverter", env!("CARGO_PKG_VERSION"))
    }
}

impl ModbusDevice for OneInverter {
    fn answer(&mut self, _now: Now, _unit: Unit, request: &Request) -> Result<Response, ExceptionCode> {
        let building = &mut self.site.borrow_mut().building;
        let Some(inverter) = building.inverters.get_mut(self.at) else {
            return Err(ExceptionCode::SERVER_DEVICE_FAILURE);
        };
        if let Some(registers) = written(request) {
            registers.iter().try_for_each(|register| check(*register))?;
            registers.into_iter().for_each(|register| write(inverter, register));
            return Ok(Response::Written);
        }
        match request {
            Request::Read { table: Table::HoldingRegisters, start, count } => {
                chain(inverter, &building.grid, self.at).read(*start, *count)
            }
            Request::Read { .. } => Err(ExceptionCode::ILLEGAL_DATA_ADDRESS),
            Request::Identification { code, object } => {
                Ok(Response::Identification(self.identity().page(*code, *object)?))
            }
            Request::WriteCoil { .. }
            | Request::WriteCoils { .. }
            | Request::WriteRegister { .. }
            | Request::WriteRegisters { .. }
            | Request::MaskWrite { .. }
            | Request::ReadWrite { .. } => Err(ExceptionCode::ILLEGAL_FUNCTION),
        }
    }
}

/// Whether a register takes a value.
const fn check((address, value): (u16, u16)) -> Result<(), ExceptionCode> {
    match address {
        CONN | LIMIT_ENABLED if value > 1 => Err(ExceptionCode::ILLEGAL_DATA_VALUE),
        LIMIT if value > FULL => Err(ExceptionCode::ILLEGAL_DATA_VALUE),
        CONN | LIMIT_ENABLED | LIMIT => Ok(()),
        _ => Err(ExceptionCode::ILLEGAL_DATA_ADDRESS),
    }
}

fn write(inverter: &mut Inverter, (address, value): (u16, u16)) {
    match address {
        CONN => inverter.is_connected = value == 1,
        LIMIT => inverter.limit_percent = f64::from(value) / 100.0,
        LIMIT_ENABLED => inverter.is_limited = value == 1,
        _ => {}
    }
}

/// A scale factor: the power of ten of a register's unit.
const fn scale(power: i16) -> u16 {
    power.cast_unsigned()
}

/// All registers of an inverter.
fn chain(inverter: &Inverter, grid: &Grid, at: usize) -> Registers {
    let mut chain = Registers::from(BASE);
    chain.push_text("SunS", 2);
    chain.extend([1, 66]);
    common(&mut chain, inverter, at);
    chain.extend([103, 50]);
    three_phases(&mut chain, inverter, grid);
    chain.extend([120, 26]);
    nameplate(&mut chain, inverter);
    chain.extend([123, 24]);
    controls(&mut chain, inverter);
    chain.extend([160, 48]);
    strings(&mut chain, inverter);
    chain.extend([0xFFFF, 0]);
    chain
}

fn common(chain: &mut Registers, inverter: &Inverter, at: usize) {
    chain.push_text("Tieline", 16);
    chain.push_text(&format!("Demo PV {} kW", word(inverter.rated_w / 1000.0)), 16);
    chain.push_text("", 8);
    chain.push_text(env!("CARGO_PKG_VERSION"), 8);
    chain.push_text(&format!("PV{:04}", at + 1), 16);
    // The address of the device, a pad.
    chain.extend([1, NONE_SIGNED]);
}

fn three_phases(chain: &mut Registers, inverter: &Inverter, grid: &Grid) {
    let power = inverter.power_w;
    let phases = grid.volts.map(|volts| power / 3.0 / volts);
    let [l1, l2, l3] = grid.volts;
    let between = |a: f64, b: f64| word((a.powi(2) + b.powi(2) + a * b).sqrt() * 10.0);
    chain.extend([word(100.0 * phases.iter().sum::<f64>())]);
    chain.extend(phases.map(|amps| word(100.0 * amps)));
    chain.extend([scale(-2), between(l1, l2), between(l2, l3), between(l3, l1)]);
    chain.extend(grid.volts.map(|volts| word(10.0 * volts)));
    chain.extend([scale(-1), short(power), scale(0), word(100.0 * grid.hertz), scale(-2)]);
    // Apparent and reactive power, power factor.
    chain.extend([short(power), scale(0), 0, scale(0), 1000, scale(-1)]);
    chain.push_u32(double_word(inverter.energy_wh));
    chain.extend([scale(0)]);
    let dc_volts = dc_volts(inverter);
    chain.extend([word(100.0 * inverter.dc_w / dc_volts), scale(-2), word(10.0 * dc_volts), scale(-1)]);
    chain.extend([short(inverter.dc_w), scale(0), short(10.0 * inverter.cabinet_c)]);
    // Heat sink, transformer, other.
    chain.extend([short(10.0 * (inverter.cabinet_c + 6.0)), NONE_SIGNED, NONE_SIGNED, scale(-1)]);
    chain.extend([inverter.state.number(), NONE]);
    chain.push_u32(match inverter.state {
        State::Fault => AC_OVER_VOLT,
        State::Off => MANUAL_SHUTDOWN,
        State::Sleeping | State::Starting | State::Tracking | State::Throttled => 0,
    });
    // Events of the vendor: there are none.
    (0..5).for_each(|_| chain.push_u32(0));
}

/// The strings' voltage is higher while they are not used.
fn dc_volts(inverter: &Inverter) -> f64 {
    if inverter.power_w > 0.0 { 620.0 - 40.0 * inverter.power_w / inverter.rated_w } else { 710.0 }
}

fn nameplate(chain: &mut Registers, inverter: &Inverter) {
    let (rated, reactive) = (word(inverter.rated_w), short(0.6 * inverter.rated_w));
    // A photovoltaic device; active, apparent and reactive power of each quadrant.
    chain.extend([4, rated, scale(0), rated, scale(0)]);
    chain.extend([reactive, NONE_SIGNED, NONE_SIGNED, short(-0.6 * inverter.rated_w), scale(0)]);
    chain.extend([word(inverter.rated_w / 3.0 / 230.0 * 10.0), scale(-1)]);
    chain.extend([short(-80.0), NONE_SIGNED, NONE_SIGNED, short(80.0), scale(-2)]);
    // No storage: energy, charge, rates.
    (0..4).for_each(|_| chain.extend([NONE, NONE_SIGNED]));
    chain.extend([NONE_SIGNED]);
}

fn controls(chain: &mut Registers, inverter: &Inverter) {
    chain.extend([NONE, NONE, u16::from(inverter.is_connected)]);
    chain.extend([word(100.0 * inverter.limit_percent), NONE, NONE, NONE, u16::from(inverter.is_limited)]);
    // A power factor of one, which is not in effect.
    chain.extend([1000, NONE, NONE, NONE, 0]);
    chain.extend([NONE_SIGNED, NONE_SIGNED, NONE_SIGNED, NONE, NONE, NONE, NONE, 0]);
    chain.extend([scale(-2), scale(-3), NONE_SIGNED]);
}

fn strings(chain: &mut Registers, inverter: &Inverter) {
    chain.extend([scale(-2), scale(-1), scale(0), scale(0)]);
    chain.push_u32(0);
    chain.extend([2, NONE]);
    for (number, share) in [(1_u16, 0.52), (2, 0.48)] {
        let (watts, volts) = (inverter.dc_w * share, dc_volts(inverter));
        chain.extend([number]);
        chain.push_text(&format!("String {number}"), 8);
        chain.extend([word(100.0 * watts / volts), word(10.0 * volts), word(watts)]);
        chain.push_u32(double_word(inverter.energy_wh * share));
        // Time stamp and temperature: none.
        chain.push_u32(u32::MAX);
        chain.extend([NONE_SIGNED, inverter.state.number()]);
        chain.push_u32(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_model::Seed;

    #[test]
    fn the_chain_of_models_ends_where_its_lengths_say() {
        let chain = chain(&Inverter::new(30e3, 41e6), &Grid::at(Seed::of(1, "grid"), 0), 0);
        let registers = |start: u16, count: u16| match chain.read(start, count) {
            Ok(Response::Registers(found)) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(*registers(BASE, 2), [0x5375, 0x6E53]);
        let (mut at, mut models) = (BASE + 2, Vec::new());
        while registers(at, 1)[0] != 0xFFFF {
            let head = registers(at, 2);
            models.push(head[0]);
            at += 2 + head[1];
        }
        assert_eq!(models, [1, 103, 120, 123, 160]);
        assert_eq!(*registers(at, 2), [0xFFFF, 0]);
        assert_eq!(*registers(LIMIT, 1), [FULL]);
        assert_eq!((registers(CONN, 1)[0], registers(LIMIT_ENABLED, 1)[0]), (1, 1));
        assert_eq!(chain.read(at, 3), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    }

    #[test]
    fn only_controls_are_written_and_only_what_they_may_be() {
        let check = |register, expect: Result<(), ExceptionCode>| assert_eq!(check(register), expect);
        check((LIMIT, 10_000), Ok(()));
        check((LIMIT, 10_001), Err(ExceptionCode::ILLEGAL_DATA_VALUE));
        check((CONN, 2), Err(ExceptionCode::ILLEGAL_DATA_VALUE));
        check((40_084, 1), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
        let mut inverter = Inverter::new(30e3, 0.0);
        write(&mut inverter, (LIMIT, 2500));
        assert_eq!(inverter.limit_percent, 25.0);
    }
}
