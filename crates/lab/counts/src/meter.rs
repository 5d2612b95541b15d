//! What is counted of a path, and how often.

use std::hint::black_box;

/// How often a path is run before it is counted: buffers have grown and tables have been filled by then.
const WARM_UP: u32 = 20;

/// Something that is done again and again where it matters.
pub struct HotPath {
    /// Its name in the committed file.
    pub name: &'static str,
    /// How often it is counted.
    pub times: u32,
    /// What one operation is.
    pub what: &'static str,
    /// Prepares it.
    pub prepare: fn() -> Result<Operation, String>,
}

/// Does it once; what is inside [`Meter::count`] is counted.
pub type Operation = Box<dyn FnMut(Meter) -> Result<(), String>>;

/// Whether what is done counts.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    counts: bool,
}

impl Meter {
    /// Nothing counts.
    pub const OFF: Self = Self { counts: false };

    /// Does the part of an operation that counts.
    pub fn count<R>(self, work: impl FnOnce() -> R) -> R {
        if self.counts { counted_section(work) } else { work() }
    }
}

/// What callgrind counts: `cargo xtask counts` knows this function by its name.
#[inline(never)]
fn counted_section<R>(work: impl FnOnce() -> R) -> R {
    // Something must follow the call, or it becomes a jump and this function is over too early.
    black_box(work())
}

/// Runs a path.
///
/// # Errors
/// It cannot be prepared, or does not do what it should.
pub fn run(path: &HotPath) -> Result<(), String> {
    let mut operation = (path.prepare)()?;
    for _ in 0..WARM_UP {
        operation(Meter::OFF)?;
    }
    for _ in 0..path.times {
        operation(Meter { counts: true })?;
    }
    // What is left is not taken apart: nobody counts it.
    std::mem::forget(operation);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::PATHS;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_does_what_it_should() {
        for path in PATHS {
            run(&HotPath { times: 3, ..*path }).unwrap_or_else(|why| panic!("{}: {why}", path.name));
        }
    }

    #[test]
    fn names_are_words_and_come_once() {
        let names: BTreeSet<&str> = PATHS.iter().map(|path| path.name).collect();
        assert_eq!(names.len(), PATHS.len());
        let is_word =
            |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        assert!(names.iter().all(is_word), "{names:?}");
    }
}
