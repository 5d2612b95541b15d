//! Outstations of ours: served by `tieline dnp3 outstation`, and by the demo.
//!
//! In: databases, lines of an operator. Out: DNP3 outstations on a port, and what their masters made them do.
//!
//! Read first: `service.rs`, one outstation with one master; then `stations.rs`, several of either.

mod folder;
mod lines;
mod service;
mod stations;

pub use folder::{Folder, FolderThread};
pub use lines::{AddressedLine, Line, parse_value};
pub use service::{Happening, SESSIONS_MAX, Station, TableControls, Teller, closes, database_of, number, state_after};
pub use stations::{Concerned, Served, Stations, StationsTeller, connections_max};
