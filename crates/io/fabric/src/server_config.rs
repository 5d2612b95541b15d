//! The configuration of a nats-server whose clients are let in by a centre.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The account that sites and centre meet in.
pub const SITES_ACCOUNT: &str = "TIELINE";

/// What a server is told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// Where it listens: `HOST:PORT`.
    pub listen: String,
    /// Where it keeps logs and leases.
    pub store: PathBuf,
    /// The files of TLS; none: clients connect without.
    pub tls: Option<ServerTls>,
    /// The public key that signs decisions about who may connect.
    pub issuer: String,
    /// The public key of the user that is asked for them, and that ends connections.
    pub door: String,
    /// The public key of the user that has the data of all sites.
    pub centre: String,
    /// Where it answers questions about itself over HTTP: `HOST:PORT`.
    pub monitor: Option<String>,
    /// The servers that keep logs and leases together with it.
    pub cluster: Option<ServerCluster>,
}

/// The other servers of a cluster, and how they know each other.
#[derive(Clone, Debug)]
pub struct ServerCluster {
    /// Where it listens for them: `HOST:PORT`.
    pub listen: String,
    /// Where they listen: `HOST:PORT`.
    pub peers: Vec<String>,
    /// What they all show: letters, digits, `-` and `_`.
    pub password: String,
    /// The certificates of the authorities of their certificates; none: they talk without TLS.
    pub authorities: Option<PathBuf>,
}

/// The files of TLS of a server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// Its certificate.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
}

impl ServerConfig {
    /// The text of the file; none where a name or a path has a character that cannot be in it.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let Self { name, listen, store, tls, issuer, door, centre, monitor, cluster } = self;
        let (name, listen, store) = (quoted(name)?, quoted(listen)?, quoted_path(store)?);
        let mut text = format!(
            "# nats-server of a centre of Tieline, written by `tieline fabric config`. Needs nats-server 2.12 or newer.\n\
             server_name: {name}\n\
             listen: {listen}\n\n\
             # A client that does not take its messages is closed, and takes no memory meanwhile.\n\
             write_deadline: \"2s\"\n\
             max_pending: 4MB\n\
             ping_interval: \"2s\"\n\
             ping_max: 3\n\
             max_payload: 1MB\n\
             max_subscriptions: 4096\n\n\
             # A server that is stopped sends its clients to the others before it ends.\n\
             lame_duck_duration: \"30s\"\n\
             lame_duck_grace_period: \"1s\"\n\n"
        );
        if let Some(monitor) = monitor {
            let _ = write!(
                text,
                "# What it tells names clients and subjects: it is for this machine alone.\nhttp: {}\n\n",
                quoted(monitor)?
            );
        }
        if let Some(ServerTls { certificate, key }) = tls {
            let (certificate, key) = (quoted_path(certificate)?, quoted_path(key)?);
            let _ = write!(
                text,
                "tls {{\n    cert_file: {certificate}\n    key_file: {key}\n    min_version: \"1.2\"\n}}\n\n"
            );
        }
        let _ = write!(
            text,
            "# What is acknowledged is on the disk.\n\
             jetstream {{\n    store_dir: {store}\n    sync_interval: always\n}}\n\n\
             system_account: SYS\n\
             accounts {{\n    \
                 # The centre is asked who may connect, and ends connections of sites that were revoked.\n    \
                 SYS {{ users: [ {{ nkey: {door} }} ] }}\n    \
                 # Sites come in by the callout, each with rights to its own subjects alone.\n    \
                 {SITES_ACCOUNT} {{ jetstream: enabled, users: [ {{ nkey: {centre} }} ] }}\n\
             }}\n\n\
             authorization {{\n    \
                 timeout: 5\n    \
                 auth_callout {{\n        issuer: {issuer}\n        account: SYS\n        auth_users: [ {door}, {centre} ]\n    }}\n\
             }}\n"
        );
        if let Some(cluster) = cluster {
            text.push_str(&cluster.text(tls.as_ref())?);
        }
        Some(text)
    }
}

