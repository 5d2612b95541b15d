//! A declared series, and what has to be true of all of them together.

use crate::expression::{Expression, Form};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::Topic;

/// Series of one set.
pub const SERIES_MAX: usize = 1000;
/// Series over each other.
pub const CHAIN_MAX: usize = 16;

/// A declared series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Where its results are.
    pub topic: Topic,
    /// What it is.
    pub expression: Expression,
    /// The width of its intervals, aligned to 1970; none: it is calculated at each change.
    pub every: Option<Duration>,
    /// How long samples are waited for that come late.
    pub wait: Duration,
    /// How far back it is calculated; none: as far as there are samples.
    pub backfill: Option<Duration>,
}

/// Why series cannot live together: which of them, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetError {
    /// The place of the series.
    pub index: usize,
    /// What was found, in words.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl SetError {
    fn new(index: usize, found: String, expected: impl Into<String>) -> Self {
        Self { index, found, expected: expected.into() }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, expected {}", self.found, self.expected)
    }
}

impl core::error::Error for SetError {}

/// In which order series are to be calculated, so that each comes behind those that it takes.
///
/// # Errors
/// Two have one topic, one takes itself over others, one without intervals takes one with, or they are too many.
pub fn order(series: &[Series]) -> Result<Vec<usize>, SetError> {
    if series.len() > SERIES_MAX {
        let found = alloc::format!("{} series", series.len());
        return Err(SetError::new(SERIES_MAX, found, alloc::format!("{SERIES_MAX} at most")));
    }
    let mut by_topic = HashMap::new();
    for (index, one) in series.iter().enumerate() {
        if by_topic.insert(one.topic.clone(), index).is_some() {
            let found = alloc::format!("a second series '{}'", one.topic);
            return Err(SetError::new(index, found, "a topic of its own"));
        }
    }
    let mut walk = Walk { series, by_topic, marks: vec![Mark::New; series.len()], order: Vec::new() };
    for index in 0..series.len() {
        walk.visit(index, &mut Vec::new())?;
    }
    Ok(walk.order)
}

/// What each series is made of, as a number: another one where its expression, its intervals or what it takes has changed.
/// `order` is that of [`order`].
#[must_use]
pub fn fingerprints(series: &[Series], order: &[usize]) -> Vec<u64> {
    let mut prints = vec![0; series.len()];
    let mut by_topic = HashMap::new();
    for index in order {
        let (Some(one), Some(print)) = (series.get(*index), prints.get_mut(*index)) else { continue };
        let micros = |duration: Option<Duration>| duration.map_or(-1, |duration| duration.as_micros().cast_signed());
        let words = alloc::format!("{} {} {}", one.expression.text(), micros(one.every), micros(one.backfill));
        let below = one.expression.inputs().iter().filter_map(|input| by_topic.get(input)).copied();
        *print = below.fold(hash(FNV_OFFSET, words.as_bytes()), |sum: u64, below: u64| hash(sum, &below.to_le_bytes()));
        by_topic.insert(&one.topic, *print);
    }
    prints
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: the same in every release.
fn hash(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

struct Walk<'a> {
    series: &'a [Series],
    by_topic: HashMap<Topic, usize>,
    marks: Vec<Mark>,
    order: Vec<usize>,
}

impl Walk<'_> {
    fn visit(&mut self, index: usize, path: &mut Vec<usize>) -> Result<(), SetError> {
        let (Some(one), Some(mark)) = (self.series.get(index), self.marks.get_mut(index)) else { return Ok(()) };
        path.push(index);
        match core::mem::replace(mark, Mark::Open) {
            Mark::Done => *mark = Mark::Done,
            Mark::Open => return Err(self.cycle(path)),
            Mark::New => {
                if path.len() > CHAIN_MAX {
                    let expected = alloc::format!("{CHAIN_MAX} levels at most");
                    return Err(SetError::new(index, "series over each other".into(), expected));
                }
                for input in one.expression.inputs() {
                    let Some(&below) = self.by_topic.get(input) else { continue };
                    let takes_interval = self.series.get(below).is_some_and(|below| below.every.is_some());
                    if one.expression.form() == Form::Change && takes_interval {
                        let found = alloc::format!("'{input}', which is calculated by interval, without `every` here");
                        return Err(SetError::new(index, found, alloc::format!("`every`, and last('{input}')")));
                    }
                    self.visit(below, path)?;
                }
                if let Some(mark) = self.marks.get_mut(index) {
                    *mark = Mark::Done;
                }
                self.order.push(index);
            }
        }
        path.pop();
        Ok(())
    }

    fn cycle(&self, path: &[usize]) -> SetError {
        let index = path.last().copied().unwrap_or_default();
        let start = path.iter().position(|place| *place == index).unwrap_or_default();
        let topics = path.iter().skip(start).filter_map(|place| self.series.get(*place));
        let topics: Vec<String> = topics.map(|series| series.topic.to_string()).collect();
        let found = alloc::format!("a series that takes itself: {}", topics.join(" takes "));
        SetError::new(index, found, "no cycle")
    }
}
