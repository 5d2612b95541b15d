//! The command line of reservations, overrides, and calls for many points.

use crate::args::HttpArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

/// Under which name a program asks.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Ask under this name: a reservation belongs to the user and the name [env: TIELINE_AS]
    #[arg(long = "as", value_name = "NAME", env = "TIELINE_AS", hide_env = true)]
    pub name: Option<String>,
}

/// `tieline command`.
#[derive(Debug, Args)]
pub struct CommandArgs {
    /// Topic of the point
    pub topic: String,
    /// A number; true, false, on, off, open, close, or a word for a state from the point list; null relinquishes a point of BACnet
    #[arg(allow_negative_numbers = true)]
    pub value: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Requests to the device [default: that of the point list]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Time-out, as in 5s; at most 5m
    #[arg(long, value_name = "DURATION", value_parser = crate::args::timeout)]
    pub timeout: Option<Duration>,
    /// Time to wait for a reading that shows the value, after the device has accepted it
    #[arg(long, value_name = "DURATION", value_parser = crate::args::timeout, default_value = "5s")]
    pub confirm: Duration,
    /// Do not wait for a reading
    #[arg(long, conflicts_with = "confirm")]
    pub no_confirm: bool,
    /// Print the API's JSON, with confirmed and reading
    #[arg(long)]
    pub json: bool,
}

/// How a device is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Select, then operate
    Select,
    /// Operate at once
    Direct,
}

/// `tieline reserve`.
#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// Topics of the devices
    #[arg(required = true)]
    pub devices: Vec<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Name of the reservation; it must be unique
    #[arg(long, value_name = "NAME")]
    pub task: String,
    /// Priority over other reservations
    #[arg(long, value_enum, default_value_t = Priority::Low)]
    pub priority: Priority,
    /// Start, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End, exclusive, RFC 3339
    #[arg(long, value_name = "TIME", required_unless_present = "span", conflicts_with = "span")]
    pub until: Option<String>,
    /// How long, as in 30m
    #[arg(long = "for", id = "span", value_name = "DURATION")]
    pub span: Option<String>,
    /// Lease: if the holder makes no call for this time, as in 15m, the reservation ends and its points are reverted
    /// [default: none]
    #[arg(long, value_name = "DURATION")]
    pub lease: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// How a reservation stands against others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Priority {
    /// Pre-empts others; needs the right to administer the devices
    High,
    /// Is not pre-empted once it has started
    Low,
    /// May be pre-empted at any time
    LowPreempt,
}

impl Priority {
    /// The word of the API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Low => "LOW",
            Self::LowPreempt => "LOW_PREEMPT",
        }
    }
}

/// `tieline reservations`.
#[derive(Debug, Args)]
pub struct ReservationsArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a reservation and line
    #[arg(long)]
    pub json: bool,
}

/// `tieline renew`.
#[derive(Debug, Args)]
pub struct RenewArgs {
    /// Name of a reservation of the holder
    pub task: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Name of the reservation
    pub task: String,
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// End it also if it belongs to somebody else; needs the right to administer its devices
    #[arg(long)]
    pub force: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// How a call is carried out.
#[derive(Debug, Args)]
pub struct CallArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    #[command(flatten)]
    pub name: NameArgs,
    /// Wait until a reading shows each value; exit code 6 if none does in time
    #[arg(long)]
    pub confirm: bool,
    /// Send nothing: print what would be sent, or why not
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Time-out of each command, as in 5s; at most 5m
    #[arg(long, value_name = "DURATION", value_parser = crate::args::timeout)]
    pub timeout: Option<Duration>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Points with their values, as in site/ahu/fan=on; null relinquishes; - reads lines of the same from standard input
    #[arg(required = true, value_name = "TOPIC=VALUE")]
    pub points: Vec<String>,
    #[command(flatten)]
    pub call: CallArgs,
    /// Requests to the devices [default: those of the point lists]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
}

/// `tieline revert`.
#[derive(Debug, Args)]
pub struct RevertArgs {
    /// Topics of points
    #[arg(required_unless_present = "devices", value_name = "TOPIC")]
    pub points: Vec<String>,
    /// Revert all points of this device that can be reverted; may be given several times
    #[arg(long = "device", id = "devices", value_name = "TOPIC")]
    pub devices: Vec<String>,
    #[command(flatten)]
    pub call: CallArgs,
}

/// `tieline override`.
#[derive(Debug, Subcommand)]
pub enum OverrideVerb {
    /// Block the commands of all programs to devices or points until the override is set off
    On(OverrideOnArgs),
    /// End an override, or all
    Off(OverrideOffArgs),
    /// List overrides that are on
    List(ReservationsArgs),
}

/// `tieline override on`.
#[derive(Debug, Args)]
pub struct OverrideOnArgs {
    /// Topic filter with + or #, or else a pattern with * ? and [ ]
    pub pattern: String,
    #[command(flatten)]
    pub node: HttpArgs,
    /// How long, as in 2h [default: until it is set off]
    #[arg(long = "for", value_name = "DURATION", value_parser = crate::args::duration)]
    pub span: Option<Duration>,
    /// Revert the points first
    #[arg(long)]
    pub revert: bool,
    /// Revert device by device, 50 ms apart
    #[arg(long, requires = "revert")]
    pub staggered: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline override off`.
#[derive(Debug, Args)]
pub struct OverrideOffArgs {
    /// The pattern as it was set on
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub pattern: Option<String>,
    /// End all overrides
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}