impl ServerCluster {
    fn text(&self, tls: Option<&ServerTls>) -> Option<String> {
        let Self { listen, peers, password, authorities } = self;
        let is_plain =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !is_plain(password) {
            return None;
        }
        let mut text = format!(
            "\n# The servers that keep logs and leases together.\ncluster {{\n    name: TIELINE\n    listen: {}\n",
            quoted(listen)?
        );
        if let Some((ServerTls { certificate, key }, authorities)) = tls.zip(authorities.as_deref()) {
            let [certificate, key, authorities] = [certificate.as_path(), key.as_path(), authorities].map(quoted_path);
            let _ = writeln!(
                text,
                "    tls {{ cert_file: {}, key_file: {}, ca_file: {}, verify: true, min_version: \"1.2\" }}",
                certificate?, key?, authorities?
            );
        }
        let _ =
            write!(text, "    authorization {{ user: route, password: \"{password}\", timeout: 5 }}\n    routes: [");
        for (place, peer) in peers.iter().enumerate() {
            let separator = if place == 0 { " " } else { ", " };
            let _ = write!(text, "{separator}{}", quoted(&format!("nats-route://route:{password}@{peer}"))?);
        }
        text.push_str(" ]\n}\n");
        Some(text)
    }
}

fn quoted_path(path: &Path) -> Option<String> {
    quoted(path.to_str()?)
}

/// The reader of such files has escapes that differ from those of others: what needs one is refused.
fn quoted(text: &str) -> Option<String> {
    let is_plain = !text.is_empty() && !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\'));
    is_plain.then(|| format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_only_what_can_be_in_it() {
        let config = ServerConfig {
            name: "centre".into(),
            listen: "0.0.0.0:4222".into(),
            store: "/var/lib/nats".into(),
            tls: None,
            issuer: "A1".into(),
            door: "U1".into(),
            centre: "U2".into(),
            monitor: None,
            cluster: None,
        };
        let text = config.text().unwrap();
        assert!(text.contains("store_dir: \"/var/lib/nats\"\n") && !text.contains("tls"), "{text}");
        assert!(text.contains("auth_users: [ U1, U2 ]"), "{text}");
        let tls = ServerTls { certificate: "c.pem".into(), key: "k.pem".into() };
        let with_tls = ServerConfig { tls: Some(tls), ..config.clone() }.text().unwrap();
        assert!(with_tls.contains("cert_file: \"c.pem\"\n    key_file: \"k.pem\""), "{with_tls}");
        let cluster = ServerCluster {
            listen: "0.0.0.0:6222".into(),
            peers: vec!["n2:6222".into(), "n3:6222".into()],
            password: "a-b_1".into(),
            authorities: Some("ca.pem".into()),
        };
        let three =
            ServerConfig { monitor: Some("127.0.0.1:8222".into()), cluster: Some(cluster.clone()), ..config.clone() };
        let text = three.text().unwrap();
        assert!(text.contains("http: \"127.0.0.1:8222\"") && !text.contains("ca_file"), "{text}");
        assert!(
            text.contains("routes: [ \"nats-route://route:a-b_1@n2:6222\", \"nats-route://route:a-b_1@n3:6222\" ]"),
            "{text}"
        );
        let tls = Some(ServerTls { certificate: "c.pem".into(), key: "k.pem".into() });
        let text = ServerConfig { tls, ..three.clone() }.text().unwrap();
        assert!(text.contains("ca_file: \"ca.pem\", verify: true"), "{text}");
        let wrong = ServerCluster { password: "a\"".into(), ..cluster };
        assert_eq!(ServerConfig { cluster: Some(wrong), ..three }.text(), None);
        assert_eq!(ServerConfig { store: "a\"\n}".into(), ..config.clone() }.text(), None);
        assert_eq!(ServerConfig { name: String::new(), ..config }.text(), None);
    }
}
