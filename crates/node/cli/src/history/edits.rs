//! `tieline history edit`, `annotate`, `edits` and `undo`: what people change of the history, and say of it.

use super::args::{SourceArgs, TargetArgs};
use super::{ANSWER, expect_history, filter, open_span};
use crate::answer::say;
use crate::api::now;
use crate::api::table::{self, Align, plain};
use crate::{terminal, uri, who};
use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Map, Value as Json, json};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use tieline_core::{Timestamp, Words as _};
use tieline_history::HistorySource;
use tieline_node::{FolderLock, history_edit_of, shown_history_edit};
use tieline_store::{EditKind, EditQuery, Ended};

/// When an edit has effect.
#[derive(Debug, Args)]
pub struct TimeArgs {
    /// Time of a single sample (RFC 3339), or a duration before now, for example -5m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    at: Option<String>,
    /// Start (inclusive), as in tieline history query
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, required_unless_present = "at")]
    from: Option<String>,
    /// End (exclusive), as in tieline history query [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
}

/// Who is asked, and how the answer is printed.
#[derive(Debug, Args)]
pub struct WhereArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// `tieline history edit`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args(["value", "quality", "exclude", "insert"])))]
pub struct EditArgs {
    /// Topic
    topic: String,
    #[command(flatten)]
    time: TimeArgs,
    /// New value of the samples, as JSON. Anything that is not JSON is taken as a text
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<String>,
    /// New quality of the samples; with --value or --insert, the quality of that value
    #[arg(long, value_enum)]
    quality: Option<QualityWord>,
    /// Hide the samples
    #[arg(long, conflicts_with_all = ["value", "quality", "insert"])]
    exclude: bool,
    /// Add a sample with this value. Needs --at
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, requires = "at", conflicts_with_all = ["value", "from", "to"])]
    insert: Option<String>,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: WhereArgs,
}

/// A quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QualityWord {
    /// The value is right
    Good,
    /// The value may be wrong
    Uncertain,
    /// The value is wrong. It is left out of aggregates
    Bad,
}

/// `tieline history annotate`.
#[derive(Debug, Args)]
pub struct AnnotateArgs {
    /// Topic
    topic: String,
    /// Text of the annotation
    text: String,
    #[command(flatten)]
    time: TimeArgs,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: WhereArgs,
}

/// `tieline history undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Number of the edit
    id: u64,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: WhereArgs,
}

/// `tieline history edits`.
#[derive(Debug, Args)]
pub struct EditsArgs {
    /// Topic filter
    #[arg(default_value = "#")]
    filter: String,
    /// Only edits whose time ends after this, as in tieline history query
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only edits whose time begins before this, as in tieline history query
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only edits of this author
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only edits of this kind: value, quality, exclude, insert, annotation
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(EditKind::words()))]
    kind: Option<String>,
    /// Only edits that are not undone
    #[arg(long)]
    active: bool,
    /// Only edits with a smaller number
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
    /// Maximum number of edits
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Print the API's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Makes an edit.
pub fn edit(args: &EditArgs) -> Result<ExitCode> {
    let kind = match (&args.value, &args.insert, args.exclude) {
        (Some(_), ..) => EditKind::Value,
        (None, Some(_), _) => EditKind::Insert,
        (None, None, true) => EditKind::Exclude,
        (None, None, false) => EditKind::Quality,
    };
    let mut body = body(&args.topic, kind, &args.time, &args.why);
    if let Some(text) = args.value.as_ref().or(args.insert.as_ref()) {
        body.insert("v".to_owned(), value_of(text)?);
    }
    if let Some(quality) = args.quality {
        let word = match quality {
            QualityWord::Good => "good",
            QualityWord::Uncertain => "uncertain",
            QualityWord::Bad => "bad",
        };
        body.insert("q".to_owned(), word.into());
    }
    make(body, &args.place)
}

/// Adds an annotation.
pub fn annotate(args: &AnnotateArgs) -> Result<ExitCode> {
    let mut body = body(&args.topic, EditKind::Annotation, &args.time, &args.why);
    body.insert("text".to_owned(), args.text.clone().into());
    make(body, &args.place)
}

