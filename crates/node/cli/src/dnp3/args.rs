//! The command line of an outstation, as clap reads it.

use super::transport::TransportArgs;
use crate::args::{SecureArgs, address};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `tieline dnp3 outstation`.
#[derive(Debug, Args)]
pub struct OutstationArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20000", value_parser = address)]
    pub listen: SocketAddr,
    /// Connect to the master instead; with --over serial, the line's device file
    #[arg(long, value_name = "HOST:PORT|FILE", conflicts_with = "listen")]
    pub connect: Option<String>,
    #[command(flatten)]
    pub transport: TransportArgs,
    /// The outstation's database and addresses; repeated, several outstations behind the one port
    #[arg(long, value_name = "FILE", required = true)]
    pub config: Vec<PathBuf>,
    /// Print one JSON object with the address in use first, and events as JSON
    #[arg(long)]
    pub json: bool,
    /// Who may operate it
    #[command(flatten)]
    pub secure: SecureArgs,
}
