//! What takes, makes and counts electric power.

use tieline_model::Seed;

/// Model seconds that an inverter waits for a steady grid before it feeds (IEEE 1547 asks for minutes).
const RECONNECT_S: f64 = 300.0;
const WS_PER_WH: f64 = 3600.0;
/// Shares of the phases.
const PHASES: [f64; 3] = [0.36, 0.33, 0.31];
const POWER_FACTOR: f64 = 0.96;
/// How long a maximum demand is averaged, in s.
const DEMAND_S: f64 = 900.0;

/// The grid at the building.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Between each phase and neutral, in V.
    pub volts: [f64; 3],
    /// In Hz.
    pub hertz: f64,
}

impl Grid {
    /// The grid in a step.
    #[must_use]
    pub fn at(seed: Seed, step: u64) -> Self {
        let noise = |number: u64| seed.with(number).with(step).gaussian();
        let volts = [noise(1), noise(2), noise(3)].map(|noise| 231.0 + 0.4 * noise);
        Self { volts, hertz: 50.0 + 0.008 * noise(4) }
    }
}

/// An electric meter of three phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meter {
    /// Active power in W: positive where it is taken.
    pub power_w: f64,
    /// Reactive power in var.
    pub reactive_var: f64,
    /// Currents in A.
    pub amps: [f64; 3],
    /// Energy that was taken, in Wh.
    pub taken_wh: f64,
    /// Energy that was given back, in Wh.
    pub given_wh: f64,
    /// Mean power of the last quarter of an hour, in W.
    pub demand_w: f64,
    /// Its maximum since the last reset, in W.
    pub demand_max_w: f64,
    /// Whether somebody has asked for a reset of the maximum.
    pub is_resetting: bool,
}

impl Meter {
    /// Takes the power of the moment for that of the last quarter of an hour.
    pub const fn begin_demand(&mut self) {
        self.demand_w = self.power_w.max(0.0);
        self.demand_max_w = self.demand_w;
    }

    /// Measures loads and what is made behind it, in W, for so long.
    pub fn measure(&mut self, seconds: f64, grid: &Grid, load_w: f64, made_w: f64) {
        self.power_w = load_w - made_w;
        self.reactive_var = load_w * (1.0 / POWER_FACTOR.powi(2) - 1.0).sqrt();
        let apparent = self.power_w.hypot(self.reactive_var);
        for ((amps, volts), share) in self.amps.iter_mut().zip(grid.volts).zip(PHASES) {
            *amps = apparent * share / volts;
        }
        self.taken_wh += self.power_w.max(0.0) * seconds / WS_PER_WH;
        self.given_wh += (-self.power_w).max(0.0) * seconds / WS_PER_WH;
        self.demand_w += (self.power_w.max(0.0) - self.demand_w) * (seconds / DEMAND_S).min(1.0);
        if self.is_resetting {
            self.demand_max_w = self.demand_w;
        }
        self.demand_max_w = self.demand_max_w.max(self.demand_w);
    }

    /// Active power over apparent power.
    #[must_use]
    pub fn power_factor(&self) -> f64 {
        let apparent = self.power_w.hypot(self.reactive_var);
        if apparent > 0.0 { self.power_w / apparent } else { 1.0 }
    }
}

/// What an inverter does, in the words of SunSpec (`St` of model 103).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is told not to feed.
    Off,
    /// There is no sun.
    Sleeping,
    /// It waits for a steady grid.
    Starting,
    /// It feeds all that there is.
    Tracking,
    /// It feeds less, as it is told.
    Throttled,
    /// It has tripped.
    Fault,
}

impl State {
    /// Its number in SunSpec.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Off => 1,
            Self::Sleeping => 2,
            Self::Starting => 3,
            Self::Tracking => 4,
            Self::Throttled => 5,
            Self::Fault => 7,
        }
    }
}

/// A photovoltaic inverter of three phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverter {
    /// In W.
    pub rated_w: f64,
    /// Whether it may feed.
    pub is_connected: bool,
    /// Its power limit in percent of the rated power.
    pub limit_percent: f64,
    /// Whether the limit is in effect.
    pub is_limited: bool,
    /// Whether it has tripped.
    pub is_tripped: bool,
    /// Power of the modules, in W.
    pub dc_w: f64,
    /// Power that it feeds, in W.
    pub power_w: f64,
    /// What it has fed, in Wh.
    pub energy_wh: f64,
    /// Its cabinet in °C.
    pub cabinet_c: f64,
    /// What it does.
    pub state: State,
    ready_s: f64,
}

impl Inverter {
    /// An inverter that has fed so much.
    #[must_use]
    pub const fn new(rated_w: f64, energy_wh: f64) -> Self {
        Self {
            rated_w,
            is_connected: true,
            limit_percent: 100.0,
            is_limited: true,
            is_tripped: false,
            dc_w: 0.0,
            power_w: 0.0,
            energy_wh,
            cabinet_c: 25.0,
            state: State::Sleeping,
            ready_s: RECONNECT_S,
        }
    }

    /// Lets time pass.
    pub fn step(&mut self, seconds: f64, irradiance: f64, outdoor_c: f64) {
        let available = self.rated_w * irradiance / 1000.0;
        let may_feed = self.is_connected && !self.is_tripped;
        self.ready_s = if may_feed { self.ready_s + seconds } else { 0.0 };
        let limit = if self.is_limited { self.rated_w * self.limit_percent / 100.0 } else { self.rated_w };
        self.state = match () {
            () if self.is_tripped => State::Fault,
            () if !self.is_connected => State::Off,
            () if available < 1.0 => State::Sleeping,
            () if self.ready_s < RECONNECT_S => State::Starting,
            () if limit < available => State::Throttled,
            () => State::Tracking,
        };
        self.power_w = match self.state {
            State::Off | State::Sleeping | State::Starting | State::Fault => 0.0,
            State::Tracking | State::Throttled => available.min(limit),
        };
        self.dc_w = self.power_w / 0.97;
        self.energy_wh += self.power_w * seconds / WS_PER_WH;
        let settled = outdoor_c + 8.0 + 25.0 * self.power_w / self.rated_w;
        self.cabinet_c += (settled - self.cabinet_c) * (seconds / 1800.0).min(1.0);
    }
}
