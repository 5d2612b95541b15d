//! `tieline site`: the sites of a centre.

use crate::answer::say;
use crate::api::table::{self, Align, plain};
use crate::args::{HttpArgs, duration};
use crate::who;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// `tieline site`.
#[derive(Debug, Subcommand)]
pub enum SiteVerb {
    /// Add a site, or take up a revoked one
    Add(AddArgs),
    /// Make a token by which a site joins once, and print it with the command that uses it
    Token(TokenArgs),
    /// List sites: state, when they connected last, key
    List(ListArgs),
    /// Revoke a site: its keys are void, and its connections are ended
    Revoke(NamedArgs),
}

/// `tieline site add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name of the site: a level of topics
    pub name: String,
    /// Its public key, if it has one already: then it needs no token
    #[arg(long, value_name = "KEY")]
    pub public_key: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline site token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Name of the site
    pub name: String,
    /// How long the token can be used, at most 30 days
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub valid: Duration,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline site list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline site revoke`.
#[derive(Debug, Args)]
pub struct NamedArgs {
    /// Name of the site
    pub name: String,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs a verb.
pub fn site(verb: &SiteVerb) -> Result<ExitCode> {
    match verb {
        SiteVerb::Add(args) => add(args)?,
        SiteVerb::Token(args) => token(args)?,
        SiteVerb::List(args) => list(args)?,
        SiteVerb::Revoke(args) => revoke(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(AddArgs { name, public_key: key, node, json }: &AddArgs) -> Result<()> {
    let done: Json = who::http(node, None)?.post("/v1/fabric/sites", &json!({ "name": name, "key": key }))?;
    let words = match key {
        Some(_) => format!("{name}: added; it can connect with its key"),
        None => format!("{name}: added; tieline site token {name} makes a token by which it joins"),
    };
    say(*json, &words, &done)
}

fn token(TokenArgs { name, valid, node, json }: &TokenArgs) -> Result<()> {
    // Part of a second is one: a token that is void at once is of no use.
    let valid_s = valid.as_millis().div_ceil(1000);
    let body = json!({ "name": name, "valid_s": u64::try_from(valid_s).unwrap_or(u64::MAX) });
    let done: Json = who::http(node, None)?.post("/v1/fabric/sites/token", &body)?;
    let (token, expires) = (plain(&done["token"]), plain(&done["expires"]));
    let address = who::http_target(node)?.address;
    let url = if address.contains("://") { address } else { format!("http://{address}") };
    let words = format!("token    {token}\nexpires  {expires}\nOn the site, once:\ntieline join {url} --token {token}");
    say(*json, &words, &done)
}

fn list(ListArgs { node, json }: &ListArgs) -> Result<()> {
    let answer: Json = who::http(node, None)?.get("/v1/fabric/sites")?;
    if *json {
        return say(true, "", &answer);
    }
    let row = |site: &Json| ["name", "state", "last_seen", "token_expires", "key"].map(|member| plain(&site[member]));
    let rows: Vec<_> = answer["sites"].as_array().into_iter().flatten().map(row).collect();
    let head = ["site", "state", "connected last", "token until", "key"].map(|title| (title, Align::Left));
    let mut out = Vec::new();
    table::write(head, &rows, &mut out)?;
    std::io::stdout().write_all(&out)?;
    Ok(())
}

fn revoke(NamedArgs { name, node, json }: &NamedArgs) -> Result<()> {
    let done: Json = who::http(node, None)?.post("/v1/fabric/sites/revoke", &json!({ "name": name }))?;
    say(*json, &format!("{name}: revoked; its connections are ended"), &done)
}
