//! `tieline history stats`: what each topic takes on the disk.

use super::args::StatsArgs;
use super::{ANSWER, filter, folder_reader, size};
use crate::api::table::{self, Align, plain};
use crate::{terminal, uri, who};
use anyhow::Result;
use serde_json::Value as Json;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Prints what a node, or a data folder, has of each topic.
pub fn stats(args: &StatsArgs) -> Result<ExitCode> {
    let answer = match &args.source.data {
        Some(folder) => {
            let filter = filter(&args.filter)?;
            let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
            tieline_node::shown_history_stats(&folder_reader(folder)?.stats(&filter, limit)?)
        }
        None => {
            let limit = args.limit.to_string();
            let parameters = [("topic", Some(args.filter.as_str())), ("limit", Some(&limit))];
            who::http(&args.source.node, Some(ANSWER))?.get(&uri::path("/v1/history/stats", &parameters))?
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => writeln!(out, "{}", terminal::json(&answer.to_string()))?,
        false => show(&answer, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn show(answer: &Json, out: &mut impl Write) -> io::Result<()> {
    let number = |json: &Json| json.as_u64().unwrap_or(0);
    let row = |name: String, json: &Json| {
        let count = |name: &str| number(&json[name]).to_string();
        let each = json["bytes_per_sample"].as_f64().map_or(String::new(), |each| format!("{each:.2}"));
        [
            name,
            count("samples"),
            count("waiting"),
            count("chunks"),
            size(number(&json["bytes"])),
            each,
            count("damaged"),
            plain(&json["first"]),
            plain(&json["last"]),
        ]
    };
    let topics = answer["topics"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<_> = topics.iter().map(|topic| row(plain(&topic["topic"]), topic)).collect();
    let all = number(&answer["topic_count"]);
    if !rows.is_empty() {
        rows.push(row(format!("all {all} topics"), &answer["total"]));
    }
    let right = |name| (name, Align::Right);
    let head = [
        ("topic", Align::Left),
        right("samples"),
        right("waiting"),
        right("chunks"),
        right("bytes"),
        right("a sample"),
        right("damaged"),
        ("first", Align::Left),
        ("last", Align::Left),
    ];
    table::write(head, &rows, out)?;
    let [files, days, index] = ["file_bytes", "day_file_bytes", "index_bytes"].map(|name| size(number(&answer[name])));
    let [count, day_count] = ["files", "day_files"].map(|name| number(&answer[name]));
    writeln!(out, "{files} in {count} files of chunks, {days} in {day_count} day files, {index} of index")?;
    let [edits, ever] = ["edits", "edits_ever"].map(|name| number(&answer[name]));
    if ever > 0 {
        writeln!(out, "{edits} edits and annotations, {ever} with those that were undone")?;
    }
    let rules = answer["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rules.is_empty() { Ok(()) } else { show_rules(rules, out) }
}

/// Each rule, and below it its stages.
fn show_rules(rules: &[Json], out: &mut impl Write) -> io::Result<()> {
    let number = |json: &Json| json.as_u64().unwrap_or(0);
    let count = |json: &Json| number(json).to_string();
    let mut rows = Vec::new();
    for rule in rules {
        let topics: Vec<String> = rule["topics"].as_array().into_iter().flatten().map(plain).collect();
        let topics = if topics.is_empty() { "all others".to_owned() } else { topics.join(" ") };
        let keep = rule["keep"].as_str().map_or("as recorded".to_owned(), |keep| format!("as recorded, {keep}"));
        let counts = ["topic_count", "due_samples", "downsampled", "removed"].map(|name| count(&rule[name]));
        let [topic_count, due, downsampled, removed] = counts;
        let (samples, bytes) = (count(&rule["samples"]), size(number(&rule["bytes"])));
        rows.push([topics, keep, topic_count, samples, bytes, due, downsampled, removed]);
        for stage in rule["downsample"].as_array().into_iter().flatten() {
            let [aggregate, every, after] = ["aggregate", "every", "after"].map(|name| plain(&stage[name]));
            let (samples, bytes) = (count(&stage["samples"]), size(number(&stage["bytes"])));
            let words = format!("{aggregate} of {every} after {after}");
            rows.push([
                String::new(),
                words,
                String::new(),
                samples,
                bytes,
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
    }
    let right = |name| (name, Align::Right);
    let head = [
        ("rule", Align::Left),
        ("kept", Align::Left),
        right("topics"),
        right("samples"),
        right("bytes"),
        right("due"),
        right("down-sampled"),
        right("removed"),
    ];
    writeln!(out)?;
    table::write(head, &rows, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_largest_topics_stand_above_their_sum() {
        let of = |bytes: u64| {
            json!({ "topic": "a", "samples": bytes, "waiting": 1, "chunks": 2, "bytes": bytes, "bytes_per_sample": 1.0,
                    "damaged": 0, "first": "F", "last": "L" })
        };
        let answer = json!({ "topics": [of(2_500_000)], "topic_count": 3, "total": of(4_000_000), "files": 1,
                             "file_bytes": 5_000_000, "day_files": 3, "day_file_bytes": 7_000_000, "index_bytes": 40_000 });
        let mut out = Vec::new();
        show(&answer, &mut out).unwrap();
        let expect = "\
topic         samples  waiting  chunks   bytes  a sample  damaged  first  last
a             2500000        1       2  2.5 MB      1.00        0  F      L
all 3 topics  4000000        1       2  4.0 MB      1.00        0  F      L
5.0 MB in 1 files of chunks, 7.0 MB in 3 day files, 40 kB of index
";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn each_rule_has_a_line_and_each_of_its_stages() {
        let stage = json!({ "after": "2d", "every": "1m", "aggregate": "mean", "samples": 60, "bytes": 5000 });
        let of = |topics: &[&str], keep: &str, stages: Vec<Json>| {
            json!({ "topics": topics, "keep": keep, "topic_count": 2, "samples": 3600, "bytes": 14_000, "downsample": stages,
                    "due_samples": 0, "removed": 7, "downsampled": 3540 })
        };
        let rules = [of(&["a/#", "b"], "30d", vec![stage]), of(&[], "90d", vec![])];
        let mut out = Vec::new();
        show_rules(&rules, &mut out).unwrap();
        let expect = "
rule        kept                 topics  samples  bytes  due  down-sampled  removed
a/# b       as recorded, 30d          2     3600  14 kB    0          3540        7
            mean of 1m after 2d               60   5 kB
all others  as recorded, 90d          2     3600  14 kB    0          3540        7
";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
