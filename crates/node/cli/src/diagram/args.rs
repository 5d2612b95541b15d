//! The command line of `tieline diagram`.

use crate::args::HttpArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline diagram`.
#[derive(Debug, Subcommand)]
pub enum DiagramVerb {
    /// Draw a diagram from bays in a TOML file
    New(DiagramNewArgs),
    /// Check SVG files of diagrams; print every error
    Check(DiagramCheckArgs),
    /// List the diagrams of a node
    List(DiagramListArgs),
}

/// `tieline diagram new`.
#[derive(Debug, Args)]
pub struct DiagramNewArgs {
    /// File of bays, as TOML
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// SVG file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `tieline diagram check`.
#[derive(Debug, Args)]
pub struct DiagramCheckArgs {
    /// SVG files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline diagram list`.
#[derive(Debug, Args)]
pub struct DiagramListArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
