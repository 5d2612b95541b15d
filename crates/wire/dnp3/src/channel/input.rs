//! Frames to their machines.

use super::{Channel, Member, MemberId, Presence};
use crate::link::{AddressKind, Frame, Header};
use alloc::vec::Vec;
use tieline_core::Now;

/// What a machine could not take yet.
#[derive(Debug)]
pub(super) struct Held {
    member: MemberId,
    bytes: Vec<u8>,
}

impl Held {
    pub(super) const fn member(&self) -> MemberId {
        self.member
    }
}

impl<M: Member> Channel<M> {
    /// Takes frames until one of them is held; returns how many bytes were used.
    pub(super) fn take(&mut self, now: Now, bytes: &[u8]) -> usize {
        self.deliver_held(now);
        // All has been told and sent that could be: a machine that still takes nothing must not stop the others.
        while self.held.pop_front().is_some() {
            self.counters.frames_dropped += 1;
        }
        let mut rest = bytes;
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
                    self.counters.bytes_discarded += u64::try_from(refused.bytes).unwrap_or(u64::MAX);
                }
                Some(Ok(frame)) => {
                    let (header, frame) = (frame.header(), frame.bytes().to_vec());
                    self.route(now, header, &frame);
                }
            }
        }
        self.decoder.release();
        bytes.len() - rest.len()
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
            // The directly connected member: the first that may be meant.
            AddressKind::Own => self.ids().find(|id| self.member(*id).is_some()),
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

    fn deliver(&mut self, now: Now, id: MemberId, bytes: &[u8]) {
        let Some(slot) = self.slot(id).filter(|slot| slot.presence == Presence::Up) else { return };
        (slot.heard, slot.rests_until) = (true, None);
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = slot.machine.handle_input(now, rest);
            if used == 0 {
                break;
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        if !rest.is_empty() {
            self.held.push_back(Held { member: id, bytes: rest.to_vec() });
        }
        self.touch(id);
    }

    /// Offers what is held again; says whether anything was taken.
    pub(super) fn deliver_held(&mut self, now: Now) -> bool {
        let mut taken = false;
        for _ in 0..self.held.len() {
            let Some(Held { member, bytes }) = self.held.pop_front() else { break };
            let before = self.held.len();
            self.deliver(now, member, &bytes);
            let left = self.held.get(before).map_or(0, |held| held.bytes.len());
            taken |= left < bytes.len();
        }
        taken
    }
}

/// The frame at the start of the bytes, where all of it is there and intact: without a copy. Anything else is for the
/// decoder.
fn whole_frame(bytes: &[u8]) -> Option<(Header, usize)> {
    let (_, whole) = Frame::peek(bytes)?;
    let frame = Frame::parse(bytes.get(..whole)?)?;
    Some((frame.header(), whole))
}
