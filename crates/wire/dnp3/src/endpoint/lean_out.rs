//! Lean messages on their way out.

use super::extras::Phase;
use super::{Endpoint, Role};
use crate::lean::{Head, Hello, Kind, Message};
use crate::link::{Control, Function, Header, LinkAddress};
use alloc::vec::Vec;

impl Endpoint {
    /// Puts the header of a lean message before the fragment `out[start..]`; false where frames are to be made of it.
    pub(super) fn wrap_in_place(&self, destination: LinkAddress, out: &mut Vec<u8>, start: usize) -> bool {
        let Some(extras) = self.extras.as_ref().filter(|extras| extras.phase == Phase::Lean) else { return false };
        let kind = destination.broadcast().map_or(Kind::Fragment, Kind::Broadcast);
        let bytes = u16::try_from(out.len().saturating_sub(start)).unwrap_or(u16::MAX);
        let head = Head { kind, bytes };
        if extras.has_datagrams() {
            prepend(out, start, Message::header(head, destination, self.config.local));
        } else {
            prepend(out, start, head.emit());
        }
        true
    }

    /// [`Endpoint::poll_transmit`] of an endpoint with extras; None where link frames are to be made.
    pub(super) fn poll_extra(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        let local = self.config.local;
        let extras = self.extras.as_mut()?;
        if core::mem::take(&mut extras.hello_due) {
            let offers = extras.phase == Phase::Offering;
            let destination = if offers { self.config.remote.unwrap_or(LinkAddress::OWN) } else { extras.peer };
            let hello = Hello {
                from_master: self.config.role == Role::Master,
                answer: !offers,
                carrier: extras.carrier(),
                source: local,
                destination,
                fragment_max: self.config.fragment_max,
            };
            out.extend_from_slice(&hello.emit());
            if offers {
                (extras.offers, extras.counters.offers) = (extras.offers.saturating_add(1), extras.counters.offers + 1);
                let control = Control::new(hello.from_master, Function::RequestStatus);
                Header { control, destination, source: local }.emit(&[], out);
            }
            return Some(true);
        }
        if extras.phase != Phase::Lean {
            return None;
        }
        let datagrams = extras.has_datagrams();
        let before = out.len();
        for reply in &mut self.replies {
            let Some((control, destination)) = reply.take() else { break };
            let kind = match control.function() {
                Some(Function::RequestStatus) => Kind::StatusRequest,
                Some(Function::Status) => Kind::Status,
                // The carrier acknowledges, and there is no link to reset.
                Some(_) | None => continue,
            };
            let head = Head { kind, bytes: 0 };
            match datagrams {
                true => out.extend_from_slice(&Message::header(head, destination, local)),
                false => out.extend_from_slice(&head.emit()),
            }
        }
        Some(out.len() > before)
    }
}

/// Moves `out[start..]` to make room for a header.
fn prepend<const N: usize>(out: &mut Vec<u8>, start: usize, header: [u8; N]) {
    let end = out.len();
    if start <= end {
        out.extend_from_slice(&header);
        out.copy_within(start..end, start + N);
        if let Some(room) = out.get_mut(start..start + N) {
            room.copy_from_slice(&header);
        }
    }
}
