//! The format of what a member appends to the log. A message has records (`tieline_relay::message_records`); each is a part of a record
//! of the ledger or of the journal, or begins a term.
//!
//! ```text
//!  +------+- - - - -
//!  | head | bytes       bits 0-1: 0 a term begins, 1 history, 2 ledger, 3 another; bit 4: the next part follows
//!  +------+- - - - -    ledger: bit 2: a compaction begins in it, bit 3: ends in it
//!                       another: bit 2: 0 commands, 1 a file; bit 3: it replaces the file; bits 5-7: 0 control, 1 sites, 2 edits, 3 audit, 4 databases
//! ```
//!
//! A place in the log is the sequence of a message and which of its records it is, in 16 bits. The place of a record in parts is that of
//! the last one.

use bytes::Bytes;
use tieline_history::{ReplicaFile, ReplicaKind};
use tieline_journal::RECORD_BYTES_MAX;

/// Bytes of a part at most: two of them and what is before them are a message that a server takes.
const PART_BYTES: usize = 384 << 10;
const HISTORY: u8 = 1;
const LEDGER: u8 = 2;
const OTHER: u8 = 3;
const KIND: u8 = 3;
/// Of what is neither history nor ledger: a file, and that all of it is in the record.
const FILE: u8 = 4;
const REPLACES: u8 = 8;
/// Where the head has which file it is.
const FILE_SHIFT: u32 = 5;
const BEGINS: u8 = 4;
const ENDS: u8 = 8;
const MORE: u8 = 16;
const KNOWN: u8 = KIND | BEGINS | ENDS | MORE;
const INDEX_BITS: u32 = 16;

/// The record that begins a term.
pub const TERM: &[u8] = &[0];

/// Which place a record of a message has.
#[must_use]
pub const fn place(sequence: u64, index: u64) -> u64 {
    (sequence << INDEX_BITS) | index
}

/// The sequence of the message that has a place.
#[must_use]
pub const fn sequence_of(place: u64) -> u64 {
    place >> INDEX_BITS
}

/// A record in parts, as they are appended one after another.
#[must_use]
pub fn split(kind: ReplicaKind, record: &[u8]) -> Vec<Bytes> {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let head = match kind {
        ReplicaKind::History => HISTORY,
        ReplicaKind::Commands => OTHER,
        ReplicaKind::File { file, replaces } => {
            OTHER | FILE | flag(replaces, REPLACES) | (number_of(file) << FILE_SHIFT)
        }
        ReplicaKind::Ledger { begins, ends } => LEDGER | flag(begins, BEGINS) | flag(ends, ENDS),
    };
    let count = record.len().div_ceil(PART_BYTES);
    let part = |(index, bytes): (usize, &[u8])| {
        let mut part = Vec::with_capacity(1 + bytes.len());
        part.push(head | flag(index + 1 < count, MORE));
        part.extend_from_slice(bytes);
        part.into()
    };
    // A record without bytes, as of a file that becomes empty, has a part, too.
    let first = record.is_empty().then_some(record);
    first.into_iter().chain(record.chunks(PART_BYTES)).enumerate().map(part).collect()
}

const fn number_of(file: ReplicaFile) -> u8 {
    match file {
        ReplicaFile::Control => 0,
        ReplicaFile::Sites => 1,
        ReplicaFile::Edits => 2,
        ReplicaFile::Audit => 3,
        ReplicaFile::Databases => 4,
    }
}

fn file_of(head: u8) -> Option<ReplicaFile> {
    use ReplicaFile::{Audit, Control, Databases, Edits, Sites};
    let all = [Control, Sites, Edits, Audit, Databases];
    all.into_iter().find(|file| number_of(*file) == head >> FILE_SHIFT)
}

/// What a record of a message comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// More parts follow.
    Nothing,
    /// A term begins.
    Term,
    /// A record is whole.
    Whole(ReplicaKind, Vec<u8>),
}

/// Puts parts together. A record that a leader did not end is void.
#[derive(Debug, Default)]
pub struct Joiner {
    history: Vec<u8>,
    ledger: Vec<u8>,
    file: Vec<u8>,
}