fn body(topic: &str, kind: EditKind, time: &TimeArgs, why: &str) -> Map<String, Json> {
    let mut body = Map::new();
    let members = [("topic", Some(topic)), ("kind", Some(kind.word())), ("why", Some(why))];
    let times = [("at", time.at.as_deref()), ("from", time.from.as_deref()), ("to", time.to.as_deref())];
    for (name, text) in members.into_iter().chain(times) {
        if let Some(text) = text {
            body.insert(name.to_owned(), text.into());
        }
    }
    body
}

/// A scalar of JSON; anything else is a text, but for what was meant as a number.
fn value_of(text: &str) -> Result<Json> {
    match serde_json::from_str(text) {
        Ok(scalar @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_))) => Ok(scalar),
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit() || "+-.,".contains(c)) => {
            let quoted = Json::from(text);
            bail!("the value is {text}, expected a number such as -4.2e3, or a text in quotation marks: '{quoted}'")
        }
        Ok(Json::Array(_) | Json::Object(_)) | Err(_) => Ok(text.into()),
    }
}

fn make(body: Map<String, Json>, place: &WhereArgs) -> Result<ExitCode> {
    let answer: Json = match &place.target.data {
        None => who::http(&place.target.node, Some(ANSWER))?.post("/v1/history/edits", &body)?,
        Some(data) => {
            let new = history_edit_of(Json::Object(body), author(), now()).map_err(|words| anyhow!("{words}"))?;
            with_folder(data, |source| Ok(source.make_edit(new)?))?
        }
    };
    say(place.json, &format!("edit {} of {}", answer["id"], plain(&answer["topic"])), &answer)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends an edit.
pub fn undo(args: &UndoArgs) -> Result<ExitCode> {
    let place = &args.place;
    let answer: Json = match &place.target.data {
        None => {
            let path = format!("/v1/history/edits/{}/undo", args.id);
            who::http(&place.target.node, Some(ANSWER))?.post(&path, &json!({ "why": args.why }))?
        }
        Some(data) => {
            let end = Ended { who: author(), time: now(), why: args.why.clone() };
            with_folder(data, |source| Ok(source.undo_edit(args.id, end)?))?
        }
    };
    say(place.json, &format!("edit {} of {} is undone", answer["id"], plain(&answer["topic"])), &answer)?;
    Ok(ExitCode::SUCCESS)
}

/// Changes the edits of a folder on which no node runs.
fn with_folder(data: &Path, change: impl FnOnce(&HistorySource) -> Result<tieline_store::EditRecord>) -> Result<Json> {
    expect_history(data)?;
    let _lock = FolderLock::take(data).map_err(|why| anyhow!("{}: {why}", data.display()))?;
    Ok(shown_history_edit(change(&HistorySource::new(data))?))
}

/// The user of the system, who is known by no node.
fn author() -> String {
    let uid = std::fs::metadata("/proc/self").map(|own| own.uid()).unwrap_or_default();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_own = |line: &&str| line.split(':').nth(2) == Some(&uid.to_string());
    let name = users.lines().find(is_own).and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("local uid {uid}"), |name| format!("local {name}"))
}

