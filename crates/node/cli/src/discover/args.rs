//! What `tieline discover` is told.

use super::hosts::{Hosts, Units};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Which devices are looked for.
#[derive(Clone, Debug, Subcommand)]
pub enum DiscoverVerb {
    /// Look for Modbus devices behind TCP addresses: who answers, and what it says of itself
    Modbus(DiscoverArgs),
    /// Look for SunSpec devices (inverters, meters), and propose device tables and point lists for them
    Sunspec(DiscoverArgs),
}

/// Where is looked, and what becomes of what is found.
#[derive(Args, Clone, Debug)]
pub struct DiscoverArgs {
    /// Hosts, networks (10.1.2.0/24) and ranges (10.1.2.10-10.1.2.40), with a port or without
    #[arg(required = true, value_name = "WHERE")]
    pub places: Vec<Hosts>,
    /// The port of those that name none
    #[arg(long, default_value_t = 502)]
    pub port: u16,
    /// Units that are asked behind each address
    #[arg(long, default_value = "1,255", value_name = "UNITS")]
    pub units: Units,
    /// How long a connection, and each answer, may take
    #[arg(long, default_value = "1s", value_parser = crate::args::duration)]
    pub timeout: Duration,
    /// Addresses that are looked at together
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// Write devices.toml and point lists to this folder; files that are there are left alone
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object a device
    #[arg(long)]
    pub json: bool,
}
