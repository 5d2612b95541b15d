//! `tieline config default|check`.

use crate::args::ConfigVerb;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use tieline_node::config::{self, Finding};

/// Prints the default configuration, or all that is wrong with one.
pub fn config(verb: &ConfigVerb) -> Result<ExitCode> {
    let ConfigVerb::Check { file, json } = verb else {
        print!("{}", config::DEFAULT_FILE);
        return Ok(ExitCode::SUCCESS);
    };
    match config::load(file) {
        Ok(checked) => {
            let points: usize = checked.devices.iter().map(|device| device.points.len()).sum();
            match json {
                true => println!("{}", json!({ "ok": true, "devices": checked.devices.len(), "points": points })),
                false => println!("{}: ok, {} devices, {points} points", file.display(), checked.devices.len()),
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if *json => {
            let errors: Vec<_> = error.0.iter().map(as_json).collect();
            println!("{}", json!({ "ok": false, "errors": errors }));
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
