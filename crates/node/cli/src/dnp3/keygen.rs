//! `tieline dnp3 keygen`: an update key for secure authentication.

use crate::answer::say;
use crate::args::KeygenArgs;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::process::ExitCode;
use tieline_dnp3::secure::{Key, KeyWrap};
use tieline_transport::secure::{SystemRandom, write_key};

/// Writes a key from the system's random source to a file that is not there yet.
pub fn keygen(args: &KeygenArgs) -> Result<ExitCode> {
    let (wrap, bits) = if args.bits == "128" { (KeyWrap::Aes128, 128) } else { (KeyWrap::Aes256, 256) };
    let key = Key::random(wrap, &mut SystemRandom);
    let file = args.file.display();
    if args.file.exists() {
        bail!("{file} is there already, and a key is not overwritten; expected the name of a new file");
    }
    write_key(&args.file, &key).with_context(|| format!("cannot write {file}"))?;
    let words = format!("{file}: an update key of {bits} bits, which only its owner may read");
    say(args.json, &words, &json!({ "file": args.file, "bits": bits }))?;
    Ok(ExitCode::SUCCESS)
}
