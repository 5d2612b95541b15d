//! Which points are read together: as few requests as the device allows.
//!
//! Points of one unit, one table and one rate become blocks. A block may read addresses that nobody wants where that
//! costs less than another request ([`Limits`]), and never those that the device refused ([`Holes`]).
//!
//! ```text
//! wanted    ██ ██   █    ·········     ██
//! blocks    └──────┘   gap > gap_max   └┘
//! refused   └──┘└──┘   halves; a point that is refused alone is reported and stays out
//! ```

mod blocks;
mod holes;
mod planner;

pub use blocks::{Block, Limits, Place, PlanError, WantedPoint, plan};
pub use holes::Holes;
pub use planner::{BlockId, Planner, Refused};
