//! Registration as a foreign device (annex J.5.2), so that broadcasts come and go without a broadcast of our own.

use super::{Client, Event, ForeignConfig};
use crate::bvlc::Bvlc;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// How long the answer to a registration may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long to wait after a refusal.
const REFUSED: Duration = Duration::from_secs(30);
/// The result of a refused registration.
const REGISTRATION_NAK: u16 = 0x0030;

#[derive(Debug)]
pub(super) struct Foreign {
    config: ForeignConfig,
    next_at: Instant,
    /// A registration was sent and not answered.
    is_waiting: bool,
    /// What the owner was told last.
    told: Option<bool>,
}

impl Foreign {
    pub(super) const fn new(config: ForeignConfig) -> Self {
        Self { config, next_at: Instant::ZERO, is_waiting: false, told: None }
    }

    pub(super) const fn timeout(&self) -> Instant {
        self.next_at
    }
}

impl Client {
    /// Registers, where it is time.
    pub(super) fn register(&mut self, now: Now) {
        let Some(foreign) = self.foreign.as_mut().filter(|foreign| foreign.next_at <= now.mono) else { return };
        let was_silent = foreign.is_waiting && foreign.told != Some(false);
        foreign.is_waiting = true;
        foreign.next_at = now.mono + ANSWER;
        if was_silent {
            foreign.told = Some(false);
        }
        let ForeignConfig { bbmd, lifetime_s } = foreign.config;
        self.transmit_link(bbmd, &Bvlc::RegisterForeignDevice(lifetime_s));
        if was_silent {
            self.tell(Event::NotRegistered(None));
        }
    }

    pub(super) fn handle_result(&mut self, now: Now, code: u16) {
        let Some(foreign) = self.foreign.as_mut() else { return };
        if code != 0 && code != REGISTRATION_NAK {
            // A broadcast was refused: the registration is gone, as after a restart of the other end.
            if !foreign.is_waiting {
                foreign.next_at = now.mono;
            }
            return;
        }
        if !foreign.is_waiting {
            return;
        }
        foreign.is_waiting = false;
        let is_registered = code == 0;
        let half = Duration::from_secs(u64::from(foreign.config.lifetime_s).max(2)) / 2;
        foreign.next_at = now.mono + if is_registered { half } else { REFUSED };
        if foreign.told != Some(is_registered) {
            foreign.told = Some(is_registered);
            self.tell(if is_registered { Event::Registered } else { Event::NotRegistered(Some(code)) });
        }
    }
}
