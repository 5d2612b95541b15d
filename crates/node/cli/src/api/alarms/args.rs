//! The command line of `tieline alarms`.

use super::super::args::NodeArgs;
use clap::{Args, Subcommand, ValueEnum};

/// `tieline alarms`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AlarmsArgs {
    #[command(flatten)]
    pub list: ListArgs,
    #[command(subcommand)]
    pub verb: Option<AlarmsVerb>,
}

/// `tieline alarms list` and the others.
#[derive(Debug, Subcommand)]
pub enum AlarmsVerb {
    /// List alarms that are not normal, those that need attention first
    List(ListArgs),
    /// Acknowledge alarms
    Ack(ActArgs),
    /// Shelve alarms for a time: they are not annunciated
    Shelve(ShelveArgs),
    /// End the shelving of alarms
    Unshelve(ActArgs),
    /// Reset latched alarms
    Reset(ActArgs),
    /// Take alarms out of service: they are not annunciated until they are put in service
    OutOfService(OutOfServiceArgs),
    /// Put alarms in service
    InService(ActArgs),
    /// Write a note about alarms to the journal
    Note(NoteArgs),
    /// Print the journal, the oldest change first
    Journal(JournalArgs),
    /// Print the figures of ISA-18.2 of a time
    Report(ReportArgs),
    /// List the rules in use
    Rules(NodeArgs),
}

/// `tieline alarms list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Topic filter of the alarmed topics
    #[arg(default_value = "#")]
    pub filter: String,
    /// Only alarms of this priority and above
    #[arg(long, value_parser = ["critical", "high", "medium", "low", "event"])]
    pub priority: Option<String>,
    /// Only alarms in one of these states, separated by commas, as in unacknowledged,returned
    #[arg(long, value_name = "STATES")]
    pub state: Option<String>,
    /// Only alarms of this group
    #[arg(long)]
    pub group: Option<String>,
    /// Only alarms that are not consequences of others
    #[arg(long, conflicts_with = "of")]
    pub causes: bool,
    /// Only consequences of this alarm
    #[arg(long, value_name = "TOPIC/KIND")]
    pub of: Option<String>,
    /// Order of the alarms
    #[arg(long, default_value = "worst")]
    pub order: AlarmOrder,
    /// List them again every second, until it is interrupted
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Order of alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlarmOrder {
    /// Unacknowledged, then active, then the most urgent
    Worst,
    /// The newest first
    Time,
}

impl AlarmOrder {
    /// As the API says it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Worst => "worst",
            Self::Time => "time",
        }
    }
}

/// Which alarms.
#[derive(Debug, Args)]
pub struct NamesArgs {
    /// Alarms, as tieline alarms list prints them: TOPIC/KIND, or TOPIC/KIND@SEQ for one occurrence; - reads them from standard input, one
    /// a line
    #[arg(value_name = "ALARM", required = true)]
    pub alarms: Vec<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// A verb that needs no reason.
#[derive(Debug, Args)]
pub struct ActArgs {
    #[command(flatten)]
    pub names: NamesArgs,
    /// Reason, for the journal
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub why: String,
}

/// `tieline alarms shelve`.
#[derive(Debug, Args)]
pub struct ShelveArgs {
    #[command(flatten)]
    pub names: NamesArgs,
    /// How long, as in 2h
    #[arg(long = "for", value_name = "DURATION")]
    pub time: String,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// End the shelving earlier, when the alarm returns
    #[arg(long)]
    pub once: bool,
}

/// `tieline alarms out-of-service`.
#[derive(Debug, Args)]
pub struct OutOfServiceArgs {
    #[command(flatten)]
    pub names: NamesArgs,
    /// How long, as in 8h [default: until they are put in service]
    #[arg(long = "for", value_name = "DURATION")]
    pub time: Option<String>,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    pub why: String,
}

/// `tieline alarms note`.
#[derive(Debug, Args)]
pub struct NoteArgs {
    #[command(flatten)]
    pub names: NamesArgs,
    /// The note
    #[arg(long, value_name = "TEXT")]
    pub why: String,
}

/// `tieline alarms journal`.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// Topic filter of the alarmed topics
    #[arg(default_value = "#")]
    pub filter: String,
    /// Start: a time (RFC 3339), or a duration before the end, as in 24h
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub from: String,
    /// End: a time (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Only this transition, as in raised
    #[arg(long, value_name = "WORD")]
    pub transition: Option<String>,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `tieline alarms report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Topic filter of the alarmed topics
    #[arg(default_value = "#")]
    pub filter: String,
    /// Start: a time (RFC 3339), or a duration before the end, as in 30d
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub from: String,
    /// End: a time (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Operators who share the annunciations [default: alarm.operators of the node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub operators: Option<u16>,
    #[command(flatten)]
    pub node: NodeArgs,
}
