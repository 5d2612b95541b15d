//! Reads one segment front to back, in bounded memory, and finds the next whole frame behind damage.

use crate::segment::{HEAD_BYTES, HEADER_BYTES, Head, RECORD_BYTES_MAX, SegmentId, Seq};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Storage, StorageError};

/// How much one storage read asks for.
const CHUNK_BYTES: usize = 256 << 10;

/// What is wrong with bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file ends before the record does: its write was cut off.
    Torn,
    /// A checksum does not match.
    Checksum,
    /// The file that held the records is not there.
    Gone,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torn => "torn",
            Self::Checksum => "wrong checksum",
            Self::Gone => "no file",
        })
    }
}

/// A stretch of a segment that holds no record. It stays in the file; readers step over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's name.
    pub segment: String,
    /// Where the stretch begins, in bytes from the start of the file.
    pub at: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// What is wrong.
    pub why: Fault,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of {}: {}", self.bytes, self.at, self.segment, self.why)
    }
}

/// The bytes that stand where the payload of a damaged frame was: not to be believed, but perhaps to be understood. None
/// where the file is gone, or holds too few or too many for one frame.
///
/// # Errors
/// The storage failed.
pub fn salvage<S: Storage>(storage: &mut S, damage: &Damage) -> Result<Option<Vec<u8>>, StorageError> {
    let bytes = usize::try_from(damage.bytes).unwrap_or(usize::MAX);
    if damage.segment.is_empty() || bytes <= HEAD_BYTES || bytes > HEAD_BYTES + RECORD_BYTES_MAX {
        return Ok(None);
    }
    let mut payload = alloc::vec![0; bytes - HEAD_BYTES];
    let mut held = 0;
    while let Some(rest) = payload.get_mut(held..).filter(|rest| !rest.is_empty()) {
        let read = storage.read(&damage.segment, damage.at + (HEAD_BYTES + held) as u64, rest)?;
        if read == 0 {
            return Ok(None);
        }
        held += read;
    }
    Ok(Some(payload))
}

