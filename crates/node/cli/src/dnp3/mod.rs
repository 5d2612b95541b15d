//! `tieline dnp3`: the protocol without a node.

pub mod args;
mod capture;
pub mod decode;
pub mod file;
mod keygen;
pub mod master;
mod measured;
mod objects;
pub mod operate;
mod outstation;
pub mod profile;
pub mod transport;

use crate::args::Dnp3Verb;
use anyhow::Result;
use std::process::ExitCode;

/// Does what the verb says.
pub fn dnp3(verb: &Dnp3Verb) -> Result<ExitCode> {
    match verb {
        Dnp3Verb::Outstation(args) => outstation::outstation(args),
        Dnp3Verb::Master(args) => master::master(args),
        Dnp3Verb::File(verb) => file::file(verb),
        Dnp3Verb::Profile(verb) => profile::profile(verb),
        Dnp3Verb::Decode(args) => decode::decode(args),
        Dnp3Verb::Keygen(args) => keygen::keygen(args),
    }
}
