//! Messages made by others, messages made by us for others, and messages with a bit turned.

mod compression;
mod faults;
mod header;
mod keys;
mod peer;
mod properties;
mod text;
mod vectors;
