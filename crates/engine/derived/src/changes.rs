//! A result for each time at which an input changes: samples in order of time.

use crate::evaluate::Inputs;
use crate::expression::Expression;
use crate::reading::Reading;
use alloc::vec;
use alloc::vec::Vec;
use tieline_core::{Point, Timestamp};

/// The last value of an input and its time; none where it has had none.
pub type Held = Option<(Timestamp, Reading)>;

/// The last values of an expression's inputs.
#[derive(Clone, Debug)]
pub struct Changes {
    held: Vec<Held>,
    /// The time of a result that is not made yet: more samples of it may come.
    open: Option<Timestamp>,
}

impl Changes {
    /// Of an expression whose inputs hold these values, in their order.
    #[must_use]
    pub fn new(expression: &Expression, mut held: Vec<Held>) -> Self {
        held.resize(expression.inputs().len(), None);
        Self { held, open: None }
    }

    /// Of an expression whose inputs have had no sample.
    #[must_use]
    pub fn empty(expression: &Expression) -> Self {
        Self { held: vec![None; expression.inputs().len()], open: None }
    }

    /// Takes the next sample of an input; gives the result of the time before, where that has ended.
    pub fn take(
        &mut self,
        expression: &Expression,
        input: usize,
        (time, reading): (Timestamp, Reading),
    ) -> Option<Point> {
        let made = if self.open == Some(time) { None } else { self.finish(expression) };
        if let Some(held) = self.held.get_mut(input) {
            *held = Some((time, reading));
        }
        self.open = Some(time);
        made
    }

    /// Gives the result of the last time: no more samples of it come.
    pub fn finish(&mut self, expression: &Expression) -> Option<Point> {
        let time = self.open.take()?;
        let (value, quality) = expression.evaluate(&Inputs::Held(&self.held))?;
        Some(Point { value, quality, time })
    }

    /// Takes a sample that has no result of its own; it is held where no later one is.
    pub fn hold(&mut self, input: usize, (time, reading): (Timestamp, Reading)) {
        if let Some(held) = self.held.get_mut(input).filter(|held| held.is_none_or(|(of, _)| of <= time)) {
            *held = Some((time, reading));
        }
    }
}