/// Prints edits.
pub fn edits(args: &EditsArgs) -> Result<ExitCode> {
    let answer: Json = match &args.source.data {
        None => {
            let (limit, before) = (args.limit.to_string(), args.before.map(|before| before.to_string()));
            let parameters = [
                ("topic", Some(args.filter.as_str())),
                ("from", args.from.as_deref()),
                ("to", args.to.as_deref()),
                ("who", args.who.as_deref()),
                ("kind", args.kind.as_deref()),
                ("active", args.active.then_some("true")),
                ("before", before.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            who::http(&args.source.node, Some(ANSWER))?.get(&uri::path("/v1/history/edits", &parameters))?
        }
        Some(data) => {
            expect_history(data)?;
            let (found, next) = HistorySource::new(data).edits(&query_of(args)?)?;
            json!({ "edits": found.into_iter().map(shown_history_edit).collect::<Vec<_>>(), "next": next })
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

fn query_of(args: &EditsArgs) -> Result<EditQuery> {
    let (from, to) = open_span(args.from.as_deref(), args.to.as_deref(), now())?;
    Ok(EditQuery {
        topics: filter(&args.filter)?,
        from: from.unwrap_or(Timestamp::from_micros(i64::MIN)),
        to: to.unwrap_or(Timestamp::from_micros(i64::MAX)),
        who: args.who.clone(),
        kind: args.kind.as_deref().and_then(EditKind::of_word),
        active: args.active.then_some(true),
        before: args.before,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    })
}

fn show(answer: &Json, out: &mut impl Write) -> io::Result<()> {
    let row = |edit: &Json| {
        let given = [("v", edit.get("v")), ("q", edit.get("q")), ("text", edit.get("text"))];
        let given: Vec<String> = given.iter().filter_map(|(_, json)| json.map(plain_or_null)).collect();
        let undone = match &edit["undone"] {
            Json::Null => String::new(),
            undone => format!("{} by {}: {}", plain(&undone["time"]), plain(&undone["who"]), plain(&undone["why"])),
        };
        let erased = if edit["erased"] == true { "erased".to_owned() } else { given.join(" ") };
        [
            edit["id"].to_string(),
            plain(&edit["time"]),
            plain(&edit["who"]),
            plain(&edit["topic"]),
            plain(&edit["kind"]),
            erased,
            plain(&edit["from"]),
            plain(&edit["to"]),
            plain(&edit["why"]),
            undone,
        ]
    };
    let left = |name| (name, Align::Left);
    let head = [
        ("id", Align::Right),
        left("made"),
        left("who"),
        left("topic"),
        left("kind"),
        left("given"),
        left("from"),
        left("to"),
        left("why"),
        left("undone"),
    ];
    let rows: Vec<_> = answer["edits"].as_array().into_iter().flatten().map(row).collect();
    table::write(head, &rows, out)?;
    match answer["next"].as_u64() {
        Some(next) => writeln!(out, "more: --before {next}"),
        None => Ok(()),
    }
}

fn plain_or_null(json: &Json) -> String {
    if json.is_null() { "null".to_owned() } else { plain(json) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use crate::history::args::HistoryVerb;
    use clap::Parser;

    #[test]
    fn values_are_scalars_of_json_or_texts() {
        for (text, expect) in [
            ("5", json!(5)),
            ("-5.5", json!(-5.5)),
            ("true", json!(true)),
            ("null", Json::Null),
            ("\"5\"", json!("5")),
            ("open", json!("open")),
            ("[1]", json!("[1]")),
        ] {
            assert_eq!(value_of(text).unwrap(), expect, "{text}");
        }
        for text in ["4,2", "+4", ".5", "1e", "05"] {
            let told = value_of(text).unwrap_err().to_string();
            assert!(told.ends_with(&format!("in quotation marks: '\"{text}\"'")), "{told}");
        }
    }

    #[test]
    fn an_edit_says_what_it_changes() {
        let parse = |words: &[&str]| {
            let all = [&["tieline", "history", "edit", "a", "--why", "x"], words].concat();
            Cli::try_parse_from(all).map(|cli| match cli.verb {
                Verb::History(HistoryVerb::Edit(args)) => args,
                other => panic!("{other:?}"),
            })
        };
        let args = parse(&["--from", "-1h", "--value", "-5", "--quality", "good"]).unwrap();
        let shown = Json::Object(body(&args.topic, EditKind::Value, &args.time, &args.why));
        assert_eq!(shown, json!({ "topic": "a", "kind": "value", "from": "-1h", "why": "x" }));
        for wrong in [
            &["--from", "1h"][..],
            &["--value", "5"],
            &["--at", "1h", "--from", "1h", "--exclude"],
            &["--from", "1h", "--exclude", "--value", "5"],
            &["--from", "1h", "--insert", "5"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn edits_are_listed_with_their_ends() {
        let edit = json!({ "id": 7, "topic": "a", "kind": "value", "from": "F", "to": "T", "v": null, "q": "good", "who": "anna",
            "time": "M", "why": "w", "undone": { "who": "ben", "time": "U", "why": "y" } });
        let mut out = Vec::new();
        show(&json!({ "edits": [edit], "next": 7 }), &mut out).unwrap();
        let expect = "\
id  made  who   topic  kind   given      from  to  why  undone
 7  M     anna  a      value  null good  F     T   w    U by ben: y
more: --before 7
";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
