//! What HTTP servers share: errors, JSON bodies, and what a browser may be made to do.

pub mod body;
pub mod guard;
pub mod problem;
