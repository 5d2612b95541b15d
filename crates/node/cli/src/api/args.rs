//! The command line of verbs that show or change what a node's HTTP API has.

use crate::args::HttpArgs;
use clap::{Args, Subcommand};
use tieline_node::SessionOrder;

/// A verb that takes nothing but the node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline sites`.
#[derive(Debug, Args)]
pub struct SitesArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// List them again every second, until it is interrupted
    #[arg(long)]
    pub watch: bool,
}

/// `tieline metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Only the metrics of this device, by its topic
    #[arg(long, value_name = "TOPIC")]
    pub device: Option<String>,
    /// One JSON object a sample and line: its name, its labels, its value
    #[arg(long)]
    pub json: bool,
}

/// `tieline clock`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClockArgs {
    #[command(flatten)]
    pub show: NodeArgs,
    #[command(subcommand)]
    pub verb: Option<ClockVerb>,
}

/// `tieline clock confirm`.
#[derive(Debug, Subcommand)]
pub enum ClockVerb {
    /// Confirm that the clock of the node is right, although it is far from the recorded time
    Confirm(ConfirmArgs),
}

/// `tieline clock confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Time of another clock than that of the node, RFC 3339 [default: the time of this machine]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
}

/// `tieline notify`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NotifyArgs {
    #[command(flatten)]
    pub show: NodeArgs,
    #[command(subcommand)]
    pub verb: Option<NotifyVerb>,
}

/// `tieline notify list` and the others.
#[derive(Debug, Subcommand)]
pub enum NotifyVerb {
    /// List receivers, what waits for them, and their last failures
    List(NodeArgs),
    /// Send a test to a receiver, and say whether it has arrived
    Test(NotifyTestArgs),
    /// Show who is on call, who is next, and when nobody is in the week after it
    OnCall(NotifyOnCallArgs),
}

/// `tieline notify on-call`.
#[derive(Debug, Args)]
pub struct NotifyOnCallArgs {
    /// Who is on call at this time: RFC 3339, a date, or how long ago [default: the present]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline notify test`.
#[derive(Debug, Args)]
pub struct NotifyTestArgs {
    /// The receiver: NAME of its table [notify.NAME]
    #[arg(value_name = "NAME")]
    pub to: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline locks`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LocksArgs {
    #[command(flatten)]
    pub show: NodeArgs,
    #[command(subcommand)]
    pub verb: Option<LocksVerb>,
}

/// `tieline locks release`.
#[derive(Debug, Subcommand)]
pub enum LocksVerb {
    /// Take a lock away from the session that has it
    Release(ReleaseLockArgs),
}

/// `tieline locks release`.
#[derive(Debug, Args)]
pub struct ReleaseLockArgs {
    /// Name of the lock
    pub lock: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// One device, by its topic; without it, all
    pub device: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Only devices that are not online
    #[arg(long, conflicts_with = "device")]
    pub away: bool,
    /// One JSON object a device and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline points`.
#[derive(Debug, Args)]
pub struct PointsArgs {
    /// Topic filter
    #[arg(default_value = "#")]
    pub filter: String,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Only points that can be commanded
    #[arg(long)]
    pub writable: bool,
    /// One JSON object a point and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline sessions`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Order of the sessions, the greatest first
    #[arg(long, default_value = SessionOrder::Lag.word(), value_parser = crate::top::args::order())]
    pub order: SessionOrder,
    /// Only sessions whose client identifier contains this text
    #[arg(long, value_name = "TEXT")]
    pub client: Option<String>,
    /// Maximum number of sessions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    /// One JSON object a session and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline busiest`.
#[derive(Debug, Args)]
pub struct BusiestArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Maximum number of topics
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// One JSON object a topic and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Only records of this topic
    pub topic: Option<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    /// One JSON object a record and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline put`.
#[derive(Debug, Args)]
pub struct PutArgs {
    /// Topic
    pub topic: String,
    /// Value; `-` reads standard input
    #[arg(allow_negative_numbers = true)]
    pub value: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub only: OnlyArgs,
    /// Only if the topic has no value
    #[arg(long, conflicts_with_all = ["if_version", "if_present"])]
    pub if_absent: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Topic
    pub topic: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub only: OnlyArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// Conditions of a change.
#[derive(Debug, Args)]
pub struct OnlyArgs {
    /// Only if the value has this version, which tieline get --json shows as seq
    #[arg(long, value_name = "SEQ", conflicts_with = "if_present")]
    pub if_version: Option<u64>,
    /// Only if the topic has a value
    #[arg(long)]
    pub if_present: bool,
}
