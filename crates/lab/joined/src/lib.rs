//! What `engine/relay` decides, joined with what `io/fabric` does, over a real server: tests alone, since neither sees the other.
//!
//! In: nothing. Out: failures of tests. The glue of each test is what a node does with the two, in a few lines.
//!
//! Never: a part of the binary.
//!
//! Read first: `tests/centre.rs` (a site and its centre), `tests/leaders.rs` (nodes of a centre).

#[cfg(test)]
mod tests;
