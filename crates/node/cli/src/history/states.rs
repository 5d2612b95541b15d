//! `tieline history states`: how long topics were in each state.

use super::args::SourceArgs;
use super::{Output, PIECE_BYTES, fetch, filters, folder_reader, meaning, span};
use crate::api::now;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use tieline_core::{Timestamp, Words as _};
use tieline_history::{HistoryQuery, calendar};
use tieline_node::config::parse_duration;
use tieline_store::export_states;

/// `tieline history states`.
#[derive(Debug, Args)]
pub struct StatesArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Start (inclusive): a time (RFC 3339), a date, a duration before the end (24h), or before now (-24h)
    #[arg(long, value_name = "TIME", default_value = "24h", allow_hyphen_values = true)]
    from: String,
    /// End (exclusive): a time, a date, or a duration before now (5m) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Length of a bucket, for example 1h. 1w, 1mo and 1y are calendar weeks, months and years [default: the whole time]
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// Time zone of buckets of days, weeks, months and years, for example Europe/Madrid. Needs --every [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "every")]
    tz: Option<String>,
    /// Ignore edits: the values as they were recorded
    #[arg(long)]
    raw: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
}

/// How states are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Table with aligned columns
    Table,
    /// Comma-separated values
    Csv,
    /// A JSON array
    Json,
}

impl StatesArgs {
    fn format(&self) -> tieline_store::Format {
        meaning(if self.json { Format::Json } else { self.format })
    }

    fn question(&self, now: Timestamp) -> Result<HistoryQuery> {
        let (from, to) = span(&self.from, self.to.as_deref(), now)?;
        let to = to.unwrap_or(now).min(now);
        let question =
            HistoryQuery { from: Some(from), to: Some(to), ..HistoryQuery::of_several(filters(&self.topics)?) };
        let Some(text) = &self.every else { return Ok(question) };
        let buckets = calendar::buckets(text, parse_duration(text), self.tz.as_deref(), from, to);
        Ok(question.in_buckets(buckets.map_err(|words| anyhow!("--{words}"))?, to))
    }
}

/// Prints how long states stood.
pub fn states(args: &StatesArgs) -> Result<()> {
    match &args.source.data {
        Some(folder) => read(folder, args),
        None => ask(args),
    }
}

fn ask(args: &StatesArgs) -> Result<()> {
    let mut parameters: Vec<_> = args.topics.iter().map(|topic| ("topic", Some(topic.as_str()))).collect();
    parameters.extend([
        ("from", Some(args.from.as_str())),
        ("to", args.to.as_deref()),
        ("every", args.every.as_deref()),
        ("tz", args.tz.as_deref()),
        ("limit", Some("10000000")),
        ("format", Some(args.format().word())),
        ("raw", args.raw.then_some("true")),
    ]);
    fetch(&args.source.node, "/v1/history/states", &parameters, args.format(), args.output.as_deref())
}

fn read(folder: &Path, args: &StatesArgs) -> Result<()> {
    let question = args.question(now())?;
    let reader = folder_reader(folder)?.or_raw(args.raw);
    let mut out = Output::open(args.output.as_deref())?;
    export_states(reader.states(question)?, args.format(), BufWriter::with_capacity(PIECE_BYTES, &mut out))?;
    out.finish()
}
