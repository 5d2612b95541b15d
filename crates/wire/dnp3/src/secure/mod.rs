//! Secure authentication version 5 (IEEE 1815-2012 clause 7) of an outstation and a master.
//!
//! ```text
//! master                          outstation
//!   │── key status request g120v4 ──▶│    session keys: as soon as there is a connection, then by time and by count
//!   │◀───────── key status g120v5 ───│
//!   │── key change g120v6 ──────────▶│    both keys, wrapped with the update key of the user
//!   │◀── key status g120v5, MAC ─────│
//!   │                                │
//!   │── operate ────────────────────▶│    a critical request: kept, not performed
//!   │◀────────── challenge g120v1 ───│
//!   │── reply g120v2, MAC ──────────▶│    authentic, and the role allows it: performed
//!   │◀───────────── response ────────│
//!   │                                │
//!   │── g120v3, operate, g120v9 MAC ▶│    aggressive mode: one way less, once there was a challenge
//!   │◀───────────── response ────────│
//! ```
//!
//! In: the fragments that an outstation or a master hands over before it looks at them itself, deadlines, random bytes
//! ([`Random`]). Out: fragments of functions 32 and 131, what may be performed, [`SecurityEvent`].
//!
//! Never: a word of keys in logs or `Debug`; anything performed that was not authentic, or not authorized.
//!
//! Read first: `object.rs` (the bytes), then `outstation/mod.rs` and `master/mod.rs` (the machines).
//! docs/dnp3-secure.md says what is left out, and what of the standard could not be checked.

mod code;
mod crypto;
mod event;
mod master;
mod object;
mod outstation;
mod role;
mod session;
mod statistic;
#[cfg(test)]
mod tests;

pub use code::{AuthError, ChallengeReason, KeyChangeMethod, KeyStatus, KeyWrap, MacAlgorithm, Role, UserOperation};
pub use crypto::{BoxedRandom, Key, Mac, MacUse, Random, change_mac, mac};
pub use event::SecurityEvent;
pub use master::{MasterSecurity, MasterSecurityConfig, UserChange};
pub use object::{
    Authentication, CHALLENGE_BYTES_MAX, CHALLENGE_BYTES_MIN, Challenge, ErrorObject, GROUP, KeyStatusObject,
    UserStatusChange,
};
pub use outstation::{Authority, OutstationSecurity, OutstationSecurityConfig, User};
pub use role::FunctionSet;
pub use session::KeyLimits;
pub use statistic::{STATISTICS, Statistic, Statistics, Thresholds};

pub(crate) use master::Reaction;
pub(crate) use outstation::FragmentAction;
