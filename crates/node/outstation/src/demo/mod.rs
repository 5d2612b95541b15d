//! The demo: a small substation that moves, as DNP3 outstations over TCP on this machine.
//!
//! In: a data folder. Out: eight outstations on free ports, and a configuration that collects from them, written to
//! the folder so that it can be read and copied.
//!
//! Read first: `substation/model.rs`.

mod substation;

pub use substation::Demo;
