//! Flags that say what a connection is made of.

use crate::tls::TlsArgs;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tieline_net::{Flow, Parity, SerialConfig};
use tieline_transport::{End, Over, Transport, UdpOptions};

/// What a connection is made of.
#[derive(Debug, Args)]
pub struct TransportArgs {
    /// What the connection is made of
    #[arg(long, value_enum, default_value_t = Medium::Tcp)]
    pub over: Medium,
    #[command(flatten)]
    pub tls: TlsArgs,
    /// The local address of datagrams, where we connect
    #[arg(long, value_name = "ADDR", value_parser = crate::args::address, help_heading = "UDP")]
    pub udp_local: Option<SocketAddr>,
    /// Who is heard, where we listen; may be repeated [default: anyone, on a loopback address]
    #[arg(long, value_name = "IP", help_heading = "UDP")]
    pub udp_remote: Vec<IpAddr>,
    /// Bits a second
    #[arg(long, default_value_t = 9600, value_parser = clap::value_parser!(u32).range(50..=4_000_000), help_heading = "Serial")]
    pub baud: u32,
    /// Check bit
    #[arg(long, value_enum, default_value_t = Check::None, help_heading = "Serial")]
    pub parity: Check,
    /// Stop bits: 1 or 2
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2), help_heading = "Serial")]
    pub stop_bits: u8,
    /// Let the receiver stop the sender by the CTS line
    #[arg(long, help_heading = "Serial")]
    pub rts_cts: bool,
    /// Silence between a message and our next one, as in 20ms
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = gap, help_heading = "Serial")]
    pub gap: Duration,
}

/// What a connection is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
    /// Datagrams
    Udp,
    /// A serial line: the address is its device file
    Serial,
}

/// Check bit of a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// No check bit
    None,
    /// Even parity
    Even,
    /// Odd parity
    Odd,
}

fn gap(text: &str) -> Result<Duration, String> {
    let given = tieline_node::config::parse_duration(text).filter(|given| *given <= Duration::from_secs(10));
    given.ok_or_else(|| "expected a duration up to 10s, as in 20ms".to_owned())
}

impl TransportArgs {
    /// The transport to one end; `address` is a device file where the line is serial.
    pub fn transport(&self, address: &str, listens: bool) -> Result<Transport> {
        let over = match self.over {
            Medium::Tcp => Over::Tcp,
            Medium::Tls => match self.tls.options()? {
                Some(options) => Over::Tls(options),
                None => bail!("--over tls needs --tls-cert and --tls-key: both sides show who they are"),
            },
            Medium::Udp => {
                let remotes = self.udp_remote.clone();
                Over::Udp(UdpOptions { local: self.udp_local, remotes, ..UdpOptions::default() })
            }
            Medium::Serial => {
                return Ok(Transport { end: End::Line(address.to_owned()), over: Over::Serial(self.serial()) });
            }
        };
        let end = match listens {
            true => End::Listen(crate::args::address(address).map_err(anyhow::Error::msg)?),
            false => End::Connect(address.to_owned()),
        };
        let transport = Transport { end, over };
        if transport.hears_strangers() {
            bail!("--over udp on an address that other machines can reach needs --udp-remote: whom to hear");
        }
        Ok(transport)
    }

    const fn serial(&self) -> SerialConfig {
        SerialConfig {
            baud: self.baud,
            parity: match self.parity {
                Check::None => Parity::None,
                Check::Even => Parity::Even,
                Check::Odd => Parity::Odd,
            },
            stop_bits: self.stop_bits,
            flow: if self.rts_cts { Flow::RtsCts } else { Flow::None },
            gap: self.gap,
        }
    }
}
