//! Values of a table, each until the next.

use crate::parse::{CurveError, finite};
use crate::wave::{Moment, VALUES_MAX};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::parse_duration;

/// What a row of a table is.
const ROW: &str = "rows of a time and a value, as in 15m,21.5, each later than the one before";

/// Values with the time from which each holds. Without a period times are counted from the start of the device, and the last
/// value stays; with one they are counted from each multiple of the period in UTC.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    rows: Box<[(Duration, f64)]>,
    period: Option<Duration>,
}

impl Steps {
    /// Reads a table: a row a line, with a time (`15m`, or seconds as in `0.5`) and a value with a comma between them. Empty
    /// lines, lines that begin with `#`, and a first line of words are skipped.
    ///
    /// # Errors
    /// A row is wrong, or earlier than the one before, or there are none, or more than [`VALUES_MAX`].
    pub fn parse(text: &str, period: Option<Duration>) -> Result<Self, CurveError> {
        let mut rows: Vec<(Duration, f64)> = Vec::new();
        let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        for ((line, number), place) in lines.zip(0..) {
            let Some(row) = row(line) else {
                if place == 0 && !line.starts_with(|c: char| c.is_ascii_digit()) {
                    continue;
                }
                return Err(CurveError::new(format!("{line:?} in line {number}"), ROW.to_owned()));
            };
            if rows.last().is_some_and(|(before, _)| *before >= row.0) {
                return Err(CurveError::new(format!("{line:?} in line {number}, which is not later"), ROW.to_owned()));
            }
            if rows.len() == VALUES_MAX {
                return Err(CurveError::new("more rows".to_owned(), format!("at most {VALUES_MAX}")));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(CurveError::new("no rows".to_owned(), ROW.to_owned()));
        }
        Ok(Self { rows: rows.into(), period })
    }

    /// The least and the greatest value.
    pub(crate) fn bounds(&self) -> (f64, f64) {
        bounds(self.rows.iter().map(|(_, value)| *value))
    }

    /// The value that holds; before the first row it is that of the last one where they repeat, else that of the first.
    pub(crate) fn at(&self, moment: Moment) -> f64 {
        let time = self.period.map_or(moment.since_start, |period| moment.within(period));
        let after = self.rows.partition_point(|(from, _)| *from <= time);
        let held = match (after.checked_sub(1), self.period) {
            (Some(at), _) => self.rows.get(at),
            (None, Some(_)) => self.rows.last(),
            (None, None) => self.rows.first(),
        };
        held.map(|(_, value)| *value).unwrap_or_default()
    }
}

/// The least and the greatest of some values; both 0 where there are none.
pub(crate) fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let both = values.map(|value| (value, value)).reduce(|(low, high), (value, _)| (low.min(value), high.max(value)));
    both.unwrap_or_default()
}

fn row(line: &str) -> Option<(Duration, f64)> {
    let (time, value) = line.split_once(',')?;
    let (time, value) = (time.trim(), value.trim());
    let seconds = || Duration::try_from_secs_f64(finite(time)?).ok();
    Some((parse_duration(time).or_else(seconds)?, finite(value)?))
}
