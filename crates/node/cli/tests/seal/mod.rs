//! `tieline seal`, with keys that it makes itself.

use super::{Server, done, printed, refused, tieline};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tieline_seal::Ispb;
use tieline_seal::client::{Cluster, ClusterConfig, PackRequest, UnpackRequest};

/// A folder with keys of Alice and Bruno, and a configuration in which each knows the other.
struct Folder {
    folder: tempfile::TempDir,
    token: String,
}

const ISPBS: [(&str, &str, &str); 2] = [("alice", "11111111", "bruno"), ("bruno", "22222222", "alice")];

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let told = printed(&["seal", "token"]);
        let words: Vec<_> = told.split_whitespace().collect();
        let ["token", token, "token_sha256", digest] = words[..] else { panic!("{told}") };
        let mut text = format!(
            "[audit]\nfile = \"audit.jsonl\"\n\
             [client.test]\ntoken_sha256 = \"{digest}\"\nrights = [\"pack:*\", \"unpack:*\", \"admin:*\"]\n"
        );
        for (own, ispb, peer) in ISPBS {
            printed(&[
                "seal",
                "keygen",
                "--name",
                own,
                "--ispb",
                ispb,
                "--authority",
                "1",
                "--key",
                &path(&format!("{own}.key")),
                "--csr",
                &path(&format!("{own}.csr")),
                "--self-signed",
                &path(&format!("{own}.cert")),
            ]);
            text += &format!(
                "[domain.{own}]\nispb = \"{ispb}\"\n\
                 [[domain.{own}.key]]\nversion = 1\nfile = \"{own}.key\"\ncertificate = \"{own}.cert\"\n\
                 [[domain.{own}.peer]]\ncertificate = \"{peer}.cert\"\n"
            );
        }
        std::fs::write(folder.path().join("seal.toml"), text).unwrap();
        Self { token: token.to_owned(), folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
        self.path(name)
    }

    fn pack(&self, more: &[&str]) -> std::process::Output {
        let (key, certificate, to) = (self.path("alice.key"), self.path("alice.cert"), self.path("bruno.cert"));
        done(&[&["seal", "pack", "--key", &key, "--certificate", &certificate, "--to", &to], more].concat())
    }

    fn unpack(&self, more: &[&str]) -> Vec<String> {
        let (key, certificate, from) = (self.path("bruno.key"), self.path("bruno.cert"), self.path("alice.cert"));
        let words = ["seal", "unpack", "--key", &key, "--certificate", &certificate, "--from", &from];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn serve(&self) -> Server {
        let config = self.path("seal.toml");
        let free = "127.0.0.1:0";
        let words = ["seal", "serve", "--config", &config, "--http", free, "--protocol", free, "--json"];
        Server::start(&words, Stdio::null())
    }
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn a_file_goes_from_one_to_the_other() {
    let folder = Folder::new();
    let content: String = (0..20_000).map(|n| format!("<DOC>é € {n}</DOC>")).collect();
    let content = content.into_bytes();
    let (plain, message, out) = (folder.write("plain", &content), folder.path("message"), folder.path("out"));
    for more in [
        &["--treatment", "8"][..],
        &["--treatment", "4"],
        &["--protocol", "2", "--treatment", "8"],
        &["--treatment", "6"],
        &["--utf16"],
    ] {
        let packed = folder.pack(&[more, &[&plain, "-o", &message]].concat());
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        let utf16: &[&str] = if more == ["--utf16"] { &["--utf16"] } else { &[] };
        printed(&words(&folder.unpack(&[utf16, &[&message, "-o", &out]].concat())));
        assert_eq!(std::fs::read(&out).unwrap(), content, "{more:?}");
    }
    let shown = printed(&["seal", "inspect", "--json", &message]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["version"], &shown["recipient_authority"]), (&3.into(), &1.into()), "{shown}");
}

#[test]
fn what_goes_through_pipes_is_verified_before_it_comes_out() {
    let folder = Folder::new();
    let plain = folder.write("plain", b"content");
    let mut message = folder.pack(&[&plain]).stdout;
    let unpack = |message: &[u8]| {
        let mut child = tieline(&words(&folder.unpack(&[])))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(message).unwrap();
        child.wait_with_output().unwrap()
    };
    assert_eq!(unpack(&message).stdout, b"content");
    message[590] ^= 1;
    let refused = unpack(&message);
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(3), b"".as_slice()));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("code 0Eh"), "{refused:?}");
}

#[test]
fn what_is_wrong_is_told_with_its_exact_code() {
    let folder = Folder::new();
    let (plain, message, out) = (folder.write("plain", b"content"), folder.path("message"), folder.path("out"));
    assert!(folder.pack(&[&plain, "-o", &message]).status.success());
    let sealed = std::fs::read(&message).unwrap();
    for (at, code) in [(2, "02h"), (12, "08h"), (100, "0Dh"), (400, "0Bh"), (590, "0Eh")] {
        let mut changed = sealed.clone();
        changed[at] ^= 0x80;
        let changed = folder.write("changed", &changed);
        let told = refused(3, &words(&folder.unpack(&[&changed, "-o", &out])));
        assert!(told.contains(code), "{at}: {told}");
        assert!(!Path::new(&out).exists(), "{at}");
    }
    let key = folder.path("alice.key");
    let again = ["seal", "keygen", "--name", "x", "--ispb", "11111111", "--key", &key, "--csr", &folder.path("x.csr")];
    assert!(refused(1, &again).contains("exists"));
}

