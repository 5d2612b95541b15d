//! The other end of the wire: DNP3 outstations of ours, their files, their device profiles; servers of IEC 60870-5-104,
//! Modbus and BACnet; and the demo's sites.
//!
//! In: an outstation's file (TOML), lines of an operator, a device profile (XML). Out: outstations and other devices on a
//! port, the actions of their masters and clients, a device profile.
//!
//! Never: a node, a bus, a topic; a node reaches these devices as it does any other.
//!
//! Read first: `config/mod.rs`, then `server/service.rs`; of the demo `demo/mod.rs`.

pub mod bacnet;
pub mod config;
mod demo;
pub mod iec104;
pub mod modbus;
pub mod points;
pub mod profile;
pub mod server;
pub mod treatment;

pub use demo::{Demo, DemoSite};
