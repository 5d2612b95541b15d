//! How often a peer may fail to show who it is.
//!
//! A check of a password is slow on purpose, so that guessing is. A peer that keeps failing is refused before the
//! check, or its guesses would take the time of all others.

use alloc::collections::BTreeMap;
use core::net::IpAddr;
use tieline_core::Instant;

/// Peers whose failures are remembered.
pub const LOGIN_PEERS_MAX: usize = 4096;
/// Failures of one address that are looked at at once; one more for each second that passes.
const FAILURES_PER_S: u32 = 1;
const FAILURES_BURST: u32 = 10;

/// The failures of each address.
#[derive(Debug, Default)]
pub struct Logins {
    failed: BTreeMap<IpAddr, (Instant, u32)>,
    /// Refused without a look.
    pub refused: u64,
}

impl Logins {
    /// Whether what the peer shows is to be looked at.
    pub fn may_try(&mut self, now: Instant, peer: IpAddr) -> bool {
        let over = self.failures(now, peer) >= FAILURES_BURST;
        self.refused += u64::from(over);
        !over
    }

    /// What the peer showed was wrong.
    pub fn failed(&mut self, now: Instant, peer: IpAddr) {
        let count = self.failures(now, peer).saturating_add(1);
        if self.failed.len() >= LOGIN_PEERS_MAX && !self.failed.contains_key(&peer) {
            let least = self.failed.iter().min_by_key(|(_, (at, _))| *at).map(|(peer, _)| *peer);
            least.and_then(|least| self.failed.remove(&least));
        }
        self.failed.insert(peer, (now, count));
    }

    /// Failures that time has not forgiven yet.
    fn failures(&mut self, now: Instant, peer: IpAddr) -> u32 {
        let Some((at, count)) = self.failed.get(&peer).copied() else { return 0 };
        let forgiven = u32::try_from(now.since(at).as_secs()).unwrap_or(u32::MAX).saturating_mul(FAILURES_PER_S);
        let left = count.saturating_sub(forgiven);
        if left == 0 {
            self.failed.remove(&peer);
        }
        left
    }
}
