//! Device profiles of DNP3 as XML (IEEE 1815 annex on the device profile): what an outstation is, can, and has.
//!
//! ```text
//! OutstationFile ── write ──▶ XML ── read ──▶ Profile ── to_outstation ─▶ an outstation's file
//!                                               └─────── to_device ───▶ a device's table and its point list
//! ```
//!
//! Written is schema version 2.11.00; read are the elements of `map.rs` under any namespace of the DNP users group. What the
//! schema has no place for stands in `userData`, in elements of our own. Elements that are not read are told of by name.

mod map;
mod read;
mod tree;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Profile, ProfilePoint, read};
pub use write::{left_out, write};
