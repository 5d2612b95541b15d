//! How a point's value is kept between two deltas.

use alloc::boxed::Box;
use tieline_core::Value;

/// Powers of ten that a double holds exactly, and by which it divides correctly rounded.
pub(super) const POWERS: [f64; 16] =
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Integers up to here are doubles.
pub(super) const MANTISSA_MAX: i64 = 1 << 53;

/// A value. A double that is `mantissa / 10^places`, bit for bit, is kept as a decimal, because its next value
/// usually is one too.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Null,
    Bool(bool),
    Int(i64),
    Decimal(Decimal),
    Float(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

/// `mantissa / 10^places`: at most [`MANTISSA_MAX`] either side of zero, and 15 places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    mantissa: i64,
    places: u8,
}

impl Decimal {
    pub(super) fn new(mantissa: i64, places: u64) -> Option<Self> {
        let places = u8::try_from(places).ok().filter(|&places| usize::from(places) < POWERS.len())?;
        (-MANTISSA_MAX..=MANTISSA_MAX).contains(&mantissa).then_some(Self { mantissa, places })
    }

    /// The decimal of so many places that is exactly `x`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a wrong rounding or a number out of range is found by dividing again"
    )]
    pub(super) fn of(x: f64, places: u8) -> Option<Self> {
        let scaled = x * POWERS.get(usize::from(places))?;
        let decimal = Self::new((scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i64, u64::from(places))?;
        (decimal.to_f64().to_bits() == x.to_bits()).then_some(decimal)
    }

    #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
    pub(super) fn to_f64(self) -> f64 {
        self.mantissa as f64 / POWERS.get(usize::from(self.places)).unwrap_or(&1.0)
    }

    pub(super) const fn mantissa(self) -> i64 {
        self.mantissa
    }

    pub(super) const fn places(self) -> u8 {
        self.places
    }
}

impl Number {
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Decimal(decimal) => Value::Float(decimal.to_f64()),
            Self::Float(x) => Value::Float(*x),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Bytes(bytes) => Value::Bytes(bytes.clone()),
        }
    }

    /// The number `by` further, in the last place of decimals; none where there is no such number.
    pub(super) fn moved(&self, by: i64) -> Option<Self> {
        match self {
            same if by == 0 => Some(same.clone()),
            Self::Bool(b) => match i64::from(*b).checked_add(by)? {
                0 => Some(Self::Bool(false)),
                1 => Some(Self::Bool(true)),
                _ => None,
            },
            Self::Int(i) => i.checked_add(by).map(Self::Int),
            Self::Decimal(Decimal { mantissa, places }) => {
                Decimal::new(mantissa.checked_add(by)?, u64::from(*places)).map(Self::Decimal)
            }
            Self::Null | Self::Float(_) | Self::Text(_) | Self::Bytes(_) => None,
        }
    }

    /// What [`Number::moved`] makes `next` of `self`.
    pub(super) fn distance(&self, next: &Self) -> Option<i64> {
        match (self, next) {
            (Self::Bool(a), Self::Bool(b)) => Some(i64::from(*b) - i64::from(*a)),
            (Self::Int(a), Self::Int(b)) => b.checked_sub(*a),
            (Self::Decimal(a), Self::Decimal(b)) if a.places == b.places => b.mantissa.checked_sub(a.mantissa),
            (same, next) => (same == next).then_some(0),
        }
    }
}

/// Doubles are equal when their bits are.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Decimal(a), Self::Decimal(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            _ => false,
        }
    }
}
