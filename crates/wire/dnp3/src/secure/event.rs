//! What the owner learns of secure authentication.

use super::{AuthError, Key, Role, Statistic};
use alloc::collections::VecDeque;
use alloc::string::String;

/// Events kept for the owner; beyond, the oldest is dropped. Losing one loses no state but an update key, which is
/// why machines take no message that changes one while the queue is full.
pub(super) const EVENTS_MAX: usize = 32;

/// What the owner of a machine learns of its security.
#[derive(Clone, Debug, PartialEq)]
pub enum SecurityEvent {
    /// A user has session keys.
    KeysChanged {
        /// The number of the user.
        user: u16,
    },
    /// A user's session keys are gone: the master must change them before anything critical.
    KeysLost {
        /// The number of the user.
        user: u16,
    },
    /// Session keys could not be changed; it is tried again.
    KeyChangeFailed {
        /// The number of the user.
        user: u16,
    },
    /// A message was not authentic, or its user may not ask for it. It was not performed.
    Refused {
        /// Who claims to have sent it; 0 where that is not known.
        user: u16,
        /// Why.
        error: AuthError,
    },
    /// The peer refused a message of ours.
    ErrorReceived {
        /// Who had sent it.
        user: u16,
        /// Why; None for codes that the standard does not name.
        error: Option<AuthError>,
    },
    /// A user was added, or has another update key: the owner must keep it, or the user is locked out after a restart.
    UpdateKeyChanged {
        /// The number of the user.
        user: u16,
        /// The name of the user.
        name: String,
        /// What the user may do; in a master what was asked for.
        role: Role,
        /// The last moment of the role, days since 1970-01-01; None without end.
        until_day: Option<u32>,
        /// The key.
        key: Key,
    },
    /// A user was removed: the owner must forget the update key.
    UserRemoved {
        /// The number of the user.
        user: u16,
    },
    /// The authority's sequence number went on: the owner must keep it, or old changes could be sent again.
    StatusSequence(u32),
    /// A statistic reached a multiple of its threshold (group 122).
    Statistic {
        /// Which.
        statistic: Statistic,
        /// How many.
        count: u32,
    },
}

/// Events in the order they came.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<SecurityEvent>,
    dropped: u64,
}

impl Events {
    pub(super) fn push(&mut self, event: SecurityEvent) {
        if self.queue.len() >= EVENTS_MAX {
            self.queue.pop_front();
            self.dropped += 1;
        }
        self.queue.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<SecurityEvent> {
        let event = self.queue.pop_front()?;
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Some(event)
    }

    pub(super) fn has_room_for(&self, count: usize) -> bool {
        self.queue.len() + count <= EVENTS_MAX
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}
