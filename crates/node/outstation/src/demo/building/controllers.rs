//! The building's BACnet devices: an air handler for each floor, a controller for each room.

use super::air_handler::{self, Mode};
use super::model::{Building, Floor};
use super::room::{self, Room, Sensor};
use tieline_bacnet::server::{Object, Server, ServerConfig, StatusFlags};
use tieline_bacnet::{ObjectId, ObjectType, Unit, Value};
use tieline_core::Now;

type T = ObjectType;

/// Units that have no name of their own in the list of the standard that we keep.
const PARTS_PER_MILLION: Unit = Unit(96);
const PASCALS: Unit = Unit(53);
const CUBIC_METERS_PER_HOUR: Unit = Unit(135);
/// Cubic metres of air in an hour, of one kg/s.
const M3_PER_H: f64 = 3000.0;

/// Which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// The air handler of a floor, from 0.
    AirHandler(usize),
    /// A room of a floor, both from 0.
    Room(usize, usize),
}

impl Controller {
    /// All devices.
    pub const ALL: [Self; 8] = [
        Self::AirHandler(0),
        Self::Room(0, 0),
        Self::Room(0, 1),
        Self::Room(0, 2),
        Self::AirHandler(1),
        Self::Room(1, 0),
        Self::Room(1, 1),
        Self::Room(1, 2),
    ];

    /// The instance of its device object: rooms have their numbers, air handlers those of their floors.
    #[must_use]
    pub fn instance(self) -> u32 {
        let (floor, place) = match self {
            Self::AirHandler(floor) => (floor, 0),
            Self::Room(floor, room) => (floor, room + 1),
        };
        u32::try_from(100 * (floor + 1) + place).unwrap_or(0)
    }

    /// Below `demo/`.
    #[must_use]
    pub fn topic(self) -> String {
        match self {
            Self::AirHandler(floor) => format!("floor{}/ahu", floor + 1),
            Self::Room(floor, _) => format!("floor{}/room{}", floor + 1, self.instance()),
        }
    }

    /// Its point list.
    #[must_use]
    pub const fn list(self) -> (&'static str, &'static str) {
        match self {
            Self::AirHandler(_) => ("ahu.csv", include_str!("ahu.csv")),
            Self::Room(..) => ("room.csv", include_str!("room.csv")),
        }
    }

    /// The device, with the values of the building.
    #[must_use]
    pub fn server(self, building: &Building) -> Server {
        let (name, model) = match self {
            Self::AirHandler(floor) => (format!("Air handler {}", floor + 1), "Air handler controller"),
            Self::Room(..) => (format!("Room {}", self.instance()), "Room controller"),
        };
        let config =
            ServerConfig { instance: self.instance(), name, model: model.to_owned(), ..ServerConfig::default() };
        let mut server = Server::new(config);
        self.objects(building).into_iter().for_each(|shown| server.add(shown.object));
        server
    }

    fn objects(self, building: &Building) -> Vec<Shown> {
        let floor = |number: usize| building.floors.get(number);
        match self {
            Self::AirHandler(number) => {
                floor(number).map(|floor| of_air_handler(floor, building.weather.outdoor_c)).unwrap_or_default()
            }
            Self::Room(number, at) => {
                floor(number).and_then(|floor| floor.rooms.get(at)).map(of_room).unwrap_or_default()
            }
        }
    }

    /// Shows clients the building as it is.
    pub fn show(self, building: &Building, server: &mut Server, now: Now) {
        for Shown { object, status, is_kept } in self.objects(building) {
            if !is_kept {
                server.set_value(now, object.id(), object.present_value().clone());
            }
            let out_of_service = server.object(object.id()).is_some_and(Object::is_out_of_service);
            server.set_status(now, object.id(), StatusFlags { out_of_service, ..status });
        }
    }

    /// Has the building do what clients command.
    pub fn take(self, building: &mut Building, server: &Server) {
        let object = |object_type: ObjectType, instance: u32| server.object(ObjectId::new(object_type, instance));
        let number = |instance: u32| object(T::ANALOG_OUTPUT, instance)?.commanded()?.as_f64();
        let setpoint = object(T::ANALOG_VALUE, 1).and_then(|object| object.present_value().as_f64());
        match self {
            Self::AirHandler(floor) => {
                let Some(Floor { air_handler, .. }) = building.floors.get_mut(floor) else { return };
                air_handler.setpoint_c = setpoint.unwrap_or(air_handler.setpoint_c);
                let fan = object(T::BINARY_OUTPUT, 1).and_then(Object::commanded);
                air_handler.commanded_fan = fan.map(|fan| *fan == Value::Enumerated(1));
                air_handler.commanded_speed = number(1);
            }
            Self::Room(floor, at) => {
                let rooms = building.floors.get_mut(floor).map(|floor| &mut floor.rooms);
                let Some(room) = rooms.and_then(|rooms| rooms.get_mut(at)) else { return };
                room.setpoint_c = setpoint.unwrap_or(room.setpoint_c);
                (room.commanded_damper, room.commanded_heating) = (number(1), number(2));
            }
        }
    }
}

