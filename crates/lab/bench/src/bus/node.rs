//! The node of the experiment, without devices.

use super::clients::{Entry, Login};
use crate::fanout::Credentials;
use anyhow::{Context, Result, anyhow};
use std::fs;
use std::path::Path;
use tieline_net::tls::ClientTls;
use tieline_net::{ClientSide, ConnectOver, Target, TlsConnect};
use tieline_node::access::hash_password;
use tieline_node::{Node, config};

const PASSWORD: &str = "correct horse battery staple";
const PUBLISHER: &str = "publisher";
const LISTENER: &str = "listener";

/// Roles as a site has them: some rules, of which one decides.
const ROLES: &str = r#"
[role.publisher]
rules = ["allow publish bench/#", "allow publish notes/{user}/#", "deny publish bench/+/trip"]
[role.listener]
rules = ["allow read bench/#", "allow read $SYS/#", "deny read bench/secret/#"]
"#;

/// Starts a node, and says how clients reach it. Its queues hold a whole round: a publisher that sends everything at once is
/// faster than listeners on two cores can be.
pub fn start(folder: &Path, history: bool, security: bool) -> Result<(Node, Entry)> {
    let mut text = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[history]\nenabled = {history}\n[mqtt]\nlisten = \"127.0.0.1:0\"\nqueue_bytes_max = \"256MiB\"\n"
    );
    if security {
        text.push_str(
            "tls = { listen = \"127.0.0.1:0\", certificate = \"certificate.pem\", key = \"key.pem\" }\n\
             [access]\nusers = \"users.toml\"\nroles = \"roles.toml\"\nloopback = \"closed\"\n",
        );
        Credentials::make(folder)?;
        fs::write(folder.join("roles.toml"), ROLES)?;
        fs::write(folder.join("users.toml"), users()?)?;
    }
    let config = config::from_text("bench.toml", &text, folder)?;
    let node = Node::start(&config, folder)?;
    let entry = if security { secured(&node, folder)? } else { Entry::new(target(node.mqtt().to_string())) };
    Ok((node, entry))
}

fn users() -> Result<String> {
    let hash = hash_password(PASSWORD).map_err(|why| anyhow!(why))?;
    let user = |name: &str| format!("[user.{name}]\npassword = \"{hash}\"\nroles = [\"{name}\"]\n");
    Ok([PUBLISHER, LISTENER].map(user).concat())
}

fn secured(node: &Node, folder: &Path) -> Result<Entry> {
    let address = node.mqtt_tls().context("the node does not listen for TLS")?;
    let tls = ClientTls::load(Some(&Credentials::within(folder).certificate), None)?;
    let over = ConnectOver::Tls(TlsConnect { tls: ClientSide::Once(tls), name: None });
    let login = |user: &str| Login { user: user.to_owned(), password: PASSWORD.to_owned() };
    Ok(Entry {
        target: Target { over, ..target(address.to_string()) },
        publisher: Some(login(PUBLISHER)),
        listener: Some(login(LISTENER)),
    })
}

/// As a client has them that reads much: the kernel's own sizes of buffers.
fn target(address: String) -> Target {
    Target { send_buffer: None, receive_buffer: None, ..Target::new(address) }
}
