//! A small office building that moves: rooms on two floors, an air handler for each floor, meters, inverters on the roof.
//!
//! ```text
//!  weather ──┬──▶ rooms ◀── supply air ── air handlers ◀── outdoor air
//!            └──▶ inverters ──────┐            │
//!        rooms' devices ──▶ floor meters ◀─────┘
//!                                 └──▶ main meter ◀── chiller, charging points, inverters
//! ```
//!
//! A model for eyes and tests, not for studies: each room is one mass with air, people, sun and losses; coils and dampers
//! are ideal. Time goes in steps of [`STEP_S`]; all that is random comes from the seed and the number of the step. So the
//! same seed, time and commands give the same building, however often somebody looks. In: time, commands, faults. Out:
//! the state, as plain numbers.

use super::air_handler::AirHandler;
use super::electric::{Grid, Inverter, Meter};
use super::room::{Room, Supply, is_open};
use super::weather::Weather;
use tieline_model::Seed;

/// From one step to the next, in seconds of the building.
pub const STEP_S: f64 = 10.0;
/// Steps of one call at most.
const STEPS_MAX: u64 = 8640;
const DAY_S: f64 = 86_400.0;
/// Lifts, servers, lights of the stairs, in W.
const BASE_W: f64 = 1800.0;
/// The charging points of cars when all are taken, in W.
const CHARGING_W: f64 = 22_000.0;

/// Seats of the rooms of each floor.
const SEATS: [[u32; 3]; 2] = [[4, 6, 3], [5, 3, 8]];

/// A floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// Its rooms.
    pub rooms: [Room; 3],
    /// Its air handler.
    pub air_handler: AirHandler,
    /// Its meter.
    pub meter: Meter,
}

/// The whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Building {
    /// Seconds since midnight.
    pub day_s: f64,
    /// What the sky does.
    pub weather: Weather,
    /// What the grid does.
    pub grid: Grid,
    /// From the ground up.
    pub floors: [Floor; 2],
    /// The meter of everything.
    pub main: Meter,
    /// Whether the charging points of cars have power.
    pub charging: bool,
    /// On the roof.
    pub inverters: [Inverter; 2],
    seed: Seed,
    start_s: f64,
    step: u64,
}

impl Building {
    /// A building at `start_s` seconds after midnight; the same seed gives the same day.
    #[must_use]
    pub fn new(seed: Seed, start_s: f64) -> Self {
        let floor = |number: u64, seats: [u32; 3]| {
            let room = |place: u64, front: usize, seats: u32| Room::new(seed.with(number).with(place), front, seats);
            let [a, b, c] = seats;
            let rooms = [room(1, 0, a), room(2, 0, b), room(3, 1, c)];
            Floor { rooms, air_handler: AirHandler::new(20.0 * f64::from(seats.len() as u8)), meter: Meter::default() }
        };
        let [ground, first] = SEATS;
        let mut building = Self {
            day_s: start_s,
            weather: Weather::at(seed, start_s),
            grid: Grid::at(seed, 0),
            floors: [floor(1, ground), floor(2, first)],
            main: Meter::default(),
            charging: true,
            inverters: [Inverter::new(30e3, 41e6), Inverter::new(20e3, 27e6)],
            seed,
            start_s,
            step: 0,
        };
        building.floors.iter_mut().zip([18e6, 15e6]).for_each(|(floor, wh)| floor.meter.taken_wh = wh);
        (building.main.taken_wh, building.main.given_wh) = (92e6, 11e6);
        building.compute(0.0);
        building.meters_mut().for_each(Meter::begin_demand);
        building
    }

    /// Lets the time come to `since_start` seconds after the start. Time does not go back.
    pub fn handle_time(&mut self, since_start: f64) {
        let step = (since_start / STEP_S) as u64;
        self.step = self.step.max(step.saturating_sub(STEPS_MAX));
        while self.step < step {
            self.step += 1;
            self.compute(STEP_S);
        }
    }

    /// The meter of a floor, from 0, or the main meter after those.
    #[must_use]
    pub fn meter(&self, at: usize) -> Option<&Meter> {
        self.floors.iter().map(|floor| &floor.meter).chain([&self.main]).nth(at)
    }

    /// The same, to be commanded.
    pub fn meter_mut(&mut self, at: usize) -> Option<&mut Meter> {
        self.meters_mut().nth(at)
    }

