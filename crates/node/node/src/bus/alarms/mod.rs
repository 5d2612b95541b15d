//! Alarms on the bus: values in, changes out.
//!
//! ```text
//! update ─▶ engine ─▶ change ─▶ ledger ── durable ─▶ $alarms/TOPIC/KIND, $alarms-journal, history, notifications
//!              ▲                   ▲
//!   presence ──┘        request ───┘ ── durable ──▶ answer
//! conditions of the node ── value ──▶ as an update
//! ```
//!
//! Nothing is told of a change before it is on the disk, so a restart forgets nothing that was told. Where the disk takes nothing, changes
//! are told all the same.
//!
//! Read first: this file, then `changes.rs`.

mod changes;
mod conditions;
mod inputs;
mod kept;
mod notifications;
mod requests;

pub use conditions::{Conditions, Outside};
pub use notifications::{Notifications, Notifying};

use super::state::Bus;
use crate::config::{AlarmConfig, Numbered};
use changes::Waiting;
use inputs::Known;
use std::collections::{BTreeSet, HashMap, VecDeque};
use tieline_alarms::{Alarm, Alarms, Counts, PlaceName, Rules, Stats};
use tieline_core::{DeviceId, Instant, Now, Timestamp, Topic};
use tieline_topics::Snapshot;

/// The alarms of a bus.
#[derive(Debug)]
pub struct Alarming {
    engine: Alarms,
    /// What topics are to the engine, by their number in the tree.
    known: Vec<Known>,
    /// Topics that are declared again, because rules have changed.
    walk: Option<Snapshot>,
    /// The generation of the engine that the walk is of.
    generation: u64,
    /// The topics of devices, and those above the topics of sites: the places that may be away.
    places: HashMap<DeviceId, Topic>,
    sites: BTreeSet<Topic>,
    /// Changes and answers that wait until what came before them is on the disk, in order; the number of the first of them.
    waiting: VecDeque<Waiting>,
    first_waiting: u64,
    /// The time of the last row of the journal.
    last_row: Timestamp,
    /// Whether conditions of the node itself are alarmed.
    with_conditions: bool,
}

#[cfg(test)]
impl Alarming {
    pub(super) const fn occurrence(&self) -> u64 {
        self.engine.occurrence()
    }
}

/// Devices, as places of alarms.
pub type AlarmPlaces = Vec<(DeviceId, Topic)>;

impl Bus {
    /// From here on, there are alarms. It comes before the first value.
    pub fn set_alarms(&mut self, now: Now, config: AlarmConfig, places: AlarmPlaces) {
        let engine = Alarms::new(config.settings, config.rules);
        let generation = engine.generation();
        self.commands.watch_ends();
        let mut alarming = Box::new(Alarming {
            engine,
            known: Vec::new(),
            walk: None,
            generation,
            places: places.into_iter().collect(),
            sites: BTreeSet::new(),
            waiting: VecDeque::new(),
            first_waiting: 0,
            last_row: Timestamp::default(),
            with_conditions: config.with_conditions,
        });
        alarming.place(now);
        self.alarming = Some(alarming);
    }

    /// Takes other alarms; none: there are none from here on, and those that there were are gone.
    pub fn replace_alarms(&mut self, now: Now, config: Option<AlarmConfig>, places: AlarmPlaces) {
        match (&mut self.alarming, config) {
            (Some(alarming), Some(config)) => {
                alarming.with_conditions = config.with_conditions;
                alarming.engine.set_settings(config.settings);
                alarming.engine.set_rules(now, config.rules);
            }
            (Some(alarming), None) => {
                alarming.with_conditions = false;
                alarming.engine.set_rules(now, Rules::default());
            }
            (None, Some(config)) => {
                self.set_alarms(now, config, places);
                self.walk_alarms();
            }
            (None, None) => {}
        }
        self.conditions.look_again();
        self.work.notify_one();
    }

    /// There are other devices.
    pub fn set_alarm_places(&mut self, now: Now, places: AlarmPlaces) {
        let Some(alarming) = &mut self.alarming else { return };
        alarming.places = places.into_iter().collect();
        alarming.place(now);
        self.work.notify_one();
    }

    /// Whether there may be alarms.
    #[must_use]
    pub const fn has_alarms(&self) -> bool {
        self.alarming.is_some()
    }

    /// The alarms that are not normal.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> + '_ {
        self.alarming.iter().flat_map(|alarming| alarming.engine.alarms())
    }

    /// Those of a row of the engine and of the rows behind it, with their rows: for a walk in parts.
    pub fn alarms_from(&self, row: u32) -> impl Iterator<Item = (u32, Alarm)> + '_ {
        self.alarming.iter().flat_map(move |alarming| alarming.engine.alarms_from(row))
    }

    /// How many there are; none where there are no alarms.
    #[must_use]
    pub fn alarm_counts(&self) -> Option<(Counts, Stats)> {
        self.alarming.as_ref().map(|alarming| (alarming.engine.counts(), alarming.engine.stats()))
    }

    /// The rules in use.
    #[must_use]
    pub fn alarm_rules(&self) -> Option<&Rules> {
        self.alarming.as_ref().map(|alarming| alarming.engine.rules())
    }

    /// How many people attend to the alarms.
    #[must_use]
    pub fn alarm_operators(&self) -> u32 {
        self.alarming.as_ref().map_or(1, |alarming| alarming.engine.settings().operators)
    }

    /// Does what is due of alarms, and takes what has come out.
    pub(super) fn finish_alarms(&mut self, now: Now) {
        self.give_standing(now);
        self.look_at_conditions(now);
        let Some(alarming) = &mut self.alarming else { return };
        if alarming.engine.timeout().is_some_and(|due| due <= now.mono) {
            alarming.engine.handle_timeout(now);
        }
        self.note_ended_commands(now);
        self.declare_some(now);
        self.wait_for_alarms(now, None);
    }

    /// Whether alarms have something to do before their time.
    pub(super) fn has_alarm_work(&self) -> bool {
        self.alarming.as_ref().is_some_and(|alarming| alarming.engine.has_events() || alarming.walk.is_some())
    }

    /// When something is due.
    pub(super) fn alarm_timeout(&self) -> Option<Instant> {
        let due = self.alarming.as_ref().and_then(|alarming| alarming.engine.timeout());
        [due, self.notifying.timeout(), self.conditions_timeout()].into_iter().flatten().min()
    }

    /// Whether changes wait for the disk.
    fn has_waiting_alarms(&self) -> bool {
        self.alarming.as_ref().is_some_and(|alarming| !alarming.waiting.is_empty())
    }
}

/// The places of devices.
pub fn places_of<'a>(devices: impl Iterator<Item = &'a Numbered>) -> AlarmPlaces {
    devices.map(|device| (device.id, device.config.topic.clone())).collect()
}

impl Alarming {
    /// Says which places there are.
    fn place(&mut self, now: Now) {
        let mut names: Vec<&Topic> = self.places.values().chain(&self.sites).collect();
        // A place comes after the one above it, whose name is the beginning of its own.
        names.sort();
        let names: Vec<_> = names.into_iter().map(|name| PlaceName { name: name.clone(), parent: None }).collect();
        self.engine.set_places(now, &names);
    }
}
