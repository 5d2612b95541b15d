//! The binary as people and programs use it.

mod context;
mod import;
mod json;
mod mistakes;
mod seal;

use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

fn tieline(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    let known = std::env::vars_os().map(|(name, _)| name);
    for name in known.filter(|name| name.to_string_lossy().starts_with("TIELINE_")) {
        command.env_remove(name);
    }
    // The contexts of the user who runs the tests are not used.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.args(words).stdin(Stdio::null());
    command
}

fn done(words: &[&str]) -> Output {
    tieline(words).output().unwrap()
}

/// What a command prints that must succeed.
fn printed(words: &[&str]) -> String {
    let done = done(words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// What a command complains of that must fail with this code.
fn refused(code: i32, words: &[&str]) -> String {
    let done = done(words);
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(code), "{words:?}: {told}");
    assert!(!told.contains("panicked"), "{words:?}: {told}");
    told
}

/// A process that serves until it is dropped.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    hello: Json,
}

impl Server {
    fn start(words: &[&str], input: Stdio) -> Self {
        let mut child = tieline(words).stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let hello = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        Self { input: child.stdin.take(), child, lines, hello }
    }

    fn address(&self, name: &str) -> String {
        self.hello[name].as_str().unwrap().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const VERBS: [&[&str]; 71] = [
    &["run"],
    &["config", "default"],
    &["tag", "place"],
    &["tag", "lift"],
    &["tag", "list"],
    &["config", "check"],
    &["discover", "modbus"],
    &["discover", "sunspec"],
    &["discover", "bacnet"],
    &["discover", "dnp3"],
    &["import", "volttron"],
    &["sub"],
    &["pub"],
    &["get"],
    &["topics"],
    &["history", "query"],
    &["command"],
    &["put"],
    &["delete"],
    &["status"],
    &["health"],
    &["devices"],
    &["points"],
    &["sessions"],
    &["alarms"],
    &["alarms", "list"],
    &["alarms", "ack"],
    &["alarms", "journal"],
    &["alarms", "report"],
    &["locks"],
    &["locks", "release"],
    &["busiest"],
    &["audit"],
    &["whoami"],
    &["metrics"],
    &["clock"],
    &["clock", "confirm"],
    &["context", "add"],
    &["context", "list"],
    &["context", "show"],
    &["man"],
    &["seal", "serve"],
    &["seal", "pack"],
    &["seal", "unpack"],
    &["seal", "inspect"],
    &["seal", "keygen"],
    &["seal", "token"],
    &["modbus", "server"],
    &["bacnet", "server"],
    &["dnp3", "outstation"],
    &["dnp3", "master"],
    &["dnp3", "master", "127.0.0.1:1", "scan"],
    &["dnp3", "master", "127.0.0.1:1", "attributes"],
    &["dnp3", "master", "127.0.0.1:1", "freeze"],
    &["dnp3", "decode"],
    &["bench", "dnp3"],
    &["bench", "bus"],
    &["bench", "history"],
    &["bench", "seal"],
    &["access", "user", "add"],
    &["access", "user", "list"],
    &["access", "test"],
    &["access", "check"],
    &["access", "roles"],
    &["access", "verify"],
    &["reload"],
    &["views", "check"],
    &["views", "test"],
    &["views", "reload"],
    &["top"],
    &["completion"],
];

#[test]
fn every_verb_has_help() {
    for verb in VERBS {
        let help = printed(&[verb, &["--help"]].concat());
        assert!(help.contains("Usage: tieline") && help.contains("\nExamples:\n"), "{verb:?}: {help}");
    }
}

#[test]
fn completion_knows_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completion", shell]);
        for verb in VERBS.iter().flat_map(|verb| verb.iter()).filter(|word| !word.contains(':')) {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
}

#[test]
fn wrong_words_are_refused() {
    let check = |words: &[&str], expect: &str| {
        let told = refused(2, words);
        assert!(told.contains(expect), "{words:?}: {told}");
    };
    check(&["command", "a/b", "1", "--timeout", "5"], "expected a duration up to 5m, as in 500ms, 5s or 1m");
    check(&["history", "query", "a", "--every", "1m"], "--agg");
    check(&["dnp3", "master", "127.0.0.1:1", "--operate", "binary:0=true"], "expected binary-output or analog-output");
    check(&["dnp3", "master", "127.0.0.1:1", "--once", "--poll", "1s"], "cannot be used with");
    check(&["dnp3", "master", "127.0.0.1:1", "--outstation", "65520"], "65519");
    check(&["dnp3", "master", "127.0.0.1:1", "scan", "30"], "expected class-0 to class-3, or objects as in g30v0");
    check(&["dnp3", "master", "127.0.0.1:1", "assign-class", "4", "g1v0"], "0..=3");
    check(&["dnp3", "master", "127.0.0.1:1", "operate"], "TYPE:INDEX=VALUE");
    check(&["dnp3", "master", "127.0.0.1:1", "operate", "binary:0=true"], "expected binary-output or analog-output");
    check(&["run", "--http", "8080"], "expected an address with a port");
}

#[test]
fn nobody_there_is_one_line() {
    let check = |code: i32, words: &[&str], expect: &str| {
        let told = refused(code, words);
        assert!(
            told.starts_with("tieline: ") && told.contains(expect) && told.lines().count() == 1,
            "{words:?}: {told}"
        );
    };
    // Port 1 of this machine: nothing listens there.
    check(4, &["get", "a", "--http", "127.0.0.1:1"], "no answer from http://127.0.0.1:1/v1/topics/a");
    check(4, &["pub", "a", "1", "--mqtt", "127.0.0.1:1"], "no MQTT at 127.0.0.1:1");
    check(4, &["sub", "a", "--mqtt", "127.0.0.1:1"], "no MQTT at 127.0.0.1:1");
    check(4, &["command", "a", "1", "--http", "127.0.0.1:1"], "no answer from http://127.0.0.1:1/v1/command");
    check(1, &["dnp3", "master", "127.0.0.1:1", "--once"], "outstation 10 at 127.0.0.1:1: Connection refused");
    let whom = ["dnp3", "master", "127.0.0.1:1", "scan", "--to", "self"];
    check(1, &whom, "the outstation of the self-address (FFFC) at 127.0.0.1:1: Connection refused");
    check(1, &["history", "query", "a", "--data", "/nonexistent"], "/nonexistent holds no history");
    check(1, &["history", "query", "a", "--data", "/dev/null"], "/dev/null: Not a directory");
    check(1, &["history", "export", "a/#/b", "-o", "/nonexistent"], "the topic is \"a/#/b\": # must be");
    check(1, &["history", "export", "a", "-o", "/dev/null"], "/dev/null is a file, expected a folder");
    check(1, &["backup", "-o", "/dev/null"], "/dev/null is there and is no file");
    let folder = tempfile::tempdir().unwrap();
    let (folder, archive) = (folder.path().to_str().unwrap(), folder.path().join("x.tar"));
    let words = ["backup", "--data", folder, "-o", archive.to_str().unwrap()];
    check(1, &words, &format!("{folder} holds no data of a node"));
    assert!(!archive.exists());
}

#[test]
fn a_wrong_configuration_tells_every_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, "[node]\nnmae = \"x\"\n[http]\nlisten = 5\n").unwrap();
    let file = file.to_str().unwrap();
    let told = refused(1, &["config", "check", file]);
    assert!(told.contains("wrong.toml:2:") && told.contains("wrong.toml:4:"), "{told}");
    let json = done(&["config", "check", file, "--json"]);
    let json: Json = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["errors"].as_array().unwrap().len(), 2);
    std::fs::write(file, "[[point]]\ntype = \"binry\"\nindex = 1\n[[point]]\ntype = \"analog\"\nindex = 70000\n")
        .unwrap();
    let told = refused(1, &["dnp3", "outstation", "--config", file]);
    assert!(told.contains("wrong.toml:2:") && told.contains("wrong.toml:6:"), "{told}");
}

