//! `tieline tag`: tags of devices and points.

use super::args::NameArgs;
use super::{ask, line, name};
use crate::api::table::{self, Align, plain};
use crate::args::HttpArgs;
use crate::exit::Exit;
use crate::{terminal, uri, who};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// `tieline tag`.
#[derive(Debug, Subcommand)]
pub enum TagVerb {
    /// Place a tag on a device, a point, or all devices and points below a topic
    Place(PlaceArgs),
    /// Lift a tag; the tag of somebody else needs the right to administer its devices and points
    Lift(LiftArgs),
    /// List tags
    List(ListArgs),
}

/// What a tag forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Only its owner can command
    Hold,
    /// Nobody can command, and nothing is reverted
    DoNotOperate,
    /// Nothing: it is for information
    Note,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::DoNotOperate => "do_not_operate",
            Self::Note => "note",
        }
    }
}

/// `tieline tag place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Topic of a device or a point, or one that devices and points are below
    pub topic: String,
    /// What it forbids
    #[arg(value_enum)]
    pub kind: Kind,
    /// Why, for the persons who see it
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline tag lift`.
#[derive(Debug, Args)]
pub struct LiftArgs {
    /// Its number
    pub id: u64,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline tag list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those that hold for this device or point
    pub topic: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a tag and line
    #[arg(long)]
    pub json: bool,
}

/// Places, lifts or lists tags.
pub fn tag(verb: &TagVerb) -> Result<ExitCode> {
    match verb {
        TagVerb::Place(args) => place(args),
        TagVerb::Lift(args) => lift(args),
        TagVerb::List(args) => list(args),
    }
}

fn place(args: &PlaceArgs) -> Result<ExitCode> {
    let mut body = json!({ "topic": args.topic, "kind": args.kind.word(), "why": args.why });
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, "/v1/tags", &body, "status")?;
    let done = tell(args.json, &answer, "placed")?;
    let out = answer["commands_out"].as_u64().unwrap_or(0);
    if out > 0 && !args.json {
        eprintln!("commands that were sent before and have no result yet: {out}");
    }
    Ok(done)
}

fn lift(args: &LiftArgs) -> Result<ExitCode> {
    let mut body = json!({ "id": args.id });
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, "/v1/tags/lift", &body, "status")?;
    tell(args.json, &answer, "lifted")
}

fn tell(is_json: bool, answer: &Json, done: &str) -> Result<ExitCode> {
    let is_done = answer["status"] == "success";
    let tag = &answer["tag"];
    match (is_json, is_done) {
        (true, _) => writeln!(io::stdout(), "{}", terminal::json(&answer.to_string()))?,
        (false, true) => {
            let [id, kind, topic] = [&tag["id"], &tag["kind"], &tag["topic"]].map(line);
            writeln!(io::stdout(), "{done}: tag {id}, {kind}, {topic}")?;
        }
        (false, false) => {
            eprintln!("refused: {}: {}", plain(&answer["reason"]), terminal::one_line(&plain(&answer["detail"])));
        }
    }
    Ok(if is_done { ExitCode::SUCCESS } else { Exit::Refused.into() })
}

fn list(args: &ListArgs) -> Result<ExitCode> {
    let answer: Json = who::http(&args.node, None)?.get(&uri::path("/v1/tags", &[("topic", args.topic.as_deref())]))?;
    let tags = answer["tags"].as_array().cloned().unwrap_or_default();
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        tags.iter().try_for_each(|tag| writeln!(out, "{}", terminal::json(&tag.to_string())))?;
    } else {
        let members = ["id", "topic", "kind", "owner", "placed", "why"];
        let rows: Vec<[String; 6]> = tags.iter().map(|tag| members.map(|member| line(&tag[member]))).collect();
        table::write(
            ["tag", "topic", "kind", "owner", "placed", "why"].map(|name| (name, Align::Left)),
            &rows,
            &mut out,
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
