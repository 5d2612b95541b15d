//! The command line, as clap reads it.

use crate::access::args::AccessVerb;
use crate::api::alarms::args::AlarmsArgs;
use crate::api::args::{
    AuditArgs, BusiestArgs, ClockArgs, DeleteArgs, DevicesArgs, LocksArgs, MetricsArgs, NodeArgs, NotifyArgs,
    PointsArgs, PutArgs, SessionsArgs, SitesArgs,
};
use crate::backup::args::{BackupArgs, RestoreArgs};
use crate::bench::args::BenchVerb;
use crate::boards::args::BoardsVerb;
use crate::context::args::ContextVerb;
pub use crate::control::args::{CommandArgs, Mode};
use crate::control::args::{OverrideVerb, ReleaseArgs, RenewArgs, ReservationsArgs, ReserveArgs, RevertArgs, SetArgs};
use crate::control::tags::TagVerb;
use crate::delta::DeltaVerb;
use crate::diagram::args::DiagramVerb;
use crate::discover::args::DiscoverVerb;
use crate::dnp3::args::OutstationArgs;
use crate::dnp3::master::args::MasterArgs;
use crate::goose::args::GooseVerb;
use crate::history::args::HistoryVerb;
use crate::import::args::ImportVerb;
use crate::login::args::{LoginArgs, LogoutArgs};
use crate::replay::args::ReplayArgs;
use crate::rules::args::RulesVerb;
use crate::run::args::RunArgs;
use crate::seal::args::SealVerb;
use crate::serve::args::{BacnetVerb, Iec104Verb, ModbusVerb};
use crate::top::args::TopArgs;
use crate::trace::args::TraceArgs;
pub use crate::who::args::{HttpArgs, MqttArgs};
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Collects data from field devices, and gives it to people and programs.
#[derive(Debug, Parser)]
#[command(
    name = "tieline",
    version,
    about,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110,
    after_help = crate::exit::TABLE
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a node
    Run(RunArgs),
    /// Print the default configuration, or check one
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Import the configuration or the history of another platform
    #[command(subcommand)]
    Import(ImportVerb),
    /// Print updates of topics when they arrive
    Sub(SubArgs),
    /// Publish to a topic
    Pub(PubArgs),
    /// Print the last value of a topic, or of several
    Get(GetArgs),
    /// List topics with their last values
    Topics(TopicsArgs),
    /// Set the last value of a topic, on a condition if there is one
    Put(PutArgs),
    /// Remove the last value of a topic
    Delete(DeleteArgs),
    /// Print the state of a node
    Status(NodeArgs),
    /// Print the health of a node; exit code 1 if it is not healthy
    Health(NodeArgs),
    /// List devices with their state, or show one with its points
    Devices(DevicesArgs),
    /// List configured points
    Points(PointsArgs),
    /// List MQTT clients, those with the greatest lag first
    Sessions(SessionsArgs),
    /// List alarms; acknowledge and shelve them; print the journal and the report
    Alarms(Box<AlarmsArgs>),
    /// List the receivers of notifications; send a test to one
    Notify(NotifyArgs),
    /// List the locks that MQTT sessions have or wait for; take one away
    Locks(LocksArgs),
    /// Show the role of a node in its core with standbys, the leader, and the log
    Cluster(NodeArgs),
    /// List the sites whose history comes to a centre
    Sites(SitesArgs),
    /// List the topics with the most updates
    Busiest(BusiestArgs),
    /// List derived series with their state and last result
    Derived(NodeArgs),
    /// Print the newest records of the audit log, newest first
    Audit(AuditArgs),
    /// Print the time of a node, and whether it is in doubt; confirm it
    Clock(ClockArgs),
    /// Print the authenticated user and its roles
    Whoami(NodeArgs),
    /// Log in at the identity provider of a node, by a code that is entered in a browser
    Login(LoginArgs),
    /// End the login of this command line, or all logins of a user
    Logout(LogoutArgs),
    /// Print all metrics of a node, in the format of Prometheus
    Metrics(MetricsArgs),
    /// Show rates, slow sessions and busy topics of a node while they change
    Top(TopArgs),
    /// Print the messages between a device and the node in the last minute
    Trace(TraceArgs),
    /// Query, export, import and delete recorded values; check and repair their store
    #[command(subcommand)]
    History(HistoryVerb),
    /// Publish recorded values again, with their time intervals, below $replay/ or to another node
    Replay(ReplayArgs),
    /// Write all data of a node to an archive, while it runs
    Backup(BackupArgs),
    /// Restore a data folder from an archive
    Restore(RestoreArgs),
    /// Operate a point
    Command(CommandArgs),
    /// Set many points in one call, of one device or of thousands
    Set(SetArgs),
    /// Revert points, or all points of devices, to what they were before they were commanded
    Revert(RevertArgs),
    /// Reserve devices for a time: nobody else can command them
    Reserve(ReserveArgs),
    /// List reservations; * marks devices that are held now
    Reservations(ReservationsArgs),
    /// Renew the leases of the holder of a reservation
    Renew(RenewArgs),
    /// End a reservation; what was commanded under it is reverted
    Release(ReleaseArgs),
    /// Block the commands of all programs to devices or points, by a pattern
    #[command(subcommand)]
    Override(OverrideVerb),
    /// Tags on devices and points: hold, do not operate, note
    #[command(subcommand)]
    Tag(TagVerb),
    /// Make a node reload its configuration: devices, point lists, views
    Reload(NodeArgs),
    /// Topics derived from topics
    #[command(subcommand)]
    Views(ViewsVerb),
    /// Alarm rules: check a file of them, try it on recorded history
    #[command(subcommand)]
    Rules(RulesVerb),
    /// Single-line diagrams: draw one from bays, check files, list those of a node
    #[command(subcommand)]
    Diagram(DiagramVerb),
    /// Boards of a node: list them, read and change their files
    #[command(subcommand)]
    Boards(BoardsVerb),
    /// Named nodes: address, user, TLS files
    #[command(subcommand)]
    Context(ContextVerb),
    /// Users, roles, and what they may do
    #[command(subcommand)]
    Access(AccessVerb),
    /// Explain payloads of deltas
    #[command(subcommand)]
    Delta(DeltaVerb),
    /// Look for devices, and propose their configuration; nothing is written to them
    #[command(subcommand)]
    Discover(DiscoverVerb),
    /// DNP3 (IEEE 1815) tools that need no node
    #[command(subcommand)]
    Dnp3(Dnp3Verb),
    /// Modbus tools that need no node
    #[command(subcommand)]
    Modbus(ModbusVerb),
    /// BACnet tools that need no node
    #[command(subcommand)]
    Bacnet(BacnetVerb),
    /// IEC 60870-5-104 tools that need no node
    #[command(subcommand)]
    Iec104(Iec104Verb),
    /// GOOSE (IEC 61850-8-1) tools that need no node
    #[command(subcommand)]
    Goose(GooseVerb),
    /// Sites of a centre: who may join, with which key
    #[command(subcommand)]
    Site(crate::site::SiteVerb),
    /// Join this node to a centre, by a token of tieline site token
    #[cfg(feature = "fabric")]
    Join(crate::join::JoinArgs),
    /// The servers that join sites to a centre: their configuration, keys, and whether they can be used
    #[cfg(feature = "fabric")]
    #[command(subcommand)]
    Fabric(crate::fabric::FabricVerb),
    /// Seal and open messages of the Brazilian financial network (RSFN), as files or as a server
    #[command(subcommand)]
    Seal(SealVerb),
    /// Repeat the published benchmarks, each compared with a lower bound measured in the same run
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Print a completion script for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command
    Man {
        /// Folder to write them to; it is created if it does not exist
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// `tieline config`.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the commented default configuration
    Default,
    /// Print the configuration that a role of tieline run stands for
    Show(ConfigShowArgs),
    /// Check a configuration and the point lists it names; print every error
    Check(ConfigCheckArgs),
}

