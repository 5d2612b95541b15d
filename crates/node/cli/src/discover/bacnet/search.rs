//! Whom Who-Is go to, at a pace, and how far that is.
//!
//! ```text
//! Registering ─▶ Asking ─ all sent ─▶ Waiting for the last answers ─▶ Asked ─▶ Done
//! ```

use super::survey::Plan;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tieline_bacnet::Peer;
use tieline_bacnet::client::{Client, RequestError, Target};
use tieline_core::{Instant, Now};

/// Discoveries that the client is given at a time; the rest wait here.
const TARGETS_AT_ONCE: usize = 64;

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The broadcast management device is asked to take the registration.
    Registering,
    /// Who-Is go out.
    Asking,
    /// The last answers may come until then.
    Waiting(Instant),
    /// Nobody else is asked.
    Asked,
    /// The end has been told.
    Done,
}

/// See the head of the module.
#[derive(Debug)]
pub struct Search {
    phase: Phase,
    targets: VecDeque<Target>,
    /// Discoveries that the client has.
    asking: usize,
    /// Addresses that are asked themselves if nothing is heard of them.
    addresses: Vec<Peer>,
    instances: (u32, u32),
    width: u32,
    wait: Duration,
    /// Who-Is that are sent in all.
    who_is_count: u64,
}

impl Search {
    /// Of all targets of a plan.
    pub fn new(plan: &Plan) -> Self {
        let addresses = plan.targets.iter().filter_map(|target| match target {
            Target::Peer(peer) => Some(Peer::direct(peer.address)),
            Target::Local | Target::Remote(_) | Target::Global => None,
        });
        let addresses: BTreeSet<Peer> = addresses.collect();
        let (low, high) = plan.instances;
        let by_broadcast = u64::from((high - low) / plan.width.max(1)) + 1;
        let count = |target: &Target| if matches!(target, Target::Peer(_)) { 1 } else { by_broadcast };
        Self {
            phase: if plan.client.foreign.is_some() { Phase::Registering } else { Phase::Asking },
            targets: plan.targets.iter().copied().collect(),
            asking: 0,
            addresses: addresses.into_iter().collect(),
            instances: plan.instances,
            width: plan.width,
            wait: plan.wait,
            who_is_count: plan.targets.iter().map(count).sum(),
        }
    }

    /// How far it is, for people; none where nobody else is asked.
    pub fn progress(&self, sent: u64) -> Option<String> {
        match self.phase {
            Phase::Registering => Some("registering as a foreign device".to_owned()),
            Phase::Asking => Some(format!("{sent} of {} Who-Is", self.who_is_count)),
            Phase::Waiting(_) => Some("waiting for answers".to_owned()),
            Phase::Asked | Phase::Done => None,
        }
    }

    /// Gives the client what it is to ask next.
    ///
    /// # Errors
    /// The client does not take it.
    pub fn ask(&mut self, now: Now, client: &mut Client) -> Result<(), RequestError> {
        if self.phase != Phase::Asking {
            return Ok(());
        }
        let (low, high) = self.instances;
        while self.asking < TARGETS_AT_ONCE
            && let Some(target) = self.targets.pop_front()
        {
            // Behind one address there is one device, or a router: all instances are asked for at once.
            let width = if matches!(target, Target::Peer(_)) { u32::MAX } else { self.width };
            client.discover(target, low, high, width)?;
            self.asking += 1;
        }
        if self.asking == 0 {
            self.phase = Phase::Waiting(now.mono + self.wait);
        }
        Ok(())
    }

    /// All Who-Is to a target have been sent.
    pub const fn sent(&mut self) {
        self.asking = self.asking.saturating_sub(1);
    }

    /// Whether the registration was waited for, which is there.
    pub fn registered(&mut self) -> bool {
        let was_registering = self.is_registering();
        if was_registering {
            self.phase = Phase::Asking;
        }
        was_registering
    }

    /// Whether the registration is waited for.
    pub fn is_registering(&self) -> bool {
        self.phase == Phase::Registering
    }

    /// Whether nobody else is asked.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Asked | Phase::Done)
    }

    /// Whether the end has been told.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// The end is told. Whether it was not before.
    pub fn end(&mut self) -> bool {
        std::mem::replace(&mut self.phase, Phase::Done) != Phase::Done
    }

    /// The addresses that were named, as soon as the last answers were waited for.
    pub fn waited(&mut self, now: Now) -> Vec<Peer> {
        match self.phase {
            Phase::Waiting(until) if until <= now.mono => {
                self.phase = Phase::Asked;
                std::mem::take(&mut self.addresses)
            }
            Phase::Registering | Phase::Asking | Phase::Waiting(_) | Phase::Asked | Phase::Done => Vec::new(),
        }
    }

    /// When [`Search::waited`] must be called at the latest.
    pub const fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting(until) => Some(until),
            Phase::Registering | Phase::Asking | Phase::Asked | Phase::Done => None,
        }
    }
}
