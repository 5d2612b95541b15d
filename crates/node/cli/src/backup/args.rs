//! The command line of `tieline backup` and `tieline restore`.

use crate::args::HttpArgs;
use clap::Args;
use std::path::PathBuf;

/// `tieline backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Archive to write (tar)
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Read the data folder of a node that is stopped instead of asking the node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `tieline restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Archive that tieline backup has written
    pub file: PathBuf,
    /// Data folder to write; it must be empty or must not exist
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    pub data: Option<PathBuf>,
    /// Only check the archive
    #[arg(long, conflicts_with = "data")]
    pub check: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}
