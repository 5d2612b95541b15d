//! `tieline dnp3 profile`: device profiles as XML.

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_outstation::config::load;
use tieline_outstation::profile;

/// `tieline dnp3 profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileVerb {
    /// Write the device profile of an outstation
    Write(WriteArgs),
    /// Read a device profile, and print what a node or an outstation makes of it
    Read(ReadArgs),
}

/// `tieline dnp3 profile write`.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// The outstation's file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print a JSON object that holds the profile as text
    #[arg(long)]
    pub json: bool,
}

/// What is made of a device profile.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum As {
    /// A device's table and its point list, for a node
    Device,
    /// The point list alone
    Points,
    /// The file of an outstation that serves these points
    #[value(name = "outstation", alias = "station")]
    Outstation,
}

/// `tieline dnp3 profile read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The device profile
    pub file: PathBuf,
    /// What to print
    #[arg(long = "as", value_enum, default_value = "device")]
    pub to: As,
    /// The device's name
    #[arg(long, default_value = "device1")]
    pub name: String,
    /// Print all that is read as a JSON object
    #[arg(long, conflicts_with_all = ["to", "name"])]
    pub json: bool,
}

/// Does what the verb says; warnings go to standard error.
pub fn profile(verb: &ProfileVerb) -> Result<ExitCode> {
    match verb {
        ProfileVerb::Write(args) => {
            let file = load(&args.config)?;
            let (text, left_out) = (profile::write(&file), profile::left_out(&file));
            if args.json {
                let said = json!({ "config": args.config, "profile": text, "not_written": left_out });
                return print(&format!("{said}\n"));
            }
            for name in left_out {
                eprintln!("tieline: not written, a profile has no place for it: {name}");
            }
            print(&text)
        }
        ProfileVerb::Read(args) => read(args),
    }
}

fn read(args: &ReadArgs) -> Result<ExitCode> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {name}"))?;
    let found = profile::read(&name, &text)?;
    if args.json {
        return print(&format!("{}\n", as_json(&found)));
    }
    for path in &found.unread {
        eprintln!("tieline: not read: {path}");
    }
    match args.to {
        As::Outstation => print(&found.to_outstation()),
        As::Points => print(&found.to_points()),
        As::Device => {
            let list = format!("{}.csv", args.name);
            let points: String = found.to_points().lines().map(|line| format!("# {line}\n")).collect();
            print(&format!("{}\n# {list}:\n{points}", found.to_device(&args.name, &list)))
        }
    }
}

/// Settings as TOML has them: numbers, truth, words.
fn settings(of: &[(&'static str, String)]) -> Json {
    let value = |text: &str| match text.parse::<toml_edit::Value>() {
        Ok(toml_edit::Value::Integer(number)) => json!(number.value()),
        Ok(toml_edit::Value::Float(number)) => json!(number.value()),
        Ok(toml_edit::Value::Boolean(truth)) => json!(truth.value()),
        Ok(toml_edit::Value::String(word)) => json!(word.value()),
        Ok(_) | Err(_) => json!(text),
    };
    of.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect()
}

fn as_json(found: &profile::Profile) -> Json {
    let points = found.points.iter().map(|point| {
        json!({
            "type": point.point_type.name(),
            "index": point.index,
            "name": point.name,
            "class": point.class,
            "unit": point.unit,
            "scale": point.scale.parse::<f64>().ok(),
            "offset": point.offset.parse::<f64>().ok(),
            "description": point.description,
            "settings": settings(&point.settings),
        })
    });
    let attributes: Json = found.attributes.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    json!({
        "attributes": attributes,
        "settings": settings(&found.settings),
        "points": points.collect::<Json>(),
        "unread": found.unread,
    })
}

fn print(text: &str) -> Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
