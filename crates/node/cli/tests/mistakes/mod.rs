//! Deliberate mistakes: what people type wrongly, what they are told, and the exit code.

use crate::{Server, done, tieline};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// `{http}`, `{mqtt}` and `{folder}` stand for the node's addresses and a folder of files.
struct Mistake {
    line: &'static str,
    code: i32,
    told: &'static str,
}

const fn mistake(line: &'static str, code: i32, told: &'static str) -> Mistake {
    Mistake { line, code, told }
}

const MISTAKES: [Mistake; 33] = [
    // The wrong port.
    mistake(
        "status --http {mqtt}",
        4,
        "this is the MQTT address of a Tieline node; its HTTP address is http://{http}/",
    ),
    mistake("command a/b true --http {mqtt}", 4, "its HTTP address is http://{http}/"),
    mistake("put a/b 1 --http {mqtt}", 4, "its HTTP address is http://{http}/"),
    mistake("health --http {mqtt}", 4, "its HTTP address is http://{http}/"),
    mistake("sub # --mqtt {http}", 4, "this is the HTTP address of a Tieline node; its MQTT address is {mqtt}"),
    mistake("pub a 1 --mqtt {http}", 4, "its MQTT address is {mqtt}"),
    mistake(
        "sub # --mqtt http://{http}",
        1,
        "--mqtt is an HTTP address, expected HOST:PORT, mqtt://HOST:PORT or mqtts://",
    ),
    mistake(
        "status --http mqtt://{mqtt}",
        1,
        "--http is mqtt://…, expected HOST:PORT, http://HOST:PORT or https://HOST:PORT",
    ),
    mistake("status --http 127.0.0.1:1", 4, "no answer from http://127.0.0.1:1/v1/status: Connection refused"),
    mistake("status --http https://{http}", 4, "it does not speak TLS at this address"),
    mistake("status --http {http} --ca x.pem", 1, "--ca is for TLS, and the address is without"),
    mistake(
        "run --http {http} --mqtt 127.0.0.1:0 --data {folder}/other",
        1,
        "another program does, perhaps another node; expected a free address, with --http or http.listen",
    ),
    // The wrong file.
    mistake("dnp3 keygen {folder}/points.csv", 1, "points.csv is there already, and a key is not overwritten"),
    mistake(
        "access user list --users {folder}/none.toml",
        1,
        "none.toml: No such file or directory (os error 2): tieline",
    ),
    mistake(
        "run --config {folder}/points.csv",
        1,
        "points.csv: found comma-separated values (CSV), expected a TOML file; point",
    ),
    mistake(
        "config check {folder}/points.csv",
        1,
        "points.csv: found comma-separated values (CSV), expected a TOML file",
    ),
    mistake(
        "config check --config {folder}/node.log",
        1,
        "node.log: found a text that is no configuration: \"2026-11-20 INFO began\", expected a TOML file",
    ),
    mistake("config check --config {folder}/none.toml", 1, "none.toml: found no such file, expected a TOML file"),
    mistake("config check {folder}", 1, "found a folder, expected a TOML file"),
    mistake(
        "config check {folder}/headless.toml",
        1,
        "headless.csv:1:1: (header): found \"breaker,binary,0\", expected a first line that",
    ),
    mistake(
        "config check {folder}/semicolons.toml",
        1,
        "semicolons.csv:1:1: (header): found \"name;type;index\", expected a first line that",
    ),
    mistake("config check {folder}/lost.toml", 1, "lost.toml:5:10: device.d.points: found \"lost.csv\" (No such file"),
    mistake("views check --config {folder}/none.toml", 1, "none.toml: found no such file, expected a TOML file"),
    mistake("dnp3 decode {folder}/none.pcap", 1, "none.pcap"),
    mistake("config check", 2, "no file is given, expected one, as in tieline config check --config tieline.toml"),
    // The wrong way.
    mistake(
        "pub demo/feeder1/relay/breaker true --mqtt {mqtt}",
        3,
        "to operate a point publish to $command/demo/feeder1/relay/breaker, or use tieline command demo/feeder1/relay/breaker VALUE",
    ),
    mistake(
        "put demo/feeder1/relay/breaker true --http {http}",
        3,
        "or use tieline command demo/feeder1/relay/breaker VALUE",
    ),
    mistake(
        "command demo/feeder1/relay/breakr true --http {http}",
        3,
        "unknown_topic: there is no topic demo/feeder1/relay/breakr",
    ),
    mistake(
        "history query demo/# --from soon --http {http}",
        3,
        "from is \"soon\", expected a time like 2026-11-20T09:36:00Z, a date",
    ),
    mistake("history query demo/# --from -5m --to -1h --http {http}", 3, "expected a time before to"),
    mistake("devices demo/none --http {http}", 3, "there is no device \"demo/none\""),
    mistake("status --context plant", 1, "there is no context \"plant\", tieline context add makes one"),
    mistake("statsu", 2, "some similar subcommands exist: 'sites', 'status'"),
];

