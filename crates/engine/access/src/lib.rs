//! Authorization: which user may do what on which topic.
//!
//! In: roles, users, sessions of users, and requested actions, with the time. Out: allowed or denied, sessions that
//! must end, and an explanation of a decision for people.
//!
//! Never: a password, a key, a socket; the caller authenticates.
//!
//! # How a decision is made
//!
//! A user has roles. A role has rules. A rule allows or denies some [`Verb`]s on the topics that its [`Pattern`]
//! selects. An action is denied unless a rule allows it. A rule that denies overrides all rules that allow. So the
//! order of rules and roles has no effect.
//!
//! ```text
//! user ─▶ roles ─▶ rules ─▶ Rules: one trie of levels, compiled once for each set of roles, shared by its sessions
//!                             │
//! topic ─▶ levels ────────────┴─▶ all matching rules: verbs that they allow, less verbs that they deny
//! ```
//!
//! A subscription has a filter, not a topic. [`Rules::reach`] says whether the user may read all topics that the filter
//! selects (no later check is needed), some of them (each topic is checked), or none.
//!
//! The rights to `$alarms/TOPIC/KIND`, an alarm, are those to `TOPIC`; so its readers are those of the topic.
//!
//! # Limits
//!
//! | limit | when full | counter |
//! |---|---|---|
//! | [`Limits::user_sessions_max`] | the session is refused | [`Stats::refused_sessions`] |
//! | [`Limits::messages_per_s`], [`Limits::bytes_per_s`] | the message is refused | [`Stats::over_rate`] |
//! | [`LOGIN_PEERS_MAX`] | the address whose last failure is oldest is removed | |
//! | [`STANDING_OF_USER_MAX`] | the client of the user that was seen longest ago counts as unknown again | [`Logins::known`] |
//! | [`STANDING_MAX`] | the same over all users | [`Logins::known`] |
//! | [`Waiting::new`] | the last check of the network with the most checks is removed | [`Waiting::push`] returns it |
//! | [`Sums::new`] | kinds above the limit are counted together | [`Sums::counted`] |
//! | [`GRANTS_MAX`] | all sets are compiled again when next used | |
//!
//! # Example
//!
//! ```
//! use tieline_access::{Policy, Role, User, Names, Verb};
//!
//! let role = Role::parse("feeder1", ["allow read site/#", "allow command site/feeder1/#", "deny command +/+/trip"])?;
//! let policy = Policy::new([role], [User::new("anna", ["feeder1"])])?;
//! let rules = policy.rules_of("anna").expect("known");
//! let names = Names { user: "anna", client: "desk" };
//! assert!(rules.allows(Verb::Command, "site/feeder1/breaker", names));
//! assert!(!rules.allows(Verb::Command, "site/feeder1/trip", names));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read first: `rule.rs`, then `rules.rs`.
#![no_std]
extern crate alloc;

mod administration;
mod alarmed;
mod bucket;
mod explain;
mod grants;
mod logins;
mod pattern;
mod policy;
mod predefined;
mod rule;
mod rules;
mod sessions;
mod sums;
mod verb;
mod waiting;
mod why;

pub use administration::{Lockout, USERS_TOPIC};
pub use bucket::Bucket;
pub use explain::{Applies, Explanation, Step};
pub use grants::{GRANTS_MAX, Grants};
pub use logins::{LOGIN_PEERS_MAX, Logins, Network, Origin, STANDING_MAX, STANDING_OF_USER_MAX};
pub use pattern::{Names, Pattern, PatternError};
pub use policy::{NAME_BYTES_MAX, Policy, PolicyError, Role, User};
pub use predefined::{IEC_ROLES, iec_role};
pub use rule::{Effect, Rule, RuleError};
pub use rules::{Reach, Rules};
pub use sessions::{EndReason, Identity, Limits, OverRate, Refused, SessionKey, Sessions, Stats};
pub use sums::{SUM_EVERY, Sums};
pub use verb::{Verb, Verbs};
pub use waiting::Waiting;
pub use why::{Question, QuestionError, Why};

#[cfg(test)]
mod tests;
