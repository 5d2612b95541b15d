//! What goes wrong in the building: something every few minutes, one after the other.

use super::model::Building;
use super::room::Sensor;
use std::time::Duration;
use tieline_model::Seed;

/// When the first begins.
const FIRST: Duration = Duration::from_secs(120);
/// From one to the next.
const EVERY: Duration = Duration::from_secs(180);
/// How long each lasts.
const LASTS: Duration = Duration::from_secs(75);
/// Rooms, floors, inverters and meters that it may be of.
const ROOMS: usize = 6;
const FLOORS: usize = 2;
const INVERTERS: usize = 2;
const METERS: usize = 3;
const KINDS: u64 = 5;

/// Something that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value of a room's sensor stands still; nobody says so.
    SensorStuck(usize),
    /// A filter is clogged.
    FilterClogged(usize),
    /// An inverter has tripped.
    InverterTripped(usize),
    /// A meter does not answer.
    MeterAway(usize),
    /// A room's sensor cannot measure, and says so.
    SensorBroken(usize),
}

impl Fault {
    /// What is wrong so long after the start. The seed says where; the kinds take turns.
    #[must_use]
    pub fn at(seed: Seed, since_start: Duration) -> Option<Self> {
        let after = since_start.checked_sub(FIRST)?;
        let number = after.as_secs() / EVERY.as_secs();
        if after.as_secs() % EVERY.as_secs() >= LASTS.as_secs() {
            return None;
        }
        let one_of = |count: usize| ((seed.with(number).unit() * count as f64) as usize).min(count - 1);
        Some(match number % KINDS {
            0 => Self::SensorStuck(one_of(ROOMS)),
            1 => Self::FilterClogged(one_of(FLOORS)),
            2 => Self::InverterTripped(one_of(INVERTERS)),
            3 => Self::MeterAway(one_of(METERS)),
            _ => Self::SensorBroken(one_of(ROOMS)),
        })
    }

    /// Makes this wrong with a building, and nothing else.
    pub fn apply(fault: Option<Self>, building: &mut Building) {
        let rooms = building.floors.iter_mut().flat_map(|floor| &mut floor.rooms);
        for (number, room) in rooms.enumerate() {
            room.sensor = match fault {
                Some(Self::SensorStuck(at)) if at == number => Sensor::Stuck,
                Some(Self::SensorBroken(at)) if at == number => Sensor::Broken,
                _ => Sensor::Works,
            };
        }
        for (number, floor) in building.floors.iter_mut().enumerate() {
            floor.air_handler.is_clogged = fault == Some(Self::FilterClogged(number));
        }
        for (number, inverter) in building.inverters.iter_mut().enumerate() {
            inverter.is_tripped = fault == Some(Self::InverterTripped(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_after_the_other_goes_wrong_and_is_well_again() {
        let seed = Seed::of(1, "fault");
        let at = |second: u64| Fault::at(seed, Duration::from_secs(second));
        let all: Vec<_> = (0..1020).map(at).collect();
        assert!(all.iter().take(120).all(Option::is_none));
        let mut kinds: Vec<_> = all.iter().flatten().collect();
        kinds.dedup();
        assert!(
            matches!(
                kinds[..],
                [
                    Fault::SensorStuck(_),
                    Fault::FilterClogged(_),
                    Fault::InverterTripped(_),
                    Fault::MeterAway(_),
                    Fault::SensorBroken(_)
                ]
            ),
            "{kinds:?}"
        );
        assert_eq!(all.iter().flatten().count(), 5 * 75);
        let mut building = Building::new(seed, 0.0);
        let well = building.clone();
        Fault::apply(Some(Fault::InverterTripped(1)), &mut building);
        assert!(building.inverters[1].is_tripped && !building.inverters[0].is_tripped);
        Fault::apply(None, &mut building);
        assert_eq!(building, well);
    }
}
