//! What `tieline discover` is told.

use super::hosts::{Hosts, Instances, LinkAddresses, Networks, Units, ipv4};
use clap::{ArgGroup, Args, Subcommand};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// Which devices are looked for.
#[derive(Clone, Debug, Subcommand)]
pub enum DiscoverVerb {
    /// Look for Modbus devices behind TCP addresses: who answers, and what it says of itself
    Modbus(DiscoverArgs),
    /// Look for SunSpec devices (inverters, meters), and propose device tables and point lists for them
    Sunspec(DiscoverArgs),
    /// Look for BACnet/IP devices, and those behind routers: who answers, which objects it has; propose device tables and
    /// point lists for them
    Bacnet(BacnetArgs),
    /// Look for DNP3 outstations behind TCP addresses: which link addresses answer, which points they have; propose device
    /// tables and point lists for them
    Dnp3(Dnp3Args),
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

/// Where BACnet devices are looked for, and what becomes of what is found.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("targets").required(true).multiple(true).args(["places", "broadcast", "bbmd"])))]
pub struct BacnetArgs {
    /// Addresses of devices and routers: hosts, networks (10.1.2.0/24) and ranges (10.1.2.10-10.1.2.40), with a port or
    /// without. None where broadcasts find the devices
    #[arg(value_name = "WHERE")]
    pub places: Vec<Hosts>,
    /// The broadcast address of the local network, as in 10.1.2.255
    #[arg(long, value_name = "ADDRESS", value_parser = ipv4, conflicts_with = "bbmd")]
    pub broadcast: Option<SocketAddrV4>,
    /// A broadcast management device: register there as a foreign device, and broadcast through it
    #[arg(long, value_name = "ADDRESS", value_parser = ipv4)]
    pub bbmd: Option<SocketAddrV4>,
    /// The local address and port. Devices that answer by broadcast, or to port 47808 alone, need 0.0.0.0:47808
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:0", value_parser = ipv4)]
    pub local: SocketAddrV4,
    /// Networks that are asked: all, local, or numbers of networks behind routers, as in local,100,200
    #[arg(long, default_value = "all")]
    pub networks: Networks,
    /// Instances that are looked for
    #[arg(long, default_value = "0-4194302", value_name = "LOW-HIGH")]
    pub instances: Instances,
    /// Instances that one broadcast asks for: fewer, where many devices would answer at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub width: u32,
    /// Who-Is a second
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub rate: u8,
    /// How long to wait for devices after the last Who-Is
    #[arg(long, default_value = "5s", value_parser = crate::args::timeout)]
    pub wait: Duration,
    /// How long an answer may take
    #[arg(long, default_value = "3s", value_parser = crate::args::timeout)]
    pub timeout: Duration,
    /// How often a request is repeated
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=10))]
    pub retries: u8,
    /// Devices that are read together, 1 to 1,000. Each is asked one thing at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// Only say who is there: objects are not read
    #[arg(long, conflicts_with = "out")]
    pub devices_only: bool,
    /// Write devices.toml and point lists to this folder; files that are there are left alone
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object a device
    #[arg(long)]
    pub json: bool,
}

/// Where DNP3 outstations are looked for, and what becomes of what is found.
#[derive(Args, Clone, Debug)]
pub struct Dnp3Args {
    /// Hosts, networks (10.1.2.0/24) and ranges (10.1.2.10-10.1.2.40), with a port or without
    #[arg(required = true, value_name = "WHERE")]
    pub places: Vec<Hosts>,
    /// The port of those that name none
    #[arg(long, default_value_t = 20_000)]
    pub port: u16,
    /// Link addresses that are asked behind each address
    #[arg(long, default_value = "1-10", value_name = "ADDRESSES")]
    pub outstations: LinkAddresses,
    /// The link address of this master: many outstations answer that of their own master alone
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub master: u16,
    /// How long a connection, and each answer, may take
    #[arg(long, default_value = "2s", value_parser = crate::args::timeout)]
    pub timeout: Duration,
    /// Addresses that are looked at together
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// Write devices.toml and point lists to this folder; files that are there are left alone
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object an outstation
    #[arg(long)]
    pub json: bool,
}
