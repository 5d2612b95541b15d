//! A small distribution substation that moves: 66/11 kV, one transformer, two feeders, each with load and sun.
//!
//! ```text
//!  66 kV grid ──╱ incomer ── transformer ──┬── 11 kV bus
//!                                          ├──╱ feeder 1 ──┬── meter (houses)
//!                                          │               └── PV inverter
//!                                          └──╱ feeder 2 ──┬── meter (works)
//!                                                          └── PV inverter
//! ```
//!
//! A model for eyes, not for studies: loads follow a daily curve, inverters the height of the sun and passing clouds,
//! the transformer's oil its losses. A large motor starts at the works every three hours and overloads feeder 2 for a while. An open breaker takes away all that is behind it; an inverter without a grid
//! stops and comes back a minute after it has one again. In: seconds and commands. Out: the state, as plain numbers.

use crate::demo::sun::sun_height;

const SECONDS_PER_DAY: f64 = 86_400.0;
const BUS_KV: f64 = 11.0;
const POWER_FACTOR: f64 = 0.95;
/// Seconds that an inverter waits for a steady grid before it feeds (IEEE 1547 asks for minutes; a demo cannot wait).
const RECONNECT_S: f64 = 60.0;
/// How often a large motor starts at the works, when and for how long it is a load, in hours; and how much it adds.
const MOTOR_EVERY_H: f64 = 3.0;
const MOTOR_AT_H: f64 = 0.75;
const MOTOR_FOR_H: f64 = 0.25;
const MOTOR_FACTOR: f64 = 1.8;

/// A breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    /// Whether it conducts.
    pub closed: bool,
    /// Times that it has moved.
    pub operations: u32,
}

impl Breaker {
    const CLOSED: Self = Self { closed: true, operations: 0 };

    /// Opens or closes it.
    pub fn operate(&mut self, close: bool) {
        self.operations += u32::from(self.closed != close);
        self.closed = close;
    }
}

/// A photovoltaic inverter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inverter {
    /// Whether it may feed.
    pub enabled: bool,
    /// Its active power limit in percent of the rated power.
    pub limit_percent: f64,
    /// Rated power in kW.
    pub rated_kw: f64,
    /// Power fed in kW.
    pub kw: f64,
    /// Irradiance on its plane in W/m².
    pub irradiance: f64,
    /// Seconds that it has had a grid.
    grid_s: f64,
}

/// One feeder with what hangs on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feeder {
    /// Its breaker.
    pub breaker: Breaker,
    /// Power of its customers in kW.
    pub load_kw: f64,
    /// Reactive power of its customers in kvar.
    pub load_kvar: f64,
    /// Energy its customers took, in kWh.
    pub energy_kwh: f64,
    /// Its inverter.
    pub pv: Inverter,
    /// Current at the breaker in A.
    pub amps: f64,
    peak_kw: f64,
    evening: f64,
}

impl Feeder {
    const fn new(peak_kw: f64, evening: f64, rated_kw: f64) -> Self {
        let pv =
            Inverter { enabled: true, limit_percent: 100.0, rated_kw, kw: 0.0, irradiance: 0.0, grid_s: RECONNECT_S };
        let breaker = Breaker::CLOSED;
        Self { breaker, load_kw: 0.0, load_kvar: 0.0, energy_kwh: 0.0, pv, amps: 0.0, peak_kw, evening }
    }

    /// Power through the breaker in kW: positive towards the customers.
    #[must_use]
    pub fn net_kw(&self) -> f64 {
        if self.breaker.closed { self.load_kw - self.pv.kw } else { 0.0 }
    }
}

/// The whole station.
#[derive(Clone, Debug, PartialEq)]
pub struct Substation {
    /// The breaker between the grid and the transformer.
    pub incomer: Breaker,
    /// The feeders.
    pub feeders: [Feeder; 2],
    /// Tap of the transformer, -8 to 8; each is 1.25 % of the voltage.
    pub tap: i8,
    /// Temperature of the transformer's oil in °C.
    pub oil_c: f64,
    /// Voltage of the bus in kV.
    pub bus_kv: f64,
    /// Frequency of the grid in Hz.
    pub hertz: f64,
    /// Seconds since midnight in the station's day.
    pub day_s: f64,
    noise: Noise,
}

