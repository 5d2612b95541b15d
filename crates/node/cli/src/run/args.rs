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
    /// Print one JSON object with the addresses in use first, and log in JSON
    #[arg(long)]
    pub json: bool,
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
