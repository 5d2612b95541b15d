//! The command line of `tieline dnp3 master`.

use super::ask::{Ask, To};
use crate::args::{Mode, SecureArgs, duration, timeout};
use crate::dnp3::operate::Operation;
use crate::dnp3::transport::TransportArgs;
use clap::Args;
use std::time::Duration;

/// `tieline dnp3 master`.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub struct MasterArgs {
    /// The outstation's address; with --over serial, the line's device file
    #[arg(value_name = "HOST:PORT|FILE")]
    pub address: String,
    /// Listen at the address: the outstation connects
    #[arg(long)]
    pub listen: bool,
    #[command(flatten)]
    pub transport: TransportArgs,
    /// This master's link address
    #[arg(long, global = true, value_name = "ADDR", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub master: u16,
    /// The outstation's link address
    #[arg(long, global = true, value_name = "ADDR", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub outstation: u16,
    /// To whom a verb's request goes
    #[arg(long, global = true, value_enum, default_value = "outstation")]
    pub to: To,
    /// How long an answer may take
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s", value_parser = timeout)]
    pub timeout: Duration,
    /// Send confirmed user data: the link layer acknowledges every frame
    #[arg(long, global = true)]
    pub link_confirms: bool,
    /// Read classes 0, 1, 2 and 3 once, print, and stop: the verb scan
    #[arg(long, conflicts_with_all = ["poll", "operate"])]
    pub once: bool,
    /// Ask for events so often, as in 2s
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "operate")]
    pub poll: Option<Duration>,
    /// Offer lean messages in the place of link frames; a station that does not know them is spoken to as usual
    #[arg(long, global = true)]
    pub lean: bool,
    /// Leave unsolicited reporting off
    #[arg(long)]
    pub no_unsolicited: bool,
    /// Operate a point, print the result, and stop: binary-output:3=true or analog-output:0=12.5; the verb operate
    #[arg(long, value_name = "TYPE:INDEX=VALUE", value_parser = crate::dnp3::operate::parse)]
    pub operate: Option<Operation>,
    /// How --operate asks the device
    #[arg(long, value_enum, default_value = "select", requires = "operate")]
    pub mode: Mode,
    /// On whose behalf it asks
    #[command(flatten)]
    pub secure: SecureArgs,
    /// One JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// What to ask, once
    #[command(subcommand)]
    pub ask: Option<Ask>,
}
