//! The command line of `tieline boards`.

use crate::api::args::NodeArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline boards`.
#[derive(Debug, Subcommand)]
pub enum BoardsVerb {
    /// List the boards of a node
    List(NodeArgs),
    /// Print the file of a board
    Show(BoardShowArgs),
    /// Make or change a board; the node checks the file
    Put(BoardPutArgs),
    /// Delete a board that was made while the node ran
    Delete(BoardDeleteArgs),
}

/// `tieline boards show`.
#[derive(Debug, Args)]
pub struct BoardShowArgs {
    /// Name of the board
    pub name: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline boards put`.
#[derive(Debug, Args)]
pub struct BoardPutArgs {
    /// Name of the board: a-z, 0-9, - and _
    pub name: String,
    /// TOML file; - reads standard input
    pub file: PathBuf,
    /// Only check the file
    #[arg(long)]
    pub check: bool,
    /// Only if the board is of this version: the member version of show --json
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["check", "if_absent"])]
    pub if_version: Option<String>,
    /// Only if there is no board of the name
    #[arg(long, conflicts_with = "check")]
    pub if_absent: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline boards delete`.
#[derive(Debug, Args)]
pub struct BoardDeleteArgs {
    /// Name of the board
    pub name: String,
    /// Only if the board is of this version: the member version of show --json
    #[arg(long, value_name = "VERSION")]
    pub if_version: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}
