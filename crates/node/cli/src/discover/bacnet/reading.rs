//! A device that is read: what it is, which objects it has, what each is.

use super::object::Object;
use std::collections::{BTreeMap, VecDeque};
use tieline_bacnet::client::{Client, Failure};
use tieline_bacnet::device::{Device, DeviceConfig, Profile};
use tieline_bacnet::{ObjectId, Peer, PropertyRef, Value};
use tieline_core::Now;

/// Objects that are asked about at a time, so that the progress is seen.
const OBJECTS_AT_ONCE: usize = 64;

/// A device that was found.
#[derive(Debug)]
pub struct Found {
    /// Where it is.
    pub peer: Peer,
    /// Whether it has said who it is; else it is only an address yet.
    pub is_heard: bool,
    /// Its instance.
    pub instance: Option<u32>,
    /// Its vendor's number.
    pub vendor: Option<u32>,
    /// What it says of itself; none where it does not.
    pub profile: Option<Profile>,
    /// Its objects, in its order, the device object left out.
    pub objects: Vec<Object>,
    /// Why not all of it could be read.
    pub error: Option<String>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is asked something.
    Goes,
    /// All is known.
    Done,
}

/// A device that is read.
#[derive(Debug)]
pub struct Reading {
    pub device: Device,
    pub found: Found,
    to_describe: VecDeque<ObjectId>,
    by_id: BTreeMap<ObjectId, usize>,
}

impl Reading {
    /// Of a device that has said who it is, or of an address (none).
    pub fn new(peer: Peer, instance: Option<u32>, vendor: Option<u16>) -> Self {
        let config = DeviceConfig { in_flight: 1, ..DeviceConfig::default() };
        let found = Found {
            peer,
            is_heard: instance.is_some(),
            instance,
            vendor: vendor.map(u32::from),
            profile: None,
            objects: Vec::new(),
            error: None,
        };
        let device = Device::new(peer, instance, config);
        Self { device, found, to_describe: VecDeque::new(), by_id: BTreeMap::new() }
    }

    /// Objects that have not been asked about.
    pub fn objects_left(&self) -> usize {
        self.to_describe.len()
    }

    /// The device says what it is.
    pub fn learned(&mut self, profile: Profile) {
        self.found.is_heard = true;
        self.found.instance = Some(profile.instance);
        self.found.vendor = profile.vendor_id.or(self.found.vendor);
        self.found.profile = Some(profile);
    }

    /// Asks for the list of objects.
    pub fn list(&mut self, now: Now, client: &mut Client) -> Step {
        match self.device.read_object_list(now, client) {
            Ok(_) => Step::Goes,
            Err(error) => self.ended(error.to_string()),
        }
    }

    /// The objects are known.
    pub fn listed(&mut self, objects: Vec<ObjectId>) {
        let own = self.found.instance.map(ObjectId::device);
        for id in objects {
            if Some(id) != own && !self.by_id.contains_key(&id) {
                self.by_id.insert(id, self.found.objects.len());
                self.found.objects.push(Object::new(id));
                self.to_describe.push_back(id);
            }
        }
    }

    /// Asks about the next objects.
    pub fn describe(&mut self, now: Now, client: &mut Client) -> Step {
        let next = self.to_describe.len().min(OBJECTS_AT_ONCE);
        let references: Vec<PropertyRef> = self.to_describe.drain(..next).flat_map(Object::references).collect();
        if references.is_empty() {
            return Step::Done;
        }
        match self.device.read(now, client, references) {
            Ok(_) => Step::Goes,
            Err(error) => self.ended(error.to_string()),
        }
    }

    /// Takes what the device says of objects.
    ///
    /// # Errors
    /// The device no longer answers.
    pub fn described(&mut self, results: &[(PropertyRef, Result<Value, Failure>)]) -> Result<(), Failure> {
        for (reference, answer) in results {
            let place = self.by_id.get(&reference.object);
            if let Some(object) = place.and_then(|place| self.found.objects.get_mut(*place)) {
                object.take(reference, answer);
            }
        }
        let silence =
            results.iter().find_map(|(_, answer)| answer.as_ref().err().filter(|failure| failure.is_silence()));
        silence.map_or(Ok(()), |failure| Err(*failure))
    }

    /// Something could not be read: what is known is all there is.
    pub fn failed(&mut self, failure: &Failure) -> Step {
        self.ended(failure.to_string())
    }

    fn ended(&mut self, why: String) -> Step {
        self.found.error = Some(why);
        Step::Done
    }
}
