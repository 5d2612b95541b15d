//! Logins by an identity provider: OpenID Connect Core 1.0 with PKCE (RFC 7636), the device flow (RFC 8628), back-channel
//! logout; and the tokens (JWT) that a node takes.
//!
//! ```text
//! browser's query, time, random bytes ─▶ Pending ─▶ Exchange ── Step::Send(Request) ──▶ the caller asks the provider
//!                                                      ▲                                        │
//!                                                      └───── handle_answer(status, bytes) ◀────┘
//!                                                   Step::Done ─▶ Person, or Fault
//! ```
//!
//! In: answers of a provider, addresses of a browser, times, random bytes. Out: requests to send, and who somebody is.
//!
//! Never: a socket, a clock, a file; a right of its own: roles come from the map of groups alone.
//!
//! Read first: `exchange.rs`, then `provider.rs`.

mod device;
mod exchange;
mod fault;
mod keys;
mod pending;
mod person;
mod provider;
mod request;

pub use device::{DeviceCode, Devices, Polled};
pub use exchange::{Ended, Exchange, Goal, Outcome, Step};
pub use fault::Fault;
pub use keys::{Expected, Key, KeyFault, looks_like_token};
pub use pending::{Begun, Callback, Pending, PendingLogin};
pub use person::{Person, RoleMap};
pub use provider::{Known, Provider, is_address};
pub use request::{ANSWER_BYTES_MAX, Answer, Request, encoded, write_form};

#[cfg(test)]
mod tests;
