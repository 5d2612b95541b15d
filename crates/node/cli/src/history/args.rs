//! The command line of `tieline history`.

use super::edits::{AnnotateArgs, EditArgs, EditsArgs, UndoArgs};
use super::states::StatesArgs;
use super::tail::TailArgs;
use crate::args::HttpArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tieline_history::Fill;

/// `tieline history`.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Print the recorded values of a topic, or of all topics that a filter selects
    Query(HistoryArgs),
    /// Write recorded values to files that import takes, one for each day and topic; goes on where it was interrupted
    Export(ExportArgs),
    /// Store the values of files that export has written
    Import(ImportArgs),
    /// Change what answers show of a topic, with a reason; what was recorded stays, and undo ends it
    Edit(EditArgs),
    /// Say something of a topic at a time; no value changes
    Annotate(AnnotateArgs),
    /// Print who edited and annotated what, when and why, the newest first
    Edits(EditsArgs),
    /// End an edit or an annotation; it stays in the list of edits
    Undo(UndoArgs),
    /// Delete recorded values, so that their bytes are gone; the audit log of the node says who did it
    Delete(DeleteArgs),
    /// Print how many samples and bytes each topic has, the largest first
    Stats(StatsArgs),
    /// Close the days that have ended without waiting for late samples, each a Parquet file
    Compact(CompactArgs),
    /// Check every chunk and day file of a data folder; exit code 3 if something is damaged
    Verify(VerifyArgs),
    /// Remove damaged chunks, and make a lost index again, in the data folder of a node that is stopped
    Repair(RepairArgs),
    /// Print how long topics were in each state
    States(StatesArgs),
    /// Print samples from a time on, and then each as it is recorded
    Tail(TailArgs),
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowOrder {
    /// Topic by topic
    #[default]
    Topic,
    /// The oldest first
    Time,
}

/// `tieline history query`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// Start, inclusive: a time (RFC 3339), a date, 24h for so long before the end, -24h before the present
    #[arg(long, value_name = "TIME", default_value = "24h", allow_hyphen_values = true)]
    pub from: String,
    /// End, exclusive: a time, a date, 5m or -5m for so long before the present [default: the present]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// In which order rows come; buckets come by topic
    #[arg(long, value_enum, default_value_t = RowOrder::Topic)]
    pub order: RowOrder,
    /// Width of a bucket, as in 1m; 1w, 1mo and 1y are those of a calendar; needs --agg
    #[arg(long, value_name = "DURATION", requires = "agg")]
    pub every: Option<String>,
    /// Time zone whose days, weeks, months and years buckets are, as in Europe/Madrid; needs --every [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "every")]
    pub tz: Option<String>,
    /// What stands for a bucket without samples; needs --every
    #[arg(long, value_enum, requires = "every")]
    pub fill: Option<Filling>,
    /// What a bucket shows; needs --every
    #[arg(long, value_enum, requires = "every")]
    pub agg: Option<Aggregate>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Leave out edits: what was recorded
    #[arg(long)]
    pub raw: bool,
    /// Have a column with the edit that changed a row last; JSON and tables always have it
    #[arg(long)]
    pub edited: bool,
    /// Most rows [default: all, through a node 10000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub limit: Option<u64>,
    /// Write to a file; parquet and arrow need this, or a pipe
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Read a node's data folder instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// What a bucket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Aggregate {
    /// Arithmetic mean
    Mean,
    /// Mean over time: each value counts for as long as it stood
    #[value(name = "time_weighted")]
    TimeWeighted,
    /// Least value
    Min,
    /// Greatest value
    Max,
    /// Sum
    Sum,
    /// Number of values
    Count,
    /// First value
    First,
    /// Last value
    Last,
    /// Values times seconds, each for as long as it stood
    Integral,
    /// Value below which half of the values lie
    Median,
    /// Value below which 90 % of the values lie
    P90,
    /// Value below which 95 % of the values lie
    P95,
    /// Value below which 99 % of the values lie
    P99,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for eyes
    Table,
    /// Comma-separated values
    Csv,
    /// A JSON array
    Json,
    /// Apache Parquet
    Parquet,
    /// A stream of Apache Arrow (IPC)
    Arrow,
}

/// What stands for a bucket without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filling {
    /// Nothing
    None,
    /// A row without a value
    Null,
    /// The value of the bucket before
    Previous,
    /// A number between those before and behind
    Linear,
}

impl Filling {
    /// The policy, and its word.
    pub const fn meant(self) -> (Fill, &'static str) {
        match self {
            Self::None => (Fill::None, "none"),
            Self::Null => (Fill::Null, "null"),
            Self::Previous => (Fill::Previous, "previous"),
            Self::Linear => (Fill::Linear, "linear"),
        }
    }
}

/// `tieline history stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Topic filter
    #[arg(default_value = "#")]
    pub filter: String,
    /// Only the largest so many topics
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Read a node's data folder instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `tieline history verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The data folder of a node, which may run
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline history repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// The data folder of a node that does not run
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Do not ask
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
    pub node: HttpArgs,
    /// Close the days of the data folder of a node that is stopped instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `tieline history export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Topic or topic filter
    pub filter: String,
    /// Start, inclusive: as of query [default: the first value]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End, exclusive: as of query [default: the present]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// What to write
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    pub format: FileFormat,
    /// Leave out edits: what was recorded
    #[arg(long)]
    pub raw: bool,
    /// Folder to write to; it is made where it is not there. An export that was interrupted goes on where it was
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// Print a JSON object once it is done
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Read a node's data folder instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `tieline history import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files (.csv, .json, .parquet), and folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Print a JSON object once it is done
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Write to the data folder of a node that is stopped instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
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

impl FileFormat {
    /// The format of rows.
    pub const fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            Self::Json => Format::Json,
            Self::Parquet => Format::Parquet,
        }
    }
}

/// `tieline history delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Topic or topic filter
    pub filter: String,
    /// Start, inclusive: as of query [default: the first value]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End, exclusive: as of query [default: the present]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
}
