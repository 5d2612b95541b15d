//! `tieline diagram`: single-line diagrams are drawn, checked, and listed.

pub mod args;

use crate::api::table::{self, Align, count, plain};
use crate::who;
use anyhow::{Context, Result, anyhow};
use args::{DiagramCheckArgs, DiagramListArgs, DiagramNewArgs, DiagramVerb};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use tieline_node::config::{Finding, load_drawing, load_svg};

/// Runs a verb.
pub fn diagram(verb: &DiagramVerb) -> Result<ExitCode> {
    match verb {
        DiagramVerb::New(args) => new(args),
        DiagramVerb::Check(args) => check(args),
        DiagramVerb::List(args) => list(args),
    }
}

fn new(args: &DiagramNewArgs) -> Result<ExitCode> {
    let drawn = load_drawing(&args.file)?.to_svg();
    let svg =
        drawn.map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    match &args.out {
        Some(out) => std::fs::write(out, svg).with_context(|| format!("{} cannot be written", out.display()))?,
        None => std::io::stdout().write_all(svg.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(args: &DiagramCheckArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let (mut files, mut is_ok) = (Vec::new(), true);
    for file in &args.files {
        let name = file.display().to_string();
        match load_svg(file) {
            Ok((_, diagram)) => {
                let (topics, switches, nodes, sources) =
                    (diagram.topics.len(), diagram.switches(), diagram.nodes.len(), diagram.sources());
                files.push(json!({
                    "file": name, "ok": true, "topics": topics, "switches": switches, "nodes": nodes, "sources": sources,
                }));
                if !args.json {
                    let of = [
                        count(topics, "topic"),
                        count_of(switches, "switch", "es"),
                        count(nodes, "node"),
                        count(sources, "source"),
                    ];
                    writeln!(out, "{name}: ok, {}", of.join(", "))?;
                }
            }
            Err(findings) => {
                is_ok = false;
                files.push(
                    json!({ "file": name, "ok": false, "errors": findings.iter().map(as_json).collect::<Vec<_>>() }),
                );
                if !args.json {
                    for finding in findings {
                        eprintln!("{}", crate::terminal::lines(&finding.to_string()));
                    }
                }
            }
        }
    }
    if args.json {
        writeln!(out, "{}", json!({ "ok": is_ok, "files": files }))?;
    }
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn count_of(number: usize, noun: &str, plural: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { plural })
}

fn as_json(finding: &Finding) -> Value {
    json!({ "line": finding.line, "found": finding.found, "expected": finding.expected })
}

fn list(args: &DiagramListArgs) -> Result<ExitCode> {
    let answer: Value = who::http(&args.node, None)?.get("/v1/diagrams")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let all = answer["diagrams"].as_array().cloned().unwrap_or_default();
    let rows: Vec<[String; 3]> =
        all.iter().map(|one| ["name", "title", "topics"].map(|member| plain(&one[member]))).collect();
    table::write([("name", Align::Left), ("title", Align::Left), ("topics", Align::Right)], &rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The demonstration's diagram is what its bays are drawn as.
    #[test]
    fn the_demonstration_is_drawn_from_its_bays() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../outstation/src/demo/substation");
        let drawn = load_drawing(&folder.join("substation.toml")).unwrap().to_svg().unwrap();
        let kept = std::fs::read_to_string(folder.join("substation.svg")).unwrap();
        assert!(drawn == kept, "run tieline diagram new in {}", folder.display());
    }
}
