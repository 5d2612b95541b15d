//! What verbs print for programs: one JSON document, or one a line; and one on standard error where they fail.

use crate::tieline;
use serde_json::{Value as Json, json};
use std::path::Path;

/// Runs a verb in a folder, with its standard input from a file there, and reads what it prints.
fn lines(folder: &Path, code: i32, line: &str) -> Vec<Json> {
    let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
    let input = std::fs::File::open(folder.join("input")).unwrap();
    let done = tieline(&words).current_dir(folder).stdin(input).output().unwrap();
    let told = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
    let told = String::from_utf8_lossy(told);
    assert_eq!(done.status.code(), Some(code), "{line}: {told}");
    assert!(done.stdout.is_empty() || done.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    told.lines().map(|text| serde_json::from_str(text).unwrap_or_else(|e| panic!("{line}: {e}: {text}"))).collect()
}

fn one(folder: &Path, code: i32, line: &str) -> Json {
    let mut all = lines(folder, code, line);
    assert_eq!(all.len(), 1, "{line}");
    all.remove(0)
}

fn check(folder: &Path, line: &str, expect: &Json) {
    let told = one(folder, 0, line);
    for (name, value) in expect.as_object().unwrap() {
        assert_eq!(&told[name], value, "{line}: {told}");
    }
}

#[test]
fn users_are_changed_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("input"), "a password that is long\n").unwrap();
    let done = |what: &str| json!({ "user": "anna", "done": what, "file": "users.toml", "to_do": null });
    check(at, "access user add anna --role OPERATOR", &done("added"));
    check(at, "access user password anna", &done("password"));
    check(at, "access user roles anna --role VIEWER", &done("roles"));
    check(at, "access user disable anna", &done("disabled"));
    let listed = json!({ "user": "anna", "by": "password", "roles": ["VIEWER"], "disabled": true });
    assert_eq!(lines(at, 0, "access user list"), [listed]);
    check(at, "access user enable anna", &done("enabled"));
    check(at, "access user remove anna", &done("removed"));
    assert_eq!(lines(at, 0, "access user list"), Vec::<Json>::new());
    let told = one(at, 1, "access user enable anna");
    assert_eq!(told["exit"], 1);
    assert!(told["error"].as_str().unwrap().contains("anna"), "{told}");
}

#[test]
fn tools_of_dnp3_tell_what_they_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("input"), "1E 63 6F 75 6E 74 20 31\n").unwrap();
    std::fs::write(at.join("relay.toml"), crate::OUTSTATION).unwrap();
    check(at, "dnp3 keygen relay.key --bits 128", &json!({ "file": "relay.key", "bits": 128 }));
    assert!(one(at, 1, "dnp3 keygen relay.key")["error"].as_str().unwrap().contains("relay.key"));
    let written = one(at, 0, "dnp3 profile write --config relay.toml");
    std::fs::write(at.join("relay.xml"), written["profile"].as_str().unwrap()).unwrap();
    let read = one(at, 0, "dnp3 profile read relay.xml");
    let points = read["points"].as_array().unwrap();
    assert!(points.iter().any(|p| p["type"] == "analog" && p["index"] == 3 && p["class"] == 2), "{read}");
    assert!(read["unread"].as_array().unwrap().iter().all(Json::is_string), "{read}");
    std::fs::write(at.join("no.xml"), "<a/>").unwrap();
    assert_eq!(one(at, 1, "dnp3 profile read no.xml")["errors"][0]["line"], 1);
    assert_eq!(lines(at, 0, "delta decode")[0]["value"], "count 1");
}

#[test]
fn seals_tell_what_they_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("input"), "a message").unwrap();
    for name in ["own", "other"] {
        let made = one(
            at,
            0,
            &format!(
                "seal keygen --name {name} --ispb 00000000 --authority 5 --key {name}.key --csr {name}.csr --self-signed {name}.pem"
            ),
        );
        assert_eq!((&made["key"], &made["encrypted"]), (&format!("{name}.key").into(), &false.into()));
    }
    assert_eq!(one(at, 0, "seal token")["token_sha256"].as_str().unwrap().len(), 64);
    let own = |name: &str| format!("--key {name}.key --certificate {name}.pem");
    let packed = one(at, 0, &format!("seal pack - {} --to other.pem -o sealed", own("own")));
    assert_eq!(packed["bytes"].as_u64(), Some(std::fs::metadata(at.join("sealed")).unwrap().len()), "{packed}");
    let unpacked = one(at, 0, &format!("seal unpack sealed {} --from own.pem -o plain", own("other")));
    assert_eq!((&unpacked["status"], &unpacked["bytes"]), (&"success".into(), &9.into()));
    let refused = one(at, 3, &format!("seal unpack sealed {} --from own.pem -o plain", own("own")));
    assert_eq!(refused["status"], "refused");
    assert_eq!(refused["code"].as_str().unwrap().len(), 2, "{refused}");
}

#[test]
fn failures_are_told_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("input"), "").unwrap();
    let told = one(at, 4, "status --http 127.0.0.1:1");
    assert_eq!(told["exit"], 4);
    assert!(told["error"].as_str().unwrap().starts_with("no answer from http://127.0.0.1:1/v1/status"), "{told}");
    std::fs::write(at.join("wrong.toml"), "[node]\nnmae = 1\n").unwrap();
    let told = one(at, 1, "views check --config wrong.toml");
    assert_eq!((&told["errors"][0]["line"], &told["errors"][0]["key"]), (&2.into(), &"node.nmae".into()), "{told}");
}
