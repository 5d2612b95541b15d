//! What is declared: one view, and which views may live together.

use crate::{Condition, Pointer, Template};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde_json::Value;
use tieline_core::{Filter, Words};

/// What an aggregate tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// How many there are.
    Count,
    /// Their sum.
    Sum,
    /// Their arithmetic mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Words for Operation {
    const WORDS: &'static [(&'static str, Self)] =
        &[("count", Self::Count), ("sum", Self::Sum), ("mean", Self::Mean), ("min", Self::Min), ("max", Self::Max)];
}

/// One number of all contributions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// What it tells.
    pub operation: Operation,
    /// Where the number stands in each.
    pub of: Pointer,
}

/// What a member of a derived value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// What stands at a place of the source.
    Place(Pointer),
    /// The same always.
    Fixed(Value),
}

/// How topics are derived from topics.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Its name.
    pub name: Box<str>,
    /// The sources.
    pub from: Filter,
    /// The derived topics.
    pub to: Template,
    /// Where an array or object stands whose items are taken one by one.
    pub expand: Option<Pointer>,
    /// What has to be true of the value, or of the item.
    pub when: Option<Condition>,
    /// The members of the derived value; none takes the value, or the item, as it is.
    pub pick: Vec<(Box<str>, Pick)>,
    /// One number of all contributions, in the place of the first of them.
    pub aggregate: Option<Aggregate>,
    /// How much later the derived topics change.
    pub delay: Duration,
    /// The shortest time between two changes of a derived topic.
    pub throttle: Duration,
}

/// Why views cannot live together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// Two have one name.
    Twice(Box<str>),
    /// Each takes what the one before it derives, and the first what the last derives.
    Cycle(Vec<Box<str>>),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "two views have the name {name:?}"),
            Self::Cycle(names) => write!(f, "views feed themselves: {}", names.join(" → ")),
        }
    }
}

impl core::error::Error for ViewError {}

impl View {
    /// Whether it has to read the JSON of its sources.
    #[must_use]
    pub fn reads(&self) -> bool {
        let plain = self.expand.is_none() && self.when.is_none() && self.pick.is_empty() && self.aggregate.is_none();
        !plain || self.to.reads()
    }

    /// Whether it may take what another derives.
    #[must_use]
    pub fn may_follow(&self, other: &Self) -> bool {
        other.to.reach().is_none_or(|reach| meets(&reach, &self.from))
    }
}

/// Names that are there twice, and views that would feed themselves.
pub(crate) fn check(views: &[View]) -> Result<(), ViewError> {
    for (at, view) in views.iter().enumerate() {
        if views.iter().take(at).any(|other| other.name == view.name) {
            return Err(ViewError::Twice(view.name.clone()));
        }
    }
    // 0: not seen, 1: on the way, 2: done.
    let mut marks = alloc::vec![0_u8; views.len()];
    let mut way = Vec::new();
    (0..views.len()).try_for_each(|start| visit(views, start, &mut marks, &mut way))
}

fn visit(views: &[View], at: usize, marks: &mut [u8], way: &mut Vec<usize>) -> Result<(), ViewError> {
    match marks[at] {
        2 => return Ok(()),
        1 => {
            let first = way.iter().position(|known| *known == at).unwrap_or_default();
            let round = way.iter().skip(first).chain([&at]).map(|number| views[*number].name.clone());
            return Err(ViewError::Cycle(round.collect()));
        }
        _ => {}
    }
    marks[at] = 1;
    way.push(at);
    for next in 0..views.len() {
        if views[next].may_follow(&views[at]) {
            visit(views, next, marks, way)?;
        }
    }
    way.pop();
    marks[at] = 2;
    Ok(())
}

/// Whether there is a topic that both filters select.
#[must_use]
pub fn meets(a: &Filter, b: &Filter) -> bool {
    let (mut ones, mut others) = (a.levels(), b.levels());
    let mut first = true;
    loop {
        let hidden = |text: &str| text.starts_with('$');
        match (ones.next(), others.next()) {
            (None, None) => return true,
            // `a/#` selects `a` too.
            (None, Some(rest)) | (Some(rest), None) => return rest == "#",
            (Some("#"), Some(text)) | (Some(text), Some("#")) => return !(first && hidden(text)),
            (Some("+"), Some(text)) | (Some(text), Some("+")) if first && hidden(text) => return false,
            (Some("+"), Some(_)) | (Some(_), Some("+")) => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(_), Some(_)) => return false,
        }
        first = false;
    }
}
