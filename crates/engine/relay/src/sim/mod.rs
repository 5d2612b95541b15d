//! Sites, edges of their links and a centre, and the nodes of a centre, in virtual time, over links that lose, double, reorder and hang,
//! on disks that are slow, with clocks that jump, killed at every step. Whatever happens:
//!
//! - what was acknowledged is in the centre's store, once, in order, and is what the site had ([`upward`]);
//! - what the store does not have was never acknowledged, or the site said that it is lost, and it was;
//! - once all is well again, all is stored, soon;
//! - a term has one writer, terms in the stream never go back, and what was acknowledged to a writer is in the stream once, in its order
//!   ([`leading`]);
//! - once a leader is killed, the next one writes soon.
//!
//! `TIELINE_SEED=<seed>` runs one seed again and tells what happened, `TIELINE_SEEDS=<count>` runs more.

extern crate std;

mod agenda;
mod cluster;
mod leading;
mod link;
mod pacing;
#[path = "../../../seeds.rs"]
mod seeds;
mod site;
mod upward;

use self::seeds::run_seeds;
