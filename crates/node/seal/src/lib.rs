//! Seals and opens messages of the Brazilian financial network (RSFN): files, a server, a client for several servers.
//!
//! In: a [`config::Config`] with domains, keys, peers and clients; requests over HTTP and over a binary protocol. Out:
//! sealed messages, verified content, an audit log without content.
//!
//! The envelope is `tieline-rsfn`'s, RSA and ciphers are `tieline-crypto`'s; here they meet. Workers take what waits,
//! up to eight messages, and do the private-key operations of all of them together; none waits for more to come.
//!
//! Never: a private key or content in a log; to a client, by default, a word that tells a wrong key from a wrong tag.
//!
//! Read first: `work.rs` (a batch, stage by stage), then `server.rs`.

pub mod access;
mod audit;
mod cipher;
pub mod client;
pub mod config;
pub mod file;
mod http;
mod ispb;
pub mod keyring;
mod link;
mod listener;
mod metrics;
mod pool;
pub mod protocol;
mod public_refusal;
mod server;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod work;
pub mod x509;

pub use audit::AuditLimits;
pub use cipher::Ciphers;
pub use http::OPENAPI;
pub use ispb::Ispb;
pub use server::Server;
pub use work::{BatchExecutor, Domains, Done, Limits, Operation, Output, Pack, Refusal, Trace, Unpack};
