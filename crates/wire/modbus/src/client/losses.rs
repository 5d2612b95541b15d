//! Whether a connection is dead, or only some of the units behind it.

use crate::{Unit, UnitSet};
use alloc::boxed::Box;

/// Answers lost in a row that make a connection suspicious.
const LOST_MIN: u32 = 3;
/// Answers lost in a row that end the connection, from one unit or several.
const LOST_MAX: u32 = 16;

/// Answers lost in a row, and of whom. A connection is given up when all that ever answered on it are silent: one silent
/// unit ends it for nobody else.
#[derive(Debug, Default)]
pub(super) struct Losses {
    in_row: u32,
    /// None while answers come.
    silent: Option<Box<UnitSet>>,
    answered: UnitSet,
}

impl Losses {
    pub(super) fn handle_answer(&mut self, unit: Unit) {
        if self.in_row > 0 {
            (self.in_row, self.silent) = (0, None);
        }
        self.answered.insert(unit);
    }

    pub(super) fn handle_lost(&mut self, unit: Unit) {
        self.in_row = self.in_row.saturating_add(1);
        self.silent.get_or_insert_with(|| Box::new(UnitSet::NONE)).insert(unit);
    }

    fn are_all_silent(&self) -> bool {
        self.silent.as_ref().is_some_and(|silent| silent.has_all(&self.answered))
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.in_row >= LOST_MAX || (self.in_row >= LOST_MIN && self.are_all_silent())
    }
}
