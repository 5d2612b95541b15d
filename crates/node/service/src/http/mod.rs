//! What HTTP servers share: the loop that serves, connections, errors, JSON bodies, and what a browser may be made to do.

pub mod body;
pub mod exchange;
pub mod guard;
pub mod listen;
pub mod places;
pub mod problem;
pub mod serve;
mod settings;
