//! Captures of network traffic, down to the bytes that two ends said to each other.
//!
//! ```text
//! file::Capture ─ packet ─ packet::segment ─ segment ─ stream::Ordered ─ bytes in order
//! ```

pub mod file;
pub mod packet;
pub mod stream;
