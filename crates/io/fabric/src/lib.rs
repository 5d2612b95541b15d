//! What joins sites and the nodes of a centre, over NATS with JetStream: this crate alone knows it.
//!
//! In: subjects, bytes, sequences, revisions. Out: answers, requests to serve, messages of a log in order, the revision of a lease.
//!
//! | operation | promises |
//! |---|---|
//! | [`Fabric::call`] | an answer, or that nobody serves, or that none came in time: it may have been done |
//! | [`Fabric::serve`] | requests; those of one group are shared by all that serve in it |
//! | [`Fabric::publish`], [`Fabric::subscribe`] | messages while both are connected, and no more |
//! | [`Log::append_if`] | the message follows the one that the caller names, and is on the disks of a majority; or it is not known |
//! | [`Log::last`], [`Log::read_from`] | messages in the order of their sequences |
//! | [`Fabric::callout`] | servers ask who may connect; a decision is signed, and holds for one connection and a time |
//! | [`Fabric::clients`], [`Fabric::disconnect`] | who is connected, and its end |
//! | [`Leases`] | a value is written only where its revision is the one that the caller names |
//!
//! Servers must be of [`VERSION_MIN`] or newer, and have `sync_interval: always` where a log or a lease is kept: a client cannot see
//! that.
//!
//! Never: a decision, a retry, a thread. What a log or a lease means is decided elsewhere; it is called from a tokio runtime.
//!
//! Read first: `connection.rs`, `log.rs`, `leases.rs`, `callout.rs`, and `subject.rs` for names.

mod callout;
pub mod callout_fuzz;
mod clients;
mod connection;
mod error;
mod jwt;
mod keys;
mod leases;
mod log;
mod server_config;
mod server_line;
mod service;
pub mod subject;

pub use callout::{Ask, Callout, Grant, Waiting, connection_name, key_of_connection, read_ask};
pub use clients::Connected;
pub use connection::{About, Credentials, Fabric, FabricOptions, VERSION_MIN, check_version};
pub use error::FabricError;
pub use jwt::{JWT_BYTES_MAX, JwtError};
pub use keys::{KeyError, KeyKind, Keys, is_public, is_signed};
pub use leases::{Lease, LeaseError, Leases, Watch};
pub use log::{AppendError, Entry, Last, Log, LogOptions, Reader};
pub use server_config::{SITES_ACCOUNT, ServerCluster, ServerConfig, ServerTls};
pub use server_line::{LineLevel, ServerLine};
pub use service::{Message, Request, Service, Subscription};

#[cfg(test)]
mod tests;
