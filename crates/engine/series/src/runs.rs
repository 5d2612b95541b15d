//! Equal values one after the other: each once, with how many there are.
//!
//! ```text
//!  +-----------+- - - - - - - - - - -+- - -
//!  | run count | value 1 | length 1 | …
//!  +-----------+- - - - - - - - - - -+- - -
//! ```
//!
//! All are varints.

use crate::SeriesError;
use alloc::vec::Vec;
use tieline_core::{Cursor, varint};

/// Values as runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs<T> {
    runs: Vec<(T, usize)>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Runs<T> {
    pub(crate) fn push(&mut self, value: T) {
        self.push_many(value, 1);
    }

    /// Adds that value so many times, once at least.
    pub(crate) fn push_many(&mut self, value: T, count: usize) {
        match self.runs.last_mut() {
            Some((last, length)) if *last == value => *length += count,
            _ => {
                // Most have one run, and there are many of them.
                if self.runs.is_empty() {
                    self.runs.reserve_exact(1);
                }
                self.runs.push((value, count));
            }
        }
    }

    /// The runs themselves.
    pub(crate) fn runs(&self) -> &[(T, usize)] {
        &self.runs
    }

    /// Bytes in memory.
    pub(crate) const fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(T, usize)>()
    }
}

impl<T: Copy + PartialEq + Into<u64>> Runs<T> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        varint::put_len(out, self.runs.len());
        for (value, length) in &self.runs {
            varint::put(out, (*value).into());
            varint::put_len(out, *length);
        }
    }

    /// Reads runs of `count` values in all.
    ///
    /// # Errors
    /// The bytes are none that [`Runs::put`] writes, or a value is none by `of`.
    pub(crate) fn get(
        cursor: &mut Cursor<'_>,
        count: usize,
        of: impl Fn(u64) -> Option<T>,
    ) -> Result<Self, SeriesError> {
        const ILLEGAL: SeriesError = SeriesError::Illegal("run");
        let (run_count, mut left) = (varint::get_len(cursor)?, count);
        if run_count > count {
            return Err(ILLEGAL);
        }
        let mut runs = Vec::with_capacity(run_count);
        for _ in 0..run_count {
            let (value, length) = (of(varint::get(cursor)?).ok_or(ILLEGAL)?, varint::get_len(cursor)?);
            left = left.checked_sub(length).filter(|_| length > 0).ok_or(ILLEGAL)?;
            runs.push((value, length));
        }
        if left == 0 { Ok(Self { runs }) } else { Err(ILLEGAL) }
    }
}
