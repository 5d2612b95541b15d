//! The demo's substation: eight DNP3 outstations over TCP.

mod devices;
mod model;

pub(super) use devices::start;
