//! The command line of `tieline replay`.

use super::pace::Speed;
use crate::args::HttpArgs;
use clap::Args;

/// `tieline replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "FILTER")]
    pub topics: Vec<String>,
    /// Start: a time (RFC 3339), a date, 24h for so long before the end, -24h before the present
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: String,
    /// End: a time, a date, 5m or -5m for so long before the present [default: the present]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Leave out edits: what was recorded
    #[arg(long)]
    pub raw: bool,
    /// How many times as fast as it was, as in 10 or 0.5; max is as fast as the node takes it
    #[arg(long, value_name = "N", default_value = "1", value_parser = Speed::parse)]
    pub speed: Speed,
    /// Name of the replay: values are published below $replay/NAME/
    #[arg(long, value_name = "NAME", default_value = "main", conflicts_with_all = ["to_node", "to_context"])]
    pub name: String,
    /// Publish to another node, under the topics' own names: its MQTT address
    #[arg(long, value_name = "ADDR")]
    pub to_node: Option<String>,
    /// The same: the context of the other node, with its user and TLS files
    #[arg(long, value_name = "NAME", conflicts_with = "to_node")]
    pub to_context: Option<String>,
    /// Keep the last values until interrupted
    #[arg(long)]
    pub hold: bool,
    /// MQTT address of the node, mqtts://HOST:PORT for TLS [env: TIELINE_MQTT] [default: 127.0.0.1:1883]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["to_node", "to_context"])]
    pub mqtt: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object at the end
    #[arg(long)]
    pub json: bool,
}
