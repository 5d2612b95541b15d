//! The reading side: records in order, from a place that the reader keeps, beside a journal that goes on.

use crate::scan::{Damage, Fault, Scan, Step};
use crate::segment::{SegmentId, Seq};
use alloc::string::String;
use tieline_core::{Storage, StorageError, StorageErrorKind};

/// What stands at the reader's place.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A record as it was appended.
    Record {
        /// Which.
        seq: Seq,
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Records that are not there any more; the reader goes on behind them.
    Lost(Lost),
}

/// Records that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first of them.
    pub first: Seq,
    /// How many.
    pub records: u64,
    /// Where they were.
    pub damage: Damage,
}

/// A place in the journal. It has a storage of its own, so reading never waits for a sync.
pub struct Reader<S> {
    storage: S,
    next: Seq,
    scan: Option<Scan>,
    /// The first sequence of the segment after the one in `scan`, where there is one.
    limit: Option<Seq>,
    damage: Option<Damage>,
}

enum Found {
    Record(usize),
    Lost(Lost),
}

impl<S: Storage> Reader<S> {
    /// Begins with the record `next`.
    pub const fn new(storage: S, next: Seq) -> Self {
        Self { storage, next, scan: None, limit: None, damage: None }
    }

    /// The record that comes next.
    #[must_use]
    pub const fn place(&self) -> Seq {
        self.next
    }

    /// The next record up to `upto`, which must not be beyond [`crate::Journal::durable`]; None when there is none.
    ///
    /// # Errors
    /// The storage failed; the reader's place has not moved.
    pub fn next(&mut self, upto: Seq) -> Result<Option<Item<'_>>, StorageError> {
        if self.next > upto {
            return Ok(None);
        }
        match self.find(upto)? {
            Found::Lost(lost) => {
                self.next = Seq(lost.first.0.saturating_add(lost.records));
                Ok(Some(Item::Lost(lost)))
            }
            Found::Record(len) => {
                let seq = self.next;
                // The payload borrows from the scan, so the scan moves on with the next call, as a record before
                // its place.
                self.next = seq.next();
                let Some(scan) = &mut self.scan else { return Ok(None) };
                match scan.payload(&mut self.storage, len) {
                    Ok(payload) => Ok(Some(Item::Record { seq, payload })),
                    Err(error) => {
                        self.next = seq;
                        Err(error)
                    }
                }
            }
        }
    }

    fn find(&mut self, upto: Seq) -> Result<Found, StorageError> {
        let mut missing = false;
        loop {
            if self.limit.is_some_and(|limit| limit <= self.next) {
                self.scan = None;
            }
            let Some(scan) = &mut self.scan else {
                if let Some(lost) = self.choose(upto)? {
                    return Ok(Found::Lost(lost));
                }
                continue;
            };
            let step = match scan.step(&mut self.storage) {
                Err(error) if error.kind == StorageErrorKind::Missing && !missing => {
                    // Removed since it was chosen.
                    (self.scan, missing) = (None, true);
                    continue;
                }
                step => step?,
            };
            match step {
                Step::Record { seq, len } if seq < self.next => scan.advance(seq, len),
                Step::Record { seq, len } if seq == self.next => return Ok(Found::Record(len)),
                Step::Record { seq, .. } => {
                    let end = self.limit.map_or(seq, |limit| limit.min(seq));
                    return Ok(Found::Lost(self.lose(end.min(upto.next()))));
                }
                Step::Damage(damage) => self.damage = Some(damage),
                Step::Torn(damage) => {
                    self.damage = Some(damage);
                    if let Some(lost) = self.leave(upto)? {
                        return Ok(Found::Lost(lost));
                    }
                }
                Step::End => {
                    if let Some(lost) = self.leave(upto)? {
                        return Ok(Found::Lost(lost));
                    }
                }
            }
        }
    }

    /// Opens the segment that holds the next record; what no segment holds is lost.
    fn choose(&mut self, upto: Seq) -> Result<Option<Lost>, StorageError> {
        let ids = SegmentId::sorted(&self.storage.list()?);
        let behind = ids.partition_point(|id| id.first <= self.next);
        self.limit = ids.get(behind).map(|id| id.first);
        self.damage = None;
        let Some(id) = behind.checked_sub(1).and_then(|at| ids.get(at)) else {
            let end = self.limit.map_or(upto.next(), |limit| limit.min(upto.next()));
            return Ok(Some(self.lose(end)));
        };
        self.scan = Some(Scan::new(*id));
        Ok(None)
    }

    /// The segment has no more: the record is in a segment that came since, or lost.
    fn leave(&mut self, upto: Seq) -> Result<Option<Lost>, StorageError> {
        let from = self.scan.as_ref().map(|scan| scan.id);
        let ids = SegmentId::sorted(&self.storage.list()?);
        let behind = ids.partition_point(|id| id.first <= self.next);
        if behind.checked_sub(1).and_then(|at| ids.get(at)).copied() != from {
            self.scan = None;
            return Ok(None);
        }
        let end = ids.get(behind).map_or(upto.next(), |id| id.first.min(upto.next()));
        self.limit = ids.get(behind).map(|id| id.first);
        Ok(Some(self.lose(end)))
    }

    fn lose(&mut self, end: Seq) -> Lost {
        let unknown = Damage {
            segment: self.scan.as_ref().map_or_else(String::new, |scan| String::from(scan.name())),
            at: self.scan.as_ref().map_or(0, Scan::at),
            bytes: 0,
            why: Fault::Gone,
        };
        Lost { first: self.next, records: end.since(self.next), damage: self.damage.take().unwrap_or(unknown) }
    }
}
