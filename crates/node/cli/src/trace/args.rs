//! The command line of `tieline trace`.

use crate::args::HttpArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `tieline trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Topic of the device
    pub device: String,
    /// Then print each new message
    #[arg(long, short)]
    pub follow: bool,
    /// Only messages with this point, by its name in the point list
    #[arg(long, value_name = "POINT")]
    pub point: Option<String>,
    /// Only errors: refusals, time-outs, bytes that cannot be decoded, lost connections
    #[arg(long)]
    pub errors: bool,
    /// Part of the trace
    #[arg(long, value_enum, default_value_t = TraceFrom::Memory, conflicts_with = "follow")]
    pub from: TraceFrom,
    /// Write a capture for Wireshark to this file; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["follow", "point", "errors", "json"])]
    pub pcapng: Option<PathBuf>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Where a trace is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFrom {
    /// The last minute
    Memory,
    /// The minute before the device went away the last time
    Away,
    /// The files on the node's disk
    Disk,
}

impl TraceFrom {
    /// The word of the API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Away => "away",
            Self::Disk => "disk",
        }
    }
}