/// `tieline config show`.
#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    #[command(flatten)]
    pub role: crate::run::args::RoleArgs,
    /// Data folder of the node
    #[arg(long, value_name = "DIR", env = "TIELINE_DATA", default_value = "tieline-data")]
    pub data: PathBuf,
}

/// `tieline config check`.
#[derive(Debug, Args)]
pub struct ConfigCheckArgs {
    /// Configuration file
    #[arg(conflicts_with = "config")]
    pub file: Option<PathBuf>,
    /// The same, as an option, as for tieline run [env: TIELINE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print errors as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline views`.
#[derive(Debug, Subcommand)]
pub enum ViewsVerb {
    /// Check the views of a configuration; print every error
    Check(ViewsCheckArgs),
    /// Print the topics that the views of a configuration derive from given topics, or from those of a node
    Test(ViewsTestArgs),
    /// Make a node reload the views of its configuration
    Reload(NodeArgs),
}

/// `tieline views check`.
#[derive(Debug, Args)]
pub struct ViewsCheckArgs {
    #[command(flatten)]
    pub file: ViewsFile,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The views of a configuration.
#[derive(Debug, Args)]
pub struct ViewsFile {
    /// Configuration file of the node
    #[arg(long, value_name = "FILE", env = "TIELINE_CONFIG", default_value = "tieline.toml")]
    pub config: PathBuf,
}

/// `tieline views test`.
#[derive(Debug, Args)]
pub struct ViewsTestArgs {
    #[command(flatten)]
    pub file: ViewsFile,
    /// Take the last values of a node in place of lines of standard input
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tieline sub`.
#[derive(Debug, Args)]
pub struct SubArgs {
    /// Topic filters; + is one level, # all that follow
    #[arg(required = true)]
    pub filters: Vec<String>,
    #[command(flatten)]
    pub node: MqttArgs,
    /// Stop after so many updates
    #[arg(long, short = 'n', value_name = "N")]
    pub count: Option<u64>,
    /// Quality of service: 0 or 1
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub qos: u8,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tieline pub`.
#[derive(Debug, Args)]
pub struct PubArgs {
    /// Topic
    pub topic: String,
    /// Payload; `-` reads standard input
    #[arg(allow_negative_numbers = true, required_unless_present = "lines", conflicts_with = "lines")]
    pub payload: Option<String>,
    #[command(flatten)]
    pub node: MqttArgs,
    /// Retain the message as the last value of the topic
    #[arg(long, short)]
    pub retain: bool,
    /// Publish each line of standard input as the topic's next value
    #[arg(long)]
    pub lines: bool,
    /// Publish deltas, if the node accepts them (docs/delta.md, Publishers)
    #[arg(long, requires = "lines")]
    pub delta: bool,
    /// Quality of service: 0, or 1 to wait until the node has stored it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub qos: u8,
    /// Print a JSON object at the end
    #[arg(long)]
    pub json: bool,
}

/// `tieline get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Topics; several are printed as a table
    #[arg(required = true, value_name = "TOPIC")]
    pub topics: Vec<String>,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print the last N events of the topic in place of its value
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub events: Option<u16>,
    /// Only events after the one with this number
    #[arg(long, value_name = "SEQ", requires = "events")]
    pub after: Option<u64>,
    /// Only events from this time on: RFC 3339, a date, or how long ago
    #[arg(long, value_name = "TIME", requires = "events", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only events up to this time
    #[arg(long, value_name = "TIME", requires = "events", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline topics`.
#[derive(Debug, Args)]
pub struct TopicsArgs {
    /// Topic filter
    #[arg(default_value = "#")]
    pub filter: String,
    /// The last values at this time, from history: a time (RFC 3339), a date, or a duration before now (5m)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Only topics that this regular expression matches
    #[arg(long, value_name = "REGEX")]
    pub select: Option<String>,
    /// Only topics with at most this many levels below the levels of the filter before its first wildcard
    #[arg(long, value_name = "LEVELS")]
    pub depth: Option<u8>,
    /// Only the last N topics
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub last: Option<u16>,
    /// Names without values
    #[arg(long)]
    pub names: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `tieline dnp3`.
#[derive(Debug, Subcommand)]
pub enum Dnp3Verb {
    /// Serve a database; updates are read as lines from standard input
    Outstation(OutstationArgs),
    /// Poll an outstation and print what it reports
    Master(Box<MasterArgs>),
    /// The files of an outstation
    #[command(subcommand)]
    File(crate::dnp3::file::args::FileVerb),
    /// Device profiles as XML
    #[command(subcommand)]
    Profile(crate::dnp3::profile::ProfileVerb),
    /// Print every DNP3 frame of a capture
    Decode(crate::dnp3::decode::DecodeArgs),
    /// Make an update key of secure authentication, in a file that only its owner may read
    Keygen(KeygenArgs),
}

/// `tieline dnp3 keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// File to write; it must not exist
    pub file: PathBuf,
    /// Bits of the key
    #[arg(long, value_name = "BITS", default_value = "256", value_parser = ["128", "256"])]
    pub bits: String,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Secure authentication (IEEE 1815 clause 7), of both roles.
#[derive(Debug, Args)]
pub struct SecureArgs {
    /// Authenticate with the update key in this file, as tieline dnp3 keygen writes it
    #[arg(long, value_name = "FILE")]
    pub update_key: Option<PathBuf>,
    /// User of the update key
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "update_key", value_parser = clap::value_parser!(u16).range(1..))]
    pub user: u16,
}

/// An address to listen on.
///
/// # Errors
/// What was expected.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let words = "expected an address with a port, as in 127.0.0.1:1883 or [::1]:1883";
    tieline_node::config::parse_address(text).ok_or_else(|| words.to_owned())
}

/// A duration that is not zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let given = tieline_node::config::parse_duration(text).filter(|given| !given.is_zero());
    given.ok_or_else(|| "expected a duration, as in 500ms, 5s or 1m".to_owned())
}

/// A duration up to five minutes.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let within = duration(text).ok().filter(|given| *given <= Duration::from_secs(300));
    within.ok_or_else(|| "expected a duration up to 5m, as in 500ms, 5s or 1m".to_owned())
}
