//! What `tieline discover` is told.

use super::hosts::{Hosts, Instances, LinkAddresses, Networks, Units, ipv4};
use clap::{ArgGroup, Args, Subcommand};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// Which devices are looked for.
#[derive(Clone, Debug, Subcommand)]
pub enum DiscoverVerb {
    /// Find Modbus devices at TCP addresses, and print their identification
    Modbus(DiscoverArgs),
    /// Find SunSpec devices (inverters, meters), and propose device tables and point lists for them
    Sunspec(DiscoverArgs),
    /// Find BACnet/IP devices, also behind routers, and their objects; propose device tables and point lists for them
    Bacnet(BacnetArgs),
    /// Find DNP3 outstations at TCP addresses, their link addresses and points; propose device tables and point lists for them
    Dnp3(Dnp3Args),
}

/// Where is looked, and what becomes of what is found.
#[derive(Args, Clone, Debug)]
pub struct DiscoverArgs {
    /// Hosts, networks (10.1.2.0/24) and ranges (10.1.2.10-10.1.2.40), with a port or without
    #[arg(required = true, value_name = "WHERE")]
    pub places: Vec<Hosts>,
    /// Port of addresses without a port
    #[arg(long, default_value_t = 502)]
    pub port: u16,
    /// Units to ask at each address
    #[arg(long, default_value = "1,255", value_name = "UNITS")]
    pub units: Units,
    /// Time-out of a connection, and of each answer
    #[arg(long, default_value = "1s", value_parser = crate::args::duration)]
    pub timeout: Duration,
    /// Addresses that are examined at the same time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// Write devices.toml and point lists to this folder; existing files are not changed
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
    /// without. Not needed if broadcasts find the devices
    #[arg(value_name = "WHERE")]
    pub places: Vec<Hosts>,
    /// The broadcast address of the local network, as in 10.1.2.255
    #[arg(long, value_name = "ADDRESS", value_parser = ipv4, conflicts_with = "bbmd")]
    pub broadcast: Option<SocketAddrV4>,
    /// A broadcast management device: register there as a foreign device, and broadcast through it
    #[arg(long, value_name = "ADDRESS", value_parser = ipv4)]
    pub bbmd: Option<SocketAddrV4>,
    /// The local address and port. Devices that answer by broadcast, or only to port 47808, need 0.0.0.0:47808
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:0", value_parser = ipv4)]
    pub local: SocketAddrV4,
    /// Networks to ask: all, local, or numbers of networks behind routers, as in local,100,200
    #[arg(long, default_value = "all")]
    pub networks: Networks,
    /// Instances to find
    #[arg(long, default_value = "0-4194302", value_name = "LOW-HIGH")]
    pub instances: Instances,
    /// Instances that one broadcast asks for; use fewer if too many devices answer at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub width: u32,
    /// Who-Is a second
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub rate: u8,
    /// How long to wait for devices after the last Who-Is
    #[arg(long, default_value = "5s", value_parser = crate::args::timeout)]
    pub wait: Duration,
    /// Time-out of an answer
    #[arg(long, default_value = "3s", value_parser = crate::args::timeout)]
    pub timeout: Duration,
    /// Repetitions of a request without an answer
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=10))]
    pub retries: u8,
    /// Devices that are read together, 1 to 1,000. Each is asked one thing at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// List devices only: objects are not read
    #[arg(long, conflicts_with = "out")]
    pub devices_only: bool,
    /// Write devices.toml and point lists to this folder; existing files are not changed
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
    /// Port of addresses without a port
    #[arg(long, default_value_t = 20_000)]
    pub port: u16,
    /// Link addresses to ask at each address
    #[arg(long, default_value = "1-10", value_name = "ADDRESSES")]
    pub outstations: LinkAddresses,
    /// The link address of this master: many outstations answer only the address of their own master
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=65519))]
    pub master: u16,
    /// Time-out of a connection, and of each answer
    #[arg(long, default_value = "2s", value_parser = crate::args::timeout)]
    pub timeout: Duration,
    /// Addresses that are examined at the same time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub together: u16,
    /// Write devices.toml and point lists to this folder; existing files are not changed
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object an outstation
    #[arg(long)]
    pub json: bool,
}
