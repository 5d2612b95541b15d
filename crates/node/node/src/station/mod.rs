//! Outstations of ours: served by `tieline dnp3 outstation`, and by the demo.
//!
//! In: a database, lines of an operator. Out: a DNP3 outstation on a TCP port, and what its master made it do.
//!
//! Read first: `service.rs`.

mod folder;
mod lines;
mod service;

pub use folder::Folder;
pub use lines::{Line, parse_value};
pub use service::{Happening, SESSIONS_MAX, Station, TableControls, Teller, closes, database_of, number, state_after};