impl Joiner {
    /// The next record of the log.
    ///
    /// # Errors
    /// It is none that this release knows; in words.
    pub fn take(&mut self, record: &[u8]) -> Result<Taken, String> {
        let (&head, bytes) = record.split_first().ok_or("an empty record")?;
        let kind = match head & KIND {
            0 => {
                *self = Self::default();
                return Ok(Taken::Term);
            }
            HISTORY => ReplicaKind::History,
            LEDGER => ReplicaKind::Ledger { begins: head & BEGINS != 0, ends: head & ENDS != 0 },
            // That a leader sent commands is in no folder but in its own audit log.
            _ if head & FILE == 0 => return Ok(Taken::Nothing),
            _ => {
                let file = file_of(head).ok_or_else(|| newer(head))?;
                ReplicaKind::File { file, replaces: head & REPLACES != 0 }
            }
        };
        if head & KIND != OTHER && head & !KNOWN != 0 {
            return Err(newer(head));
        }
        let whole = match kind {
            ReplicaKind::History => &mut self.history,
            ReplicaKind::Ledger { .. } => &mut self.ledger,
            ReplicaKind::File { .. } | ReplicaKind::Commands => &mut self.file,
        };
        if whole.len() + bytes.len() > RECORD_BYTES_MAX {
            return Err(format!("a record of more than {RECORD_BYTES_MAX} bytes, which no leader writes"));
        }
        whole.extend_from_slice(bytes);
        Ok(if head & MORE == 0 { Taken::Whole(kind, std::mem::take(whole)) } else { Taken::Nothing })
    }
}

fn newer(head: u8) -> String {
    format!("a record with the head {head:#04x}, which a newer release wrote")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGER_RECORD: ReplicaKind = ReplicaKind::Ledger { begins: true, ends: false };

    #[test]
    fn parts_are_put_together_by_kind() {
        for len in [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES] {
            let record: Vec<u8> = (0..len).map(|byte| byte.to_le_bytes()[0]).collect();
            let mut joiner = Joiner::default();
            let other = split(ReplicaKind::History, b"h");
            let files = [(ReplicaFile::Control, true), (ReplicaFile::Sites, false)];
            let files = files.map(|(file, replaces)| ReplicaKind::File { file, replaces });
            for (kind, expect) in [ReplicaKind::History, LEDGER_RECORD, files[0], files[1]].map(|kind| (kind, &record))
            {
                let parts = split(kind, &record);
                let (last, first) = parts.split_last().unwrap();
                assert!(first.iter().all(|part| joiner.take(part) == Ok(Taken::Nothing)));
                if kind != ReplicaKind::History {
                    assert_eq!(joiner.take(&other[0]), Ok(Taken::Whole(ReplicaKind::History, b"h".to_vec())));
                }
                assert_eq!(joiner.take(last), Ok(Taken::Whole(kind, expect.clone())));
            }
        }
    }

    #[test]
    fn what_a_leader_did_not_end_is_void() {
        let mut joiner = Joiner::default();
        let parts = split(LEDGER_RECORD, &vec![7; PART_BYTES + 1]);
        assert_eq!(joiner.take(&parts[0]), Ok(Taken::Nothing));
        assert_eq!(joiner.take(TERM), Ok(Taken::Term));
        assert_eq!(joiner.take(&split(LEDGER_RECORD, b"x")[0]), Ok(Taken::Whole(LEDGER_RECORD, b"x".to_vec())));
        assert_eq!(joiner.take(&split(ReplicaKind::Commands, b"1")[0]), Ok(Taken::Nothing));
        // A head that no release has written yet: of history, and of a file.
        assert!([&[][..], &[0x21], &[0xE7]].iter().all(|record| joiner.take(record).is_err()));
    }

    #[test]
    fn a_record_without_an_end_takes_no_more_than_the_longest() {
        let part = split(LEDGER_RECORD, &vec![7; PART_BYTES + 1]).swap_remove(0);
        let mut joiner = Joiner::default();
        let taken = (0..).map(|_| joiner.take(&part)).take_while(Result::is_ok).count();
        assert_eq!(taken, RECORD_BYTES_MAX / PART_BYTES);
    }

    #[test]
    fn places_are_in_the_order_of_the_log() {
        assert!(place(7, 65_535) < place(8, 0) && sequence_of(place(8, 3)) == 8);
    }
}
