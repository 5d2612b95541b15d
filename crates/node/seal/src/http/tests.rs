use super::*;
use crate::access::hex;
use crate::config::load;
use crate::server::Server;
use crate::testkit::{Folder, pair};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

#[test]
fn the_document_is_whole() {
    let document: serde_json::Value = serde_json::from_str(openapi()).unwrap();
    assert_eq!(tieline_service::http::openapi::gaps(&document), Vec::<String>::new());
}

/// A server of domain `alice`, whose key has version 1; `admin` may administer it, `other` may not.
fn server(folder: &Folder) -> Server {
    let digest = |token: &str| hex(&digest(token));
    let text = format!(
        "# kept\n[http]\nlisten = \"127.0.0.1:0\"\n[protocol]\nlisten = \"127.0.0.1:0\"\n[audit]\nfile = \"audit.jsonl\"\n\
         [client.admin]\ntoken_sha256 = \"{}\"\nrights = [\"admin:alice\"]\n\
         [client.other]\ntoken_sha256 = \"{}\"\nrights = [\"pack:alice\"]\n\
         [domain.alice]\nispb = \"{}\"\n[[domain.alice.key]]\nversion = 1\nfile = \"alice.key.pem\"\n\
         certificate = \"alice.cert.pem\"\n",
        digest("admin"),
        digest("other"),
        pair("alice").ispb,
    );
    let path = folder.path().join("seal.toml");
    std::fs::write(&path, text).unwrap();
    Server::start(load(&path).unwrap()).unwrap()
}

fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    body: &serde_json::Value,
) -> (u16, serde_json::Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn text(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn keys_are_imported_activated_and_retired() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let server = server(&folder);
    let post = |path: &str, token: &str, body| ask(server.http(), "POST", path, token, &body);
    let (key, certificate) = (text(folder.path(), "alice.key.pem"), text(folder.path(), "alice.cert.pem"));
    let import = serde_json::json!({ "domain": "alice", "key": key, "certificate": certificate });

    assert_eq!(post("/v1/seal/keys", "other", import.clone()).0, 403);
    assert_eq!(post("/v1/seal/keys", "nobody", import.clone()).0, 401);
    let (status, done) = post("/v1/seal/keys", "admin", import.clone());
    assert_eq!((status, &done["key_version"], &done["state"]), (200, &2.into(), &"pending".into()), "{done}");
    let named = serde_json::json!({ "domain": "alice", "key_version": 2 });
    let (status, done) = post("/v1/seal/keys/activate", "admin", named.clone());
    assert_eq!((status, &done["state"]), (200, &"active".into()), "{done}");
    let (_, keys) = ask(server.http(), "GET", "/v1/seal/keys", "admin", &serde_json::Value::Null);
    assert_eq!(keys["domains"][0]["keys"][0]["version"], 2, "{keys}");
    assert_eq!(keys["domains"][0]["keys"][0]["signs"], true, "{keys}");
    assert_eq!(post("/v1/seal/keys/retire", "admin", named).1["state"], "retired");

    let peer = serde_json::json!({ "domain": "alice", "certificate": text(folder.path(), "bruno.cert.pem") });
    assert_eq!(post("/v1/seal/peers", "admin", peer).0, 200);
    let (_, keys) = ask(server.http(), "GET", "/v1/seal/keys", "admin", &serde_json::Value::Null);
    assert_eq!(keys["domains"][0]["peers"][0]["ispb"], pair("bruno").ispb.to_string(), "{keys}");
    drop(server);

    // The file says the same: what was done outlives the server.
    assert!(text(folder.path(), "seal.toml").starts_with("# kept\n"));
    let config = load(&folder.path().join("seal.toml")).unwrap();
    let states: Vec<_> = config.domains["alice"].keys.iter().map(|key| (key.version, key.known.state.word())).collect();
    assert_eq!(states, [(2, "retired"), (1, "active")]);
    let audit = text(folder.path(), "audit.jsonl");
    let lines: Vec<serde_json::Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verbs: Vec<_> = lines.iter().map(|line| line["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["key_import", "key_activate", "key_retire", "peer_import"], "{audit}");
    let serial = pair("alice").own().known.party.serial.to_string();
    assert!(lines[..3].iter().all(|line| line["serial"] == serial && line["client"] == "admin"), "{audit}");
    assert!(!audit.contains("PRIVATE"), "{audit}");
}

/// Nothing that a server would not take is kept: neither in the configuration nor beside it.
#[test]
fn what_cannot_be_taken_changes_nothing() {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let server = server(&folder);
    let before = text(folder.path(), "seal.toml");
    let (key, certificate) = (text(folder.path(), "alice.key.pem"), text(folder.path(), "alice.cert.pem"));
    let of_another = text(folder.path(), "bruno.cert.pem");
    let object = |domain: &str, key: &str, certificate: &str| serde_json::json!({ "domain": domain, "key": key, "certificate": certificate });
    let check = |path: &str, body: serde_json::Value, status: u16, words: &str| {
        let (found, problem) = ask(server.http(), "POST", path, "admin", &body);
        assert_eq!(found, status, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    };
    check("/v1/seal/keys", object("alice", &key, &of_another), 400, "that of another key");
    check("/v1/seal/keys", object("alice", "no key", &certificate), 400, "nothing was changed");
    check("/v1/seal/keys", object("alice", "pkcs11:object=a?module-path=/x.so", &certificate), 400, "is a URI");
    check("/v1/seal/keys", object("bruno", &key, &certificate), 403, "may not");
    let mut again = object("alice", &key, &certificate);
    again["key_version"] = 1.into();
    check("/v1/seal/keys", again, 400, "version 1 again");
    check(
        "/v1/seal/keys/activate",
        serde_json::json!({ "domain": "alice", "key_version": 9 }),
        404,
        "no key of version 9",
    );
    check("/v1/seal/peers", serde_json::json!({ "domain": "alice", "certificate": "no" }), 400, "nothing was changed");
    drop(server);
    assert_eq!(text(folder.path(), "seal.toml"), before);
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.sort();
    let expect = ["alice.cert.pem", "alice.key.pem", "audit.jsonl", "bruno.cert.pem", "bruno.key.pem", "seal.toml"];
    assert_eq!(files, expect);
    assert_eq!(text(folder.path(), "audit.jsonl").lines().filter(|line| line.contains("\"ok\":false")).count(), 5);
}
