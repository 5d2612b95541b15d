//! Session changes: what of a session has to outlive the server. The owner takes the changes, makes them durable, and
//! says so.

use crate::PacketId;
use crate::message::Delivery;
use alloc::vec::Vec;

/// A change of what is pending for a session, or of what it has taken.
#[derive(Clone, Debug)]
pub enum SessionChange {
    /// A message is pending for the client.
    Pending {
        /// Rises with every message of the session.
        serial: u64,
        /// What its packets are known by.
        packet_id: PacketId,
        /// The message.
        delivery: Delivery,
        /// Whether it goes out at once; one that waits for others has a [`SessionChange::Sent`] when it does.
        sent: bool,
    },
    /// Messages up to this one may have been sent: a retransmission of one of them sets DUP ([MQTT-3.3.1-1]).
    Sent {
        /// The number of the message in its session.
        serial: u64,
    },
    /// The client has a QoS 2 message; PUBREL is due.
    Received {
        /// The number of the message in its session.
        serial: u64,
    },
    /// A message is no longer pending for the client.
    Done {
        /// The number of the message in its session.
        serial: u64,
    },
    /// The client has forgotten a QoS 2 message of its own; PUBCOMP is due.
    Released {
        /// Its packet identifier.
        packet_id: PacketId,
    },
    /// The change is void already.
    Void,
}

/// Changes that were not taken yet. They are numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct SessionChanges {
    on: bool,
    list: Vec<SessionChange>,
    /// How many were taken.
    taken: u64,
    /// Up to which they are settled.
    settled: u64,
    serial: u64,
}

impl SessionChanges {
    /// Whether changes are recorded from here on.
    pub(crate) fn keep(&mut self, on: bool) {
        self.on = on;
        if !on {
            // What waited for them goes on.
            self.list = Vec::new();
            self.settled = u64::MAX;
        } else if self.settled == u64::MAX {
            self.settled = self.taken;
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Numbers of messages go on after this one.
    pub(crate) fn goes_on_after(&mut self, serial: u64) {
        self.serial = self.serial.max(serial);
    }

    /// Up to which change they are settled.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// Changes up to this one are settled; which were before.
    pub(crate) fn settle(&mut self, upto: u64) -> u64 {
        let before = self.settled;
        self.settled = before.max(upto);
        before
    }

    /// All changes since the last time, and the number of the last one.
    pub(crate) fn take(&mut self) -> (Vec<SessionChange>, u64) {
        let list = core::mem::take(&mut self.list);
        self.taken += list.len() as u64;
        (list, self.taken)
    }

    /// Records a message; gives its number in the session, and that of the change.
    pub(crate) fn pending(&mut self, packet_id: PacketId, delivery: Delivery, sent: bool) -> (u64, u64) {
        self.serial += 1;
        let serial = self.serial;
        (serial, self.push(SessionChange::Pending { serial, packet_id, delivery, sent }))
    }

    /// A message that waited goes out; all before it have.
    pub(crate) fn sent(&mut self, serial: u64) {
        match self.list.last_mut() {
            Some(SessionChange::Sent { serial: last }) => *last = serial,
            Some(_) | None => drop(self.push(SessionChange::Sent { serial })),
        }
    }

    pub(crate) fn received(&mut self, serial: u64) -> u64 {
        self.push(SessionChange::Received { serial })
    }

    pub(crate) fn released(&mut self, packet_id: PacketId) -> u64 {
        self.push(SessionChange::Released { packet_id })
    }

    /// A message is no longer pending. Where its change was not taken yet, nothing needs to be known of it.
    pub(crate) fn done(&mut self, serial: u64) {
        if serial == 0 || !self.on {
            return;
        }
        let is_pending =
            |change: &&mut SessionChange| matches!(change, SessionChange::Pending { serial: of, .. } if *of == serial);
        match self.list.iter_mut().rev().find(is_pending) {
            Some(pending) => *pending = SessionChange::Void,
            None => drop(self.push(SessionChange::Done { serial })),
        }
    }

    fn push(&mut self, change: SessionChange) -> u64 {
        if !self.on {
            return 0;
        }
        self.list.push(change);
        self.taken + self.list.len() as u64
    }
}
