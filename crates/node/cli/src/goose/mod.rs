//! `tieline goose`: the protocol without a node.

pub mod args;
mod listen;
mod publish;

use self::args::GooseVerb;
use anyhow::Result;
use std::process::ExitCode;

/// Does what the verb says.
pub fn goose(verb: &GooseVerb) -> Result<ExitCode> {
    match verb {
        GooseVerb::Listen(args) => listen::listen(args),
        GooseVerb::Publish(args) => publish::publish(args),
    }
}
