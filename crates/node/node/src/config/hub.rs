//! The keys of `[network.NAME]` that make it one of BACnet/SC: a hub in place of datagrams.
//!
//! ```toml
//! [network.campus]
//! hub = "wss://hub1.example:4443/sc"
//! failover = "wss://hub2.example:4443/sc"
//! uuid = "6f1f8d4e-6a3b-4a44-9a51-5d3e4c0b7a10"
//! tls = { certificate = "node.pem", key = "node.key", authorities = "ca.pem" }
//! ```

use super::collection::NetworkConfig;
use super::parse;
use super::protocol::ProtocolName;
use super::reader::{Document, Expected, Section};
use super::settings::{NETWORK_CONNECT_TIMEOUT, NETWORK_HEARTBEAT, NETWORK_RECONNECT_MAX};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline_bacnet::sc::{Uuid, Vmac};
use tieline_net::tls::TlsVersion;
use tieline_transport::{End, Over, Transport, read_tls};
use toml::de::DeValue;

/// The port of `wss:` where the URL has none.
const PORT: u16 = 443;

/// The hub of a BACnet/SC network, and who the node is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacnetHub {
    /// The name of the network.
    pub network: String,
    /// The hub that is used while it is there.
    pub primary: HubUrl,
    /// The one that is used otherwise.
    pub failover: Option<HubUrl>,
    /// The identifier of the node.
    pub uuid: Uuid,
    /// The virtual address of the node, unless another one has it.
    pub vmac: Vmac,
    /// How long a hub may take to accept the node, and to answer a heartbeat.
    pub connect_timeout: Duration,
    /// Silence after which a hub is asked whether it is there.
    pub heartbeat: Duration,
    /// The longest wait between two attempts.
    pub reconnect_max: Duration,
}

/// Where a hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubUrl {
    /// Host and port, as in its certificate and in requests.
    pub host: String,
    /// The path of its WebSocket.
    pub path: String,
    /// How it is reached.
    pub transport: Transport,
}

/// Reads the keys; none where the network has no hub, or something is wrong (which has been reported then).
pub fn read_hub(doc: &mut Document<'_>, s: &mut Section<'_>, folder: &Path, name: &str) -> Option<Arc<BacnetHub>> {
    let is_given = s.has("hub");
    for key in ["failover", "uuid", "vmac", "tls"].into_iter().filter(|key| !is_given && s.has(key)) {
        let expected = "hub = \"wss://…\" too, for a network of BACnet/SC".to_owned();
        doc.report(s.value_at(key), &s.key(key), format!("the key {key:?}"), expected);
    }
    let primary = s.optional(doc, "hub", parse_url);
    let failover = s.optional(doc, "failover", parse_url);
    let words = "a UUID that no other node has, as in \"6f1f8d4e-6a3b-4a44-9a51-5d3e4c0b7a10\"";
    let parse_uuid = |value: &DeValue<'_>| value.as_str().and_then(|text| text.parse().ok()).ok_or(words.to_owned());
    let uuid = match is_given {
        true => s.required(doc, "uuid", words, parse_uuid),
        false => s.optional(doc, "uuid", parse_uuid),
    };
    let vmac = s.optional(doc, "vmac", parse_vmac);
    let connect_timeout = NETWORK_CONNECT_TIMEOUT.read(s, doc);
    let heartbeat = NETWORK_HEARTBEAT.read(s, doc);
    let reconnect_max = NETWORK_RECONNECT_MAX.read(s, doc);
    let (has_tls, at) = (s.has("tls"), s.value_at(if s.has("tls") { "tls" } else { "hub" }));
    let tls = s.section(doc, "tls");
    if is_given && !has_tls {
        let expected =
            "tls = { certificate = …, key = …, authorities = … }: BACnet/SC is spoken over TLS alone".to_owned();
        doc.report(at, &s.key("tls"), "nothing".to_owned(), expected);
    }
    let mut tls = read_tls(tls, doc, folder, is_given && has_tls, at)?;
    // Clause AB.7.4: TLS 1.3, and both sides show certificates.
    tls.files.version_min = TlsVersion::Tls13;
    let hub = |(host, path): (String, String)| {
        let transport = Transport { end: End::Connect(host.clone()), over: Over::Tls(tls.clone()) };
        HubUrl { host, path, transport }
    };
    let uuid = uuid?;
    Some(Arc::new(BacnetHub {
        network: name.to_owned(),
        primary: hub(primary?),
        failover: failover.map(hub),
        uuid,
        vmac: vmac.unwrap_or_else(|| derive(uuid)),
        connect_timeout,
        heartbeat,
        reconnect_max,
    }))
}

/// A network with a hub is for BACnet alone.
pub fn check_network(doc: &mut Document<'_>, s: &Section<'_>, protocol: ProtocolName, network: Option<&NetworkConfig>) {
    if let Some(network) = network.filter(|network| network.has_hub && protocol != ProtocolName::Bacnet) {
        let expected = "a network without a hub, or protocol = \"bacnet\"".to_owned();
        doc.report(s.value_at("network"), &s.key("network"), format!("{:?}, which has a hub", network.name), expected);
    }
}

