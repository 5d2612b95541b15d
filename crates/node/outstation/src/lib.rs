//! The other end of the wire: DNP3 outstations of ours, their files, their device profiles, and the demo's substation.
//!
//! In: an outstation's file (TOML), lines of an operator, a device profile (XML). Out: outstations on a port, what their
//! masters made them do, a device profile.
//!
//! Never: a node, a bus, a topic; a node reaches these outstations as it does any other.
//!
//! Read first: `config/mod.rs`, then `server/service.rs`.

pub mod config;
mod demo;
pub mod profile;
pub mod server;

pub use demo::Demo;