    fn meters_mut(&mut self) -> impl Iterator<Item = &mut Meter> {
        self.floors.iter_mut().map(|floor| &mut floor.meter).chain([&mut self.main])
    }

    /// Resets that were asked for are done.
    pub fn end_resets(&mut self) {
        self.meters_mut().for_each(|meter| meter.is_resetting = false);
    }

    /// Computes the step that `self.step` counts.
    fn compute(&mut self, seconds: f64) {
        let step = self.step;
        #[expect(clippy::cast_precision_loss, reason = "a demo does not run for so long")]
        let since_start = step as f64 * STEP_S;
        self.day_s = (self.start_s + since_start).rem_euclid(DAY_S);
        self.weather = Weather::at(self.seed, self.day_s);
        self.grid = Grid::at(self.seed.with(5), step);
        for floor in &mut self.floors {
            floor.step(seconds, (step, self.day_s), &self.weather, &self.grid);
        }
        for inverter in &mut self.inverters {
            inverter.step(seconds, self.weather.irradiance, self.weather.outdoor_c);
        }
        let floors: f64 = self.floors.iter().map(|floor| floor.meter.power_w).sum();
        let chillers: f64 = self.floors.iter().map(|floor| floor.air_handler.chiller_w).sum();
        let made: f64 = self.inverters.iter().map(|inverter| inverter.power_w).sum();
        let load = floors + chillers + BASE_W + self.charging_w();
        self.main.measure(seconds, &self.grid, load, made);
    }

    /// What cars take: as many as have come, less towards the evening.
    fn charging_w(&self) -> f64 {
        let hour = self.day_s / 3600.0;
        let taken = if (7.5..18.0).contains(&hour) { (1.0 - (hour - 7.5) / 12.0).clamp(0.2, 1.0) } else { 0.0 };
        if self.charging { CHARGING_W * taken } else { 0.0 }
    }
}