/// A virtual address made of the identifier, which is as good as random.
fn derive(Uuid(bytes): Uuid) -> Vmac {
    let bits = u128::from_be_bytes(bytes);
    let [.., a, b, c, d, e, f] = (bits ^ bits >> 48 ^ bits >> 96).to_be_bytes();
    Vmac::random(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// Host with port, and path, of `wss://host[:port][/path]`.
fn parse_url(value: &DeValue<'_>) -> Result<(String, String), Expected> {
    let words = || {
        "the URL of a hub over TLS, as in \"wss://hub1.example:4443/sc\", without user, query and fragment".to_owned()
    };
    let rest = value.as_str().and_then(|text| text.strip_prefix("wss://")).ok_or_else(words)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#'));
    if !is_plain(host) || !is_plain(path) {
        return Err(words());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let host = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
    let host = parse::peer_address(&DeValue::String(host.into())).map_err(|_| words())?;
    let path = if path.is_empty() { "/" } else { path };
    Ok((host, path.to_owned()))
}

/// A virtual address that one node may have.
pub fn parse_vmac(value: &DeValue<'_>) -> Result<Vmac, Expected> {
    let vmac = value.as_str().and_then(|text| text.parse().ok()).filter(|vmac: &Vmac| vmac.is_node());
    vmac.ok_or_else(|| "six bytes in hex of one node, as in \"02:00:00:00:00:01\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, DeviceConfig, from_text};

    fn read(network: &str, device: &str) -> Result<DeviceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog-input,0\n").unwrap();
        let text =
            format!("[network.n]\n{network}\n[device.d]\nprotocol='bacnet'\nnetwork='n'\npoints='p.csv'\n{device}\n");
        match from_text("t.toml", &text, folder.path()) {
            Ok(mut config) => Ok(config.devices.remove(0)),
            Err(ConfigError(all)) => Err(all.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn urls_are_of_hubs_over_tls() {
        for (text, expect) in [
            ("wss://hub", Some(("hub:443", "/"))),
            ("wss://hub.example:4443/sc/primary", Some(("hub.example:4443", "/sc/primary"))),
            ("wss://10.0.0.1/", Some(("10.0.0.1:443", "/"))),
            ("wss://[fd00::1]:47808", Some(("[fd00::1]:47808", "/"))),
            ("wss://[fd00::1]", Some(("[fd00::1]:443", "/"))),
            ("ws://hub", None),
            ("https://hub", None),
            ("wss://", None),
            ("wss://user@hub", None),
            ("wss://hub/?a", None),
            ("wss://hub:99999", None),
            ("wss://hub/a b", None),
        ] {
            let found = parse_url(&DeValue::String(text.into())).ok();
            assert_eq!(found, expect.map(|(host, path)| (host.to_owned(), path.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_hub_is_said() {
        let check = |network: &str, device: &str, expect: &[&str]| {
            assert_eq!(read(network, device).unwrap_err(), expect, "{network}\n{device}");
        };
        check(
            "uuid='x'",
            "address='10.0.0.5'",
            &[
                "t.toml:2:6: network.n.uuid: found the key \"uuid\", expected hub = \"wss://…\" too, for a network of BACnet/SC",
                "t.toml:2:6: network.n.uuid: found \"x\", expected a UUID that no other node has, as in \
                 \"6f1f8d4e-6a3b-4a44-9a51-5d3e4c0b7a10\"",
            ],
        );
        check(
            "hub='ws://h'\nvmac='ff:ff:ff:ff:ff:ff'",
            "bacnet.instance=1",
            &[
                "t.toml:1:1: network.n.uuid: found nothing, expected a UUID that no other node has, as in \
                 \"6f1f8d4e-6a3b-4a44-9a51-5d3e4c0b7a10\"",
                "t.toml:2:5: network.n.hub: found \"ws://h\", expected the URL of a hub over TLS, as in \
                 \"wss://hub1.example:4443/sc\", without user, query and fragment",
                "t.toml:2:5: network.n.tls: found nothing, expected tls = { certificate = …, key = …, authorities = … }: \
                 BACnet/SC is spoken over TLS alone",
                "t.toml:3:6: network.n.vmac: found \"ff:ff:ff:ff:ff:ff\", expected six bytes in hex of one node, as in \
                 \"02:00:00:00:00:01\"",
            ],
        );
    }

    #[test]
    fn an_address_is_derived_from_the_identifier() {
        let uuid: Uuid = "6f1f8d4e-6a3b-4a44-9a51-5d3e4c0b7a10".parse().unwrap();
        let vmac = derive(uuid);
        assert!(vmac.is_node() && vmac.0[0] & 0x0F == 2);
        assert_eq!(derive(uuid), vmac);
        let mut other = uuid;
        for byte in 0..16 {
            other.0[byte] ^= 0x10;
            assert_ne!(derive(other), vmac, "{byte}");
            other = uuid;
        }
    }
}
