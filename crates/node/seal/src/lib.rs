//! Seals and opens messages of the Brazilian financial network (RSFN): files, a server, a client for several servers.
//!
//! In: a [`config::Config`] with domains, keys, peers and clients; requests over HTTP and over a binary protocol. Out:
//! sealed messages, verified content, an audit log without content.
//!
//! `tieline-rsfn` has the envelope, `tieline-crypto` has RSA and ciphers; this crate joins them. A worker takes up to
//! eight waiting messages and does their private-key operations together. It never waits for more messages.
//!
//! Never: a private key or content in a log; by default, a response that distinguishes a wrong key from a wrong tag.
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
pub use http::openapi;
pub use ispb::Ispb;
pub use server::Server;
pub use work::{BatchExecutor, Domains, Done, Limits, Operation, Output, Pack, Refusal, Trace, Unpack};
