//! Authentication and authorization: users and roles from files, the checks of passwords, certificates and tokens, and
//! the rights of the bus's sessions.
//!
//! ```text
//!                 files ── reload ──▶ CredentialStore ──┬─▶ Policy ──▶ bus (sessions), HTTP (callers)
//!                                            └─▶ secrets
//! CONNECT, request ── Shown ──▶ Authenticator ─▶ attempts left? ─▶ threads `access-*` (argon2id, JWT; bounded) ── Identity or Wrong ──▶ caller
//! ```
//!
//! In: a peer's credentials. Out: its identity. Never: a password in plain form, in memory longer than its check takes.
//!
//! Read first: `authenticator.rs`.

mod authenticator;
pub mod certificate;
pub mod credential_store;
pub mod edit;
mod files;
mod guard;
pub mod jwt;
mod outcome;
mod password;
mod read_filter;
pub mod scram;
mod users;
mod workers;

pub use authenticator::{Access, Authenticator, Peer, Shown};
pub use credential_store::{CredentialStore, Secret, check_files};
pub use guard::{AccessRecord, ClientIdentity, Entrance, Guard, denial};
pub use outcome::{Counts, Wrong};
pub use password::{hash_password, is_password_hash, verify_password};
pub use read_filter::{DeliveryFilter, ReadFilter, Serial, Serials};
pub use users::{EditError, ListedUser, Means};

#[cfg(test)]
mod tests;
