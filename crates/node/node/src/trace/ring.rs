//! The newest records of one connection, in memory.

use super::counters::{TraceCounters, add, sub};
use super::queue::ByteQueue;
use super::record::{self, HEADER_BYTES, Kind};
use crate::config::TraceConfig;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline_core::{DeviceId, Now};
use tieline_net::{Closed, Direction, Peer, Tap};
use tokio::sync::mpsc;

/// Memory that a trace begins with; it doubles up to what the configuration allows.
const BYTES_MIN: usize = 1024;
/// Readers that may follow one connection.
pub(super) const FOLLOWERS_MAX: usize = 8;
/// Bytes that may wait for the disk; what follows is dropped and counted.
pub(super) const PENDING_BYTES_MAX: usize = 256 * 1024;

/// The newest records of one connection. Records leave when they are too old, or when there is no room for newer ones.
#[derive(Debug)]
pub(super) struct Ring {
    inner: RefCell<Inner>,
    /// Whether somebody besides the memory wants each record.
    wanted: Cell<bool>,
    counters: Arc<TraceCounters>,
}

#[derive(Debug)]
struct Inner {
    records: ByteQueue,
    /// Bytes and time of the oldest record; none without records.
    oldest: Option<(usize, u64)>,
    keep_ns: u64,
    memory: usize,
    followers: Vec<mpsc::Sender<Bytes>>,
    /// What waits for the disk; none where nothing is to be written there.
    pending: Option<Vec<u8>>,
}

impl Ring {
    pub(super) fn new(config: &TraceConfig, counters: &Arc<TraceCounters>) -> Self {
        let inner = Inner {
            records: ByteQueue::default(),
            oldest: None,
            keep_ns: u64::try_from(config.keep.as_nanos()).unwrap_or(u64::MAX),
            memory: config.memory,
            followers: Vec::new(),
            pending: (config.disk > 0).then(Vec::new),
        };
        let wanted = Cell::new(inner.pending.is_some());
        Self { inner: RefCell::new(inner), wanted, counters: Arc::clone(counters) }
    }

    /// Takes a record. A payload that has no room is cut.
    pub(super) fn push(&self, kind: Kind, connection: u8, now: Now, payload: &[u8]) {
        let mut inner = self.inner.borrow_mut();
        let room = inner.memory.saturating_sub(HEADER_BYTES);
        let payload = payload.get(..room).unwrap_or(payload);
        let header = record::header(kind, connection, now, u32::try_from(payload.len()).unwrap_or(0));
        inner.make_room(now.mono.0, HEADER_BYTES + payload.len(), &self.counters);
        if inner.oldest.is_none() {
            inner.oldest = Some((HEADER_BYTES + payload.len(), now.mono.0));
        }
        inner.records.push_record(&header, payload);
        if self.wanted.get() {
            inner.pass_on(&header, payload, &self.counters);
            self.wanted.set(inner.pending.is_some() || !inner.followers.is_empty());
        }
    }

    /// The records, oldest first; those that are too old by now are left out.
    pub(super) fn copy(&self, now: Now) -> Vec<u8> {
        let mut inner = self.inner.borrow_mut();
        inner.make_room(now.mono.0, 0, &self.counters);
        let (front, back) = inner.records.parts();
        [front, back].concat()
    }

    /// Gives every record from here on to a reader too; false where there are enough.
    pub(super) fn follow(&self, reader: mpsc::Sender<Bytes>) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.followers.retain(|follower| !follower.is_closed());
        let takes = inner.followers.len() < FOLLOWERS_MAX;
        if takes {
            inner.followers.push(reader);
            self.wanted.set(true);
        }
        takes
    }

    /// What waits for the disk; nothing waits any more.
    pub(super) fn take_pending(&self) -> Option<Vec<u8>> {
        let mut inner = self.inner.borrow_mut();
        inner.pending.as_mut().filter(|pending| !pending.is_empty()).map(std::mem::take)
    }

    /// What the disk did not take waits on, in front.
    pub(super) fn put_back(&self, mut bytes: Vec<u8>) {
        let mut inner = self.inner.borrow_mut();
        let Some(pending) = &mut inner.pending else { return };
        bytes.append(pending);
        *pending = bytes;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        sub(&self.counters.memory_bytes, self.inner.get_mut().records.capacity());
    }
}

