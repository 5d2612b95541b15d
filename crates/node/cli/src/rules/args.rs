//! The command line of `tieline rules`.

use crate::args::HttpArgs;
use crate::replay::args::SpanArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline rules`.
#[derive(Debug, Subcommand)]
pub enum RulesVerb {
    /// Check a file of alarm rules; print every error
    Check(RulesCheckArgs),
    /// Run alarm rules over recorded history; print what would have been annunciated
    Test(Box<RulesTestArgs>),
}

/// A file of rules.
#[derive(Debug, Args)]
pub struct RulesFile {
    /// File of rules, as CSV
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Require cause, consequence, action and respond_in of critical and high alarms
    #[arg(long)]
    pub strict: bool,
}

/// `tieline rules check`.
#[derive(Debug, Args)]
pub struct RulesCheckArgs {
    #[command(flatten)]
    pub rules: RulesFile,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline rules test`.
#[derive(Debug, Args)]
pub struct RulesTestArgs {
    #[command(flatten)]
    pub rules: RulesFile,
    /// Topics or topic filters whose history is read
    #[arg(value_name = "FILTER", default_value = "#")]
    pub topics: Vec<String>,
    #[command(flatten)]
    pub span: SpanArgs,
    /// Print every change of every alarm, not only annunciations
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a line; the last is the summary
    #[arg(long)]
    pub json: bool,
}
