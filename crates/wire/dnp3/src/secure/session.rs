//! The session keys of one user, and how long they hold.

use super::crypto::{Key, Mac, MacUse, SessionKeys, mac};
use super::{KeyStatus, KeyStatusObject, KeyWrap, MacAlgorithm, Random};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Cursor, Instant};
use zeroize::Zeroizing;

/// What limits the use of session keys (IEEE 1815 7.5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// How long they hold.
    pub interval: Duration,
    /// How many messages they authenticate.
    pub count: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    keys: Option<SessionKeys>,
    /// Why there are no keys; [`KeyStatus::Ok`] exactly where there are.
    status: KeyStatus,
    ends: Instant,
    uses_left: u32,
}

impl Session {
    pub(super) const fn new() -> Self {
        Self { keys: None, status: KeyStatus::NotInitialized, ends: Instant::ZERO, uses_left: 0 }
    }

    pub(super) fn begin(&mut self, now: Instant, keys: SessionKeys, limits: KeyLimits) {
        *self = Self {
            keys: Some(keys),
            status: KeyStatus::Ok,
            ends: now + limits.interval,
            uses_left: limits.count.max(1),
        };
    }

    pub(super) fn end(&mut self, status: KeyStatus) {
        (self.keys, self.status) = (None, status);
    }

    /// As [`Session::end`], where there are keys to end.
    pub(super) fn break_off(&mut self, status: KeyStatus) {
        if self.keys.is_some() {
            self.end(status);
        }
    }

    pub(super) fn status(&mut self, now: Instant) -> KeyStatus {
        if self.keys.is_some() && (self.ends <= now || self.uses_left == 0) {
            self.end(KeyStatus::NotInitialized);
        }
        self.status
    }

    /// The keys, while they hold.
    pub(super) fn keys(&mut self, now: Instant) -> Option<&SessionKeys> {
        self.status(now);
        self.keys.as_ref()
    }

    pub(super) fn note_use(&mut self) {
        self.uses_left = self.uses_left.saturating_sub(1);
    }
}

impl SessionKeys {
    /// Two fresh keys.
    pub(super) fn random(wrap: KeyWrap, random: &mut dyn Random) -> Self {
        Self { control: Key::random(wrap, random), monitor: Key::random(wrap, random) }
    }

    /// `length 2 | CDSK | MDSK | key status without its MAC | zeros`, wrapped with the update key (IEEE 1815 A.45.6).
    pub(super) fn wrap(&self, update_key: &Key, status: &[u8]) -> Vec<u8> {
        let bytes = self.control.bytes().len();
        let mut plain = Zeroizing::new(Vec::with_capacity(2 + 2 * bytes + status.len() + 7));
        plain.extend_from_slice(&u16::try_from(bytes).unwrap_or(0).to_le_bytes());
        plain.extend_from_slice(self.control.bytes());
        plain.extend_from_slice(self.monitor.bytes());
        plain.extend_from_slice(status);
        update_key.wrap(&plain)
    }

    /// The reverse, if it answers exactly this status.
    pub(super) fn unwrap(update_key: &Key, wrapped: &[u8], status: &[u8]) -> Option<Self> {
        let plain = update_key.unwrap(wrapped)?;
        let mut cursor = Cursor::new(&plain);
        let bytes = usize::from(cursor.u16_le().ok()?);
        let control = Key::new(cursor.take(bytes).ok()?)?;
        let monitor = Key::new(cursor.take(bytes).ok()?)?;
        let filling = cursor.rest().strip_prefix(status)?;
        (filling.len() < 8 && filling.iter().all(|byte| *byte == 0)).then_some(Self { control, monitor })
    }

    /// The MAC of a session key status over the fragment of the key change.
    pub(super) fn status_mac(&self, algorithm: MacAlgorithm, user: u16, sequence: u32, change: &[u8]) -> Mac {
        mac(algorithm, &self.monitor, MacUse::key_status(user, sequence), &[change])
    }
}

impl KeyStatusObject<'_> {
    /// "All data in the session key status object, not including the MAC" (IEEE 1815 A.45.6).
    pub(super) fn without_mac(&self) -> Vec<u8> {
        let mut out = Vec::new();
        super::Authentication::KeyStatus(KeyStatusObject { mac: &[], ..*self }).emit(&mut out);
        out
    }
}