impl Floor {
    fn step(&mut self, seconds: f64, (step, day_s): (u64, f64), weather: &Weather, grid: &Grid) {
        let wanted: f64 = self.rooms.iter().map(Room::air_wanted).sum();
        let warmth: f64 = self.rooms.iter().map(|room| room.air_c).sum();
        let mean = warmth / f64::from(u8::try_from(self.rooms.len()).unwrap_or(u8::MAX)).max(1.0);
        let supply: Supply = self.air_handler.step(seconds, is_open(day_s), weather, (wanted, mean));
        for room in &mut self.rooms {
            room.step(seconds, (step, day_s), weather, supply);
        }
        let load: f64 = self.rooms.iter().map(|room| room.power_w).sum();
        self.meter.measure(seconds, grid, load + self.air_handler.fan_w, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::electric::State;
    use super::super::room::Sensor;
    use super::*;
    use crate::demo::{SEED, START_S};

    const HOUR_S: f64 = 3600.0;

    fn building(start_s: f64) -> Building {
        Building::new(Seed::of(SEED, "building"), start_s)
    }

    #[test]
    fn the_same_seed_time_and_commands_give_the_same_building() {
        let (mut once, mut often) = (building(START_S), building(START_S));
        once.floors[0].rooms[1].setpoint_c = 25.0;
        often.floors[0].rooms[1].setpoint_c = 25.0;
        once.handle_time(2.0 * HOUR_S);
        (1..=7200).for_each(|second| often.handle_time(f64::from(second)));
        assert_eq!(once, often);
        assert_ne!(once, Building::new(Seed::of(SEED + 1, "building"), START_S));
    }

    #[test]
    fn rooms_stay_comfortable_for_days_and_co2_follows_people() {
        let mut b = building(START_S);
        let mut highest = 0.0_f64;
        for minute in 0..2 * 1440_u32 {
            b.handle_time(f64::from(minute) * 60.0);
            for room in b.floors.iter().flat_map(|floor| &floor.rooms) {
                let is_settled = minute > 120;
                let hour = b.day_s / HOUR_S;
                let band = if (9.0..19.0).contains(&hour) { 20.5..24.0 } else { 17.5..26.0 };
                assert!(!is_settled || band.contains(&room.air_c), "{hour} {room:?}");
                assert!((400.0..2500.0).contains(&room.co2_ppm), "{hour} {room:?}");
                highest = highest.max(room.co2_ppm);
            }
            let made: f64 = b.inverters.iter().map(|inverter| inverter.power_w).sum();
            assert!((0.0..50_001.0).contains(&made));
        }
        assert!(highest > 600.0, "{highest}");
        assert!(b.main.taken_wh > 92e6 && b.main.demand_max_w > 5000.0, "{:?}", b.main);
    }

    #[test]
    fn a_room_follows_its_set_point_and_a_fan_that_stands_lets_rooms_warm_up() {
        let (mut b, mut still) = (building(START_S), building(START_S));
        [&mut b, &mut still].into_iter().for_each(|b| b.handle_time(2.0 * HOUR_S));
        let before = b.floors[0].rooms[0].air_c;
        b.floors[0].rooms[0].setpoint_c = 25.0;
        still.floors[1].air_handler.commanded_fan = Some(false);
        [&mut b, &mut still].into_iter().for_each(|b| b.handle_time(3.0 * HOUR_S));
        let after = b.floors[0].rooms[0].air_c;
        assert!((before - 22.0).abs() < 1.0 && (after - 25.0).abs() < 0.6, "{before} {after}");
        let [with, without] = [&b, &still].map(|b| b.floors[1].rooms.iter().map(|room| room.air_c).sum::<f64>());
        assert!(without > with + 2.0, "{with} {without}");
        assert_eq!((still.floors[1].air_handler.air, still.floors[1].air_handler.fan_w), (0.0, 0.0));
    }

    #[test]
    fn a_stuck_sensor_lets_its_room_drift() {
        let mut b = building(START_S);
        b.handle_time(2.0 * HOUR_S);
        let room = &mut b.floors[0].rooms[0];
        (room.sensor, room.setpoint_c) = (Sensor::Stuck, 19.0);
        let shown = room.temperature_c;
        b.handle_time(4.0 * HOUR_S);
        let room = &b.floors[0].rooms[0];
        assert_eq!(room.temperature_c, shown);
        assert!(room.air_c < 21.2, "{room:?}");
    }

    #[test]
    fn a_clogged_filter_gives_an_alarm_and_takes_it_back() {
        let mut b = building(START_S);
        b.handle_time(600.0);
        assert!(!b.floors[1].air_handler.filter_alarm);
        b.floors[1].air_handler.is_clogged = true;
        b.handle_time(660.0);
        assert!(b.floors[1].air_handler.filter_alarm);
        b.floors[1].air_handler.is_clogged = false;
        b.handle_time(720.0);
        assert!(!b.floors[1].air_handler.filter_alarm);
    }

    #[test]
    fn inverters_obey_trip_and_wait_for_the_grid() {
        let mut b = building(11.0 * HOUR_S);
        b.handle_time(600.0);
        let made = b.inverters[0].power_w;
        assert!(made > 9000.0 && b.inverters[0].state == State::Tracking, "{:?}", b.inverters[0]);
        b.inverters[0].limit_percent = 10.0;
        b.inverters[1].is_tripped = true;
        b.handle_time(610.0);
        assert_eq!((b.inverters[0].power_w, b.inverters[0].state), (3000.0, State::Throttled));
        assert_eq!((b.inverters[1].power_w, b.inverters[1].state), (0.0, State::Fault));
        b.inverters[0].is_limited = false;
        b.inverters[1].is_tripped = false;
        b.handle_time(620.0);
        assert!(b.inverters[0].power_w > 9000.0 && b.inverters[1].state == State::Starting);
        b.handle_time(1000.0);
        assert_eq!(b.inverters[1].state, State::Tracking);
        b.handle_time(12.0 * HOUR_S);
        assert_eq!((b.inverters[0].power_w, b.inverters[0].state), (0.0, State::Sleeping));
    }

    #[test]
    fn the_main_meter_is_the_sum_of_all() {
        let mut b = building(12.0 * HOUR_S);
        b.handle_time(600.0);
        let floors: f64 = b.floors.iter().map(|floor| floor.meter.power_w).sum();
        let made: f64 = b.inverters.iter().map(|inverter| inverter.power_w).sum();
        assert!(b.main.power_w > floors - made + BASE_W && b.main.power_w < floors - made + BASE_W + 30e3);
        let before = b.main.power_w;
        b.charging = false;
        b.handle_time(610.0);
        assert!(before - b.main.power_w > 8e3, "{before} {}", b.main.power_w);
        b.main.demand_max_w = 1e6;
        b.main.is_resetting = true;
        b.handle_time(620.0);
        assert!(b.main.demand_max_w < 1e5);
    }
}
