//! Peers: what each takes, what waits for it, which invoke identifier is next.

use super::{PeerLimits, RequestError, RequestId, transaction};
use crate::Peer;
use crate::names::ConfirmedService;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: RequestId,
    pub(super) service: ConfirmedService,
    pub(super) parameters: Vec<u8>,
}

#[derive(Debug, Default)]
struct PeerState {
    limits: Option<PeerLimits>,
    queue: VecDeque<Pending>,
    in_flight: u8,
    next_invoke_id: u8,
    /// It stands in the line of those that may send.
    is_in_line: bool,
}

impl PeerState {
    /// Whether it now stands in the line, and did not before.
    fn stand_in_line(&mut self, in_flight_max: u8) -> bool {
        let in_flight_max =
            self.limits.and_then(|limits| limits.in_flight).map_or(in_flight_max, |max| max.clamp(1, 128));
        let comes = !self.is_in_line && !self.queue.is_empty() && self.in_flight < in_flight_max;
        self.is_in_line |= comes;
        comes
    }
}

#[derive(Debug)]
pub(super) struct Peers {
    peers: BTreeMap<Peer, PeerState>,
    /// Those with a request that may be sent, each once: they take turns.
    line: VecDeque<Peer>,
    queued: usize,
    peers_max: usize,
    queue_max: usize,
    in_flight_max: u8,
}

impl Peers {
    pub(super) const fn new(peers_max: usize, queue_max: usize, in_flight_max: u8) -> Self {
        Self { peers: BTreeMap::new(), line: VecDeque::new(), queued: 0, peers_max, queue_max, in_flight_max }
    }

    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn limits(&self, peer: &Peer) -> PeerLimits {
        self.peers.get(peer).and_then(|state| state.limits).unwrap_or_default()
    }

    pub(super) fn set_limits(&mut self, peer: Peer, limits: PeerLimits) {
        if let Some(state) = self.known(peer) {
            state.limits = Some(limits);
        }
    }

    /// # Errors
    /// It is too long for the peer, or too much waits already.
    pub(super) fn queue(&mut self, peer: Peer, pending: Pending) -> Result<(), RequestError> {
        let (queue_max, in_flight_max) = (self.queue_max, self.in_flight_max);
        let state = self.known(peer).ok_or(RequestError::TooManyPeers)?;
        let (bytes, limit) = (pending.parameters.len(), transaction::parameters_max(state.limits.unwrap_or_default()));
        if bytes > limit {
            return Err(RequestError::TooLong { bytes, limit });
        }
        if state.queue.len() >= queue_max {
            return Err(RequestError::QueueFull);
        }
        state.queue.push_back(pending);
        let may_send = state.stand_in_line(in_flight_max);
        self.queued += 1;
        self.line.extend(may_send.then_some(peer));
        Ok(())
    }

    /// The next request that may be sent, and an invoke identifier that `is_free` says no other request of the peer has.
    pub(super) fn next(&mut self, is_free: impl Fn(&Peer, u8) -> bool) -> Option<(Peer, u8, Pending)> {
        loop {
            let peer = self.line.pop_front()?;
            let Some(state) = self.peers.get_mut(&peer) else { continue };
            state.is_in_line = false;
            let ids = (0..=u8::MAX).map(|ahead| state.next_invoke_id.wrapping_add(ahead));
            let Some(invoke_id) = ids.into_iter().find(|id| is_free(&peer, *id)) else { continue };
            let Some(pending) = state.queue.pop_front() else { continue };
            state.next_invoke_id = invoke_id.wrapping_add(1);
            state.in_flight += 1;
            self.queued -= 1;
            self.line.extend(state.stand_in_line(self.in_flight_max).then_some(peer));
            return Some((peer, invoke_id, pending));
        }
    }

    /// A request of the peer has ended.
    pub(super) fn ended(&mut self, peer: &Peer) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.in_flight = state.in_flight.saturating_sub(1);
            self.line.extend(state.stand_in_line(self.in_flight_max).then_some(*peer));
        }
    }

    /// Forgets a peer and gives what waited for it.
    pub(super) fn forget(&mut self, peer: &Peer) -> VecDeque<Pending> {
        let queue = self.peers.remove(peer).map(|state| state.queue).unwrap_or_default();
        self.queued -= queue.len();
        self.line.retain(|other| other != peer);
        queue
    }

    /// The requests that wait for the peers that `is_meant` says.
    pub(super) fn take_queues(&mut self, is_meant: impl Fn(&Peer) -> bool) -> Vec<(Peer, Pending)> {
        let mut taken = Vec::new();
        for (peer, state) in self.peers.iter_mut().filter(|(peer, _)| is_meant(peer)) {
            taken.extend(state.queue.drain(..).map(|pending| (*peer, pending)));
        }
        self.queued -= taken.len();
        taken
    }

    fn known(&mut self, peer: Peer) -> Option<&mut PeerState> {
        if self.peers.len() >= self.peers_max && !self.peers.contains_key(&peer) {
            self.peers.retain(|_, state| state.in_flight > 0 || !state.queue.is_empty());
            if self.peers.len() >= self.peers_max {
                return None;
            }
        }
        Some(self.peers.entry(peer).or_default())
    }
}
