//! The tree of places: sites, channels, devices.

use super::Alarms;
use crate::alarm::Flags;
use crate::rows::{NONE, Place};
use alloc::vec::Vec;
use tieline_core::{Now, Topic};

/// A place: what is lost together. The alarms of the topics below its name are below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceName {
    /// Its name, such as the topic prefix of a device.
    pub name: Topic,
    /// The place above it; none: the nearest place whose name its own begins with.
    pub parent: Option<Topic>,
}

impl Alarms {
    /// Says which places there are, each after its parent. Rules of kind `away` whose filter matches a name make its alarm.
    pub fn set_places(&mut self, now: Now, names: &[PlaceName]) {
        let old: Vec<u32> = self.places.iter().map(|place| place.input).collect();
        self.places.clear();
        for input in &mut self.inputs {
            (input.is_place, input.place) = (false, NONE);
        }
        for place in names {
            self.add_place(now, place);
        }
        for input in 0..self.inputs.len() {
            if !self.inputs[input].is_place {
                let topic = self.inputs[input].topic.clone();
                self.inputs[input].place = self.place_above(&topic);
            }
        }
        self.list_again(now);
        let mut changed: Vec<u32> = old.into_iter().chain(self.places.iter().map(|place| place.input)).collect();
        changed.sort_unstable();
        changed.dedup();
        for input in changed {
            if !self.inputs[input as usize].is_place {
                self.inputs[input as usize].presence = None;
            }
            let found = self.matcher.rules_of(&self.rules.0, &self.inputs[input as usize].topic);
            self.instantiate(now, input, &found);
        }
    }

    fn add_place(&mut self, now: Now, place: &PlaceName) {
        let input = self.input_of(&place.name).unwrap_or_else(|| self.add_input(now, &place.name));
        if self.inputs[input as usize].is_place {
            return;
        }
        let above = place.parent.as_ref().and_then(|parent| self.place_named(parent));
        let parent = above.unwrap_or_else(|| self.place_above(&place.name));
        let number = u32::try_from(self.places.len()).unwrap_or(NONE);
        self.places.push(Place { input, parent, children: Vec::new(), open: Vec::new() });
        if let Some(parent) = self.places.get_mut(parent as usize) {
            parent.children.push(number);
        }
        let known = &mut self.inputs[input as usize];
        (known.is_place, known.place) = (true, number);
    }

    fn place_named(&self, name: &str) -> Option<u32> {
        let input = self.inputs.get(self.input_of(name)? as usize)?;
        input.is_place.then_some(input.place)
    }

    /// The place that a topic is, or is below.
    pub(super) fn place_above(&self, topic: &str) -> u32 {
        if self.places.is_empty() {
            return NONE;
        }
        let mut name = topic;
        loop {
            if let Some(place) = self.place_named(name) {
                return place;
            }
            let Some((above, _)) = name.rsplit_once('/') else { return NONE };
            name = above;
        }
    }

    /// Puts active rows into the lists of their new places, and takes consequences from causes that are not above them any more.
    fn list_again(&mut self, now: Now) {
        let rows: Vec<u32> = self.rows.iter().filter_map(|(id, _)| u32::try_from(id).ok()).collect();
        for id in &rows {
            let stands = self.detail(*id).is_some_and(|detail| detail.cause == NONE);
            if stands && self.has(*id, Flags::ACTIVE) {
                self.detail_mut(*id).position = NONE;
                self.open(*id);
            }
        }
        for id in rows {
            let cause = self.detail(id).map_or(NONE, |detail| detail.cause);
            if cause != NONE && !self.may_be_cause(cause, id) {
                self.detach(id);
                self.detail_mut(id).changed = now.utc;
                self.stand(now, id, false);
                self.finish(now, cause);
            }
        }
    }
}
