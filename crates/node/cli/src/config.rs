//! `tieline config default|show|check`.

use crate::answer;
use crate::api::table::count;
use crate::args::{ConfigCheckArgs, ConfigVerb};
use anyhow::Result;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_node::config;

/// The exit code of a wrong command line, as clap has it.
const WRONG_LINE: u8 = 2;

/// Prints the default configuration, or all that is wrong with one.
pub fn config(verb: &ConfigVerb) -> Result<ExitCode> {
    match verb {
        ConfigVerb::Default => {
            std::io::stdout().lock().write_all(config::DEFAULT_FILE.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigVerb::Show(args) => {
            let text = crate::run::role_text(&args.role, &args.data)?;
            std::io::stdout().lock().write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigVerb::Check(args) => check(args),
    }
}

fn check(ConfigCheckArgs { file, config, json }: &ConfigCheckArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let named = || crate::who::variable("TIELINE_CONFIG").map(PathBuf::from);
    let Some(file) = file.clone().or_else(|| config.clone()).or_else(named) else {
        eprintln!("tieline: no file is given, expected one, as in tieline config check --config tieline.toml");
        return Ok(ExitCode::from(WRONG_LINE));
    };
    match tieline_node::load_config(&file) {
        Ok(checked) => {
            let (devices, points) =
                (checked.devices.len(), checked.devices.iter().map(|device| device.points.len()).sum::<usize>());
            let (file, named) = (file.display(), count(devices, "device"));
            let warnings = checked.notify.warnings(crate::api::now());
            if *json {
                let answer = json!({ "ok": true, "devices": devices, "points": points, "warnings": warnings });
                writeln!(out, "{answer}")?;
            } else {
                writeln!(out, "{file}: ok, {named}, {}", count(points, "point"))?;
                warnings.iter().try_for_each(|warning| writeln!(out, "{file}: {warning}"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if *json => {
            let errors: Vec<_> = error.0.iter().map(answer::finding).collect();
            writeln!(out, "{}", json!({ "ok": false, "errors": errors }))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}
