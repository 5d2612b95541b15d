//! Tests of secure authentication: our two machines against each other, and against a forger between them.

mod forged;
mod keys;
mod paths;
mod random;
mod users;
pub(super) mod world;
