//! The command line of `tieline run`, as clap reads it.

use crate::args::address;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use tieline_outstation::DemoSite;

/// `tieline run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file; without it, the defaults
    #[arg(long, value_name = "FILE", env = "TIELINE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Simulate the devices of a small site on this machine, and collect from them
    #[arg(long, value_name = "SITE", value_enum, num_args = 0..=1, default_missing_value = "substation")]
    pub demo: Option<DemoName>,
    /// Folder for journal, history and audit log [default: ./tieline-data]
    #[arg(long, value_name = "DIR", env = "TIELINE_DATA")]
    pub data: Option<PathBuf>,
    /// Address on which HTTP listens; port 0 selects a free port [default: http.listen of the configuration]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Address on which MQTT listens; port 0 selects a free port [default: mqtt.listen of the configuration]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub mqtt: Option<SocketAddr>,
    #[command(flatten)]
    pub role: RoleArgs,
    /// Address of the centre to join before the first start of a site: https://HOST:PORT
    #[arg(long, value_name = "URL", requires = "role")]
    pub join: Option<String>,
    /// Token of tieline site token
    #[arg(long, value_name = "TOKEN", env = "TIELINE_JOIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// File with the token, so that it is in no list of processes
    #[arg(long, value_name = "FILE", requires = "join", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Certificates of authorities to trust for --join, or the centre's own, in PEM
    #[arg(long, value_name = "FILE", requires = "join")]
    pub ca: Option<PathBuf>,
    /// Print one JSON object with the addresses in use first, and log in JSON
    #[arg(long)]
    pub json: bool,
}

/// A role, and what it needs to know.
#[derive(Debug, Default, Args)]
pub struct RoleArgs {
    /// Be an edge of --upstream, a site of a centre, or a centre, without a configuration: tieline config show prints what it stands for
    #[arg(long, value_enum)]
    pub role: Option<Role>,
    /// Node that an edge shows: mqtt://HOST[:PORT] or mqtts://; repeat it for several
    #[arg(long, value_name = "URL", requires = "role")]
    pub upstream: Vec<String>,
    /// Server of a centre: nats://HOST:PORT or tls://; repeat it for several [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL", requires = "role")]
    pub fabric: Vec<String>,
    /// Certificates of authorities to trust for --fabric, in PEM; sites that join get them
    #[arg(long, value_name = "FILE", requires = "fabric")]
    pub fabric_ca: Option<PathBuf>,
    /// Name of the node [default: node.name of the configuration; with a role and without a configuration, that of the machine]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// What a node is among many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Shows the topics of another node near many readers
    Edge,
    /// Sends its history to a centre
    Site,
    /// Takes the history of sites
    Centre,
}

/// The sites of `--demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoName {
    /// A substation with two feeders: eight DNP3 outstations
    Substation,
    /// An office building: air handlers and rooms (BACnet), meters (Modbus), inverters (SunSpec)
    Building,
}

impl From<DemoName> for DemoSite {
    fn from(name: DemoName) -> Self {
        match name {
            DemoName::Substation => Self::Substation,
            DemoName::Building => Self::Building,
        }
    }
}
