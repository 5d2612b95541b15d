//! The command line of `tieline goose`, as clap reads it.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use tieline_goose::MacAddress;

/// `tieline goose`.
#[derive(Debug, Subcommand)]
pub enum GooseVerb {
    /// Print the GOOSE messages of a network interface; needs CAP_NET_RAW
    Listen(ListenArgs),
    /// Publish a data set from a point list; its points are set by lines of standard input; needs CAP_NET_RAW
    Publish(PublishArgs),
}

/// `tieline goose listen`.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Network interface
    pub interface: String,
    /// Only messages of this control block
    #[arg(long, value_name = "REFERENCE")]
    pub control_block: Option<String>,
    /// Only messages in which something changed: the first of each control block, and those of another stNum
    #[arg(long)]
    pub changes: bool,
    /// End after so many messages
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u64>,
    /// Print one JSON object for each message
    #[arg(long)]
    pub json: bool,
}

/// `tieline goose publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Network interface
    pub interface: String,
    /// Point list that is the data set
    pub file: PathBuf,
    /// Reference of the control block, as in IED7LD0/LLN0$GO$gcb01
    #[arg(long, value_name = "REFERENCE")]
    pub control_block: String,
    /// Reference of the data set, as in IED7LD0/LLN0$ds01
    #[arg(long, value_name = "REFERENCE")]
    pub data_set: String,
    /// Address of the group, as in 01:0c:cd:01:00:07
    #[arg(long, value_name = "ADDR", value_parser = group)]
    pub destination: MacAddress,
    /// Identifier of the messages [default: the control block]
    #[arg(long, value_name = "TEXT")]
    pub go_id: Option<String>,
    /// APPID of the frames
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub app_id: u16,
    /// Revision of the configuration
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub conf_rev: u32,
    /// VLAN of the frames; 0 is a priority alone
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub vlan_id: u16,
    /// Priority of the frames in their tag
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub vlan_priority: u8,
    /// Time from a change to its first repetition
    #[arg(long, value_name = "DURATION", default_value = "4ms", value_parser = interval)]
    pub repeat_min: Duration,
    /// Longest time between two repetitions
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub repeat_max: Duration,
    /// Mark messages as simulated
    #[arg(long)]
    pub simulated: bool,
    /// Print one JSON object with the control block and the interface first
    #[arg(long)]
    pub json: bool,
}

fn group(text: &str) -> Result<MacAddress, String> {
    let address = text.parse::<MacAddress>().ok().filter(|address| address.is_multicast());
    address.ok_or_else(|| "expected the address of a group, as in 01:0c:cd:01:00:07".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(1)..=Duration::from_secs(60);
    let given = tieline_core::parse_duration(text).filter(|duration| allowed.contains(duration));
    given.ok_or_else(|| "expected a duration from 1ms to 1m".to_owned())
}
