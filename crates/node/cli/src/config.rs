//! `tieline config default|check`.

use crate::args::ConfigVerb;
use anyhow::Result;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use tieline_node::config::{self, Finding};

/// Prints the default configuration, or all that is wrong with one.
pub fn config(verb: &ConfigVerb) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let ConfigVerb::Check { file, json } = verb else {
        out.write_all(config::DEFAULT_FILE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    match config::load(file) {
        Ok(checked) => {
            let points: usize = checked.devices.iter().map(|device| device.points.len()).sum();
            match json {
                true => writeln!(out, "{}", json!({ "ok": true, "devices": checked.devices.len(), "points": points })),
                false => writeln!(out, "{}: ok, {} devices, {points} points", file.display(), checked.devices.len()),
            }?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if *json => {
            let errors: Vec<_> = error.0.iter().map(as_json).collect();
            writeln!(out, "{}", json!({ "ok": false, "errors": errors }))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            eprintln!("{error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn as_json(finding: &Finding) -> serde_json::Value {
    let Finding { file, line, column, key, found, expected } = finding;
    json!({ "file": file, "line": line, "column": column, "key": key, "found": found, "expected": expected })
}