/// An object as it should be.
struct Shown {
    object: Object,
    status: StatusFlags,
    /// Whether its value is the clients' alone.
    is_kept: bool,
}

impl Shown {
    fn of(object: Object) -> Self {
        Self { object, status: StatusFlags::default(), is_kept: false }
    }
}

/// A number as sensors show it: to so many parts of one.
#[expect(clippy::cast_possible_truncation, reason = "a Real has single precision")]
fn real(number: f64, parts: f64) -> Value {
    Value::Real(((number * parts).round() / parts) as f32)
}

fn analog(object_type: ObjectType, instance: u32, name: &str, number: f64, (unit, parts): (Unit, f64)) -> Object {
    Object::new(object_type, instance, name, real(number, parts)).with_units(unit)
}

fn binary(object_type: ObjectType, instance: u32, name: &str, is: bool, states: [&str; 2]) -> Object {
    Object::new(object_type, instance, name, Value::Enumerated(u32::from(is))).with_states(&states)
}

const CELSIUS: (Unit, f64) = (Unit::DEGREES_CELSIUS, 100.0);
const PERCENT: (Unit, f64) = (Unit::PERCENT, 10.0);

/// A set point that clients command; without a command it is at its default.
fn setpoint(default: f32, (min, max): (f64, f64), description: &str) -> Shown {
    let object = Object::new(T::ANALOG_VALUE, 1, "setpoint", Value::Real(default)).with_units(Unit::DEGREES_CELSIUS);
    #[expect(clippy::cast_possible_truncation, reason = "whole degrees")]
    let object = object.commandable().with_limits(min as f32, max as f32).with_description(description);
    Shown { is_kept: true, ..Shown::of(object) }
}

fn of_room(room: &Room) -> Vec<Shown> {
    let temperature = analog(T::ANALOG_INPUT, 1, "temperature", room.temperature_c, CELSIUS)
        .with_cov_increment(0.1)
        .with_description("of the room's air");
    let fault = room.sensor == Sensor::Broken;
    let co2 = analog(T::ANALOG_INPUT, 2, "co2", room.co2_ppm, (PARTS_PER_MILLION, 1.0)).with_cov_increment(10.0);
    let occupied = binary(T::BINARY_INPUT, 1, "occupied", room.people > 0, ["free", "occupied"]);
    let damper = analog(T::ANALOG_OUTPUT, 1, "damper", room.wanted_damper, PERCENT)
        .with_cov_increment(1.0)
        .with_limits(0.0, 100.0)
        .with_description("of supply air; commanded, it no longer follows the controller");
    let heating = analog(T::ANALOG_OUTPUT, 2, "heating", room.wanted_heating, PERCENT)
        .with_cov_increment(1.0)
        .with_limits(0.0, 100.0)
        .with_description("valve; commanded, it no longer follows the controller");
    vec![
        Shown { status: StatusFlags { fault, ..StatusFlags::default() }, ..Shown::of(temperature) },
        Shown::of(co2),
        Shown::of(occupied),
        setpoint(22.0, room::SETPOINTS, "of the temperature"),
        Shown::of(damper),
        Shown::of(heating),
    ]
}

