//! The points of a type of device, and which of them depend on which.

use crate::{Curve, Operand, Relation};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use hashbrown::HashMap;

/// Points of one model at most.
pub const POINTS_MAX: usize = 10_000;

/// What the values of a point are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True where the number is at least 0.5.
    Bool,
    /// The nearest whole number.
    Int,
    /// A number.
    Float,
    /// Always this text.
    Text(Box<str>),
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSpec {
    /// By which curves name it.
    pub name: Box<str>,
    /// What its values are.
    pub kind: Kind,
    /// Its value at the start; none: what its curve says, else 0.
    pub start: Option<f64>,
    /// How its value comes about.
    pub curve: Curve,
    /// The standard deviation of what is added to each value that is shown.
    pub noise: f64,
    /// To how many digits behind the point a value is rounded when it is shown, 15 at most; none: it is not.
    pub decimals: Option<u8>,
    /// Whether it can be commanded.
    pub writable: bool,
}

impl PointSpec {
    /// A point that stays as it is.
    #[must_use]
    pub fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind, start: None, curve: Curve::Held, noise: 0.0, decimals: None, writable: false }
    }
}

/// The points of a type of device; share one among all devices that have it.
#[derive(Debug, PartialEq)]
pub struct Model {
    points: Box<[Point]>,
    /// All points, each after those that it needs the value of.
    order: Box<[usize]>,
}

/// A point whose curve is known to have what it needs.
#[derive(Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) kind: Kind,
    pub(crate) start: Option<f64>,
    pub(crate) curve: Curve<usize>,
    pub(crate) noise: f64,
    pub(crate) decimals: Option<u8>,
    /// Which point a command sets; none where it cannot be commanded.
    pub(crate) target: Option<usize>,
}

impl Model {
    /// Checks points. `PointId` n is the n-th of them.
    ///
    /// # Errors
    /// A curve needs what is not there, or itself; or a command could not set a point that is writable.
    pub fn new(specs: Vec<PointSpec>) -> Result<Self, ModelError> {
        if specs.len() > POINTS_MAX {
            return Err(ModelError::TooManyPoints { found: specs.len() });
        }
        let numbers: HashMap<&str, usize> = specs.iter().map(|spec| &*spec.name).zip(0..).collect();
        let mut curves = Vec::with_capacity(specs.len());
        for (point, spec) in specs.iter().enumerate() {
            curves.push(spec.curve.map(&mut |name| find(&specs, &numbers, (point, name)))?);
        }
        drop(numbers);
        let order = order(&curves)?;
        let targets = targets(&specs, &curves)?;
        let compiled = specs.into_iter().zip(curves).zip(targets).map(|((spec, curve), target)| Point {
            kind: spec.kind,
            start: spec.start,
            curve,
            noise: spec.noise,
            decimals: spec.decimals,
            target,
        });
        Ok(Self { points: compiled.collect(), order: order.into() })
    }

    /// The value that a point begins at, where one is given.
    #[must_use]
    pub fn start(&self, point: usize) -> Option<f64> {
        self.points.get(point)?.start
    }

    /// The least and the greatest value of a curve without noise and faults; none of a point that is set, or whose value comes from
    /// others.
    #[must_use]
    pub fn bounds(&self, point: usize) -> Option<(f64, f64)> {
        match &self.points.get(point)?.curve {
            Curve::Held | Curve::Lag { .. } => None,
            Curve::Wave(wave) => Some(wave.bounds()),
            Curve::Walk { min, max, .. } => Some((*min, *max)),
            Curve::Relation(Relation::Above { .. }) => Some((0.0, 1.0)),
            Curve::Relation(
                Relation::Follow { .. }
                | Relation::Sum { .. }
                | Relation::Linear { .. }
                | Relation::Product(..)
                | Relation::When { .. },
            ) => None,
        }
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Whether a value depends on that of the step before.
    pub(crate) fn has_state(&self) -> bool {
        self.points.iter().any(|point| point.curve.has_state())
    }
}

/// The number of a point that the curve of another names.
fn find(
    specs: &[PointSpec],
    numbers: &HashMap<&str, usize>,
    (point, name): (usize, &str),
) -> Result<usize, ModelError> {
    let Some(number) = numbers.get(name).copied() else {
        return Err(ModelError::UnknownPoint { point, name: name.into() });
    };
    let is_text = specs.get(number).is_some_and(|spec| matches!(spec.kind, Kind::Text(_)));
    if is_text { Err(ModelError::TextInCurve { point, name: name.into() }) } else { Ok(number) }
}

fn targets(specs: &[PointSpec], curves: &[Curve<usize>]) -> Result<Vec<Option<usize>>, ModelError> {
    let is_settable = |point: usize| matches!(curves.get(point), Some(Curve::Held | Curve::Lag { .. }));
    let target = |(point, (spec, curve)): (usize, (&PointSpec, &Curve<usize>))| {
        if !spec.writable {
            return Ok(None);
        }
        let is_text = matches!(spec.kind, Kind::Text(_));
        let target = match curve {
            Curve::Relation(Relation::Follow { of: Operand::Point(other), .. }) => *other,
            Curve::Held | Curve::Wave(_) | Curve::Walk { .. } | Curve::Lag { .. } | Curve::Relation(_) => point,
        };
        if is_settable(target) && !is_text { Ok(Some(target)) } else { Err(ModelError::NotSettable { point }) }
    };
    specs.iter().zip(curves).enumerate().map(target).collect()
}

/// What a point waits for while points are put in order.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// Points whose value of the same step it needs.
    needs: usize,
    /// Points whose value of the step before would do.
    prefers: usize,
    is_placed: bool,
    /// Who waits for it, and whether they need it.
    dependents: Vec<(usize, bool)>,
}

