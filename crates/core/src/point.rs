//! A value with what is needed to trust it.

use crate::{Quality, Timestamp, Value};

/// One value of one point: what, how good, and when the device saw it (or, where the device gives no time, when
/// this node received it).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// What was measured.
    pub value: Value,
    /// How far it may be trusted.
    pub quality: Quality,
    /// When it was so.
    pub time: Timestamp,
}
