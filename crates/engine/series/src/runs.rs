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
use alloc::vec;
use alloc::vec::Vec;
use core::slice;
use tieline_core::{Cursor, varint};

/// Values as runs. Most have one run, and there are many of them: it takes no memory of its own.
#[derive(Clone, Debug, Default)]
pub(crate) enum Runs<T> {
    #[default]
    None,
    One((T, usize)),
    Many(Vec<(T, usize)>),
}

impl<T: PartialEq> PartialEq for Runs<T> {
    fn eq(&self, other: &Self) -> bool {
        self.runs() == other.runs()
    }
}

impl<T> Runs<T> {
    /// The runs themselves.
    pub(crate) const fn runs(&self) -> &[(T, usize)] {
        match self {
            Self::None => &[],
            Self::One(run) => slice::from_ref(run),
            Self::Many(runs) => runs.as_slice(),
        }
    }

    /// Bytes in memory, besides its own.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::None | Self::One(_) => 0,
            Self::Many(runs) => runs.capacity() * size_of::<(T, usize)>(),
        }
    }
}

impl<T: Copy + PartialEq> Runs<T> {
    pub(crate) fn push(&mut self, value: T) {
        self.push_many(value, 1);
    }

    /// Adds that value so many times, once at least.
    pub(crate) fn push_many(&mut self, value: T, count: usize) {
        let last = match self {
            Self::None => None,
            Self::One(run) => Some(run),
            Self::Many(runs) => runs.last_mut(),
        };
        match last {
            Some((of, length)) if *of == value => *length += count,
            _ => self.add((value, count)),
        }
    }

    fn with_capacity(count: usize) -> Self {
        if count > 1 { Self::Many(Vec::with_capacity(count)) } else { Self::None }
    }

    fn add(&mut self, run: (T, usize)) {
        match self {
            Self::None => *self = Self::One(run),
            Self::One(first) => *self = Self::Many(vec![*first, run]),
            Self::Many(runs) => runs.push(run),
        }
    }
}

impl<T: Copy + PartialEq + Into<u64>> Runs<T> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        varint::put_len(out, self.runs().len());
        for (value, length) in self.runs() {
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
        let mut runs = Self::with_capacity(run_count);
        for _ in 0..run_count {
            let (value, length) = (of(varint::get(cursor)?).ok_or(ILLEGAL)?, varint::get_len(cursor)?);
            left = left.checked_sub(length).filter(|_| length > 0).ok_or(ILLEGAL)?;
            runs.add((value, length));
        }
        if left == 0 { Ok(runs) } else { Err(ILLEGAL) }
    }
}
