//! The outstation as a machine: the endpoint below, the application above.

use super::application::OUTBOX_MAX;
use super::{Outstation, OutstationEvent, secured};
use crate::endpoint::Received;
use crate::link::LinkAddress;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::{Instant, Machine, Now};

impl Machine for Outstation {
    type Event = OutstationEvent;

    fn handle_connected(&mut self, now: Now) {
        self.endpoint.handle_connected(now.mono);
        self.application.handle_connected(now);
    }

    fn handle_disconnected(&mut self, _now: Now) {
        self.endpoint.reset();
        self.application.handle_disconnected();
        if let Some(secure) = &mut self.secure {
            secure.handle_disconnected();
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        let Self { endpoint, application, secure } = self;
        let mut used = 0;
        while application.outbox.len() < OUTBOX_MAX {
            let (taken, received) = endpoint.handle_input(bytes.get(used..).unwrap_or(&[]));
            used += taken;
            match received {
                None => break,
                Some(Received::LinkStatus { .. }) => {}
                Some(Received::Fragment { broadcast, .. }) => {
                    secured::hand_over(secure, application, now, endpoint.fragment(), broadcast);
                    endpoint.release();
                    // The answer goes out before the next request is looked at.
                    if application.has_reply() || application.has_acts() || secured::has_reply(secure) {
                        break;
                    }
                }
            }
        }
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        self.endpoint.handle_timeout(now.mono);
        self.application.handle_timeout(now);
        if let Some(secure) = &mut self.secure {
            secure.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let negotiates = self.endpoint.holds_back(now.mono);
        let replied = self.endpoint.poll_transmit(out);
        if negotiates {
            return replied;
        }
        let start = out.len();
        if !secured::write_fragment(&mut self.secure, &mut self.application, now, out) {
            return replied;
        }
        let master = LinkAddress::new(self.application.config.master);
        self.endpoint.frame_in_place(master, out, start);
        true
    }

    fn poll_event(&mut self) -> Option<OutstationEvent> {
        let event = self.application.outbox.pop_front();
        if self.application.outbox.is_empty() && self.application.outbox.capacity() > 0 {
            self.application.outbox = VecDeque::new();
        }
        event.or_else(|| secured::poll_event(&mut self.secure))
    }

    fn timeout(&self) -> Option<Instant> {
        let secure = self.secure.as_ref().and_then(|secure| secure.timeout());
        self.application.timeout().into_iter().chain(self.endpoint.timeout()).chain(secure).min()
    }

    fn is_closed(&self) -> bool {
        self.endpoint.is_broken()
    }
}
