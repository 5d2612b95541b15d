//! Contexts: nodes by name, in a file of one's own.

use crate::tieline;
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Exit code, standard output and standard error of a verb that finds its contexts in this folder.
fn ran(home: &Path, variables: &[(&str, &str)], words: &[&str]) -> (i32, String, String) {
    let mut command = tieline(words);
    command.env("XDG_CONFIG_HOME", home).envs(variables.iter().copied());
    let done = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

#[test]
fn contexts_are_kept_and_chosen() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| ran(home.path(), &[], words);
    let (code, told, _) = run(&["context", "add", "plant", "--http", "127.0.0.1:1", "--user", "anna"]);
    assert!(code == 0 && told.contains("tieline context use plant"), "{told}");
    let (code, told, _) = run(&["context", "add", "lab", "--http", "127.0.0.2:1", "--use"]);
    assert!(code == 0 && told.ends_with("lab: in use\n"), "{told}");
    let (code, _, told) = run(&["context", "add", "lab", "--http", "127.0.0.3:1"]);
    assert!(code == 1 && told.contains("expected another name, or --replace"), "{told}");
    let (_, listed, _) = run(&["context", "list", "--json"]);
    let listed: Vec<Json> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed[0], serde_json::json!({"name": "lab", "in_use": true, "http": "127.0.0.2:1"}));
    assert_eq!(listed[1]["user"], "anna");
    let file = home.path().join("tieline/contexts.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // Where a verb goes is seen by whom it does not find.
    let asks = |variables: &[(&str, &str)], words: &[&str], address: &str| {
        let (code, _, told) = ran(home.path(), variables, words);
        assert!(code == 4 && told.contains(address), "{variables:?} {words:?}: {told}");
    };
    let named = ("TIELINE_CONTEXT", "plant");
    asks(&[], &["status"], "http://127.0.0.2:1/");
    asks(&[named], &["status"], "http://127.0.0.1:1/");
    asks(&[named, ("TIELINE_HTTP", "127.0.0.4:1")], &["status"], "http://127.0.0.4:1/");
    asks(&[("TIELINE_HTTP", "127.0.0.4:1")], &["status", "--context", "plant"], "http://127.0.0.1:1/");
    asks(&[named], &["status", "--http", "127.0.0.5:1"], "http://127.0.0.5:1/");

    let (_, shown, _) = run(&["context", "show"]);
    assert!(shown.contains("127.0.0.2:1"), "{shown}");
    assert_eq!(run(&["context", "use", "plant"]).1, "plant: in use\n");
    assert_eq!(run(&["context", "remove", "plant"]).1, "plant: removed; no context is in use now\n");
    let (code, _, told) = run(&["context", "use", "plant"]);
    assert!(code == 1 && told.contains("there is no context \"plant\", expected one of lab"), "{told}");
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    let (code, _, told) = run(&["status"]);
    assert!(code == 1 && told.contains("contexts.toml cannot be used: the key \"nonsense\" is unknown"), "{told}");
}

#[test]
fn manual_pages_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let (code, told, _) = ran(folder.path(), &[], &["man", "--out", out.to_str().unwrap()]);
    assert!(code == 0 && told.ends_with(" manual pages\n"), "{told}");
    let page = std::fs::read_to_string(out.join("tieline-history-query.1")).unwrap();
    assert!(page.contains("tieline history query") && page.contains("\\-\\-from"), "{page}");
}
