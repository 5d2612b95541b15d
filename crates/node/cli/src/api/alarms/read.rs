//! The journal, the report and the rules.

use super::super::args::NodeArgs;
use super::super::table::{Align, plain, write};
use super::super::{PAGE, list_of, pages, print, print_list};
use super::args::{JournalArgs, ReportArgs};
use super::name;
use crate::{terminal, uri, who};
use anyhow::Result;
use serde_json::Value as Json;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

/// Prints the journal, page by page.
pub fn journal(args: &JournalArgs) -> Result<ExitCode> {
    if args.csv {
        return csv(args);
    }
    let all = pages(&who::http(&args.node.node, None)?, "rows", |after| path(args, "json", after))?;
    print_list(args.node.json, &all, show_journal)
}

fn path(args: &JournalArgs, format: &str, after: Option<&str>) -> String {
    let parameters = [
        ("filter", Some(args.filter.as_str())),
        ("from", Some(args.from.as_str())),
        ("to", args.to.as_deref()),
        ("transition", args.transition.as_deref()),
        ("limit", Some(PAGE)),
        ("format", Some(format)),
        ("after", after),
    ];
    uri::path("/v1/alarms/journal", &parameters)
}

/// Pages of CSV under one head. The rows are those of JSON: the last of a page says where the next begins.
fn csv(args: &JournalArgs) -> Result<ExitCode> {
    let client = who::http(&args.node.node, None)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut after = None::<String>;
    loop {
        let page: Json = client.get(&path(args, "json", after.as_deref()))?;
        let mut text = String::new();
        client.stream(&path(args, "csv", after.as_deref()), "text/csv")?.read_to_string(&mut text)?;
        let body = match (after.is_some(), text.split_once('\n')) {
            (true, Some((_, body))) => body,
            (true, None) | (false, _) => &text,
        };
        out.write_all(terminal::lines(body).as_bytes())?;
        match page["next"].as_u64() {
            Some(next) => after = Some(next.to_string()),
            None => break,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn show_journal(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    let row = |row: &Json| {
        let of = |name: &str| plain(&row[name]);
        let words = [of("text"), of("why")].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        let called = if row["annunciated"] == true { "*" } else { "" };
        [of("time"), of("priority"), called.to_owned(), of("transition"), name(row), of("value"), of("who"), words]
    };
    let head = ["time", "priority", "", "transition", "alarm", "value", "who", "text"].map(|name| (name, Align::Left));
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

/// Prints the figures of a time.
pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let operators = args.operators.map(|count| count.to_string());
    let parameters = [
        ("filter", Some(args.filter.as_str())),
        ("from", Some(args.from.as_str())),
        ("to", args.to.as_deref()),
        ("operators", operators.as_deref()),
    ];
    let answer: Json = who::http(&args.node.node, None)?.get(&uri::path("/v1/alarms/report", &parameters))?;
    print(args.node.json, &answer, show_report)
}

fn show_report(report: &Json, mut out: &mut dyn Write) -> io::Result<()> {
    let of = |name: &str| plain(&report[name]);
    writeln!(out, "{} to {}: {} annunciated", of("from"), of("to"), of("annunciated"))?;
    let measure = |measure: &Json| ["name", "value", "good", "at_most", "rating"].map(|name| plain(&measure[name]));
    let head = [
        ("measure", Align::Left),
        ("value", Align::Right),
        ("good", Align::Right),
        ("at most", Align::Right),
        ("rating", Align::Left),
    ];
    write(head, &list_of(report, "measures").iter().map(measure).collect::<Vec<_>>(), &mut out)?;
    writeln!(out)?;
    let priority = |row: &Json| ["priority", "annunciated", "percent"].map(|name| plain(&row[name]));
    let head = [("priority", Align::Left), ("annunciated", Align::Right), ("%", Align::Right)];
    write(head, &list_of(report, "priorities").iter().map(priority).collect::<Vec<_>>(), &mut out)?;
    writeln!(out)?;
    let frequent = |row: &Json| ["annunciated", "percent", "topic", "kind"].map(|name| plain(&row[name]));
    let head = [("times", Align::Right), ("%", Align::Right), ("topic", Align::Left), ("kind", Align::Left)];
    write(head, &list_of(report, "frequent").iter().map(frequent).collect::<Vec<_>>(), &mut out)?;
    writeln!(out)?;
    let of = |name: &str| plain(&report["responses"][name]);
    writeln!(out, "acknowledged {}, median {} s, longest {} s", of("count"), of("median_s"), of("longest_s"))
}

/// Lists rules.
pub fn rules(args: &NodeArgs) -> Result<ExitCode> {
    let path = |after: Option<&str>| uri::path("/v1/alarms/rules", &[("limit", Some(PAGE)), ("after", after)]);
    let all = pages(&who::http(&args.node, None)?, "rules", path)?;
    print_list(args.json, &all, show_rules)
}

fn show_rules(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    // Rules of the node itself are of no file.
    let of = |rule: &Json, name: &str| match (name, &rule["built_in"]) {
        ("line", Json::Bool(true)) => String::new(),
        _ => plain(&rule[name]),
    };
    let row = |rule: &Json| ["line", "topic", "kind", "limit", "priority", "group", "text"].map(|name| of(rule, name));
    let head = [
        ("line", Align::Right),
        ("topic", Align::Left),
        ("kind", Align::Left),
        ("limit", Align::Right),
        ("priority", Align::Left),
        ("group", Align::Left),
        ("text", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}