/// One request over HTTP: the status, and what follows the headers.
fn http(address: &str, request: &str, token: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let bytes = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\n{authorization}Connection: close\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

#[test]
fn http_packs_and_unpacks() {
    let folder = Folder::new();
    let server = folder.serve();
    let at = server.address("http");
    let (status, message) = http(&at, "POST /v1/seal/pack?domain=alice&to=22222222", &folder.token, b"content");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&message));
    let unpack = "POST /v1/seal/unpack?domain=bruno&from=11111111";
    assert_eq!(http(&at, unpack, &folder.token, &message), (200, b"content".to_vec()));
    assert_eq!(http(&at, unpack, "", &message).0, 401);
    assert_eq!(http(&at, unpack, "wrong", &message).0, 401);
    assert_eq!(http(&at, "POST /v1/seal/unpack?domain=bruno&from=22222222", &folder.token, &message).0, 422);
    assert_eq!(http(&at, "POST /v1/seal/pack?domain=alice&to=33333333", &folder.token, b"").0, 400);
    assert_eq!(http(&at, "POST /v1/seal/pack?domain=alice&to=22222222&x=1", &folder.token, b"").0, 400);
    let answers: Vec<_> = [100, 400, 590]
        .into_iter()
        .map(|byte| {
            let mut changed = message.clone();
            changed[byte] ^= 1;
            http(&at, unpack, &folder.token, &changed)
        })
        .collect();
    assert_eq!(answers[0].0, 422);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let (_, metrics) = http(&at, "GET /metrics", "", b"");
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("tieline_seal_operations_total{verb=\"pack\"} 1\n"), "{metrics}");
    assert!(metrics.contains("tieline_seal_certificate_end_seconds{domain=\"alice\",kind=\"key\""), "{metrics}");
    let (status, keys) = http(&at, "GET /v1/seal/keys", &folder.token, b"");
    let keys: serde_json::Value = serde_json::from_slice(&keys).unwrap();
    assert_eq!((status, &keys["domains"][0]["keys"][0]["signs"]), (200, &true.into()), "{keys}");
    assert_eq!(http(&at, "GET /healthz", "", b"").0, 200);
}

fn request(content: &[u8]) -> PackRequest<'_> {
    let recipient = Ispb::from_text("22222222").unwrap();
    let (key_version, version, error, treatment, compress) = (0, 3, 0, 0, true);
    PackRequest { domain: "alice", recipient, key_version, version, error, treatment, compress, content }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn one_of_two_servers_killed_under_load_loses_no_request() {
    let folder = Folder::new();
    let (first, second) = (folder.serve(), folder.serve());
    let addresses = [first.address("protocol"), second.address("protocol")];
    block_on(async {
        let cluster = Arc::new(Cluster::start(&ClusterConfig::new(addresses, folder.token.clone())));
        let killed = Arc::new(AtomicBool::new(false));
        let load = |n: u8| {
            let (cluster, killed) = (Arc::clone(&cluster), Arc::clone(&killed));
            tokio::spawn(async move {
                let mut after = 0;
                while after < 5 {
                    let content = [n; 1024];
                    let message = cluster.pack(&request(&content)).await.unwrap();
                    let unpack = UnpackRequest { domain: "bruno", sender: None, inflate: true, message: &message };
                    assert_eq!(cluster.unpack(&unpack).await.unwrap().content, content);
                    after += u32::from(killed.load(Ordering::Relaxed));
                }
            })
        };
        let tasks: Vec<_> = (0..16).map(load).collect();
        while cluster.counters().sent.iter().any(|&sent| sent < 50) {
            tokio::task::yield_now().await;
        }
        let mut first = first;
        first.child.kill().unwrap();
        killed.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(cluster.connected(), 1);
        drop(second);
    });
}

#[test]
fn a_signal_reads_the_configuration_anew() {
    let folder = Folder::new();
    let server = folder.serve();
    let at = server.address("http");
    let file = folder.path("seal.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let reload = |text: &str, reloads: u32| {
        std::fs::write(&file, text).unwrap();
        let pid = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        let expect = format!("tieline_seal_reloads_total {reloads}\n");
        super::until(|| {
            let (_, metrics) = http(&at, "GET /metrics", "", b"");
            String::from_utf8(metrics).unwrap().contains(&expect).then_some(())
        });
    };
    let pack = || http(&at, "POST /v1/seal/pack?domain=alice&to=22222222", &folder.token, b"content").0;
    assert_eq!(pack(), 200);
    reload(&text.replace("\"pack:*\", ", ""), 1);
    assert_eq!(pack(), 403);
    reload(&text, 2);
    assert_eq!(pack(), 200);
}