const OUTSTATION: &str = "\
[[point]]
type = \"binary\"
range = \"0-1\"
class = 1
[[point]]
type = \"analog\"
index = 3
class = 2
static = \"g30v6\"
event = \"g32v8\"
[[point]]
type = \"binary-output\"
index = 3
class = 1
[[point]]
type = \"binary-output\"
index = 4
operate = \"local\"
";

fn outstation(folder: &Path, input: Stdio) -> Server {
    let file = folder.join("outstation.toml");
    std::fs::write(&file, OUTSTATION).unwrap();
    let words = ["dnp3", "outstation", "--listen", "127.0.0.1:0", "--json", "--config"];
    Server::start(&[&words[..], &[file.to_str().unwrap()]].concat(), input)
}

#[test]
fn our_master_reads_and_operates_our_outstation() {
    let folder = tempfile::tempdir().unwrap();
    let mut station = outstation(folder.path(), Stdio::piped());
    let address = station.address("listen");
    let once = || printed(&["dnp3", "master", &address, "--once"]);
    assert_eq!(station.ask("update analog 3 -12.5 flags=0x05 time=1700000000123"), "ok");
    let read = once();
    for line in [
        "analog 3 -12.5 online,comm-lost event 2023-11-14T22:13:20.123Z",
        "analog 3 -12.5 online,comm-lost",
        "binary 1 false online",
    ] {
        assert!(read.lines().any(|found| found == line), "{line}: {read}");
    }
    assert_eq!(station.ask("update binary 9 true"), "error: no point of that type and index");
    assert!(station.ask("nonsense").starts_with("error: the line is \"nonsense\", expected update"));
    assert_eq!(station.ask("remove analog"), "ok");
    assert!(!once().contains("analog"));
    for mode in ["select", "direct"] {
        let operate = |control| done(&["dnp3", "master", &address, "--mode", mode, "--operate", control]);
        let told = operate("binary-output:3=true");
        assert_eq!((told.status.code(), &told.stdout[..]), (Some(0), &b"success\n"[..]), "{mode}");
        assert!(once().contains("binary-output 3 true online"), "{mode}");
        let told = operate("binary-output:4=false");
        assert_eq!((told.status.code(), &told.stdout[..]), (Some(1), &b"local\n"[..]), "{mode}");
        let told = operate("binary-output:5=true");
        assert_eq!((told.status.code(), &told.stdout[..]), (Some(1), &b"not_supported\n"[..]), "{mode}");
        assert_eq!(operate("binary-output:3=false").status.code(), Some(0), "{mode}");
    }
    let json = printed(&["dnp3", "master", &address, "--once", "--json"]);
    let objects: Vec<Json> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let output =
        objects.iter().find(|o| o["type"] == "binary-output" && o["index"] == 3 && o["event"] == false).unwrap();
    assert_eq!((&output["value"], &output["flags"]), (&Json::from(false), &Json::from(1)), "{json}");
    assert_eq!(station.ask("quit"), "ok");
    assert!(station.child.wait().unwrap().success());
}