fn of_air_handler(floor: &Floor, outdoor_c: f64) -> Vec<Shown> {
    let ahu = &floor.air_handler;
    let input = |instance: u32, name: &str, number: f64| analog(T::ANALOG_INPUT, instance, name, number, CELSIUS);
    let air = analog(T::ANALOG_INPUT, 4, "supply air", ahu.air * M3_PER_H, (CUBIC_METERS_PER_HOUR, 1.0));
    let pressure = analog(T::ANALOG_INPUT, 5, "filter pressure", ahu.filter_pa, (PASCALS, 1.0));
    let fan = binary(T::BINARY_OUTPUT, 1, "fan", ahu.wanted_fan, ["off", "on"])
        .with_description("commanded, it no longer follows the schedule");
    let speed = analog(T::ANALOG_OUTPUT, 1, "fan speed", ahu.wanted_speed, PERCENT).with_limits(0.0, 100.0);
    let mode = Object::new(T::MULTI_STATE_VALUE, 1, "mode", Value::Unsigned(ahu.mode().number()));
    let alarm = binary(T::BINARY_INPUT, 2, "filter alarm", ahu.filter_alarm, ["normal", "alarm"]);
    let in_alarm = ahu.filter_alarm;
    vec![
        Shown::of(input(1, "supply temperature", ahu.supply_c)),
        Shown::of(input(2, "return temperature", ahu.return_c)),
        Shown::of(input(3, "outdoor temperature", outdoor_c)),
        Shown::of(air),
        Shown::of(pressure),
        Shown::of(binary(T::BINARY_INPUT, 1, "fan status", ahu.speed() > 0.0, ["off", "on"])),
        Shown { status: StatusFlags { in_alarm, ..StatusFlags::default() }, ..Shown::of(alarm) },
        setpoint(16.0, air_handler::SETPOINTS, "of the supply air"),
        Shown::of(analog(T::ANALOG_VALUE, 2, "cooling valve", ahu.cooling, PERCENT)),
        Shown::of(analog(T::ANALOG_VALUE, 3, "heating valve", ahu.heating, PERCENT)),
        Shown::of(fan),
        Shown::of(speed),
        Shown::of(mode.with_states(&Mode::WORDS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bacnet::write_property;
    use tieline_core::{Instant, Timestamp};
    use tieline_model::Seed;

    /// The type and the index of each row of a list.
    fn listed(list: &str) -> Vec<ObjectId> {
        let row = |row: &str| {
            let mut cells = row.split(',').skip(1);
            Some(ObjectId::new(ObjectType::from_name(cells.next()?)?, cells.next()?.parse().ok()?))
        };
        list.lines().skip(1).map(|line| row(line).unwrap()).collect()
    }

    #[test]
    fn every_object_is_listed_and_every_point_is_an_object() {
        let building = Building::new(Seed::of(1, "building"), 8.0 * 3600.0);
        for controller in Controller::ALL {
            let mut objects: Vec<_> = controller.objects(&building).iter().map(|shown| shown.object.id()).collect();
            let mut points = listed(controller.list().1);
            objects.sort_unstable();
            points.sort_unstable();
            assert_eq!(objects, points, "{controller:?}");
        }
    }

    #[test]
    fn commands_move_the_building_until_they_are_relinquished() {
        let mut building = Building::new(Seed::of(1, "building"), 8.0 * 3600.0);
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
        let (room, ahu) = (Controller::Room(1, 2), Controller::AirHandler(0));
        let [mut room_server, mut ahu_server] = [room, ahu].map(|controller| controller.server(&building));
        let mut invoke_id = 0;
        let mut write = |server: &mut Server, object_type, value| {
            invoke_id += 1;
            let datagram = write_property(invoke_id, ObjectId::new(object_type, 1), value);
            server.handle_datagram(now, "127.0.0.1:1".parse().unwrap(), &datagram);
            assert!(server.poll_event().is_some());
        };
        write(&mut room_server, T::ANALOG_VALUE, Value::Real(25.0));
        write(&mut room_server, T::ANALOG_OUTPUT, Value::Real(70.0));
        write(&mut ahu_server, T::BINARY_OUTPUT, Value::Enumerated(0));
        room.take(&mut building, &room_server);
        ahu.take(&mut building, &ahu_server);
        let state = |building: &Building| {
            let room = &building.floors[1].rooms[2];
            (room.setpoint_c, room.damper(), building.floors[0].air_handler.fan())
        };
        assert_eq!(state(&building), (25.0, 70.0, false));
        // What the building shows does not undo what is commanded.
        building.handle_time(600.0);
        room.show(&building, &mut room_server, now);
        room.take(&mut building, &room_server);
        assert_eq!(state(&building), (25.0, 70.0, false));
        write(&mut room_server, T::ANALOG_VALUE, Value::Null);
        write(&mut room_server, T::ANALOG_OUTPUT, Value::Null);
        write(&mut ahu_server, T::BINARY_OUTPUT, Value::Null);
        room.take(&mut building, &room_server);
        ahu.take(&mut building, &ahu_server);
        let (setpoint, damper, fan) = state(&building);
        assert_eq!((setpoint, damper, fan), (22.0, building.floors[1].rooms[2].wanted_damper, true));
    }
}
