//! Which virtual address a device has: it is known by its instance, and may have another address after each restart.
//!
//! ```text
//! send to an instance ─▶ bound? ── yes ─▶ its VMAC
//!                          └─ no ─▶ kept, Who-Is to all ─ I-Am ─▶ bound, what was kept goes out
//! ```
//!
//! A client knows such a device by an alias, [`Directory::alias`]: an address of a group, which no node has. A device that leaves
//! messages unanswered is asked for again, for it may have another address now.

use super::Vmac;
use crate::apdu::Apdu;
use crate::names::UnconfirmedService;
use crate::npdu::{Body, Npdu};
use crate::service::{IAm, WhoIs};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// The first byte of an alias: that of a group.
const ALIAS: u8 = 0x01;
/// Messages that are kept for a device whose address is not known; the oldest is dropped.
const KEPT_MAX: usize = 8;
/// The time between two Who-Is, so that a start with many devices does not flood the hub.
const ASK_GAP: Duration = Duration::from_millis(20);
/// The time between two Who-Is for the same device, and how long it may leave messages unanswered.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// What is known of a device.
#[derive(Debug, Default)]
struct Known {
    vmac: Option<Vmac>,
    kept: VecDeque<Vec<u8>>,
    asked_at: Option<Instant>,
    /// When the first message was sent that has no answer.
    unanswered: Option<Instant>,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// To this address.
    Vmac(Vmac),
    /// It is kept until the device says who it is.
    Kept,
}

/// The addresses of devices.
#[derive(Debug, Default)]
pub struct Directory {
    by_instance: BTreeMap<u32, Known>,
    by_vmac: BTreeMap<Vmac, u32>,
    to_ask: BTreeSet<u32>,
    next_ask: Instant,
    /// Kept messages of devices that have been found.
    ready: VecDeque<(Vmac, Vec<u8>)>,
    dropped: u64,
}

impl Directory {
    /// The address by which a device is known to a client.
    #[must_use]
    pub const fn alias(instance: u32) -> Vmac {
        let [_, a, b, c] = instance.to_be_bytes();
        Vmac([ALIAS, a, b, c, 0, 1])
    }

    /// The instance that an address stands for.
    #[must_use]
    pub const fn instance_of(alias: Vmac) -> Option<u32> {
        match alias.0 {
            [ALIAS, a, b, c, 0, 1] => Some(u32::from_be_bytes([0, a, b, c])),
            _ => None,
        }
    }

    /// Messages that were dropped because a device was not found.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The address of a device, where it has said it.
    #[must_use]
    pub fn vmac(&self, instance: u32) -> Option<Vmac> {
        self.by_instance.get(&instance)?.vmac
    }

    /// Says where a message to an address of a client goes.
    pub fn find(&mut self, now: Now, to: Vmac, npdu: &[u8]) -> Found {
        let Some(instance) = Self::instance_of(to) else { return Found::Vmac(to) };
        let known = self.by_instance.entry(instance).or_default();
        let is_asked = known.asked_at.is_some_and(|at| now.mono < at + ASK_EVERY);
        let Some(vmac) = known.vmac else {
            if known.kept.len() >= KEPT_MAX {
                known.kept.pop_front();
                self.dropped += 1;
            }
            known.kept.push_back(npdu.to_vec());
            if !is_asked {
                self.to_ask.insert(instance);
            }
            return Found::Kept;
        };
        let since = *known.unanswered.get_or_insert(now.mono);
        if !is_asked && now.mono >= since + ASK_EVERY {
            self.to_ask.insert(instance);
        }
        Found::Vmac(vmac)
    }

    /// The address by which the client knows a node.
    #[must_use]
    pub fn known_as(&self, vmac: Vmac) -> Vmac {
        self.by_vmac.get(&vmac).map_or(vmac, |instance| Self::alias(*instance))
    }

    /// Learns from a message of a node, and gives the address by which the client knows it.
    pub fn heard(&mut self, from: Vmac, npdu: &[u8]) -> Vmac {
        if let Some(instance) = instance_in(npdu) {
            self.bind(from, instance);
        }
        let known = self.by_vmac.get(&from).and_then(|instance| self.by_instance.get_mut(instance));
        if let Some(known) = known {
            known.unanswered = None;
        }
        self.known_as(from)
    }

    /// A device that a client speaks to has this address.
    fn bind(&mut self, vmac: Vmac, instance: u32) {
        let Some(known) = self.by_instance.get_mut(&instance) else { return };
        self.to_ask.remove(&instance);
        self.ready.extend(known.kept.drain(..).map(|npdu| (vmac, npdu)));
        if let Some(old) = known.vmac.replace(vmac)
            && self.by_vmac.get(&old) == Some(&instance)
        {
            self.by_vmac.remove(&old);
        }
        if let Some(other) = self.by_vmac.insert(vmac, instance).filter(|other| *other != instance)
            && let Some(other) = self.by_instance.get_mut(&other)
        {
            other.vmac = None;
        }
    }

    /// Another hub, or none: nothing is kept, and every device may be asked for at once.
    pub fn restart(&mut self) {
        self.ready.clear();
        self.to_ask.clear();
        for known in self.by_instance.values_mut() {
            known.kept.clear();
            (known.asked_at, known.unanswered) = (None, None);
        }
    }

    /// A device is no longer spoken to.
    pub fn forget(&mut self, alias: Vmac) {
        let Some(instance) = Self::instance_of(alias) else { return };
        self.to_ask.remove(&instance);
        if let Some(vmac) = self.by_instance.remove(&instance).and_then(|known| known.vmac) {
            self.by_vmac.remove(&vmac);
        }
    }

    /// When [`Directory::poll`] has something to send.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        if self.ready.is_empty() { (!self.to_ask.is_empty()).then_some(self.next_ask) } else { Some(Instant::ZERO) }
    }

    /// The next message that is due, and whom it is for.
    pub fn poll(&mut self, now: Now) -> Option<(Vmac, Vec<u8>)> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        if now.mono < self.next_ask {
            return None;
        }
        let instance = self.to_ask.pop_first()?;
        self.next_ask = now.mono + ASK_GAP;
        if let Some(known) = self.by_instance.get_mut(&instance) {
            known.asked_at = Some(now.mono);
        }
        Some((Vmac::BROADCAST, who_is(instance)))
    }
}

/// The instance that a node of this network says it has. What a router passes on is of another network.
fn instance_in(npdu: &[u8]) -> Option<u32> {
    let Npdu { source: None, body: Body::Apdu(apdu), .. } = Npdu::parse(npdu).ok()? else { return None };
    match Apdu::parse(apdu).ok()? {
        Apdu::UnconfirmedRequest { service: UnconfirmedService::I_AM, parameters } => {
            IAm::parse(parameters).ok().map(|i_am| i_am.device.instance())
        }
        _ => None,
    }
}

fn who_is(instance: u32) -> Vec<u8> {
    let (mut parameters, mut apdu, mut npdu) = (Vec::new(), Vec::new(), Vec::new());
    WhoIs { range: Some((instance, instance)) }.emit(&mut parameters);
    Apdu::UnconfirmedRequest { service: UnconfirmedService::WHO_IS, parameters: &parameters }.emit(&mut apdu);
    Npdu::local(&apdu, false).emit(&mut npdu);
    npdu
}
