//! `tieline history delete`: recorded values are deleted by a node.

use super::args::DeleteArgs;
use super::open_span;
use crate::answer::say;
use crate::api::now;
use crate::{consent, uri, who};
use anyhow::Result;
use serde_json::Value as Json;
use std::process::ExitCode;
use std::time::Duration;

/// How long a deletion may take.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Has a node delete what is named, once it is said to be meant.
pub fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let now = now();
    let (from, to) = open_span(args.from.as_deref(), args.to.as_deref(), now)?;
    let (from, to) = (from.map(|from| from.to_string()), to.unwrap_or(now).to_string());
    let start = from.as_deref().unwrap_or("the first value");
    consent::ask(args.yes, &format!("this deletes all values of {} from {start} to {to} for good", args.filter))?;
    let parameters = [
        ("topic", Some(args.filter.as_str())),
        ("from", from.as_deref()),
        ("to", Some(to.as_str())),
        ("why", args.why.as_deref()),
    ];
    let client = who::http(&args.node, Some(PATIENCE))?;
    let answer: Json = client.delete(&uri::path("/v1/history", &parameters), &[])?;
    let mut words = format!("{} samples in {} chunks were deleted", answer["samples"], answer["chunks"]);
    if answer["edits"].as_u64() > Some(0) {
        words += &format!("; {} edits of them were ended", answer["edits"]);
    }
    if answer["damaged"].as_u64() > Some(0) {
        words += &format!(
            "; {} samples cannot be read and are left: tieline history repair removes them",
            answer["damaged"]
        );
    }
    say(args.json, &words, &answer)?;
    Ok(ExitCode::SUCCESS)
}
