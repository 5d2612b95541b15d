//! The chain of hashes over the records, so that what was changed, put in or left out is found.
//!
//! ```text
//! {"id":7, … ,"detail":"x","chain":"<64 hexadecimal digits>"}      a line of the log
//! └──────────── record ─────────────┘ with "}" in the place of ',"chain":"…"}'
//!
//! chain = SHA-256(chain of the line before, 32 bytes · record)
//! ```
//!
//! Before the first line the chain is 32 zeros. A line of a log of before chains were kept has none: the chain goes over it all the same,
//! and counts from the next line that has one.

use aws_lc_rs::digest::{Context, SHA256};
use std::fmt;

const MEMBER: &[u8] = b",\"chain\":\"";
const DIGITS: usize = 64;

/// The chain up to a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain([u8; 32]);

/// What a line says of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing: it was written before chains were kept.
    Nothing,
    /// What follows from the lines before.
    Right,
    /// Something else: the line, or one before it, is not what was written.
    Wrong,
}

impl Chain {
    /// The chain with one more record, the JSON of an object.
    #[must_use]
    pub fn with(self, record: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&self.0);
        context.update(record);
        Self(context.finish().as_ref().try_into().unwrap_or_default())
    }

    /// Appends the line of a record, with its chain, to `out`; gives that chain.
    #[must_use]
    pub fn write(self, record: &[u8], out: &mut Vec<u8>) -> Self {
        let chain = self.with(record);
        out.extend_from_slice(record.strip_suffix(b"}").unwrap_or(record));
        out.extend_from_slice(MEMBER);
        out.extend_from_slice(chain.to_string().as_bytes());
        out.extend_from_slice(b"\"}\n");
        chain
    }

    /// Goes on over a line of a file, with or without its end; gives the chain that the line says, or that follows where it says none.
    #[must_use]
    pub fn read(self, line: &[u8]) -> (Self, Said) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Some((record, said)) = split(line) else { return (self.with(line), Said::Nothing) };
        let follows = self.with(&record);
        (said, if said == follows { Said::Right } else { Said::Wrong })
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != DIGITS || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

/// A line's record, and the chain that it says.
fn split(line: &[u8]) -> Option<(Vec<u8>, Chain)> {
    let body = line.strip_suffix(b"\"}")?;
    let (rest, digits) = body.split_at_checked(body.len().checked_sub(DIGITS)?)?;
    let record = rest.strip_suffix(MEMBER)?;
    let chain = Chain::parse(std::str::from_utf8(digits).ok()?)?;
    Some(([record, b"}"].concat(), chain))
}

/// The chain that a line says.
pub(super) fn said_by(line: &[u8]) -> Option<Chain> {
    split(line.strip_suffix(b"\n").unwrap_or(line)).map(|(_, chain)| chain)
}

impl serde::Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_as_it_was_written_and_nothing_else_is() {
        let (mut out, start) = (Vec::new(), Chain::default());
        let first = start.write(br#"{"id":1}"#, &mut out);
        // printf '%064d' 0 | xxd -r -p | cat - <(printf '{"id":1}') | sha256sum
        assert_eq!(first, start.with(br#"{"id":1}"#));
        let line = out.clone();
        assert_eq!(start.read(&line), (first, Said::Right));
        for (at, byte) in line.iter().enumerate().take(line.len() - 1) {
            let mut other = line.clone();
            other[at] = byte ^ 1;
            assert_ne!(start.read(&other).1, Said::Right, "byte {at}");
        }
        assert_eq!(first.read(&line).1, Said::Wrong, "a record twice");
        assert_eq!(start.read(b"{\"id\":1}\n"), (first, Said::Nothing));
        assert_eq!(Chain::parse(&first.to_string()), Some(first));
        assert_eq!(Chain::parse("00"), None);
    }
}