impl Substation {
    /// A station at `day_s` seconds after midnight; the same seed gives the same day.
    #[must_use]
    pub fn new(seed: u64, day_s: f64) -> Self {
        let feeders = [Feeder::new(2400.0, 0.8, 1200.0), Feeder::new(3100.0, 0.1, 900.0)];
        let (bus_kv, hertz, noise) = (BUS_KV, 50.0, Noise(seed));
        Self { incomer: Breaker::CLOSED, feeders, tap: 2, oil_c: 48.0, bus_kv, hertz, day_s, noise }
    }

    /// Lets `seconds` of the station's day pass.
    pub fn step(&mut self, seconds: f64) {
        self.day_s = (self.day_s + seconds).rem_euclid(SECONDS_PER_DAY);
        self.hertz = 50.0 + 0.6 * (self.hertz - 50.0) + 0.008 * self.noise.next();
        let hour = self.day_s / 3600.0;
        let supplied = self.incomer.closed;
        for feeder in &mut self.feeders {
            feeder.step(seconds, hour, supplied, &mut self.noise);
        }
        let through: f64 = self.feeders.iter().map(Feeder::net_kw).sum();
        self.bus_kv = match supplied {
            true => {
                BUS_KV * (1.0 + 0.0125 * f64::from(self.tap) - 0.03 * through / 5000.0 + 0.0005 * self.noise.next())
            }
            false => 0.0,
        };
        for feeder in &mut self.feeders {
            let live = feeder.breaker.closed && self.bus_kv > 0.0;
            let kva = feeder.net_kw().abs() / POWER_FACTOR;
            feeder.amps = if live { kva / (3.0_f64.sqrt() * self.bus_kv) } else { 0.0 };
        }
        let settled = 35.0 + 30.0 * (through / 5000.0).powi(2) * f64::from(u8::from(supplied));
        self.oil_c += (settled - self.oil_c) * (seconds / 3600.0).min(1.0);
    }

    /// Power through the transformer in kW.
    #[must_use]
    pub fn transformer_kw(&self) -> f64 {
        if self.incomer.closed { self.feeders.iter().map(Feeder::net_kw).sum() } else { 0.0 }
    }
}

impl Feeder {
    fn step(&mut self, seconds: f64, hour: f64, supplied: bool, noise: &mut Noise) {
        let live = supplied && self.breaker.closed;
        let wobble = 1.0 + 0.01 * noise.next();
        let motor = if self.evening < 0.5 && motor_runs(hour) { MOTOR_FACTOR } else { 1.0 };
        self.load_kw = if live { self.peak_kw * load_shape(hour, self.evening) * wobble * motor } else { 0.0 };
        self.load_kvar = self.load_kw * (1.0 / POWER_FACTOR.powi(2) - 1.0).sqrt();
        self.energy_kwh += self.load_kw * seconds / 3600.0;
        let sky = 0.85 + 0.15 * noise.drift(hour);
        self.pv.irradiance = 1000.0 * sun_height(hour) * sky;
        self.pv.grid_s = if live { self.pv.grid_s + seconds } else { 0.0 };
        let feeds = self.pv.enabled && self.pv.grid_s >= RECONNECT_S;
        let available = self.pv.rated_kw * self.pv.irradiance / 1000.0;
        self.pv.kw = if feeds { available.min(self.pv.rated_kw * self.pv.limit_percent / 100.0) } else { 0.0 };
    }
}

/// The share of the peak that is taken at an hour of the day; `evening` mixes houses (1) and works (0).
fn load_shape(hour: f64, evening: f64) -> f64 {
    let hump = |at: f64, width: f64| (-((hour - at) / width).powi(2)).exp();
    let houses = 0.35 + 0.3 * hump(7.5, 1.5) + 0.6 * hump(19.5, 2.5);
    let works = 0.3 + 0.65 * hump(13.0, 4.5);
    evening * houses + (1.0 - evening) * works
}

