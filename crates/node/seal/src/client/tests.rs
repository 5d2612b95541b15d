//! Clients and servers over real sockets of this machine.

use super::*;
use crate::access::digest;
use crate::config::{Config, from_text};
use crate::server::Server;
use crate::testkit::{Folder, pair};
use std::sync::atomic::AtomicBool;

const TOKEN: &str = "a token for tests";

fn config(folder: &Folder, more: &str) -> Config {
    let token = crate::access::hex(&digest(TOKEN));
    let mut text = format!(
        "{more}\n[http]\nlisten = \"127.0.0.1:0\"\n[protocol]\nlisten = \"127.0.0.1:0\"\n[audit]\nfile = \"audit.jsonl\"\n\
         [client.test]\ntoken_sha256 = \"{token}\"\nrights = [\"pack:alice\", \"unpack:bruno\", \"admin:*\"]\n"
    );
    for (own, peer) in [("alice", "bruno"), ("bruno", "alice")] {
        let ispb = pair(own).ispb;
        text += &format!(
            "[domain.{own}]\nispb = \"{ispb}\"\n\
             [[domain.{own}.key]]\nversion = 1\nfile = \"{own}.key.pem\"\ncertificate = \"{own}.cert.pem\"\n\
             [[domain.{own}.peer]]\ncertificate = \"{peer}.cert.pem\"\n"
        );
    }
    from_text("seal.toml", &text, folder.path()).unwrap()
}

fn request(content: &[u8]) -> PackRequest<'_> {
    let recipient = pair("bruno").ispb;
    let (key_version, version, error, treatment, compress) = (0, 3, 0, 0, true);
    PackRequest { domain: "alice", recipient, key_version, version, error, treatment, compress, content }
}

fn cluster(servers: &[&Server]) -> Cluster {
    let addresses = servers.iter().map(|server| server.protocol().to_string());
    Cluster::start(&ClusterConfig::new(addresses, TOKEN.to_owned()))
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn what_is_packed_is_unpacked() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let server = Server::start(config(&folder, "")).unwrap();
    run(async {
        let cluster = cluster(&[&server]);
        let message = cluster.pack(&request(b"secret words")).await.unwrap();
        let unpack = UnpackRequest { domain: "bruno", sender: None, inflate: true, message: &message };
        let unpacked = cluster.unpack(&unpack).await.unwrap();
        assert_eq!((unpacked.content.as_slice(), unpacked.sender), (b"secret words".as_slice(), pair("alice").ispb));
        let right = cluster.unpack(&UnpackRequest { domain: "alice", ..unpack }).await.unwrap_err();
        assert!(matches!(right, ClientError::Refused { reason: Reason::Right, .. }), "{right}");
        let mut answers = Vec::new();
        for at in [100, 400, 590] {
            let mut changed = message.clone();
            changed[at] ^= 1;
            answers.push(cluster.unpack(&UnpackRequest { message: &changed, ..unpack }).await.unwrap_err());
        }
        assert!(matches!(answers[0], ClientError::Refused { code: 0x12, .. }), "{:?}", answers[0]);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    });
    drop(server);
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = lines.iter().filter_map(|line| line["code"].as_str()).collect();
    assert_eq!(codes, ["0D", "0B", "0E"], "{audit}");
    assert!(lines.iter().all(|line| line["client"] == "test" && line["message_sha256"].is_string()), "{audit}");
    assert!(!audit.contains("secret words"), "{audit}");
}

#[test]
fn a_client_that_is_removed_is_refused_at_once() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let server = Server::start(config(&folder, "")).unwrap();
    run(async {
        let cluster = cluster(&[&server]);
        cluster.pack(&request(b"")).await.unwrap();
        let mut without = config(&folder, "");
        without.clients.clear();
        server.reload(|| Ok::<_, ()>(without)).unwrap();
        let error = cluster.pack(&request(b"")).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { reason: Reason::Right, .. }), "{error}");
        server.reload(|| Ok::<_, ()>(config(&folder, ""))).unwrap();
        cluster.pack(&request(b"")).await.unwrap();
    });
}

#[test]
fn a_server_that_stops_under_load_loses_no_request() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let (first, second) = (Server::start(config(&folder, "")).unwrap(), Server::start(config(&folder, "")).unwrap());
    run(async {
        let cluster = Arc::new(cluster(&[&first, &second]));
        while cluster.connected() < 2 {
            tokio::task::yield_now().await;
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..16_u8)
            .map(|n| {
                let (cluster, stopped) = (Arc::clone(&cluster), Arc::clone(&stopped));
                tokio::spawn(async move {
                    let mut done = 0;
                    while !stopped.load(Ordering::Relaxed) || done < 10 {
                        cluster.pack(&request(&[n; 100])).await.unwrap();
                        done += 1;
                    }
                })
            })
            .collect();
        while cluster.counters().sent.iter().any(|&sent| sent < 20) {
            tokio::task::yield_now().await;
        }
        tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
        stopped.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(cluster.connected(), 1);
    });
}

#[test]
fn load_follows_the_weights() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let servers = [Server::start(config(&folder, "")).unwrap(), Server::start(config(&folder, "")).unwrap()];
    run(async {
        let addresses = servers.iter().map(|server| server.protocol().to_string());
        let mut config = ClusterConfig::new(addresses, TOKEN.to_owned());
        config.servers[0].weight = 3;
        let cluster = Arc::new(Cluster::start(&config));
        while cluster.connected() < 2 {
            tokio::task::yield_now().await;
        }
        // All are asked before any is answered: the load alone decides.
        let tasks: Vec<_> = (0..40)
            .map(|_| {
                let cluster = Arc::clone(&cluster);
                tokio::spawn(async move { cluster.pack(&request(b"x")).await.map(|_| ()) })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let sent = cluster.counters().sent;
        assert_eq!(sent.iter().sum::<u64>(), 40);
        assert!(sent[0] > 20, "{sent:?}");
    });
}
