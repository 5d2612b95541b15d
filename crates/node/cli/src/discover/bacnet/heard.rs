//! Which devices were heard of, and where.

use std::collections::BTreeMap;
use tieline_bacnet::{INSTANCE_ANY, Peer};

/// The devices that were heard of, among those that are looked for.
#[derive(Debug)]
pub struct Heard {
    /// The lowest and the highest instance that is looked for.
    instances: (u32, u32),
    /// The instance that each said.
    by_peer: BTreeMap<Peer, u32>,
    /// Where each instance was heard of first.
    by_instance: BTreeMap<u32, Peer>,
}

impl Heard {
    /// Of nobody yet.
    pub const fn new(instances: (u32, u32)) -> Self {
        Self { instances, by_peer: BTreeMap::new(), by_instance: BTreeMap::new() }
    }

    /// How many devices.
    pub fn len(&self) -> usize {
        self.by_peer.len()
    }

    /// Whether something was heard from there.
    pub fn has(&self, peer: Peer) -> bool {
        self.by_peer.contains_key(&peer)
    }

    /// Whether a device that says who it is is looked for, and was not heard from there.
    pub fn is_new(&self, peer: Peer, instance: u32) -> bool {
        instance != INSTANCE_ANY && self.is_wanted(instance) && !self.has(peer)
    }

    /// Whether an instance that was not heard of, but answers, is looked for and not known.
    pub fn is_new_instance(&self, instance: u32) -> bool {
        self.is_wanted(instance) && !self.by_instance.contains_key(&instance)
    }

    /// Takes who is where; a warning where another has the instance.
    pub fn add(&mut self, peer: Peer, instance: u32) -> Option<String> {
        self.by_peer.insert(peer, instance);
        let first = *self.by_instance.entry(instance).or_insert(peer);
        (first != peer)
            .then(|| format!("the instance {instance} is at {first} and at {peer}: an instance is to be of one device"))
    }

    fn is_wanted(&self, instance: u32) -> bool {
        let (low, high) = self.instances;
        (low..=high).contains(&instance)
    }
}