#[test]
fn an_outstation_without_an_operator_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let station = outstation(folder.path(), Stdio::null());
    let read = printed(&["dnp3", "master", &station.address("listen"), "--once"]);
    assert!(read.contains("binary 0 false online"), "{read}");
}

#[test]
fn our_master_asks_our_outstation_for_one_thing() {
    let folder = tempfile::tempdir().unwrap();
    let station = outstation(folder.path(), Stdio::piped());
    let address = station.address("listen");
    let ask = |words: &[&str]| done(&[&["dnp3", "master", &address], words].concat());
    let said = |words: &[&str]| String::from_utf8(ask(words).stdout).unwrap();
    assert_eq!(said(&["scan", "g1v2:1-1"]), "binary 1 false online\n");
    assert_eq!(
        said(&["operate", "binary-output:3=true", "binary-output:4=true"]),
        "control 1 success\ncontrol 2 local\nlocal\n"
    );
    assert_eq!(said(&["operate", "binary-output:3=true", "--select-only"]), "success\n");
    assert_eq!(said(&["operate", "binary-output:3=true", "--operate-only"]), "no_select\n");
    assert_eq!(said(&["operate", "binary-output:3=false", "--no-response"]), "sent\n");
    assert_eq!(said(&["clear-restart", "--link-confirms"]), "success\n");
    assert_eq!(said(&["time", "--how", "delay"]), "success\n");
    assert_eq!(said(&["unsolicited", "off", "--classes", "1,3"]), "success\n");
    assert_eq!(said(&["assign-class", "3", "g1v0:0-1"]), "success\n");
    assert_eq!(said(&["freeze", "--to", "all"]), "sent\n");
    let told: Json = serde_json::from_str(said(&["restart", "warm", "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!(told, serde_json::json!({ "answer": "delay", "ms": 5000.0 }));
    let refused = ask(&["raw", "18"]);
    assert!(!refused.status.success());
    assert_eq!(String::from_utf8(refused.stdout).unwrap(), "function_not_supported\n");
    assert!(!ask(&["scan", "--poll", "1s"]).status.success());
}

#[test]
fn a_master_follows_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut station = outstation(folder.path(), Stdio::piped());
    let mut master = tieline(&["dnp3", "master", &station.address("listen")]);
    let mut master = master.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(master.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "binary 1 false online"));
    assert_eq!(station.ask("update binary 1 true time=1700000000123"), "ok");
    // Before unsolicited reporting is enabled, the change may come with the integrity poll.
    assert!(
        lines.any(|line| line.starts_with("binary 1 true online event") && line.ends_with("2023-11-14T22:13:20.123Z"))
    );
    master.kill().unwrap();
    master.wait().unwrap();
}

fn captures() -> Vec<PathBuf> {
    let shared = std::env::var_os("TIELINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared"), PathBuf::from);
    let entries = std::fs::read_dir(shared.join("data/dnp3/captures")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "pcap")).collect()
}

