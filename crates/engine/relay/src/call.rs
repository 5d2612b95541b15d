//! A request to a site and its answer, as bytes.
//!
//! ```text
//!  call     +---------+----------+--------+-----+--------+-----------+------+-------+
//!           | version | deadline | length | who | length | requester | body | check |
//!           | 1 byte  | 8 bytes  | 2      | …   | 2      | …         | …    | 4     |
//!           +---------+----------+--------+-----+--------+-----------+------+-------+
//!  answer   +---------+------+------+-------+
//!           | version | kind | body | check |
//!           | 1 byte  | 1    | …    | 4     |
//!           +---------+------+------+-------+
//! ```
//!
//! `deadline` is a time of the centre's clock in microseconds since 1970: a site that gets the call later does nothing. `who` is written to
//! the audit log of the site, `requester` owns reservations. `who`, `requester` and bodies are UTF-8; the body of a call and that of an
//! answer are those of the HTTP API, JSON.
//!
//! | kind | what became of the call | body |
//! |---|---|---|
//! | 0 answered | it was taken, or refused by the same checks as a local one | the answer |
//! | 1 late | it came after its deadline: nothing was done | words |
//! | 2 refused | the site does not take it from the centre: nothing was done | words |
//! | 3 busy | too many calls wait at the site: nothing was done | words |
//!
//! Numbers have their low byte first; `check` is the CRC-32 of all bytes before it.

use crate::BatchError;
use crate::frame::{checked, covered};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use tieline_core::{Cursor, Timestamp};

const VERSION: u8 = 1;
/// A call or an answer is at most so long: less than what a server of the fabric takes.
pub const CALL_BYTES_MAX: usize = 900_000;
/// Bytes of who asks, and of the requester.
pub const NAME_BYTES_MAX: usize = 1024;

/// A request to a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCall {
    /// The site does nothing after it, by the clock of the centre.
    pub deadline: Timestamp,
    /// Who asks, for the audit log.
    pub who: String,
    /// Whose reservations it makes and needs.
    pub requester: String,
    /// What is asked.
    pub body: String,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It was answered as a local one.
    Answered,
    /// It came after its deadline.
    Late,
    /// The site does not take it.
    Refused,
    /// Too many wait.
    Busy,
}

impl CallOutcome {
    const ALL: [Self; 4] = [Self::Answered, Self::Late, Self::Refused, Self::Busy];

    const fn number(self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Late => 1,
            Self::Refused => 2,
            Self::Busy => 3,
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// What became of it.
    pub outcome: CallOutcome,
    /// The answer, or why there is none.
    pub body: String,
}

impl SiteCall {
    /// The bytes; none where it is too long.
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(64 + self.body.len());
        out.push(VERSION);
        out.extend(self.deadline.micros().to_le_bytes());
        for name in [&self.who, &self.requester] {
            let length = u16::try_from(name.len()).ok().filter(|_| name.len() <= NAME_BYTES_MAX)?;
            out.extend(length.to_le_bytes());
            out.extend(name.as_bytes());
        }
        out.extend(self.body.as_bytes());
        within_limit(out)
    }

    /// Reads a call.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut cursor = Cursor::new(covered(bytes, VERSION, CALL_BYTES_MAX)?);
        let deadline = Timestamp::from_micros(cursor.i64_le()?);
        let mut names = [String::new(), String::new()];
        for name in &mut names {
            let length = usize::from(cursor.u16_le()?);
            if length > NAME_BYTES_MAX {
                return Err(BatchError::Illegal("length of a name"));
            }
            *name = text(cursor.take(length)?)?;
        }
        let [who, requester] = names;
        let body = text(cursor.rest())?;
        Ok(Self { deadline, who, requester, body })
    }
}

impl CallAnswer {
    /// The bytes; none where it is too long.
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(8 + self.body.len());
        out.extend([VERSION, self.outcome.number()]);
        out.extend(self.body.as_bytes());
        within_limit(out)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut cursor = Cursor::new(covered(bytes, VERSION, CALL_BYTES_MAX)?);
        let kind = cursor.u8()?;
        let outcome = CallOutcome::ALL.into_iter().find(|outcome| outcome.number() == kind);
        let outcome = outcome.ok_or(BatchError::Illegal("kind of answer"))?;
        Ok(Self { outcome, body: text(cursor.rest())? })
    }
}

fn within_limit(out: Vec<u8>) -> Option<Vec<u8>> {
    Some(checked(out)).filter(|out| out.len() <= CALL_BYTES_MAX)
}

fn text(bytes: &[u8]) -> Result<String, BatchError> {
    core::str::from_utf8(bytes).map(ToString::to_string).map_err(|_| BatchError::Illegal("text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_call_that_was_written_reads_the_same(
            deadline in -1_i64 << 50..1 << 50, who in ".{0,40}", requester in ".{0,40}", body in ".{0,80}", kind in 0..4_usize
        ) {
            let call = SiteCall { deadline: Timestamp::from_micros(deadline), who, requester, body: body.clone() };
            let bytes = call.emit().unwrap();
            prop_assert_eq!(SiteCall::parse(&bytes), Ok(call));
            let answer = CallAnswer { outcome: CallOutcome::ALL[kind], body };
            let written = answer.emit().unwrap();
            prop_assert_eq!(CallAnswer::parse(&written), Ok(answer));
            for length in 0..bytes.len() {
                prop_assert!(SiteCall::parse(&bytes[..length]).is_err());
            }
            for length in 0..written.len() {
                prop_assert!(CallAnswer::parse(&written[..length]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (SiteCall::parse(&bytes), CallAnswer::parse(&bytes));
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let long = "x".repeat(CALL_BYTES_MAX);
        assert_eq!(CallAnswer { outcome: CallOutcome::Answered, body: long.clone() }.emit(), None);
        let call =
            SiteCall { deadline: Timestamp::default(), who: long, requester: String::new(), body: String::new() };
        assert_eq!(call.emit(), None);
    }
}
