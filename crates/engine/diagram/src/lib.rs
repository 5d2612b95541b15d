//! Single-line diagrams: draws SVG from bays, checks SVG files of users, and finds what is energised.
//!
//! In: bays ([`Drawing`]); the text of an SVG file; positions of switches and states of sources.
//! Out: SVG with topics ([`Drawing::to_svg`]); what a file is bound to, or all that is wrong with it ([`Diagram::check`]); the
//! state of each node of the network ([`Network::states`]).
//!
//! Never: a file, a value of a topic, a colour. Who shows a diagram reads values and draws states.
//!
//! # The network
//!
//! Elements of the SVG are parts of the network by their attributes:
//!
//! ```text
//! data-node="b1"                      a conductor: a busbar, a wire
//! data-from="b1" data-to="f1"         connects two nodes; with data-symbol of a switch and data-topic it is open or closed
//! data-to="earth"                     an earth switch
//! data-source="TOPIC"                 the node of its data-node is fed while TOPIC is true; data-source="": always
//! ```
//!
//! A node is [`State::Energised`], dead or earthed only if it is that whatever the switches of unknown position are; else it is
//! unknown. So is a node that is both fed and earthed.
//!
//! Read first: `topology.rs`, then `svg/mod.rs`, `svg/xml.rs`, and `bays/mod.rs`.
#![no_std]
extern crate alloc;

mod bays;
mod svg;
mod topology;

pub use bays::{Bay, Busbar, Drawing, DrawingError, Item, Kind};
pub use svg::{Diagram, NAME_BYTES_MAX, SVG_BYTES_MAX, SvgError, is_diagram_name};
pub use topology::{Edge, Feed, Network, Position, State};

#[cfg(test)]
mod tests;
