//! The outstation server: outstations of ours, served by `tieline dnp3 outstation`, and by the demo.
//!
//! In: databases, lines of an operator. Out: DNP3 outstations on a port, and what their masters made them do.
//!
//! Read first: `service.rs`, one outstation with one master; then `servers.rs`, several of either.

mod folder;
mod lines;
mod servers;
mod service;

pub use folder::{Folder, FolderThread};
pub use lines::{AddressedLine, Line};
pub use servers::{Concerned, OutstationServers, OutstationServersTeller, Served, connections_max};
pub use service::{
    Happening, OutstationServer, SESSIONS_MAX, TableControls, Teller, closes, database_of, number, outstation_of,
    state_after,
};
