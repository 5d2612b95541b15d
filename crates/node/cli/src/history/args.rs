//! The command line of `tieline history`.

use super::edits::{AnnotateArgs, EditArgs, EditsArgs, UndoArgs};
use super::states::StatesArgs;
use super::tail::TailArgs;
use crate::args::HttpArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `tieline history`.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Print the recorded values of topics
    Query(HistoryArgs),
    /// Write recorded values to files, one for each day and topic. An interrupted export continues when it is started again
    Export(ExportArgs),
    /// Read files that export has written, and store their values
    Import(ImportArgs),
    /// Correct recorded values, with a reason. The recorded values are kept; undo removes the correction
    Edit(EditArgs),
    /// Add a note to a topic and a time. No value is changed
    Annotate(AnnotateArgs),
    /// List edits and annotations, the newest first: who made them, when and why
    Edits(EditsArgs),
    /// Undo an edit or an annotation. It stays in the list of edits
    Undo(UndoArgs),
    /// Delete recorded values and overwrite their bytes. The audit log of the node records who did it
    Delete(DeleteArgs),
    /// Print the number of samples and bytes of each topic, the largest first
    Stats(StatsArgs),
    /// Write each day that has ended to a Parquet file now, without waiting for late samples
    Compact(CompactArgs),
    /// Check all files of a history. Exit code 3 if something is damaged
    Verify(VerifyArgs),
    /// Remove damaged parts and rebuild a lost index. The node must be stopped
    Repair(RepairArgs),
    /// Print how long topics had each of their values
    States(StatesArgs),
    /// Print samples since a time, then each new sample when it is recorded
    Tail(TailArgs),
}

/// Which history is read.
#[derive(Debug, Args)]
pub struct SourceArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Read the data folder of a node instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Which history is changed.
#[derive(Debug, Args)]
pub struct TargetArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Change the data folder of a stopped node instead of asking a node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowOrder {
    /// By topic, then by time
    #[default]
    Topic,
    /// By time, for all topics together
    Time,
}

/// `tieline history query`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// Start (inclusive): a time (RFC 3339), a date, a duration before the end (24h), or before now (-24h)
    #[arg(long, value_name = "TIME", default_value = "24h", allow_hyphen_values = true)]
    pub from: String,
    /// End (exclusive): a time, a date, or a duration before now (5m) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Order of the rows. Buckets are always ordered by topic
    #[arg(long, value_enum, default_value_t = RowOrder::Topic)]
    pub order: RowOrder,
    /// Length of a bucket, for example 1m. 1w, 1mo and 1y are calendar weeks, months and years. Needs --agg
    #[arg(long, value_name = "DURATION", requires = "agg")]
    pub every: Option<String>,
    /// Time zone of buckets of days, weeks, months and years, for example Europe/Madrid. Needs --every [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "every")]
    pub tz: Option<String>,
    /// What to print for a bucket without samples. Needs --every
    #[arg(long, value_enum, requires = "every")]
    pub fill: Option<Filling>,
    /// Value to calculate for each bucket. Needs --every
    #[arg(long, value_enum, requires = "every")]
    pub agg: Option<Aggregate>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Ignore edits: the values as they were recorded
    #[arg(long)]
    pub raw: bool,
    /// Add a column with the number of the last edit of each row. JSON and tables always have it
    #[arg(long)]
    pub edited: bool,
    /// Maximum number of rows [default: no limit; 10000000 if a node is asked]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub limit: Option<u64>,
    /// Write to a file. Needed for parquet and arrow if standard output is a terminal
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// What a bucket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Aggregate {
    /// Arithmetic mean
    Mean,
    /// Time-weighted mean: each value is weighted with the time until the next one
    #[value(name = "time_weighted")]
    TimeWeighted,
    /// Smallest value
    Min,
    /// Largest value
    Max,
    /// Sum
    Sum,
    /// Number of values
    Count,
    /// First value
    First,
    /// Last value
    Last,
    /// Integral over time: the sum of each value times the seconds until the next one
    Integral,
    /// Median (50th percentile)
    Median,
    /// 90th percentile
    P90,
    /// 95th percentile
    P95,
    /// 99th percentile
    P99,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Table with aligned columns
    Table,
    /// Comma-separated values
    Csv,
    /// A JSON array
    Json,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow stream (IPC)
    Arrow,
}

/// What stands for a bucket without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filling {
    /// No row
    None,
    /// A row without a value
    Null,
    /// The value of the previous bucket
    Previous,
    /// A linear interpolation between the previous and the next bucket
    Linear,
}

/// `tieline history stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Topic filter
    #[arg(default_value = "#")]
    pub filter: String,
    /// Maximum number of topics, the largest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// `tieline history verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Data folder of a node. The node may be running
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline history repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Data folder of a stopped node
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline history compact`.
#[derive(Debug, Args)]
pub struct CompactArgs {
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `tieline history export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Topic or topic filter
    pub filter: String,
    /// Start (inclusive), as in tieline history query [default: the first value]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End (exclusive), as in tieline history query [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Format of the files
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    pub format: FileFormat,
    /// Ignore edits: the values as they were recorded
    #[arg(long)]
    pub raw: bool,
    /// Folder to write to. It is created if it does not exist. An interrupted export continues in it
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// Print a JSON object at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// `tieline history import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files (.csv, .json, .parquet), and folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Print a JSON object at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// What is written to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated values
    Csv,
    /// A JSON array
    Json,
    /// Apache Parquet
    Parquet,
}

/// `tieline history delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Topic or topic filter
    pub filter: String,
    /// Start (inclusive), as in tieline history query [default: the first value]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End (exclusive), as in tieline history query [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Reason, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
}
