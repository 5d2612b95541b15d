//! Frames to their machines.

use super::{Channel, Member, MemberId, Presence};
use crate::link::{AddressKind, Frame, Header};
use alloc::vec::Vec;
use tieline_core::Now;

/// What a machine could not take yet.
#[derive(Debug)]
pub(super) struct Held {
    member: MemberId,
    octets: Vec<u8>,
}

impl<M: Member> Channel<M> {
    /// Takes frames until one of them is held; returns how many octets were used.
    pub(super) fn take(&mut self, now: Now, octets: &[u8]) -> usize {
        self.deliver_held(now);
        // All has been told and sent that could be: a machine that still takes nothing must not stop the others.
        while self.held.pop_front().is_some() {
            self.counters.frames_dropped += 1;
        }
        let mut rest = octets;
        while self.held.is_empty() {
            if !self.decoder.is_partial()
                && let Some((header, whole)) = whole_frame(rest)
                && let Some((frame, after)) = rest.split_at_checked(whole)
            {
                rest = after;
                self.route(now, header, frame);
                continue;
            }
            match self.decoder.decode(&mut rest) {
                None => break,
                Some(Err(refused)) => {
                    self.counters.octets_discarded += u64::try_from(refused.octets).unwrap_or(u64::MAX);
                }
                Some(Ok(frame)) => {
                    let (header, frame) = (frame.header(), frame.octets().to_vec());
                    self.route(now, header, &frame);
                }
            }
        }
        self.decoder.release();
        octets.len() - rest.len()
    }

    fn route(&mut self, now: Now, header: Header, frame: &[u8]) {
        let Header { destination, source, .. } = header;
        let known = match destination.kind() {
            AddressKind::Broadcast(_) => {
                self.counters.broadcasts += 1;
                return self.ids().for_each(|id| self.deliver(now, id, frame));
            }
            AddressKind::Station => self
                .by_address
                .get(&(destination, Some(source)))
                .or_else(|| self.by_address.get(&(destination, None)))
                .copied(),
            // Whoever is directly connected: the first that may be meant.
            AddressKind::Own => self.ids().next(),
            AddressKind::Reserved => None,
        };
        match known {
            Some(id) => {
                self.counters.frames += 1;
                self.deliver(now, id, frame);
            }
            None => self.counters.unknown_addresses += 1,
        }
    }

    fn deliver(&mut self, now: Now, id: MemberId, octets: &[u8]) {
        let Some(seat) = self.seat(id).filter(|seat| seat.presence == Presence::Up) else { return };
        (seat.heard, seat.rests_until) = (true, None);
        let mut rest = octets;
        while !rest.is_empty() {
            let used = seat.machine.handle_input(now, rest);
            if used == 0 {
                break;
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        if !rest.is_empty() {
            self.held.push_back(Held { member: id, octets: rest.to_vec() });
        }
        self.touch(id);
    }

    /// Offers what is held again; says whether anything was taken.
    pub(super) fn deliver_held(&mut self, now: Now) -> bool {
        let mut taken = false;
        for _ in 0..self.held.len() {
            let Some(Held { member, octets }) = self.held.pop_front() else { break };
            let before = self.held.len();
            self.deliver(now, member, &octets);
            let left = self.held.get(before).map_or(0, |held| held.octets.len());
            taken |= left < octets.len();
        }
        taken
    }
}

/// The frame at the start of the octets, where all of it is there and intact: without a copy. Anything else is for the
/// decoder.
fn whole_frame(octets: &[u8]) -> Option<(Header, usize)> {
    let (_, whole) = Frame::peek(octets)?;
    let frame = Frame::parse(octets.get(..whole)?)?;
    Some((frame.header(), whole))
}
