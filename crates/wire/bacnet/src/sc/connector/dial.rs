//! Which hub is dialled next, and when.

use super::{ConnectorConfig, Hub, Reason};
use core::time::Duration;
use tieline_core::{Instant, Random};

/// The next attempt.
#[derive(Debug)]
pub(super) struct Dial {
    has_failover: bool,
    min: Duration,
    max: Duration,
    hub: Hub,
    at: Instant,
    /// The wait after the next failure of all hubs.
    wait: Duration,
    /// When the primary hub is dialled while the failover hub is in use, and the wait after that.
    return_at: Instant,
    return_wait: Duration,
    opened: Instant,
    random: Random,
}

impl Dial {
    pub(super) const fn new(config: &ConnectorConfig) -> Self {
        Self {
            has_failover: config.has_failover,
            min: config.reconnect_min,
            max: config.reconnect_max,
            hub: Hub::Primary,
            at: Instant::ZERO,
            wait: config.reconnect_min,
            return_at: Instant::ZERO,
            return_wait: config.reconnect_min,
            opened: Instant::ZERO,
            random: Random::new(config.seed),
        }
    }

    /// The next attempt, where there is no connection.
    pub(super) const fn next(&self) -> (Hub, Instant) {
        (self.hub, self.at)
    }

    /// When the primary hub is dialled, where the failover hub is in use.
    pub(super) const fn return_at(&self) -> Instant {
        self.return_at
    }

    /// An attempt failed: the failover hub has its turn at once, and after it the primary one after a wait.
    pub(super) fn failed(&mut self, now: Instant, hub: Hub, is_down: bool) {
        if !is_down {
            self.return_wait = (self.return_wait * 2).min(self.max);
            self.return_at = now + self.spread(self.return_wait);
            return;
        }
        (self.hub, self.at) = match hub {
            Hub::Primary if self.has_failover => (Hub::Failover, now),
            Hub::Primary | Hub::Failover => (Hub::Primary, now + self.back_off()),
        };
    }

    /// A WebSocket is open.
    pub(super) fn opened(&mut self, now: Instant) {
        self.opened = now;
        self.return_wait = self.min;
        self.return_at = now + self.spread(self.min);
    }

    /// A connection ended. One that lasted is made again at once; of others each waits twice as long as the one before.
    pub(super) fn ended(&mut self, now: Instant, hub: Hub, reason: Reason) {
        let lasted = now.since(self.opened) >= self.max;
        match reason {
            Reason::Left => (self.hub, self.at) = (Hub::Primary, now),
            Reason::DuplicateVmac => (self.hub, self.at) = (hub, now + self.back_off()),
            Reason::Lost | Reason::Silent | Reason::Disconnected if lasted => {
                self.wait = self.min;
                (self.hub, self.at) = (Hub::Primary, now);
            }
            Reason::Refused(_) | Reason::NotAccepted | Reason::Silent | Reason::Disconnected | Reason::Lost => {
                self.failed(now, hub, true)
            }
        }
    }

    /// The wait after a failure of all hubs; the next is twice as long.
    fn back_off(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(self.max);
        self.spread(wait)
    }

    /// Less up to a quarter, so that all nodes of a hub do not come back together.
    fn spread(&mut self, wait: Duration) -> Duration {
        let share = u32::try_from(self.random() >> 48).unwrap_or(0);
        wait - wait / 4 * share / 65_536
    }

    /// The next number of a source that is not for secrets.
    pub(super) const fn random(&mut self) -> u64 {
        self.random.number()
    }
}
