//! `tieline boards`: boards of a node are listed, read, and changed.

pub mod args;

use crate::api::args::NodeArgs;
use crate::api::table::{Align, count, plain, write};
use crate::{api, consent, terminal, uri, who};
use anyhow::{Context, Result};
use args::{BoardDeleteArgs, BoardPutArgs, BoardShowArgs, BoardsVerb};
use serde_json::Value as Json;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use tieline_client::{HttpClient, HttpError};

/// Runs a verb.
pub fn boards(verb: &BoardsVerb) -> Result<ExitCode> {
    match verb {
        BoardsVerb::List(args) => list(args),
        BoardsVerb::Show(args) => show(args),
        BoardsVerb::Put(args) => put(args),
        BoardsVerb::Delete(args) => delete(args),
    }
}

fn list(NodeArgs { node, json }: &NodeArgs) -> Result<ExitCode> {
    let answer: Json = who::http(node, None)?.get("/v1/boards")?;
    let all = answer["boards"].as_array().cloned().unwrap_or_default();
    let members = ["name", "title", "panels", "origin", "version"];
    let rows: Vec<[String; 5]> = all.iter().map(|one| members.map(|member| plain(&one[member]))).collect();
    let head = members.map(|name| (name, if name == "panels" { Align::Right } else { Align::Left }));
    api::print_list(*json, &all, |_, mut out| write(head, &rows, &mut out))
}

fn show(BoardShowArgs { name, node: NodeArgs { node, json } }: &BoardShowArgs) -> Result<ExitCode> {
    let client = who::http(node, None)?;
    if *json {
        let board: Json = client.get(&path(name, &[]))?;
        return api::print(true, &board, |_, _| Ok(()));
    }
    let mut text = String::new();
    client.stream(&path(name, &[("format", Some("toml"))]), "*/*")?.read_to_string(&mut text)?;
    let mut out = io::stdout().lock();
    // Into a file it goes as it is.
    match out.is_terminal() {
        true => out.write_all(terminal::lines(&text).as_bytes())?,
        false => out.write_all(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn put(args: &BoardPutArgs) -> Result<ExitCode> {
    let (name, NodeArgs { node, json }) = (&args.name, &args.node);
    let mut text = Vec::new();
    match args.file.to_str() {
        Some("-") => drop(io::stdin().lock().read_to_end(&mut text).context("cannot read standard input")?),
        _ => text = std::fs::read(&args.file).with_context(|| format!("{} cannot be read", args.file.display()))?,
    }
    let client = who::http(node, None)?;
    if args.check {
        let answer: Json = client.put(&path(name, &[("check", Some("true"))]), &text, &[])?;
        return api::print(*json, &answer, |answer, out| {
            let panels = answer["board"]["panels"].as_array().map_or(0, Vec::len);
            writeln!(out, "{name}: ok, {}", count(panels, "panel"))
        });
    }
    let header = match (&args.if_version, args.if_absent) {
        (Some(version), _) => Some(version.clone()),
        (None, true) => None,
        (None, false) => version_of(&client, name)?,
    };
    let header = header.map_or_else(|| ("if-none-match", "*".to_owned()), |version| ("if-match", quoted(&version)));
    let answer: Json = client.put(&path(name, &[]), &text, &[(header.0, header.1.as_str())])?;
    api::print(*json, &answer, |answer, out| {
        writeln!(out, "{name}: stored, version {}", plain(&answer["board"]["version"]))
    })
}

fn delete(args: &BoardDeleteArgs) -> Result<ExitCode> {
    let (name, NodeArgs { node, json }) = (&args.name, &args.node);
    consent::ask(args.yes, &format!("the board {name} will be deleted"))?;
    let tag = args.if_version.as_deref().map_or_else(|| "*".to_owned(), quoted);
    let answer: Json = who::http(node, None)?.delete(&path(name, &[]), &[("if-match", tag.as_str())])?;
    api::print(*json, &answer, |_, out| writeln!(out, "{name}: deleted"))
}

/// The version of a board as it is; none where there is none.
fn version_of(client: &HttpClient, name: &str) -> Result<Option<String>> {
    match client.get::<Json>(&path(name, &[])) {
        Ok(board) => Ok(board["version"].as_str().map(str::to_owned)),
        Err(HttpError::Problem { status: 404, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn path(name: &str, parameters: &[(&str, Option<&str>)]) -> String {
    uri::path(&format!("/v1/boards/{name}"), parameters)
}

fn quoted(version: &str) -> String {
    format!("\"{}\"", version.trim_matches('"'))
}