/// What `pick` finds in the last record in which it finds something. Of the segments that is read which has it, and those behind it.
///
/// # Errors
/// The storage failed.
pub fn find_last<S: Storage, T>(storage: &mut S, pick: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, StorageError> {
    for id in SegmentId::sorted(&storage.list()?).into_iter().rev() {
        let (mut scan, mut found) = (Scan::new(id), None);
        loop {
            match scan.step(storage)? {
                Step::Record { seq, len } => {
                    found = pick(scan.payload(storage, len)?).or(found);
                    scan.advance(seq, len);
                }
                Step::Damage(_) => {}
                Step::Torn(_) | Step::End => break,
            }
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What stands at the scan's place.
pub(crate) enum Step {
    /// A whole record.
    Record { seq: Seq, len: usize },
    /// Bytes that are none; the scan stands behind them.
    Damage(Damage),
    /// A frame that the file's end cuts off; the scan stays before it.
    Torn(Damage),
    /// Nothing.
    End,
}

/// A place in one segment.
pub(crate) struct Scan {
    pub(crate) id: SegmentId,
    name: String,
    at: u64,
    last: Seq,
    window: Window,
}

impl Scan {
    pub(crate) fn new(id: SegmentId) -> Self {
        let at = HEADER_BYTES as u64;
        Self { id, name: id.name(), at, last: Seq(0), window: Window { start: 0, bytes: Vec::new() } }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// What comes next. Bytes that look wrong are read once more before they are called damaged: another handle may
    /// have cut and rewritten them.
    pub(crate) fn step<S: Storage>(&mut self, storage: &mut S) -> Result<Step, StorageError> {
        for attempt in 0..2 {
            let at = self.at;
            let left = self.window.view(storage, &self.name, at, HEAD_BYTES)?.len();
            if left == 0 {
                return Ok(Step::End);
            }
            match self.frame(storage, at)? {
                Found::Whole(head) => return Ok(Step::Record { seq: head.seq, len: head.len }),
                Found::Short(bytes) if attempt == 1 => return Ok(Step::Torn(self.damage(bytes, Fault::Torn))),
                Found::Wrong if attempt == 1 => return self.search(storage),
                Found::Short(_) | Found::Wrong => self.window.bytes.clear(),
            }
        }
        Ok(Step::End)
    }

    /// The payload of the record that [`Scan::step`] found, `len` bytes long.
    pub(crate) fn payload<S: Storage>(&mut self, storage: &mut S, len: usize) -> Result<&[u8], StorageError> {
        let whole = self.window.view(storage, &self.name, self.at, HEAD_BYTES + len)?;
        Ok(whole.get(HEAD_BYTES..).unwrap_or_default())
    }

    /// Steps over the record that [`Scan::step`] found.
    pub(crate) fn advance(&mut self, seq: Seq, len: usize) {
        self.at += (HEAD_BYTES + len) as u64;
        self.last = seq;
    }

    fn frame<S: Storage>(&mut self, storage: &mut S, at: u64) -> Result<Found, StorageError> {
        let (stamp, last, first) = (self.id.stamp, self.last, self.id.first);
        let bytes = self.window.view(storage, &self.name, at, HEAD_BYTES)?;
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(Found::Short(bytes.len())) };
        let Some(head) = Head::parse(head, stamp).filter(|h| h.seq > last && h.seq >= first) else {
            return Ok(Found::Wrong);
        };
        let whole = self.window.view(storage, &self.name, at, HEAD_BYTES + head.len)?;
        let payload = whole.get(HEAD_BYTES..).unwrap_or_default();
        if payload.len() < head.len {
            return Ok(Found::Short(whole.len()));
        }
        Ok(if head.covers(payload, stamp) { Found::Whole(head) } else { Found::Wrong })
    }

    /// Finds the next whole frame behind a wrong one, byte by byte.
    fn search<S: Storage>(&mut self, storage: &mut S) -> Result<Step, StorageError> {
        let mut at = self.at;
        loop {
            at += 1;
            if self.window.view(storage, &self.name, at, HEAD_BYTES)?.len() < HEAD_BYTES {
                at = storage.len(&self.name)?.max(at);
                break;
            }
            if let Found::Whole(_) = self.frame(storage, at)? {
                break;
            }
        }
        let bytes = usize::try_from(at - self.at).unwrap_or(usize::MAX);
        let damage = self.damage(bytes, Fault::Checksum);
        self.at = at;
        Ok(Step::Damage(damage))
    }

    fn damage(&self, bytes: usize, why: Fault) -> Damage {
        Damage { segment: self.name.clone(), at: self.at, bytes: bytes as u64, why }
    }
}

enum Found {
    Whole(Head),
    /// The file ends this many bytes on.
    Short(usize),
    Wrong,
}

/// A stretch of the file in memory.
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Up to `want` bytes at `at`; fewer only at the end of the file.
    fn view<S: Storage>(&mut self, storage: &mut S, name: &str, at: u64, want: usize) -> Result<&[u8], StorageError> {
        let mut skip = self.skip(at);
        if self.bytes.len() < skip.saturating_add(want) {
            self.bytes.drain(..skip.min(self.bytes.len()));
            self.start = at;
            skip = 0;
            self.fill(storage, name, want)?;
        }
        let view = self.bytes.get(skip..).unwrap_or_default();
        Ok(view.get(..want).unwrap_or(view))
    }

    /// How far into the window `at` lies; a place outside empties it.
    fn skip(&mut self, at: u64) -> usize {
        let inside = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match inside.filter(|skip| *skip <= self.bytes.len()) {
            Some(skip) => skip,
            None => {
                self.bytes.clear();
                self.start = at;
                0
            }
        }
    }

    fn fill<S: Storage>(&mut self, storage: &mut S, name: &str, want: usize) -> Result<(), StorageError> {
        while self.bytes.len() < want {
            let held = self.bytes.len();
            self.bytes.resize(held + CHUNK_BYTES.max(want - held), 0);
            let from = self.start + held as u64;
            let got = storage.read(name, from, self.bytes.get_mut(held..).unwrap_or_default());
            self.bytes.truncate(held + got.as_ref().map_or(0, |got| *got));
            if got? == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}
