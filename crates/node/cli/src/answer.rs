//! How a verb ends: what it did, or why it failed, as a line for people or as one JSON object.

use crate::exit::Exit;
use crate::terminal;
use anyhow::Result;
use clap::ArgMatches;
use serde_json::{Value as Json, json};
use std::io::Write;
use tieline_client::HttpError;
use tieline_node::config::{ConfigError, Finding};

/// Prints what was done.
///
/// # Errors
/// Standard output takes nothing.
pub fn say(json: bool, words: &str, object: &Json) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", terminal::json(&object.to_string()))?,
        false => writeln!(out, "{}", terminal::lines(words))?,
    }
    Ok(())
}

/// Writes to standard error why a verb failed.
pub fn complain(json: bool, error: &anyhow::Error) {
    let told = match json {
        true => terminal::json(&as_json(error).to_string()),
        false => terminal::lines(&as_text(error)).into_owned(),
    };
    // A terminal that has hung up takes no words.
    let _ = writeln!(std::io::stderr(), "{told}");
}

/// Whether the verb that was called was given `--json`.
pub fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|given| *given);
    here || matches.subcommand().is_some_and(|(_, below)| wants_json(below))
}

/// What is wrong in a file begins with the file; all else with who says it.
fn as_text(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ConfigError>() {
        Some(findings) => findings.to_string().trim_end().to_owned(),
        None => format!("tieline: {}", words(error)),
    }
}

fn as_json(error: &anyhow::Error) -> Json {
    let mut told = json!({ "error": words(error).trim_end(), "exit": Exit::of(error).code() });
    if let Some(ConfigError(findings)) = error.downcast_ref() {
        told["errors"] = findings.iter().map(finding).collect();
    }
    told
}

/// A mistake in a file.
pub fn finding(finding: &Finding) -> Json {
    let Finding { file, line, column, key, found, expected } = finding;
    json!({ "file": file, "line": line, "column": column, "key": key, "found": found, "expected": expected })
}

/// The error in one line. Of a refusal of the node only its own words, where it has any.
fn words(error: &anyhow::Error) -> String {
    match error.downcast_ref::<HttpError>() {
        Some(HttpError::Problem { detail, .. }) if !detail.is_empty() => detail.clone(),
        _ => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use anyhow::anyhow;

    #[test]
    fn failures_are_told_in_both_ways() {
        let check = |error: anyhow::Error, text: &str, json: Json| {
            assert_eq!((as_text(&error).as_str(), as_json(&error)), (text, json));
        };
        check(anyhow!("no\x1b"), "tieline: no\x1b", json!({ "error": "no\u{1b}", "exit": 1 }));
        let refused = HttpError::Problem { status: 403, title: "Forbidden".to_owned(), detail: "not you".to_owned() };
        check(refused.into(), "tieline: not you", json!({ "error": "not you", "exit": 3 }));
        let found = Finding {
            file: "a.toml".to_owned(),
            line: 2,
            column: 3,
            key: "node.nmae".to_owned(),
            found: "x".to_owned(),
            expected: "y".to_owned(),
        };
        let text = ConfigError(vec![found.clone()]).to_string().trim_end().to_owned();
        let expect = json!({ "error": text, "exit": 1, "errors": [finding(&found)] });
        check(ConfigError(vec![found]).into(), &text, expect);
    }

    #[test]
    fn json_is_asked_for_at_any_depth() {
        let check = |line: &str, expect: bool| {
            let matches = examples::command().try_get_matches_from(line.split(' ')).unwrap();
            assert_eq!(wants_json(&matches), expect, "{line}");
        };
        check("tieline status", false);
        check("tieline status --json", true);
        check("tieline access user list --json", true);
        check("tieline dnp3 master --json h:1 delay", true);
        check("tieline dnp3 master h:1 delay --json", true);
        check("tieline completion bash", false);
    }
}
