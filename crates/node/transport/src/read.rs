//! Reads the keys of a transport from a table.

use super::settings::{SERIAL_BAUD, SERIAL_FLOW, SERIAL_GAP, SERIAL_PARITY, SERIAL_STOP_BITS, TRANSPORT, UDP_SILENCE};
use super::{End, Over, TlsOptions, Transport, UdpOptions};
use std::net::IpAddr;
use std::path::Path;
use tieline_net::{Flow, Parity, SerialConfig};
use tieline_service::parse;
use tieline_service::reader::{Document, Expected, Section};
use tieline_service::tls::{self, Peers};
use toml::de::DeValue;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Tls,
    Udp,
}

/// Reads the keys of a transport; files are found beside `folder`. None where something essential is missing or wrong
/// (which has been reported then).
pub fn read_transport(doc: &mut Document<'_>, s: &mut Section<'_>, folder: &Path) -> Option<Transport> {
    let connect = s.optional(doc, "address", parse::peer_address).map(End::Connect);
    let listen = s.optional(doc, "listen", parse::listen_address).map(End::Listen);
    let kind = TRANSPORT.read(s, doc, [Kind::Tcp, Kind::Tls, Kind::Udp]);
    let has_serial = s.has("serial");
    let serial = read_serial(s.section(doc, "serial"), doc, has_serial);
    let tls = s.section(doc, "tls");
    let (has_tls, tls_at) = (s.has("tls"), s.value_at("tls"));
    let tls = read_tls(tls, doc, folder, kind == Kind::Tls, tls_at);
    let has_udp = s.has("udp");
    let udp = read_udp(s.section(doc, "udp"), doc);
    for (name, present, fits) in [("tls", has_tls, kind == Kind::Tls), ("udp", has_udp, kind == Kind::Udp)] {
        if present && !fits {
            let found = format!("a table for another transport than {name:?}");
            doc.report(s.value_at(name), &s.key(name), found, format!("transport = {name:?}, or no such table"));
        }
    }
    let given = ["address", "listen", "serial"].map(|name| s.has(name));
    if given.iter().filter(|given| **given).count() != 1 {
        let names: Vec<_> =
            ["address", "listen", "serial"].into_iter().zip(given).filter_map(|(n, g)| g.then_some(n)).collect();
        let found = if names.is_empty() {
            "neither address nor listen".to_owned()
        } else {
            format!("all of {}", names.join(", "))
        };
        let found = if names == ["address", "listen"] { "both address and listen".to_owned() } else { found };
        let expected = "address = \"host:port\" to connect to the device, listen = \"address:port\" to be connected to, or \
                        serial = { port = \"/dev/ttyS0\" }";
        doc.report(s.at(), &s.key("address"), found, expected.to_owned());
        return None;
    }
    if let Some((port, config)) = serial {
        return Some(Transport { end: End::Line(port), over: Over::Serial(config) });
    }
    let over = match kind {
        Kind::Tcp => Over::Tcp,
        Kind::Tls => Over::Tls(tls?),
        Kind::Udp => Over::Udp(udp),
    };
    let transport = Transport { end: connect.or(listen)?, over };
    if transport.hears_strangers() {
        let found = "nothing, and a listening address that other machines can reach".to_owned();
        let expected = "remotes = [\"10.1.2.3\"], the IP addresses that are heard: without a connection, one forged datagram of \
                        anyone else would take the session";
        doc.report(s.value_at("listen"), &s.key("udp.remotes"), found, expected.to_owned());
    }
    Some(transport)
}

fn read_serial(mut s: Section<'_>, doc: &mut Document<'_>, present: bool) -> Option<(String, SerialConfig)> {
    let port = match present {
        true => s.required(doc, "port", "the line's device file, as in \"/dev/ttyS0\"", parse::text),
        false => None,
    };
    let config = SerialConfig {
        baud: SERIAL_BAUD.read(&mut s, doc),
        parity: SERIAL_PARITY.read(&mut s, doc, [Parity::None, Parity::Even, Parity::Odd]),
        stop_bits: SERIAL_STOP_BITS.read(&mut s, doc),
        flow: SERIAL_FLOW.read(&mut s, doc, [Flow::None, Flow::RtsCts]),
        gap: SERIAL_GAP.read(&mut s, doc),
    };
    s.finish(doc);
    port.map(|port| (port, config))
}

fn read_udp(mut s: Section<'_>, doc: &mut Document<'_>) -> UdpOptions {
    let options = UdpOptions {
        local: s.optional(doc, "local", parse::listen_address),
        remotes: s.or(doc, "remotes", Vec::new(), addresses),
        silence: UDP_SILENCE.read(&mut s, doc),
    };
    s.finish(doc);
    options
}

fn addresses(value: &DeValue<'_>) -> Result<Vec<IpAddr>, Expected> {
    let words = || "a list of IP addresses, as in [\"10.1.2.3\"]".to_owned();
    parse::texts(value).ok().and_then(|all| all.iter().map(|text| text.parse().ok()).collect()).ok_or_else(words)
}

/// Reads a table of TLS that stands at `at`; none where it is not wanted, or something is wrong (which has been reported then).
pub fn read_tls(
    mut s: Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    wanted: bool,
    at: usize,
) -> Option<TlsOptions> {
    if !wanted {
        return None;
    }
    let name = s.optional(doc, "name", parse::text);
    let files = tls::read_files(&mut s, doc, folder, Peers::Checked, at);
    s.finish(doc);
    Some(TlsOptions { files: files?, name })
}
