//! The node: joins the other crates by configuration, wiring, supervision and the HTTP API.
//!
//! In: a [`config::Config`] and a data folder. Out: a running [`Node`] that polls devices, serves values over MQTT and
//! HTTP, records history, carries out commands and serves the console.
//!
//! There is one room for each column of the map: `field` (devices), `broker` (MQTT clients), `control` (commands), `history`
//! (recording). They meet in `bus`. `access` decides who may do what, `http` is the API, `config` has the words. A room
//! imports only rooms below it (ARCHITECTURE.md, The rooms of a node). Outstations, the other end of a connection, are in
//! the crate `tieline-outstation`; `tieline-transport` makes the connections of both.
//!
//! Never: an encoding of a protocol, a decision of an engine.
//!
//! Read first: `node.rs`, then `bus/mod.rs`.

pub mod access;
pub mod backup;
mod broker;
mod bus;
#[cfg_attr(
    not(feature = "fabric"),
    allow(dead_code, reason = "what is shown of members is there, and nobody writes it")
)]
mod cluster;
pub mod config;
mod control;
mod edge;
mod field;
mod history;
mod http;
mod node;
#[cfg_attr(not(feature = "fabric"), allow(dead_code, reason = "what is shown of sites is there, and nobody writes it"))]
mod sites;
mod trace;
mod wall_clock;

pub use bus::reserved::REPLAY_PREFIX;
pub use bus::{SessionOrder, load_config};
pub use control::audit;
pub use http::{history_edit_of, openapi, shown_history_edit, shown_history_stats};
pub use node::{
    DeviceCounts, FolderLock, InProcessBroker, InProcessListener, MemberChange, MemberNode, Node, StartError, Waiting,
};
pub use sites::joining;
