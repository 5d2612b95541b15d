//! The centre's answer to a batch, as bytes.
//!
//! ```text
//!  +---------+------+---------+---------+----------+---------+-------+
//!  | version | kind | epoch   | mark    | received | sent    | check |
//!  | 1 byte  | 1    | 8 bytes | 8 bytes | 8 bytes  | 8 bytes | 4     |
//!  +---------+------+---------+---------+----------+---------+-------+
//! ```
//!
//! | kind | the batch | `epoch`, `mark` |
//! |---|---|---|
//! | 0 stored | is on the centre's disk | of the batch; its last number |
//! | 1 not stored | did not continue after the mark, or was a question | of the batch; the number up to which all is on the disk |
//! | 2 busy | was not taken: ask again later | as 1 |
//! | 3 old epoch | has an epoch below the known one | the known epoch; its mark |
//! | 4 wrong site | names another site than the one that is connected | 0 |
//! | 5 illegal | cannot be read | 0 |
//! | 6 full | is of a site beyond those that the centre takes | 0 |
//!
//! `received` and `sent` are the centre's clock when the batch came and when the answer went, in microseconds since 1970: what
//! lies between is not the link's, and the clocks can be compared ([`crate::ClockOffset`]). Numbers have their low byte first;
//! `check` is the CRC-32 of all bytes before it.

use crate::BatchError;
use alloc::vec::Vec;
use tieline_core::{Cursor, Timestamp};

const VERSION: u8 = 1;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on the disk.
    Stored,
    /// It did not continue after the mark, or was a question.
    NotStored,
    /// Later.
    Busy,
    /// The site has begun a higher epoch before.
    OldEpoch,
    /// It names another site than the one that sent it.
    WrongSite,
    /// It cannot be read.
    Illegal,
    /// The centre takes no further site.
    Full,
}

impl Outcome {
    const ALL: [Self; 7] =
        [Self::Stored, Self::NotStored, Self::Busy, Self::OldEpoch, Self::WrongSite, Self::Illegal, Self::Full];

    const fn number(self) -> u8 {
        match self {
            Self::Stored => 0,
            Self::NotStored => 1,
            Self::Busy => 2,
            Self::OldEpoch => 3,
            Self::WrongSite => 4,
            Self::Illegal => 5,
            Self::Full => 6,
        }
    }
}

/// How far a stream of a site is on the centre's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Of the numbers.
    pub epoch: u64,
    /// The last number; 0 where there is none.
    pub number: u64,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of the batch.
    pub outcome: Outcome,
    /// How far its stream is on the disk.
    pub mark: Mark,
    /// The centre's clock when the batch came.
    pub received: Timestamp,
    /// And when the answer went.
    pub sent: Timestamp,
}

impl Answer {
    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(38);
        out.extend([VERSION, self.outcome.number()]);
        out.extend(self.mark.epoch.to_le_bytes());
        out.extend(self.mark.number.to_le_bytes());
        out.extend(self.received.micros().to_le_bytes());
        out.extend(self.sent.micros().to_le_bytes());
        let check = crc32fast::hash(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some((covered, check)) = bytes.split_last_chunk() else { return Err(BatchError::Truncated) };
        let mut cursor = Cursor::new(covered);
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(BatchError::Version(version));
        }
        if crc32fast::hash(covered) != u32::from_le_bytes(*check) {
            return Err(BatchError::Check);
        }
        let kind = cursor.u8()?;
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.number() == kind);
        let outcome = outcome.ok_or(BatchError::Illegal("kind of answer"))?;
        let mark = Mark { epoch: cursor.u64_le()?, number: cursor.u64_le()? };
        let (received, sent) = (cursor.i64_le()?, cursor.i64_le()?);
        if !cursor.is_empty() {
            return Err(BatchError::Illegal("length"));
        }
        let at = Timestamp::from_micros;
        Ok(Self { outcome, mark, received: at(received), sent: at(sent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_answer_that_was_written_reads_the_same(
            kind in 0..7_usize, epoch: u64, number: u64, received in -1_i64 << 50..1 << 50, sent in -1_i64 << 50..1 << 50
        ) {
            let at = Timestamp::from_micros;
            let mark = Mark { epoch, number };
            let answer = Answer { outcome: Outcome::ALL[kind], mark, received: at(received), sent: at(sent) };
            let bytes = answer.emit();
            prop_assert_eq!(Answer::parse(&bytes), Ok(answer));
            for length in 0..bytes.len() {
                prop_assert!(Answer::parse(&bytes[..length]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Answer::parse(&bytes);
        }
    }
}
