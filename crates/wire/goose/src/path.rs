//! Where a value is in a data set: `2`, or `2.1` within a structure or an array. The first is 1.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Where a value is: the place of a member of the data set, then of a part of it, and so on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<u16>);

/// A text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError;

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected places from 1 with dots between them, as in 2 or 2.1")
    }
}

impl core::error::Error for PathError {}

impl Path {
    /// Of places from 1; none where there is none, a place is 0, or there are more than [`crate::DEPTH_MAX`].
    #[must_use]
    pub fn new(places: &[u16]) -> Option<Self> {
        let is_legal = !places.is_empty() && places.len() <= crate::DEPTH_MAX && !places.contains(&0);
        is_legal.then(|| Self(places.to_vec()))
    }

    /// Its places, the first of which is that of a member of the data set.
    #[must_use]
    pub fn places(&self) -> &[u16] {
        &self.0
    }

    /// The place of the member of the data set.
    #[must_use]
    pub fn member(&self) -> u16 {
        self.0.first().copied().unwrap_or(0)
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let places: Result<Vec<u16>, _> = text.split('.').map(str::parse).collect();
        places.ok().and_then(|places| Self::new(&places)).ok_or(PathError)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, at) in self.0.iter().zip(0..) {
            let separator = if at == 0 { "" } else { "." };
            write!(f, "{separator}{place}")?;
        }
        Ok(())
    }
}