/// Whether the large motor of the works is starting.
fn motor_runs(hour: f64) -> bool {
    (MOTOR_AT_H..MOTOR_AT_H + MOTOR_FOR_H).contains(&(hour % MOTOR_EVERY_H))
}

/// Small numbers around zero. Source of the generator: Marsaglia, "Xorshift RNGs" (2003).
#[derive(Clone, Debug, PartialEq)]
struct Noise(u64);

impl Noise {
    /// The next number between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let low = u32::try_from(self.0 & 0xffff_ffff).unwrap_or(0);
        f64::from(low) / f64::from(u32::MAX) * 2.0 - 1.0
    }

    /// Clouds: a slow wave with some noise, between -1 and 1.
    fn drift(&mut self, hour: f64) -> f64 {
        0.9 * (hour * 5.3).sin() * (hour * 1.7).cos() + 0.1 * self.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_noon() -> Substation {
        let mut s = Substation::new(7, 12.0 * 3600.0);
        s.step(1.0);
        s
    }

    #[test]
    fn an_open_feeder_breaker_drops_what_is_behind_it_and_nothing_else() {
        let mut s = at_noon();
        assert!(s.feeders.iter().all(|f| f.load_kw > 100.0 && f.pv.kw > 100.0 && f.amps > 1.0));
        let [first, second] = &mut s.feeders;
        first.breaker.operate(false);
        let before = second.load_kw;
        s.step(1.0);
        let [first, second] = &s.feeders;
        assert_eq!((first.load_kw, first.pv.kw, first.amps, first.breaker.operations), (0.0, 0.0, 0.0, 1));
        assert!((second.load_kw / before - 1.0).abs() < 0.05);
    }

    #[test]
    fn the_incomer_drops_everything_and_inverters_wait_for_the_grid() {
        let mut s = at_noon();
        s.incomer.operate(false);
        s.step(1.0);
        assert_eq!((s.bus_kv, s.transformer_kw()), (0.0, 0.0));
        s.incomer.operate(true);
        s.step(1.0);
        assert!(s.feeders.iter().all(|f| f.load_kw > 100.0 && f.pv.kw == 0.0));
        s.step(RECONNECT_S);
        assert!(s.feeders.iter().all(|f| f.pv.kw > 100.0));
    }

    #[test]
    fn the_sun_sets_and_limits_hold() {
        let mut s = at_noon();
        s.feeders[0].pv.limit_percent = 20.0;
        s.feeders[1].pv.enabled = false;
        s.step(1.0);
        assert!((s.feeders[0].pv.kw - 240.0).abs() < 1e-9);
        assert_eq!(s.feeders[1].pv.kw, 0.0);
        s.step(10.0 * 3600.0);
        assert_eq!(s.feeders[0].pv.kw, 0.0);
    }

    /// The rules of the demo's alarms have something to say in the day, and nothing all the time.
    #[test]
    fn a_motor_overloads_the_works_for_a_while() {
        let mut s = Substation::new(7, 8.0 * 3600.0);
        let (mut above, mut times) = (false, 0);
        for _ in 0..12 * 60 {
            s.step(60.0);
            let is_above = s.feeders[1].amps > 140.0;
            times += usize::from(is_above && !above);
            above = is_above;
            assert!(s.feeders[0].amps < 140.0, "{s:?}");
        }
        assert_eq!((times, above), (4, false));
    }

    #[test]
    fn a_day_stays_within_reason() {
        let mut s = Substation::new(1, 0.0);
        for _ in 0..2880 {
            s.step(60.0);
            assert!(
                (49.8..50.2).contains(&s.hertz) && (10.0..12.5).contains(&s.bus_kv) && (20.0..90.0).contains(&s.oil_c),
                "{s:?}"
            );
        }
    }
}
