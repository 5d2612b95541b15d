//! The node: joins the other crates by configuration, wiring, supervision and the HTTP API.
//!
//! In: a [`config::Config`] and a data folder. Out: a running [`Node`]: devices polled, values on the bus, history
//! kept, commands carried out, a console.
//!
//! One file or folder for each column of the map: `field` (devices), `broker` (MQTT clients), `control` (commands),
//! `history` (what is recorded); they meet in `bus`. `http` shows it all. `station` and `demo` are the other end of the
//! wire: outstations of ours. `transport` is how both are reached.
//!
//! Never: an encoding of a protocol, a decision of an engine.
//!
//! Read first: `node.rs`, then `bus/mod.rs`.

pub mod access;
mod admission;
pub mod audit;
mod broker;
mod bus;
mod command;
mod conditions;
pub mod config;
mod control;
mod delivery_options;
mod demo;
mod fetch;
mod field;
mod folder;
mod history;
mod http;
mod in_process;
mod ledger;
mod listeners;
mod node;
pub mod outstation_server;
mod process;
pub mod profile;
mod publisher;
mod reasons;
mod reload;
mod reply;
mod reserved;
pub mod secure;
pub mod transport;
mod wall_clock;
mod wrong_port;

pub use bus::SessionOrder;
pub use demo::Demo;
pub use http::OPENAPI;
pub use in_process::{InProcessBroker, InProcessListener, Waiting};
pub use node::{DeviceCounts, Node, StartError};
