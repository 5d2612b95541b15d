//! Who comes in, and what may be done: users and roles from files, the checks of passwords and tokens, and the sessions
//! of the bus.
//!
//! ```text
//!                 files ── reload ──▶ Book ──┬─▶ Policy ──▶ bus (sessions), HTTP (callers)
//!                                            └─▶ secrets
//! CONNECT, request ── Shown ──▶ Door ─▶ may it try? ─▶ threads `access-*` (argon2id, JWT; bounded) ── Identity or Wrong ──▶ who asked
//! ```
//!
//! In: what a peer shows. Out: who it is. Never: a password in plain form, in memory longer than its check takes.
//!
//! Read first: `door.rs`.

pub mod book;
pub mod certificate;
mod door;
pub mod edit;
mod files;
mod gate;
pub mod jwt;
mod password;
pub mod scram;
mod turnstile;
mod workers;

pub use book::{Book, Secret};
pub use door::{Access, Counts, Door, Peer, Shown, Wrong};
pub use gate::{Badge, Entrance, Gate, Guard, Serial, Serials, denial};
pub use password::{hash_password, is_password_hash, verify_password};
pub use turnstile::{Strangers, Turnstile};

#[cfg(test)]
mod tests;