/// All points, each after those that it needs, and where there is no loop after those that it integrates or follows.
fn order(curves: &[Curve<usize>]) -> Result<Vec<usize>, ModelError> {
    let mut waiting = alloc::vec![Waiting::default(); curves.len()];
    for (point, curve) in curves.iter().enumerate() {
        let (operands, is_needed) = operands(curve);
        for operand in operands.into_iter().flatten() {
            if let Some(other) = waiting.get_mut(operand) {
                other.dependents.push((point, is_needed));
            }
            if let Some(own) = waiting.get_mut(point) {
                own.needs += usize::from(is_needed);
                own.prefers += usize::from(!is_needed);
            }
        }
    }
    let mut order = Vec::with_capacity(curves.len());
    let mut ready: Vec<usize> = (0..curves.len()).rev().collect();
    ready.retain(|point| waiting.get(*point).is_some_and(|own| own.needs + own.prefers == 0));
    while order.len() < curves.len() {
        let next = ready.pop().or_else(|| waiting.iter().position(|own| own.needs == 0 && !own.is_placed));
        let Some(next) = next else {
            let point = waiting.iter().position(|own| !own.is_placed).unwrap_or_default();
            return Err(ModelError::Loop { point });
        };
        let Some(own) = waiting.get_mut(next).filter(|own| !own.is_placed) else { continue };
        own.is_placed = true;
        order.push(next);
        for (dependent, is_needed) in core::mem::take(&mut own.dependents) {
            let Some(other) = waiting.get_mut(dependent) else { continue };
            let count = if is_needed { &mut other.needs } else { &mut other.prefers };
            *count = count.saturating_sub(1);
            if other.needs + other.prefers == 0 && !other.is_placed {
                ready.push(dependent);
            }
        }
    }
    Ok(order)
}

/// Of which points a curve takes the value, and whether it needs that of the same step.
fn operands(curve: &Curve<usize>) -> ([Option<usize>; 3], bool) {
    let point = |operand: &Operand<usize>| match operand {
        Operand::Number(_) => None,
        Operand::Point(point) => Some(*point),
    };
    match curve {
        Curve::Held | Curve::Wave(_) | Curve::Walk { .. } | Curve::Lag { .. } => ([None; 3], false),
        Curve::Relation(relation) => match relation {
            Relation::Follow { of, .. } | Relation::Sum { of, .. } => ([point(of), None, None], false),
            Relation::Linear { of, .. } | Relation::Above { of, .. } => ([point(of), None, None], true),
            Relation::Product(a, b) => ([point(a), point(b), None], true),
            Relation::When { condition, then, otherwise } => ([point(condition), point(then), point(otherwise)], true),
        },
    }
}

/// Why points make no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// More points than [`POINTS_MAX`].
    TooManyPoints {
        /// How many.
        found: usize,
    },
    /// A curve names a point that is not there.
    UnknownPoint {
        /// Whose curve, by its number.
        point: usize,
        /// The name.
        name: Box<str>,
    },
    /// A curve takes the value of a point that is a text.
    TextInCurve {
        /// Whose curve, by its number.
        point: usize,
        /// The name.
        name: Box<str>,
    },
    /// The value of a point would depend on itself within one step.
    Loop {
        /// Which, by its number.
        point: usize,
    },
    /// A point is writable, and a command could set nothing.
    NotSettable {
        /// Which, by its number.
        point: usize,
    },
}

impl ModelError {
    /// The number of the point that is wrong, if it is one.
    #[must_use]
    pub const fn point(&self) -> Option<usize> {
        match self {
            Self::TooManyPoints { .. } => None,
            Self::UnknownPoint { point, .. }
            | Self::TextInCurve { point, .. }
            | Self::Loop { point }
            | Self::NotSettable { point } => Some(*point),
        }
    }

    /// What should be there.
    #[must_use]
    pub fn expected(&self) -> alloc::string::String {
        match self {
            Self::TooManyPoints { .. } => return alloc::format!("at most {POINTS_MAX} points"),
            Self::UnknownPoint { .. } => "numbers and names of points of this list",
            Self::TextInCurve { .. } => "a point that is a number, or true and false",
            Self::Loop { .. } => "a curve that does not need itself; a loop needs a point with follow or sum in it",
            Self::NotSettable { .. } => {
                "a number, or true and false, without a curve, or with lag(…), or with follow(…) of such a point"
            }
        }
        .to_owned()
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPoints { found } => write!(f, "{found} points"),
            Self::UnknownPoint { name, .. } => write!(f, "a curve with {name:?}, which is no point"),
            Self::TextInCurve { name, .. } => write!(f, "a curve with {name:?}, which is a text"),
            Self::Loop { .. } => f.write_str("a curve that needs its own value"),
            Self::NotSettable { .. } => f.write_str("a writable point that a command cannot set"),
        }
    }
}

impl core::error::Error for ModelError {}
