//! What the value of a point is.

use crate::Wave;
use alloc::boxed::Box;
use core::time::Duration;

/// How the value of a point comes about. Other points are named by `P`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Curve<P = Box<str>> {
    /// The start value, or what was commanded.
    #[default]
    Held,
    /// A function of time.
    Wave(Wave),
    /// A random walk between two bounds, at which it is reflected.
    Walk {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
        /// Its standard deviation after one second.
        rate: f64,
    },
    /// What was commanded, with a first-order lag.
    Lag {
        /// The time constant.
        tau: Duration,
    },
    /// From other points.
    Relation(Relation<P>),
}

/// How the value of a point comes from others.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation<P> {
    /// Another, with a first-order lag.
    Follow {
        /// Which.
        of: Operand<P>,
        /// The time constant.
        tau: Duration,
    },
    /// The integral over time.
    Sum {
        /// Of what.
        of: Operand<P>,
        /// The unit of time.
        per: Duration,
    },
    /// A linear function.
    Linear {
        /// Of what.
        of: Operand<P>,
        /// Times.
        factor: f64,
        /// Plus.
        offset: f64,
    },
    /// A product.
    Product(Operand<P>, Operand<P>),
    /// One of two.
    When {
        /// Chooses the first where it is not 0.
        condition: Operand<P>,
        /// The first.
        then: Operand<P>,
        /// The second.
        otherwise: Operand<P>,
    },
    /// Whether another is above a limit: 1 or 0.
    Above {
        /// Which.
        of: Operand<P>,
        /// The limit.
        limit: f64,
        /// How far below the limit it has to fall until this ends.
        band: f64,
    },
}

/// A number, or the value of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<P> {
    /// A number.
    Number(f64),
    /// A point.
    Point(P),
}

impl<P> Curve<P> {
    /// The same with other names of points.
    pub(crate) fn map<Q, E>(&self, find: &mut impl FnMut(&P) -> Result<Q, E>) -> Result<Curve<Q>, E> {
        Ok(match self {
            Self::Held => Curve::Held,
            Self::Wave(wave) => Curve::Wave(wave.clone()),
            Self::Walk { min, max, rate } => Curve::Walk { min: *min, max: *max, rate: *rate },
            Self::Lag { tau } => Curve::Lag { tau: *tau },
            Self::Relation(relation) => Curve::Relation(relation.map(find)?),
        })
    }

    /// Whether a start value says where it begins.
    #[must_use]
    pub const fn has_start(&self) -> bool {
        match self {
            Self::Held | Self::Walk { .. } | Self::Lag { .. } => true,
            Self::Wave(_) => false,
            Self::Relation(relation) => matches!(relation, Relation::Follow { .. } | Relation::Sum { .. }),
        }
    }

    /// Whether its value depends on that of the step before.
    pub(crate) fn has_state(&self) -> bool {
        match self {
            Self::Held | Self::Wave(_) => false,
            Self::Walk { .. } | Self::Lag { .. } => true,
            Self::Relation(relation) => match relation {
                Relation::Follow { .. } | Relation::Sum { .. } => true,
                Relation::Above { band, .. } => *band > 0.0,
                Relation::Linear { .. } | Relation::Product(..) | Relation::When { .. } => false,
            },
        }
    }
}

impl<P> Relation<P> {
    fn map<Q, E>(&self, find: &mut impl FnMut(&P) -> Result<Q, E>) -> Result<Relation<Q>, E> {
        let mut operand = |operand: &Operand<P>| {
            Ok(match operand {
                Operand::Number(number) => Operand::Number(*number),
                Operand::Point(point) => Operand::Point(find(point)?),
            })
        };
        Ok(match self {
            Self::Follow { of, tau } => Relation::Follow { of: operand(of)?, tau: *tau },
            Self::Sum { of, per } => Relation::Sum { of: operand(of)?, per: *per },
            Self::Linear { of, factor, offset } => {
                Relation::Linear { of: operand(of)?, factor: *factor, offset: *offset }
            }
            Self::Product(a, b) => Relation::Product(operand(a)?, operand(b)?),
            Self::When { condition, then, otherwise } => {
                Relation::When { condition: operand(condition)?, then: operand(then)?, otherwise: operand(otherwise)? }
            }
            Self::Above { of, limit, band } => Relation::Above { of: operand(of)?, limit: *limit, band: *band },
        })
    }
}
