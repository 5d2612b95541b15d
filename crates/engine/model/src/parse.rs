//! Curves as text.

use crate::wave::VALUES_MAX;
use crate::{Curve, Operand, Relation, Steps, Wave};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::parse_duration;

/// All curves, for who wrote another word.
const CURVES: &str = "ramp, triangle, sine, square, toggle, day, steps, walk, lag, follow, sum, linear, product, when or above, \
                      with arguments in parentheses, as in sine(20 5 24h)";
const HOUR: Duration = Duration::from_secs(3600);

/// What is wrong with a curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveError {
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl CurveError {
    pub(crate) const fn new(found: String, expected: String) -> Self {
        Self { found, expected }
    }
}

impl fmt::Display for CurveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}, expected {}", self.found, self.expected)
    }
}

impl core::error::Error for CurveError {}

impl Curve {
    /// Reads a curve. `read` gives the text of a file that `steps` names, or says why there is none.
    ///
    /// # Errors
    /// The word or an argument is wrong, or a file.
    pub fn parse(text: &str, read: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<Self, CurveError> {
        let wrong = || CurveError::new(format!("{text:?}"), CURVES.to_owned());
        let inside = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let (word, inside) = inside.ok_or_else(wrong)?;
        let parts = inside.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';')).filter(|part| !part.is_empty());
        let mut list = Arguments { text, parts: parts.collect::<Vec<_>>().into_iter() };
        let curve = match word.trim() {
            "steps" => Self::Wave(Wave::Steps(steps(&mut list, read)?)),
            word => match wave(word, &mut list)? {
                Some(wave) => Self::Wave(wave),
                None => from_state(word, &mut list)?.ok_or_else(wrong)?,
            },
        };
        list.finish()?;
        Ok(curve)
    }
}

fn wave(word: &str, list: &mut Arguments<'_>) -> Result<Option<Wave>, CurveError> {
    Ok(Some(match word {
        "ramp" => Wave::Ramp { from: list.number("from")?, to: list.number("to")?, period: list.period()? },
        "triangle" => Wave::Triangle { from: list.number("from")?, to: list.number("to")?, period: list.period()? },
        "sine" => Wave::Sine {
            mean: list.number("mean")?,
            amplitude: list.number("amplitude")?,
            period: list.period()?,
            shift: list.span("shift", Some(Duration::ZERO))?,
        },
        "square" => Wave::Square {
            low: list.number("low")?,
            high: list.number("high")?,
            period: list.period()?,
            share: list.share()?,
        },
        "toggle" => Wave::Square { low: 0.0, high: 1.0, period: list.period()?, share: list.share()? },
        "day" => {
            let mut values = alloc::vec![list.number("the first value")?];
            while list.has_more() && values.len() < VALUES_MAX {
                values.push(list.number("a value")?);
            }
            Wave::Day(values.into())
        }
        _ => return Ok(None),
    }))
}

fn from_state(word: &str, list: &mut Arguments<'_>) -> Result<Option<Curve>, CurveError> {
    let relation = match word {
        "walk" => {
            let (min, max, rate) = (list.number("min")?, list.number("max")?, list.number("rate")?);
            if min >= max || rate < 0.0 {
                return Err(
                    list.error(format!("{min} to {max} at {rate}"), "min below max, and a rate that is not below 0")
                );
            }
            return Ok(Some(Curve::Walk { min, max, rate }));
        }
        "lag" => return Ok(Some(Curve::Lag { tau: list.span("tau", None)? })),
        "follow" => Relation::Follow { of: list.operand()?, tau: list.span("tau", None)? },
        "sum" => Relation::Sum { of: list.operand()?, per: list.span("per", Some(HOUR))? },
        "linear" => Relation::Linear {
            of: list.operand()?,
            factor: list.number("factor")?,
            offset: list.number_or("offset", 0.0)?,
        },
        "product" => Relation::Product(list.operand()?, list.operand()?),
        "when" => Relation::When { condition: list.operand()?, then: list.operand()?, otherwise: list.operand()? },
        "above" => {
            let (of, limit) = (list.operand()?, list.number("limit")?);
            let band = list.number_or("band", 0.0)?;
            if band < 0.0 {
                return Err(list.error(band.to_string(), "a band that is not below 0"));
            }
            Relation::Above { of, limit, band }
        }
        _ => return Ok(None),
    };
    Ok(Some(Curve::Relation(relation)))
}

fn steps(list: &mut Arguments<'_>, read: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<Steps, CurveError> {
    let file = list.next("the name of a file")?;
    let period = if list.has_more() { Some(list.period()?) } else { None };
    let text = read(file).map_err(|error| list.error(format!("{file:?} ({error})"), "a readable file"))?;
    let in_file = |error: CurveError| CurveError::new(format!("{} of {file:?}", error.found), error.expected);
    Steps::parse(&text, period).map_err(in_file)
}

/// What stands between the parentheses and was not taken yet.
struct Arguments<'a> {
    text: &'a str,
    parts: alloc::vec::IntoIter<&'a str>,
}

impl<'a> Arguments<'a> {
    fn error(&self, found: String, expected: &str) -> CurveError {
        CurveError::new(format!("{found} in {:?}", self.text), expected.to_owned())
    }

    fn has_more(&self) -> bool {
        !self.parts.as_slice().is_empty()
    }

    fn next(&mut self, what: &str) -> Result<&'a str, CurveError> {
        self.parts.next().ok_or_else(|| self.error("nothing more".to_owned(), what))
    }

    fn number(&mut self, what: &str) -> Result<f64, CurveError> {
        let part = self.next(what)?;
        finite(part).ok_or_else(|| self.error(format!("{part:?}"), &format!("{what}, a number")))
    }

    fn number_or(&mut self, what: &str, default: f64) -> Result<f64, CurveError> {
        if self.has_more() { self.number(what) } else { Ok(default) }
    }

    /// A duration above 0, or at least 0 where it has a default.
    fn span(&mut self, what: &str, default: Option<Duration>) -> Result<Duration, CurveError> {
        if let Some(default) = default.filter(|_| !self.has_more()) {
            return Ok(default);
        }
        let part = self.next(what)?;
        let is_shift = default == Some(Duration::ZERO);
        let span = parse_duration(part).filter(|span| is_shift || !span.is_zero());
        span.ok_or_else(|| self.error(format!("{part:?}"), &format!("{what}, a duration as in 500ms, 5m or 24h")))
    }

    fn period(&mut self) -> Result<Duration, CurveError> {
        self.span("period", None)
    }

    fn share(&mut self) -> Result<f64, CurveError> {
        let share = self.number_or("share", 0.5)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(self.error(share.to_string(), "a share from 0 to 1"));
        }
        Ok(share)
    }

    fn operand(&mut self) -> Result<Operand<Box<str>>, CurveError> {
        let part = self.next("a number or the name of a point")?;
        Ok(finite(part).map_or_else(|| Operand::Point(part.into()), Operand::Number))
    }

    fn finish(mut self) -> Result<(), CurveError> {
        self.parts.next().map_or(Ok(()), |part| Err(self.error(format!("{part:?}"), "nothing more")))
    }
}

/// A finite number.
pub(crate) fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