fn files(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("points.csv", "name,type,index\nbreaker,binary,0\n");
    write("node.log", &"2026-11-20 INFO began\n".repeat(100));
    write("headless.csv", "breaker,binary,0\ncurrent,analog,1\n");
    write("semicolons.csv", "name;type;index\nbreaker;binary;0\n");
    for list in ["headless", "semicolons", "lost"] {
        let device =
            format!("[device.d]\nprotocol = 'dnp3'\naddress = 'h:20000'\ndnp3.outstation = 1\npoints = '{list}.csv'\n");
        write(&format!("{list}.toml"), &device);
    }
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    let data = folder.path().join("data");
    let words = ["run", "--demo", "--json", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--data"];
    let node = Server::start(&[&words[..], &[data.to_str().unwrap()]].concat(), Stdio::null());
    let (http, mqtt) = (node.address("http"), node.address("mqtt"));
    let filled = |text: &str| {
        let text = text.replace("{http}", &http).replace("{mqtt}", &mqtt);
        text.replace("{folder}", folder.path().to_str().unwrap())
    };
    for Mistake { line, code, told } in &MISTAKES {
        let line = filled(line);
        let done = done(&line.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(*code), "tieline {line}: {said}");
        assert!(said.contains(&filled(told)), "tieline {line}: {said}");
        assert!(!said.contains("panicked") && !said.contains("Some(") && !said.contains(": Custom {"), "{said}");
    }
    any_http_client_is_told(&http, &mqtt);
}

/// Not only ours: what a browser or curl gets from the MQTT address.
fn any_http_client_is_told(http: &str, mqtt: &str) {
    let mut stream = TcpStream::connect(mqtt).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 ") && answer.contains(http), "{answer}");
}

/// A process until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A start for people: a line a fact, no `Debug`, warnings for what is away, the addresses last.
#[test]
fn a_start_says_what_is_away_and_where_the_node_is_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    let config = folder.path().join("plant.toml");
    // Port 1 of this machine: nothing listens there.
    let device =
        "[device.relay]\nprotocol = 'dnp3'\naddress = '127.0.0.1:1'\npoints = 'points.csv'\ndnp3.outstation = 1\n";
    std::fs::write(&config, device).unwrap();
    let mut command = tieline(&["run", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--data"]);
    command.arg(folder.path().join("data")).arg("--config").arg(config);
    let mut node = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let until = |stream: &mut dyn BufRead, ends: &str| {
        let (mut lines, mut line) = (Vec::new(), String::new());
        while stream.read_line(&mut line).unwrap() > 0 {
            lines.push(line.trim_end().to_owned());
            if line.contains(ends) {
                return lines;
            }
            line.clear();
        }
        panic!("it ended without {ends:?}: {lines:?}")
    };
    let lines = until(&mut BufReader::new(node.0.stdout.take().unwrap()), "console ");
    let log = until(&mut BufReader::new(node.0.stderr.take().unwrap()), "device away").join("\n");
    let facts: Vec<&str> = lines.iter().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(facts, ["node", "data", "devices", "try", "mqtt", "console"]);
    assert!(lines[2].contains("0 of 1 online, 1 "), "{lines:?}");
    assert!(lines[5].contains("http://127.0.0.1:"), "{lines:?}");
    assert!(log.contains("WARN") && log.contains("device away") && log.contains("Connection refused"), "{log}");
    assert!(!log.contains("Some(") && !log.contains("Addresses {"), "{log}");
}
