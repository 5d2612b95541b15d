//! Reads the keys of a transport from a table.

use super::{End, Over, SILENCE, TlsOptions, Transport, UdpOptions};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tieline_net::tls::{Pin, Tls, TlsError, TlsFiles, TlsVersion, Trust};
use tieline_net::{Flow, Parity, SerialConfig};
use tieline_service::parse;
use tieline_service::reader::{Document, Expected, Section};
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
    let words = [("tcp", Kind::Tcp), ("tls", Kind::Tls), ("udp", Kind::Udp)].as_slice();
    let kind = s.or(doc, "transport", Kind::Tcp, parse::word(words));
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
    Some(Transport { end: connect.or(listen)?, over })
}

fn read_serial(mut s: Section<'_>, doc: &mut Document<'_>, present: bool) -> Option<(String, SerialConfig)> {
    let default = SerialConfig::default();
    let port = match present {
        true => s.required(doc, "port", "the line's device file, as in \"/dev/ttyS0\"", parse::text),
        false => None,
    };
    let config = SerialConfig {
        baud: s.or(doc, "baud", default.baud, parse::integer(50..=4_000_000)),
        parity: s.or(
            doc,
            "parity",
            default.parity,
            parse::word(&[("none", Parity::None), ("even", Parity::Even), ("odd", Parity::Odd)]),
        ),
        stop_bits: s.or(doc, "stop_bits", default.stop_bits, parse::integer(1..=2)),
        flow: s.or(doc, "flow", default.flow, parse::word(&[("none", Flow::None), ("rts-cts", Flow::RtsCts)])),
        gap: s.or(doc, "gap", default.gap, parse::duration(Duration::ZERO..=Duration::from_secs(10))),
    };
    s.finish(doc);
    port.map(|port| (port, config))
}

fn read_udp(mut s: Section<'_>, doc: &mut Document<'_>) -> UdpOptions {
    let options = UdpOptions {
        local: s.optional(doc, "local", parse::listen_address),
        remotes: s.or(doc, "remotes", Vec::new(), addresses),
        silence: s.or(
            doc,
            "silence",
            SILENCE,
            parse::duration(Duration::from_secs(1)..=Duration::from_secs(7 * 86_400)),
        ),
    };
    s.finish(doc);
    options
}

fn addresses(value: &DeValue<'_>) -> Result<Vec<IpAddr>, Expected> {
    let words = || "a list of IP addresses, as in [\"10.1.2.3\"]".to_owned();
    parse::texts(value).ok().and_then(|all| all.iter().map(|text| text.parse().ok()).collect()).ok_or_else(words)
}

fn read_tls(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, wanted: bool, at: usize) -> Option<TlsOptions> {
    let file = |text: String| folder.join(text);
    let (certificate, key) = match wanted {
        true => (
            s.required(doc, "certificate", "the file of our certificate, as in \"node.pem\"", parse::text),
            s.required(doc, "key", "the file of its private key, as in \"node.key\"", parse::text),
        ),
        false => (s.optional(doc, "certificate", parse::text), s.optional(doc, "key", parse::text)),
    };
    let authorities = s.optional(doc, "authorities", parse::text).map(file);
    let pinned = s.optional(doc, "pinned", |v| pins(v, folder));
    let options = TlsOptions {
        files: TlsFiles {
            certificate: file(certificate.clone().unwrap_or_default()),
            key: file(key.clone().unwrap_or_default()),
            trust: match (authorities, pinned) {
                (Some(authorities), _) => Trust::Authorities(authorities),
                (None, pinned) => Trust::Pinned(pinned.unwrap_or_default()),
            },
            client_names: s.or(doc, "client_names", Vec::new(), parse::texts),
            version_min: s.or(
                doc,
                "version_min",
                TlsVersion::default(),
                parse::word(&[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)]),
            ),
        },
        name: s.optional(doc, "name", parse::text),
    };
    let (by_authorities, by_pins) = (s.has("authorities"), s.has("pinned"));
    if wanted && by_authorities == by_pins {
        let found = if by_pins { "both authorities and pinned" } else { "neither authorities nor pinned" };
        let expected =
            "authorities = \"FILE\" with certificates of who vouches for peers, or pinned = [\"FILE or sha256:…\"]";
        doc.report(at, &s.key("authorities"), found.to_owned(), expected.to_owned());
    }
    let complete = certificate.is_some() && key.is_some() && by_authorities != by_pins;
    if wanted && complete {
        report_files(doc, &s, &options.files, at);
    }
    s.finish(doc);
    (wanted && complete).then_some(options)
}

/// What is wrong in the files is told with the rest.
fn report_files(doc: &mut Document<'_>, s: &Section<'_>, files: &TlsFiles, at: usize) {
    let Err(TlsError(faults)) = Tls::load(files.clone()) else { return };
    for fault in faults {
        let name = match () {
            () if fault.file == files.certificate => "certificate",
            () if fault.file == files.key => "key",
            () if s.has("authorities") => "authorities",
            () => "pinned",
        };
        let at = if s.has(name) { s.value_at(name) } else { at };
        doc.report(at, &s.key(name), format!("{}: {}", fault.file.display(), fault.found), fault.expected);
    }
}

fn pins(value: &DeValue<'_>, folder: &Path) -> Result<Vec<Pin>, Expected> {
    let words = || "a list of files and fingerprints, as in [\"relay1.pem\", \"sha256:…\"]".to_owned();
    let texts = parse::texts(value).ok().filter(|texts| !texts.is_empty()).ok_or_else(words)?;
    texts.iter().map(|text| parse_pin(text, folder)).collect()
}

/// A certificate's file, or the fingerprint of its key.
///
/// # Errors
/// What was expected.
pub fn parse_pin(text: &str, folder: &Path) -> Result<Pin, String> {
    match text.starts_with("sha256:") {
        true => text.parse().map(Pin::Key).map_err(str::to_owned),
        false => Ok(Pin::Certificate(folder.join(text))),
    }
}
