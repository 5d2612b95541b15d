//! The command line of `tieline dnp3 file`.

use crate::args::timeout;
use crate::dnp3::transport::TransportArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// `tieline dnp3 file`.
#[derive(Debug, Subcommand)]
pub enum FileVerb {
    /// List a directory
    List(ListArgs),
    /// Read a file; a read that was broken off goes on where it was
    Get(GetArgs),
    /// Write a file
    Put(PutArgs),
    /// Delete a file
    Delete(NameArgs),
    /// Describe a file or a directory
    Info(NameArgs),
}

/// Who is asked, and how.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// The outstation's address; with --over serial, the line's device file
    #[arg(value_name = "HOST:PORT|FILE")]
    pub address: String,
    #[command(flatten)]
    pub transport: TransportArgs,
    /// Offer lean messages in the place of link frames; a station that does not know them is spoken to as usual
    #[arg(long)]
    pub lean: bool,
    /// How long an answer may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = timeout)]
    pub timeout: Duration,
    /// This master's link address
    #[arg(long, value_name = "ADDR", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub master: u16,
    /// The outstation's link address
    #[arg(long, value_name = "ADDR", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub outstation: u16,
    /// Authenticate as this user; the password travels in the clear
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Bytes in one block at most
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=2030))]
    pub block: u16,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tieline dnp3 file list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The directory
    #[arg(default_value = "/")]
    pub name: String,
}

/// `tieline dnp3 file delete` and `info`.
#[derive(Debug, Args)]
pub struct NameArgs {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The file, with its path
    pub name: String,
}

/// `tieline dnp3 file get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The file, with its path
    pub name: String,
    /// Where to store it [default: its name, here]
    pub to: Option<PathBuf>,
    /// Begin again, whatever is there of a read that was broken off
    #[arg(long)]
    pub restart: bool,
}

/// `tieline dnp3 file put`.
#[derive(Debug, Args)]
pub struct PutArgs {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The file to send
    pub from: PathBuf,
    /// Its name there, with its path [default: the name of FROM]
    pub name: Option<String>,
    /// Add to the end of what is there
    #[arg(long)]
    pub append: bool,
}
