//! An air handler: it mixes outdoor and return air, filters, cools or heats it, and blows it to the rooms of a floor.

use super::room::{AIR_J, FRESH, Supply};
use super::weather::Weather;

/// Air of the fan at its full speed, in kg/s.
const AIR_MAX: f64 = 1.0;
/// Power of the coils when fully open, in W.
const COOLING_W: f64 = 12_000.0;
const HEATING_W: f64 = 12_000.0;
/// Power of the fan at its full speed, in W.
const FAN_W: f64 = 2200.0;
/// Heat that a chiller moves for its electric power.
const CHILLER: f64 = 3.2;
/// How fast the coils are, in s.
const COIL_S: f64 = 120.0;
/// The filter at full flow: as good as new, and how much worse each day.
const FILTER_PA: f64 = 90.0;
const DIRT_PA_A_DAY: f64 = 1.5;
/// What a clogged filter adds, and the pressure above which the alarm comes, both at full flow.
const CLOGGED_PA: f64 = 260.0;
const ALARM_PA: f64 = 250.0;
/// The least speed while it runs, in %.
const SPEED_MIN: f64 = 30.0;
/// Supply set points that it takes, in °C.
pub const SETPOINTS: (f64, f64) = (12.0, 26.0);

/// What it does, in the words of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The fan stands.
    Off,
    /// Air is moved as it is.
    Ventilating,
    /// The cooling coil is open.
    Cooling,
    /// The heating coil is open.
    Heating,
}

impl Mode {
    /// In the order of their numbers, which count from 1.
    pub const WORDS: [&'static str; 4] = ["off", "ventilating", "cooling", "heating"];

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Off => 1,
            Self::Ventilating => 2,
            Self::Cooling => 3,
            Self::Heating => 4,
        }
    }
}

/// An air handler.
#[derive(Clone, Debug, PartialEq)]
pub struct AirHandler {
    /// What the supply air shall have, in °C.
    pub setpoint_c: f64,
    /// Whether the schedule wants the fan.
    pub wanted_fan: bool,
    /// What somebody has the fan do instead.
    pub commanded_fan: Option<bool>,
    /// The speed that the rooms' dampers ask for, in %.
    pub wanted_speed: f64,
    /// The speed that somebody has it run at instead, in %.
    pub commanded_speed: Option<f64>,
    /// Air in kg/s.
    pub air: f64,
    /// Supply air in °C.
    pub supply_c: f64,
    /// Return air in °C.
    pub return_c: f64,
    /// Return and outdoor air as they come to the coils, in °C.
    pub mixed_c: f64,
    /// Cooling valve in %.
    pub cooling: f64,
    /// Heating valve in %.
    pub heating: f64,
    /// Pressure across the filter in Pa.
    pub filter_pa: f64,
    /// Whether the filter is to be changed.
    pub filter_alarm: bool,
    /// Whether something lies before the filter.
    pub is_clogged: bool,
    /// Electric power of the fan, in W.
    pub fan_w: f64,
    /// Electric power of the chiller for it, in W.
    pub chiller_w: f64,
    dirt_pa: f64,
}

impl AirHandler {
    /// An air handler whose filter has been in for so many days.
    #[must_use]
    pub fn new(filter_days: f64) -> Self {
        Self {
            setpoint_c: 16.0,
            wanted_fan: true,
            commanded_fan: None,
            wanted_speed: SPEED_MIN,
            commanded_speed: None,
            air: 0.0,
            supply_c: 18.0,
            return_c: 22.0,
            mixed_c: 20.0,
            cooling: 0.0,
            heating: 0.0,
            filter_pa: 0.0,
            filter_alarm: false,
            is_clogged: false,
            fan_w: 0.0,
            chiller_w: 0.0,
            dirt_pa: DIRT_PA_A_DAY * filter_days,
        }
    }

    /// Whether the fan runs.
    #[must_use]
    pub fn fan(&self) -> bool {
        self.commanded_fan.unwrap_or(self.wanted_fan)
    }

    /// The fan's speed in %.
    #[must_use]
    pub fn speed(&self) -> f64 {
        if self.fan() { self.commanded_speed.unwrap_or(self.wanted_speed).clamp(0.0, 100.0) } else { 0.0 }
    }

    /// What it does.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match () {
            () if !self.fan() => Mode::Off,
            () if self.cooling > 1.0 => Mode::Cooling,
            () if self.heating > 1.0 => Mode::Heating,
            () => Mode::Ventilating,
        }
    }

    /// Lets time pass. The rooms take in `wanted` kg/s, and have so many °C on average. Gives what the rooms get.
    pub fn step(&mut self, seconds: f64, is_open: bool, weather: &Weather, (wanted, rooms_c): (f64, f64)) -> Supply {
        self.wanted_fan = is_open;
        self.wanted_speed = (100.0 * wanted / AIR_MAX).clamp(SPEED_MIN, 100.0);
        let speed = self.speed() / 100.0;
        let possible = AIR_MAX * speed;
        self.air = if wanted > 0.0 { possible.min(wanted * speed / (self.wanted_speed / 100.0)) } else { 0.0 };
        let share = if wanted > 0.0 { self.air / wanted } else { 0.0 };
        self.return_c += (rooms_c - self.return_c) * (seconds / COIL_S).min(1.0);
        self.mixed_c = FRESH * weather.outdoor_c + (1.0 - FRESH) * self.return_c;
        self.condition(seconds);
        self.dirt_pa += DIRT_PA_A_DAY * seconds * speed / 86_400.0;
        let full_pa = FILTER_PA + self.dirt_pa + if self.is_clogged { CLOGGED_PA } else { 0.0 };
        self.filter_pa = full_pa * speed.powi(2);
        self.filter_alarm = full_pa > ALARM_PA && speed > 0.0;
        self.fan_w = if speed > 0.0 { 150.0 + FAN_W * speed.powi(3) } else { 0.0 };
        Supply { air_c: self.supply_c, share }
    }

    /// The coils bring mixed air to the set point, as far as they can.
    fn condition(&mut self, seconds: f64) {
        let flow = self.air * AIR_J;
        let setpoint = self.setpoint_c.clamp(SETPOINTS.0, SETPOINTS.1);
        // What outdoor air alone can do costs no chiller.
        let watts = flow * (self.mixed_c - setpoint);
        self.cooling = (100.0 * watts / COOLING_W).clamp(0.0, 100.0);
        self.heating = (-100.0 * watts / HEATING_W).clamp(0.0, 100.0);
        let moved = COOLING_W * self.cooling / 100.0 - HEATING_W * self.heating / 100.0;
        let settled = if flow > 0.0 { self.mixed_c - moved / flow } else { self.return_c };
        self.supply_c += (settled - self.supply_c) * (seconds / COIL_S).min(1.0);
        self.chiller_w = COOLING_W * self.cooling / 100.0 / CHILLER;
    }
}