impl Inner {
    /// Lets go of records that are too old, and of the oldest until so many bytes have room.
    #[inline]
    fn make_room(&mut self, now_ns: u64, needed: usize, counters: &TraceCounters) {
        while let Some((bytes, at)) = self.oldest
            && (now_ns.saturating_sub(at) > self.keep_ns || self.records.len() + needed > self.memory)
        {
            self.records.pop(bytes);
            self.oldest = self.next_oldest();
        }
        if self.records.len() + needed > self.records.capacity() {
            self.grow(needed, counters);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize, counters: &TraceCounters) {
        let (had, length) = (self.records.capacity(), self.records.len());
        let wanted = (had * 2).max(length + needed).max(BYTES_MIN).min(self.memory.max(length + needed));
        self.records.reserve(wanted);
        add(&counters.memory_bytes, self.records.capacity() - had);
    }

    fn next_oldest(&self) -> Option<(usize, u64)> {
        let header = self.records.header()?;
        let (length, (_, times)) = (*header.first_chunk()?, header.split_at(6));
        let payload = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        Some((HEADER_BYTES + payload, u64::from_le_bytes(*times.first_chunk()?)))
    }

    fn pass_on(&mut self, header: &[u8], payload: &[u8], counters: &TraceCounters) {
        if let Some(pending) = &mut self.pending {
            if pending.len() + header.len() + payload.len() <= PENDING_BYTES_MAX {
                pending.extend_from_slice(header);
                pending.extend_from_slice(payload);
            } else {
                add(&counters.disk_dropped_bytes, header.len() + payload.len());
            }
        }
        if self.followers.is_empty() {
            return;
        }
        let bytes = Bytes::from([header, payload].concat());
        self.followers.retain(|follower| match follower.try_send(bytes.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                counters.follower_drops.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    }
}

/// What one session tells the ring of its device.
#[derive(Debug)]
pub(super) struct RingTap {
    pub(super) ring: Rc<Ring>,
    pub(super) connection: u8,
}

impl Tap for RingTap {
    fn moved(&self, now: Now, direction: Direction, bytes: &[u8]) {
        let kind = match direction {
            Direction::Received => Kind::Received,
            Direction::Sent => Kind::Sent,
        };
        self.ring.push(kind, self.connection, now, bytes);
    }

    fn connected(&self, now: Now, peer: &Peer) {
        self.note(Kind::Connected, now, &peer.to_string());
    }

    fn closed(&self, now: Now, why: Closed) {
        self.note(Kind::Closed, now, &why.to_string());
    }
}

impl RingTap {
    fn note(&self, kind: Kind, now: Now, text: &str) {
        self.ring.push(kind, self.connection, now, &record::note(None::<DeviceId>, text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Records;
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use tieline_core::{Instant, Timestamp};

    fn at(ms: u64) -> Now {
        Now { mono: Instant(1), utc: Timestamp::from_millis(0) }.later(Duration::from_millis(ms))
    }

    fn ring(memory: usize, disk: u64) -> Ring {
        let config = TraceConfig { memory, disk, ..TraceConfig::default() };
        Ring::new(&config, &Arc::default())
    }

    fn payloads(ring: &Ring, now: Now) -> Vec<Vec<u8>> {
        Records(&ring.copy(now)).map(|record| record.payload.to_vec()).collect()
    }

    #[test]
    fn records_older_than_the_minute_leave() {
        let ring = ring(4096, 0);
        [0, 30_000, 59_000].into_iter().zip(0_u8..).for_each(|(ms, n)| ring.push(Kind::Sent, 0, at(ms), &[n]));
        assert_eq!(payloads(&ring, at(60_000)), [[0], [1], [2]]);
        assert_eq!(payloads(&ring, at(60_001)), [[1], [2]]);
        assert_eq!(payloads(&ring, at(200_000)), [[0_u8; 0]; 0]);
        ring.push(Kind::Sent, 0, at(200_000), &[9]);
        assert_eq!(payloads(&ring, at(200_000)), [[9]]);
    }

    #[test]
    fn followers_and_disk_are_given_each_record() {
        let ring = ring(4096, 1);
        let (sender, mut reader) = mpsc::channel(1);
        assert!(ring.follow(sender));
        ring.push(Kind::Received, 1, at(5), b"abc");
        ring.push(Kind::Received, 1, at(6), b"missed");
        let followed = reader.try_recv().unwrap();
        assert_eq!(Records(&followed).next().unwrap().payload, b"abc");
        assert_eq!(ring.counters.follower_drops.load(Ordering::Relaxed), 1);
        let pending = ring.take_pending().unwrap();
        assert_eq!(Records(&pending).count(), 2);
        assert_eq!(ring.take_pending(), None);
        ring.push(Kind::Received, 1, at(7), b"later");
        ring.put_back(pending);
        assert_eq!(Records(&ring.take_pending().unwrap()).count(), 3);
        let readers: Vec<_> = (0..FOLLOWERS_MAX).map(|_| mpsc::channel(1)).collect();
        let taken = readers.iter().filter(|(sender, _)| ring.follow(sender.clone())).count();
        assert_eq!(taken, FOLLOWERS_MAX - 1);
        drop((readers, reader));
        assert!(ring.follow(mpsc::channel(1).0));
    }

    #[test]
    fn what_the_disk_does_not_take_is_dropped_and_counted() {
        let ring = ring(4096, 1);
        let payload = [0; 1000];
        (0..300).for_each(|ms| ring.push(Kind::Sent, 0, at(ms), &payload));
        assert!(ring.take_pending().unwrap().len() <= PENDING_BYTES_MAX);
        assert!(ring.counters.disk_dropped_bytes.load(Ordering::Relaxed) > 0);
    }

    proptest! {
        #[test]
        fn the_newest_records_are_there_within_the_memory(
            lengths in prop::collection::vec(0..400_usize, 1..200), memory in 256..3000_usize,
        ) {
            let ring = ring(memory, 0);
            let all: Vec<Vec<u8>> = lengths.iter().zip(0_u8..).map(|(length, n)| vec![n; *length]).collect();
            for payload in &all {
                ring.push(Kind::Sent, 0, at(1), payload);
                prop_assert!(ring.copy(at(1)).len() <= memory);
            }
            let found = payloads(&ring, at(1));
            let cut: Vec<Vec<u8>> =
                all.iter().map(|payload| payload[..payload.len().min(memory - HEADER_BYTES)].to_vec()).collect();
            prop_assert!(!found.is_empty() && cut.ends_with(&found));
            prop_assert!(ring.counters.memory_bytes.load(Ordering::Relaxed) <= 4096);
        }
    }
}