#[test]
fn captures_are_decoded() {
    for path in captures() {
        let path = path.to_str().unwrap();
        let frames = printed(&["dnp3", "decode", path, "--json"]);
        assert!(!frames.is_empty(), "{path}");
        for line in frames.lines() {
            let frame: Json = serde_json::from_str(line).unwrap();
            assert!(frame["summary"].as_str().unwrap().contains('→'), "{path}: {line}");
        }
        assert!(printed(&["dnp3", "decode", path]).lines().count() >= frames.lines().count(), "{path}");
    }
}

#[test]
fn what_is_no_capture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no.pcap");
    std::fs::write(&file, "this is not a capture").unwrap();
    let told = refused(1, &["dnp3", "decode", file.to_str().unwrap()]);
    assert!(told.contains("no.pcap") && told.contains("expected a pcap or pcapng capture"), "{told}");
    let told = refused(1, &["dnp3", "decode", folder.path().to_str().unwrap()]);
    assert!(told.contains("it is a folder"), "{told}");
    assert!(refused(1, &["dnp3", "decode", "absent.pcap"]).contains("absent.pcap"));
}

/// Calls until there is an answer; each call is a process, which is wait enough.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..5000 {
        if let Some(found) = found() {
            return found;
        }
    }
    panic!("it never came")
}

#[test]
fn a_node_is_used_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let addresses = ["--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"];
    let node = Server::start(&[&["run", "--demo", "--json", "--data", data], &addresses[..]].concat(), Stdio::null());
    let (http, mqtt) = (node.address("http"), node.address("mqtt"));
    let get = |words: &[&str]| done(&[words, &["--http", &http]].concat());
    let breaker = "demo/feeder1/relay/breaker";
    until(|| String::from_utf8_lossy(&get(&["get", breaker]).stdout).starts_with("true  good").then_some(()));

    let sub = ["sub", "demo/#", breaker, "--json", "-n", "20", "--mqtt", &mqtt];
    for line in printed(&sub).lines() {
        let update: Json = serde_json::from_str(line).unwrap();
        assert!(update["topic"].as_str().unwrap().starts_with("demo/") && update["payload"].is_object(), "{line}");
    }
    assert!(printed(&["sub", breaker, "-n", "1", "--mqtt", &mqtt]).starts_with(&format!("{breaker} {{\"v\":true")));

    printed(&["pub", "notes/one", "-5", "--retain", "--mqtt", &mqtt]);
    assert_eq!(printed(&["get", "notes/one", "--http", &http]), "-5\n");
    let told = refused(3, &["pub", "$SYS/one", "1", "--mqtt", &mqtt]);
    assert!(told.contains("not authorized (0x87), only the node publishes to topics that begin with $"), "{told}");
    let told = refused(3, &["get", "notes/none", "--http", &http]);
    assert_eq!(told, "tieline: the topic \"notes/none\" has no value\n");

    let table = printed(&["topics", "--http", &http]);
    assert!(table.lines().any(|line| line.starts_with(breaker) && line.contains("true  good")), "{table}");
    let topics = printed(&["topics", "demo/#", "--json", "--http", &http]);
    assert!(topics.lines().all(|line| serde_json::from_str::<Json>(line).unwrap()["topic"].is_string()), "{topics}");

    a_breaker_is_operated_in_words(&http, breaker);
    let told = refused(3, &["command", "demo/feeder1/meter/power", "1", "--http", &http]);
    assert!(told.starts_with("refused: not_writable: "), "{told}");
    let told = done(&["command", "demo/none", "1", "--json", "--http", &http]);
    assert_eq!(serde_json::from_slice::<Json>(&told.stdout).unwrap()["reason"], "unknown_topic");

    let query = ["history", "query", breaker];
    for source in [["--http", &http], ["--data", data]] {
        let rows = until(|| {
            let rows: Json =
                serde_json::from_slice(&done(&[&query[..], &["--format", "json"], &source].concat()).stdout).ok()?;
            rows.as_array()?.iter().any(|row| row["v"] == false).then_some(rows)
        });
        assert!(rows[0]["t"].is_string() && rows[0]["q"].is_string(), "{rows}");
        let file = folder.path().join("rows.parquet");
        let file = file.to_str().unwrap();
        printed(&[&query[..], &["--format", "parquet", "--output", file], &source].concat());
        assert!(std::fs::read(file).unwrap().starts_with(b"PAR1"));
        let counted = printed(&[&query[..], &["--every", "1d", "--agg", "count", "--format", "csv"], &source].concat());
        assert!(counted.starts_with("topic,time,value,quality,why,count"), "{counted}");
        let code = if source[0] == "--http" { 3 } else { 1 };
        let told = refused(code, &[&query[..], &["--from", "yesterday"], &source].concat());
        assert!(told.contains("is \"yesterday\", expected a time like"), "{told}");
        let span = ["--from", "-1d", "--to", "now", "--json"];
        let rows: Json = serde_json::from_str(&printed(&[&query[..], &span, &source].concat())).unwrap();
        assert!(!rows.as_array().unwrap().is_empty());
    }
    the_api_has_its_verbs(&http);
}

