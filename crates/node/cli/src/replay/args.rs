//! The command line of `tieline replay`.

use super::pace::Speed;
use crate::args::HttpArgs;
use clap::Args;

/// Which part of history is read.
#[derive(Debug, Args)]
pub struct SpanArgs {
    /// Start: a time (RFC 3339), a date, a duration before the end (24h), or before now (-24h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: String,
    /// End: a time, a date, or a duration before now (5m) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Ignore edits: the values as they were recorded
    #[arg(long)]
    pub raw: bool,
}

/// `tieline replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "FILTER")]
    pub topics: Vec<String>,
    #[command(flatten)]
    pub span: SpanArgs,
    /// Speed: 10 is ten times faster than recorded, 0.5 is half as fast, max is as fast as possible
    #[arg(long, value_name = "N", default_value = "1", value_parser = Speed::parse)]
    pub speed: Speed,
    /// Name of the replay. Values are published below $replay/NAME/
    #[arg(long, value_name = "NAME", default_value = "main", conflicts_with_all = ["to_node", "to_context"])]
    pub name: String,
    /// MQTT address of another node: publish there, with the original topics
    #[arg(long, value_name = "ADDR")]
    pub to_node: Option<String>,
    /// Context of another node: publish there, with the user and TLS files of the context
    #[arg(long, value_name = "NAME", conflicts_with = "to_node")]
    pub to_context: Option<String>,
    /// At the end, keep the last values until the command is interrupted
    #[arg(long)]
    pub hold: bool,
    /// MQTT address of the node, mqtts://HOST:PORT for TLS [env: TIELINE_MQTT] [default: 127.0.0.1:1883]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["to_node", "to_context"])]
    pub mqtt: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print a JSON object at the end
    #[arg(long)]
    pub json: bool,
}
