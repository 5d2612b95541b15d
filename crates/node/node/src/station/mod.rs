//! Outstations of ours: served by `tieline dnp3 outstation`, and by the demo.
//!
//! In: a database, lines of an operator. Out: a DNP3 outstation on a TCP port, and what its master made it do.
//!
//! Read first: `service.rs`; then `masters.rs`, the same for several masters.

mod folder;
mod lines;
mod masters;
mod service;

pub use folder::Folder;
pub use lines::{Line, parse_value};
pub use masters::{GroupTeller, Masters};
pub use service::{Happening, SESSIONS_MAX, Station, TableControls, Teller, closes, database_of, number, state_after};