/// What is known comes in two steps, and every word for a state does.
fn a_breaker_is_operated_in_words(http: &str, breaker: &str) {
    for (word, state) in [("OPEN", "false"), ("closed", "true"), ("off", "false"), ("on", "true"), ("false", "false")] {
        let told = printed(&["command", breaker, word, "--http", http]);
        let lines: Vec<&str> = told.lines().collect();
        let [accepted, confirmed] = lines[..] else { panic!("{told}") };
        assert!(accepted.starts_with("accepted by the device in ") && accepted.ends_with(word), "{told}");
        assert!(confirmed.starts_with(&format!("confirmed by a reading: {state}, good, 20")), "{told}");
    }
    let told = printed(&["command", breaker, "closed", "--no-confirm", "--http", http]);
    assert_eq!(told.lines().count(), 1, "{told}");
    let json: Json = serde_json::from_str(&printed(&["command", breaker, "open", "--json", "--http", http])).unwrap();
    assert_eq!((&json["confirmed"], &json["expected"]), (&Json::from(true), &Json::from(false)), "{json}");
    assert_eq!((&json["value"], &json["reading"]["value"]["v"]), (&Json::from("open"), &Json::from(false)), "{json}");
    let told = refused(3, &["command", breaker, "ajar", "--http", http]);
    assert!(told.contains("expected true, false, 1, 0, \"on\", \"off\", \"open\" or \"closed\""), "{told}");
}

/// Each prints something for people, and JSON for programs.
fn the_api_has_its_verbs(http: &str) {
    let node = ["--http", http];
    let people = |words: &[&str], expect: &str| {
        let told = printed(&[words, &node].concat());
        assert!(told.lines().any(|line| line.contains(expect)), "{words:?}: {told}");
    };
    // A device that has just come is "restarting" until its first answers are in.
    until(|| printed(&[&["status"], &node[..]].concat()).contains("8 of 8 online").then_some(()));
    people(&["health"], "ok");
    people(&["devices"], "demo/feeder1/relay");
    people(&["devices", "demo/feeder1/relay"], "open, closed");
    people(&["points", "demo/feeder1/#", "--writable"], "demo/feeder1/relay/breaker");
    people(&["sessions"], "0 sessions connected, 0 away");
    people(&["busiest"], "updates/s");
    people(&["audit", "demo/feeder1/relay/breaker"], "succeeded");
    people(&["whoami"], "no user");
    people(&["metrics"], "tieline_build_info");
    for words in
        [&["status"][..], &["health"], &["devices"], &["devices", "demo/feeder1/relay"], &["points"], &["audit"]]
    {
        let told = printed(&[words, &["--json"], &node[..]].concat());
        assert!(
            !told.is_empty() && told.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()),
            "{words:?}: {told}"
        );
    }
    people(&["put", "notes/two", "70", "--if-absent"], "notes/two: set, version ");
    let told = refused(3, &[&["put", "notes/two", "80", "--if-absent"], &node[..]].concat());
    assert!(told.contains("expected none"), "{told}");
    let value: Json = serde_json::from_str(&printed(&[&["get", "notes/two", "--json"], &node[..]].concat())).unwrap();
    let version = value["seq"].to_string();
    people(&["delete", "notes/two", "--if-version", &version], "notes/two: removed");
    refused(3, &[&["get", "notes/two"], &node[..]].concat());
}
