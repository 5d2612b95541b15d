//! Recorded traffic: captures of real devices, a certification run, and this crate's own vectors.
//!
//! Captures and certification logs lie beside the repository, in `../shared`; where they do not, the tests say that they
//! skip. Vectors are in `vectors/dnp3` of the repository.

mod captures;
mod certification;
mod pcap;
mod vectors;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The files of a folder, by name; none, saying so, where the folder is not there.
#[expect(clippy::print_stdout, reason = "a test that skips says so")]
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: {} is not there", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
