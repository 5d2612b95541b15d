//! A room: its air, its people, and the controller that keeps it near its set point.
//!
//! A damper lets in cooled air, at least a fifth of it for fresh air; a valve heats. The controller acts on what its sensor
//! says: where that stands still, the room drifts away.

use super::weather::Weather;
use tieline_model::Seed;

/// Heat that air takes with it, in J/(kg·K).
pub const AIR_J: f64 = 1005.0;
/// Air that a fully open damper lets in, in kg/s.
pub const AIR_MAX: f64 = 0.3;
/// The damper's least opening while the fan runs, in %.
pub const DAMPER_MIN: f64 = 20.0;
/// Heat of the room's air, furniture and walls, in J/K.
const CAPACITY: f64 = 600e3;
/// Loss through the front, in W/K.
const LOSS: f64 = 25.0;
/// Windows times their transmittance, in m².
const WINDOW: f64 = 1.6;
/// Heat of a person, and of the devices of one, in W.
const PERSON_W: f64 = 90.0;
const DEVICES_W: f64 = 110.0;
const LIGHTS_W: f64 = 180.0;
const STANDBY_W: f64 = 25.0;
/// Heat of the fully open valve, in W.
const HEATING_W: f64 = 2000.0;
const VOLUME_M3: f64 = 90.0;
/// What a person breathes out, in m³/s of carbon dioxide.
const BREATH: f64 = 5e-6;
const OUTDOOR_PPM: f64 = 420.0;
/// Share of outdoor air in supply air.
pub const FRESH: f64 = 0.35;
/// The controller: %/K, and %/(K·s).
const GAIN: f64 = 40.0;
const INTEGRAL: f64 = 0.05;
/// How far an empty house may be from its set points, in K.
const SETBACK: f64 = 3.0;
/// Set points that a controller takes, in °C.
pub const SETPOINTS: (f64, f64) = (10.0, 35.0);

/// What a room's sensor does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sensor {
    /// It measures.
    #[default]
    Works,
    /// Its value stands still, and nobody says so.
    Stuck,
    /// It knows that it cannot measure.
    Broken,
}

/// A room.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// Which front its windows are in: 0 east, 1 west.
    front: usize,
    seats: u32,
    seed: Seed,
    /// The air in °C.
    pub air_c: f64,
    /// What the sensor says, in °C.
    pub temperature_c: f64,
    /// How the sensor is.
    pub sensor: Sensor,
    /// Carbon dioxide in ppm.
    pub co2_ppm: f64,
    /// People.
    pub people: u32,
    /// What the controller shall keep, in °C.
    pub setpoint_c: f64,
    /// What the controller wants of the damper, in %.
    pub wanted_damper: f64,
    /// The same of the heating valve.
    pub wanted_heating: f64,
    /// What somebody has the damper do instead, in %.
    pub commanded_damper: Option<f64>,
    /// The same of the heating valve.
    pub commanded_heating: Option<f64>,
    /// Electric power in W.
    pub power_w: f64,
    integral: f64,
}

/// What an air handler gives to a room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// In °C.
    pub air_c: f64,
    /// Share of the air that is wanted, 0 without a fan.
    pub share: f64,
}

impl Room {
    /// A room with so many seats and windows in a front (0 east, 1 west).
    #[must_use]
    pub fn new(seed: Seed, front: usize, seats: u32) -> Self {
        let air_c = 21.0 + seed.unit();
        Self {
            front,
            seats,
            seed,
            air_c,
            temperature_c: air_c,
            sensor: Sensor::Works,
            co2_ppm: OUTDOOR_PPM,
            people: 0,
            setpoint_c: 22.0,
            wanted_damper: DAMPER_MIN,
            wanted_heating: 0.0,
            commanded_damper: None,
            commanded_heating: None,
            power_w: 0.0,
            integral: 0.0,
        }
    }

    /// Where the damper is, in %.
    #[must_use]
    pub fn damper(&self) -> f64 {
        self.commanded_damper.unwrap_or(self.wanted_damper).clamp(0.0, 100.0)
    }

    /// Where the heating valve is, in %.
    #[must_use]
    pub fn heating(&self) -> f64 {
        self.commanded_heating.unwrap_or(self.wanted_heating).clamp(0.0, 100.0)
    }

    /// Air that it takes in while the fan gives all that is wanted, in kg/s.
    #[must_use]
    pub fn air_wanted(&self) -> f64 {
        AIR_MAX * self.damper() / 100.0
    }

    /// Lets time pass; `step` is the number of the step, from which all that is random comes.
    pub fn step(&mut self, seconds: f64, (step, day_s): (u64, f64), weather: &Weather, supply: Supply) {
        self.people = self.present(day_s);
        let people = f64::from(self.people);
        let lights = if self.people > 0 { LIGHTS_W } else { 0.0 };
        self.power_w = STANDBY_W + lights + DEVICES_W * people;
        let air = self.air_wanted() * supply.share;
        let sun = WINDOW * weather.windows.get(self.front).copied().unwrap_or_default();
        let watts = LOSS * (weather.outdoor_c - self.air_c)
            + air * AIR_J * (supply.air_c - self.air_c)
            + sun
            + self.power_w
            + PERSON_W * people
            + HEATING_W * self.heating() / 100.0;
        self.air_c += watts * seconds / CAPACITY;
        let changes = (air * FRESH / 1.2 + 0.004) / VOLUME_M3;
        let ppm = BREATH * people / VOLUME_M3 * 1e6 - changes * (self.co2_ppm - OUTDOOR_PPM);
        self.co2_ppm += ppm * seconds;
        if self.sensor == Sensor::Works {
            self.temperature_c = self.air_c + 0.03 * self.seed.with(step).gaussian();
        }
        self.control(seconds, is_open(day_s));
    }

    /// A proportional and integral controller of both damper and valve.
    fn control(&mut self, seconds: f64, is_open: bool) {
        let band = if is_open { 0.0 } else { SETBACK };
        let error = self.temperature_c - self.setpoint_c.clamp(SETPOINTS.0, SETPOINTS.1);
        let error = error - error.clamp(-band, band);
        let demand = GAIN * error + self.integral;
        // What is at its end integrates no further.
        if demand.abs() < 100.0 || demand * error < 0.0 {
            self.integral = (self.integral + INTEGRAL * error * seconds).clamp(-100.0, 100.0);
        }
        self.wanted_heating = (-demand).clamp(0.0, 100.0);
        self.wanted_damper = DAMPER_MIN + (100.0 - DAMPER_MIN) * demand.clamp(0.0, 100.0) / 100.0;
    }

    /// People come and go; each seat has its own mind every quarter of an hour.
    fn present(&self, day_s: f64) -> u32 {
        let likely = match day_s / 3600.0 {
            hour if !(7.0..19.0).contains(&hour) => 0.0,
            hour if !(8.5..17.0).contains(&hour) => 0.4,
            hour if (12.0..13.0).contains(&hour) => 0.3,
            _ => 0.75,
        };
        let quarter = (day_s / 900.0) as u64;
        let is_taken = |seat: &u32| self.seed.with(quarter).with(u64::from(*seat)).unit() < likely;
        u32::try_from((0..self.seats).filter(is_taken).count()).unwrap_or(0)
    }
}

/// Whether the building is open, with the fans of its schedule.
#[must_use]
pub fn is_open(day_s: f64) -> bool {
    (6.0..20.0).contains(&(day_s / 3600.0))
}
