//! The client's address behind a proxy: the addresses of proxies that are believed, and the PROXY protocol, versions
//! 1 and 2 (haproxy's
//! `proxy-protocol.txt`).
//!
//! ```text
//! PROXY TCP4 192.0.2.1 198.51.100.1 56324 1883 CR LF                         version 1, up to 107 bytes
//! 0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A · 21 · 11 · length (2) · addresses …    version 2
//! ```

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncReadExt};

const V1: &[u8] = b"PROXY ";
const V1_MAX: usize = 107;
const V2: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of addresses and extensions of version 2.
const V2_MAX: usize = 2048;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    address: IpAddr,
    len: u8,
}

/// The proxies that are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted(pub Vec<Block>);

impl Block {
    /// Whether an address is one of it. An IPv4 address in the form of IPv6 is that IPv4 address.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, bits: u8| {
            let shift = u32::from(bits - self.len);
            one.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Block {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "an address, or a network as in 10.1.0.0/16";
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| EXPECTED)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Ok(bits), |len| len.parse().map_err(|_| EXPECTED))?;
        if len <= bits { Ok(Self { address, len }) } else { Err(EXPECTED) }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl Trusted {
    /// Whether what comes from an address is believed.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.holds(address))
    }
}

/// Reads the header of the PROXY protocol, and not one byte more. Gives who is behind the proxy; none where the proxy
/// speaks for
/// itself, as in its checks of health.
///
/// # Errors
/// What comes is no such header, or the connection has ended.
pub async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut head = [0; V1.len()];
    stream.read_exact(&mut head).await?;
    if head == V1 {
        let mut line = Vec::from(V1);
        while !line.ends_with(b"\r\n") {
            if line.len() >= V1_MAX {
                return Err(malformed());
            }
            line.push(stream.read_u8().await?);
        }
        return read_v1(&line).ok_or_else(malformed);
    }
    let mut rest = [0; 10];
    stream.read_exact(&mut rest).await?;
    let [s0, s1, s2, s3, s4, s5, command, family, high, low] = rest;
    let is_signed = V2.iter().copied().eq(head.into_iter().chain([s0, s1, s2, s3, s4, s5]));
    let length = usize::from(u16::from_be_bytes([high, low]));
    if !is_signed || length > V2_MAX {
        return Err(malformed());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    read_v2(command, family, &body).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a trusted proxy sent no header of the PROXY protocol")
}

fn read_v1(line: &[u8]) -> Option<Option<SocketAddr>> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let mut words = text.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let (source, _destination, port, _to) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let address: IpAddr = source.parse().ok()?;
    let fits = matches!((family, address), ("TCP4", IpAddr::V4(_)) | ("TCP6", IpAddr::V6(_)));
    (fits && words.next().is_none()).then_some(Some(SocketAddr::new(address, port.parse().ok()?)))
}

fn read_v2(command: u8, family: u8, body: &[u8]) -> Option<Option<SocketAddr>> {
    match (command, family) {
        (0x20, _) => Some(None),
        (0x21, 0x11) => {
            let (addresses, ports) = body.split_at_checked(8)?;
            let address: [u8; 4] = *addresses.first_chunk()?;
            Some(Some(SocketAddr::new(Ipv4Addr::from(address).into(), u16::from_be_bytes(*ports.first_chunk()?))))
        }
        (0x21, 0x21) => {
            let (addresses, ports) = body.split_at_checked(32)?;
            let address: [u8; 16] = *addresses.first_chunk()?;
            Some(Some(SocketAddr::new(Ipv6Addr::from(address).into(), u16::from_be_bytes(*ports.first_chunk()?))))
        }
        // Of other families, section 2.2 lets the header be skipped.
        (0x21, _) => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> (Result<Option<SocketAddr>, io::ErrorKind>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(read_header(&mut bytes)).map_err(|error| error.kind());
        (found, bytes.len())
    }

    #[test]
    fn headers_are_read_and_nothing_behind_them() {
        let at = |text: &str| Ok(Some(text.parse().unwrap()));
        assert_eq!(read(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nMQTT"), (at("192.0.2.1:56324"), 4));
        assert_eq!(read(b"PROXY TCP6 2001:db8::1 ::1 1 443\r\n"), (at("[2001:db8::1]:1"), 0));
        assert_eq!(read(b"PROXY UNKNOWN\r\n\x10"), (Ok(None), 1));
        let v2 = |command: u8, family: u8, body: &[u8]| {
            let length = u16::try_from(body.len()).unwrap().to_be_bytes();
            [&V2[..], &[command, family], &length, body, b"MQTT"].concat()
        };
        let four = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 1, 187];
        assert_eq!(read(&v2(0x21, 0x11, &four)), (at("192.0.2.1:56324"), 4));
        // With extensions behind the addresses.
        assert_eq!(read(&v2(0x21, 0x11, &[&four[..], &[3, 0, 4, 1, 2, 3, 4]].concat())), (at("192.0.2.1:56324"), 4));
        let mut six = [0; 36];
        six[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        six[33] = 7;
        assert_eq!(read(&v2(0x21, 0x21, &six)), (at("[2001:db8::]:7"), 4));
        assert_eq!(read(&v2(0x20, 0, &[])), (Ok(None), 4));
        assert_eq!(read(&v2(0x21, 0x31, &[0; 216])), (Ok(None), 4));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let refused = |bytes: &[u8]| {
            let found = read(bytes).0.unwrap_err();
            assert!(matches!(found, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof), "{bytes:?}");
        };
        refused(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc");
        refused(b"PROXY TCP4 2001:db8::1 ::1 1 443\r\n");
        refused(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 more\r\n");
        refused(b"PROXY TCP4 192.0.2.1 198.51.100.1 70000 443\r\n");
        refused(&[b"PROXY TCP4 ", &[b'1'; 200][..]].concat());
        refused(b"PROXY TCP4");
        refused(&[&V2[..], &[0x21, 0x11, 0xff, 0xff]].concat());
        refused(&[&V2[..], &[0x21, 0x11, 0, 4, 1, 2, 3, 4]].concat());
        refused(&[&V2[..], &[0x31, 0x11, 0, 0]].concat());
    }

    #[test]
    fn networks_hold_their_addresses() {
        let check = |block: &str, address: &str, expect: bool| {
            let block: Block = block.parse().unwrap();
            assert_eq!(block.holds(address.parse().unwrap()), expect, "{block} {address}");
        };
        check("10.1.0.0/16", "10.1.255.1", true);
        check("10.1.0.0/16", "10.2.0.1", false);
        check("10.1.0.0/16", "::ffff:10.1.0.1", true);
        check("10.0.0.5", "10.0.0.5", true);
        check("10.0.0.5", "10.0.0.4", false);
        check("0.0.0.0/0", "255.0.0.1", true);
        check("0.0.0.0/0", "::1", false);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("::/0", "2001:db8::1", true);
        for wrong in ["", "10.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "host"] {
            assert!(wrong.parse::<Block>().is_err(), "{wrong}");
        }
    }
}
