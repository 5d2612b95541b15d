//! `tieline dnp3 keygen`: an update key for secure authentication.

use crate::args::KeygenArgs;
use anyhow::{Context, Result};
use std::process::ExitCode;
use tieline_dnp3::secure::{Key, KeyWrap};
use tieline_node::secure::{SystemRandom, write_key};

/// Writes a key from the system's random source to a file that is not there yet.
pub fn keygen(args: &KeygenArgs) -> Result<ExitCode> {
    let wrap = if args.bits == "128" { KeyWrap::Aes128 } else { KeyWrap::Aes256 };
    let key = Key::random(wrap, &mut SystemRandom);
    write_key(&args.file, &key).with_context(|| format!("cannot write {}", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
