//! The load of a run, and the check of what came, for others that make the same one.

pub use super::heard::{Heard, Told, Window};
pub use super::plan::{Plan, name};
pub use super::speech::Speech;
pub use super::values::Writer;
