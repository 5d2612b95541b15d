//! A whole node on loopback: an outstation of ours, the node, an MQTT client.

mod mqtt;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;
use tieline_client::{MqttClient, MqttError, MqttOptions, Qos, ReasonCode, Subscription};
use tieline_core::Filter;
use tieline_history::{HistoryQuery, HistoryReader};
use tieline_net::{Clock, Counters, ShardThread};
use tieline_node::Node;
use tieline_node::config::from_text;
use tieline_outstation::config as outstation;
use tieline_outstation::server::{Happening, Line, OutstationServer, TableControls, Teller, database_of, state_after};
use tokio::time::timeout;

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

const STATION: &str = "
address = 10
[[point]]
type = 'binary'
index = 0
[[point]]
type = 'analog'
index = 3
static = 'g30v6'
event = 'g32v8'
value = 10.5
[[point]]
type = 'binary-output'
range = '0-1'
[[point]]
type = 'binary-output'
index = 2
operate = 'blocked'
";

const POINTS: &str = "name,type,index,scale,offset,min,max\nalarm,binary,0,,,,\nvolts,analog,3,2,1,,\nbreaker,binary-output,1,,,,\nlocked,binary-output,2,,,,\n";

/// The outstation's thread, and a way to tell it lines.
struct Field {
    lines: Sender<&'static str>,
    address: String,
    _thread: ShardThread,
}

fn start_outstation() -> Field {
    let (lines, told) = std::sync::mpsc::channel::<&'static str>();
    let (report, address) = sync_channel(1);
    let thread = ShardThread::spawn("station", Clock::start(), Arc::new(Counters::default()), |shard| async move {
        let file = outstation::from_text("station.toml", STATION).unwrap();
        let controls = Box::new(TableControls::of(&file.points));
        let tell: Teller = Rc::new(RefCell::new(|session: &_, now, happening| follow(session, now, happening)));
        let database = database_of(&file.points);
        let station =
            OutstationServer::start(&shard, ([127, 0, 0, 1], 0).into(), file.config, database, controls, tell);
        let station = station.await.unwrap();
        report.send(station.address().to_string()).unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            for line in told.try_iter() {
                station.apply(Line::parse(line).unwrap()).unwrap();
            }
        }
    });
    Field { lines, address: address.recv().unwrap(), _thread: thread.unwrap() }
}

/// An output shows what it was operated to.
fn follow(
    session: &tieline_net::Session<tieline_dnp3::outstation::Outstation>,
    now: tieline_core::Now,
    happening: Happening,
) {
    use tieline_dnp3::outstation::OutstationEvent;
    if let Happening::Event(OutstationEvent::Operated { index, control, status, .. }) = happening
        && status == tieline_dnp3::app::CommandStatus::Success
        && let Some(state) = state_after(index, &control)
    {
        session.with(|station, _| station.update(now, state)).unwrap();
    }
}

fn start_node(folder: &Path, field: &Field) -> Node {
    start_node_with(folder, field, "")
}

fn start_node_with(folder: &Path, field: &Field, device: &str) -> Node {
    std::fs::write(folder.join("relay.csv"), POINTS).unwrap();
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[mqtt]\nlisten = '127.0.0.1:0'\n[device.relay]\ntopic = 'site/relay'\n\
         protocol = 'dnp3'\naddress = '{}'\npoints = 'relay.csv'\n{device}[device.relay.dnp3]\noutstation = 10\n",
        field.address
    );
    Node::start(&from_text("node.toml", &text, folder).unwrap(), &folder.join("data")).unwrap()
}

async fn next(messages: &mut Subscription) -> (String, serde_json::Value, bool) {
    let received = timeout(PATIENCE, messages.next()).await.expect("no message in time").expect("the client ended");
    let payload = &received.message.payload;
    let value = serde_json::from_slice(payload).unwrap_or_else(|_| String::from_utf8_lossy(payload).into());
    (received.message.topic.to_string(), value, received.retain)
}

/// Takes messages until one satisfies `wanted`.
async fn until(messages: &mut Subscription, wanted: impl Fn(&str, &serde_json::Value) -> bool) -> serde_json::Value {
    loop {
        let (topic, value, _) = next(messages).await;
        if wanted(&topic, &value) {
            return value;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_device_reaches_subscribers_and_history_and_is_operated() {
    let folder = tempfile::tempdir().unwrap();
    let field = start_outstation();
    let node = start_node(folder.path(), &field);
    runtime().block_on(async {
        let client = MqttClient::connect(&MqttOptions::new(&node.mqtt().to_string())).await.unwrap();
        let mut all = client.subscribe("site/#", Qos::AtMostOnce).await.unwrap();
        let first = until(&mut all, |topic, value| topic == "site/relay/volts" && value["q"] == "good").await;
        assert_eq!(first["v"], 22.0);

        field.lines.send("update analog 3 20.25 flags=0x05 time=1700000000123").unwrap();
        let changed = until(&mut all, |topic, value| topic == "site/relay/volts" && value["v"] == 41.5).await;
        assert_eq!((&changed["q"], &changed["why"][0]), (&"bad".into(), &"comm_lost".into()));
        assert_eq!(changed["t"], "2023-11-14T22:13:20.123Z");

        let ask = async |name: &str, body: &'static str| -> serde_json::Value {
            let answer = client.request(&format!("$command/site/relay/{name}"), body, PATIENCE).await.unwrap();
            serde_json::from_slice(&answer.payload).unwrap()
        };
        let answer = ask("breaker", "true").await;
        assert_eq!(answer["status"], "success", "{answer}");
        until(&mut all, |topic, value| topic == "site/relay/breaker" && value["v"] == true).await;
        for (name, body, reason) in [
            ("locked", "true", "blocked"),
            ("locked", "{\"value\":false,\"mode\":\"direct\"}", "blocked"),
            ("volts", "5", "not_writable"),
            ("nothing", "5", "unknown_topic"),
            ("breaker", "12", "wrong_type"),
            ("breaker", "{", "malformed"),
        ] {
            let answer = ask(name, body).await;
            assert_eq!((&answer["status"], &answer["reason"]), (&"refused".into(), &reason.into()), "{name} {body}");
        }
        let publish = async |topic: &str| client.publish(topic, "17.5", Qos::AtLeastOnce, true).await;
        assert!(matches!(publish("site/note").await, Ok(ReasonCode::Success)));
        let way = "publish to $command/site/relay/volts, or use tieline command site/relay/volts VALUE";
        let its = "begin with $";
        let cases =
            [("site/relay/volts", way), ("site/relay/all", "of a device"), ("$SYS/devices/site/relay/state", its)];
        for (of_the_node, says) in cases {
            let refused = publish(of_the_node).await;
            let Err(MqttError::Rejected(ReasonCode::NotAuthorized, words)) = &refused else { panic!("{refused:?}") };
            assert!(words.contains(says), "{of_the_node}: {words}");
        }
    });
    let audit = std::fs::read_to_string(folder.path().join("data/audit.jsonl")).unwrap();
    assert!(audit.lines().any(|line| line.contains("\"phase\":\"succeeded\"")), "{audit}");
    drop(node);
    let reader = HistoryReader::open(&folder.path().join("data")).unwrap();
    let stored = |topic: &str| -> Vec<String> {
        let rows = reader.query(HistoryQuery::of(Filter::new(topic).unwrap())).unwrap();
        rows.map(|row| row.unwrap().point.to_json()).collect()
    };
    let volts = stored("site/relay/volts");
    let expect = "{\"v\":41.5,\"q\":\"bad\",\"why\":[\"comm_lost\"],\"t\":\"2023-11-14T22:13:20.123Z\"}";
    assert!(volts.iter().any(|row| row == expect), "{volts:?}");
    assert!(stored("site/note").iter().any(|row| row.starts_with("{\"v\":17.5,\"q\":\"good\"")));
}

#[test]
fn a_device_that_is_lost_marks_its_points_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let field = start_outstation();
    let node = start_node(folder.path(), &field);
    runtime().block_on(async {
        let client = MqttClient::connect(&MqttOptions::new(&node.mqtt().to_string())).await.unwrap();
        let mut all = client.subscribe("site/relay/volts", Qos::AtMostOnce).await.unwrap();
        until(&mut all, |_, value| value["q"] == "good").await;
        field.lines.send("restart").unwrap();
        let lost = until(&mut all, |_, value| value["q"] == "bad").await;
        assert_eq!((&lost["v"], &lost["why"][0]), (&22.0.into(), &"away".into()));
        until(&mut all, |_, value| value["q"] == "good").await;
    });
}

#[test]
fn points_that_are_published_together_are_recorded_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let field = start_outstation();
    let node = start_node_with(folder.path(), &field, "publish = ['all']\n");
    runtime().block_on(async {
        let client = MqttClient::connect(&MqttOptions::new(&node.mqtt().to_string())).await.unwrap();
        let mut all = client.subscribe("site/#", Qos::AtMostOnce).await.unwrap();
        until(&mut all, |topic, value| {
            assert_eq!(topic, "site/relay/all");
            value["volts"]["q"] == "good"
        })
        .await;
    });
    drop(node);
    let reader = HistoryReader::open(&folder.path().join("data")).unwrap();
    let rows = reader.query(HistoryQuery::of(Filter::new("site/relay/volts").unwrap())).unwrap();
    let rows: Vec<String> = rows.map(|row| row.unwrap().point.to_json()).collect();
    assert!(rows.iter().any(|row| row.starts_with("{\"v\":22.0,\"q\":\"good\"")), "{rows:?}");
}

#[test]
fn two_nodes_do_not_share_a_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let field = start_outstation();
    let _first = start_node(folder.path(), &field);
    let text = "[http]\nlisten = '127.0.0.1:0'\n[mqtt]\nlisten = '127.0.0.1:0'\n";
    let config = from_text("node.toml", text, folder.path()).unwrap();
    let error = Node::start(&config, &folder.path().join("data")).unwrap_err().to_string();
    assert!(error.ends_with("another node uses it"), "{error}");
}

/// A client whose packets are bytes.
struct Raw(std::net::TcpStream);

impl Raw {
    /// Connects as `name`, a letter, with what follows the client identifier.
    fn connect(node: &Node, name: u8, flags: u8, rest: &[u8]) -> Self {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(node.mqtt()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut packet = vec![0x10, u8::try_from(14 + rest.len()).unwrap()];
        packet.extend_from_slice(b"\0\x04MQTT\x05");
        packet.extend_from_slice(&[flags, 0, 60, 0, 0, 1, name]);
        packet.extend_from_slice(rest);
        stream.write_all(&packet).unwrap();
        let mut raw = Self(stream);
        assert_eq!(raw.read().first(), Some(&0x20));
        raw
    }

    fn send(&mut self, packet: &[u8]) {
        use std::io::Write;
        self.0.write_all(packet).unwrap();
    }

    /// The next packet, whose length has one byte.
    fn read(&mut self) -> Vec<u8> {
        use std::io::Read;
        let mut packet = vec![0; 2];
        self.0.read_exact(&mut packet).unwrap();
        let length = packet[1];
        packet.resize(2 + usize::from(length), 0);
        self.0.read_exact(&mut packet[2..]).unwrap();
        packet
    }
}

#[test]
fn retained_messages_and_wills_keep_their_properties() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_node(folder.path(), &start_outstation());
    // QoS 1, retained, content type "x".
    let mut a = Raw::connect(&node, b'a', 0x02, b"");
    a.send(b"\x33\x0d\0\x03t/1\0\x07\x04\x03\0\x01x1");
    assert_eq!(a.read(), b"\x40\x02\0\x07");
    // A QoS 0 message stays one.
    a.send(b"\x31\x08\0\x03t/0\0\x30\x30");
    a.send(b"\xc0\0");
    assert_eq!(a.read(), b"\xd0\0");
    let mut b = Raw::connect(&node, b'b', 0x02, b"");
    b.send(b"\x82\x09\0\x01\0\0\x03t/1\x01");
    assert_eq!(b.read(), b"\x90\x04\0\x01\0\x01");
    assert_eq!(b.read(), b"\x33\x0d\0\x03t/1\0\x01\x04\x03\0\x01x1");
    b.send(b"\x82\x09\0\x02\0\0\x03t/0\x01");
    assert_eq!(b.read(), b"\x90\x04\0\x02\0\x01");
    assert_eq!(b.read(), b"\x31\x08\0\x03t/0\0\x30\x30");
    b.send(b"\x82\x07\0\x04\0\0\x01w\x00");
    assert_eq!(b.read(), b"\x90\x04\0\x04\0\0");
    // A will after a second, with content type "x"; its client goes without a word.
    drop(Raw::connect(&node, b'c', 0x06, b"\x09\x18\0\0\0\x01\x03\0\x01x\0\x01w\0\x03bye"));
    assert_eq!(b.read(), b"\x30\x0b\0\x01w\x04\x03\0\x01xbye");
}

#[test]
fn a_method_that_no_route_has_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[http]\nlisten = '127.0.0.1:0'\n[mqtt]\nlisten = '127.0.0.1:0'\n";
    let node = Node::start(&from_text("node.toml", text, folder.path()).unwrap(), &folder.path().join("data")).unwrap();
    for (method, path) in [("POST", "/v1/topics"), ("DELETE", "/v1/status"), ("PUT", "/nowhere")] {
        let mut stream = std::net::TcpStream::connect(node.http()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.to_lowercase().contains("content-type: application/problem+json"), "{answer}");
        assert!(answer.contains(&format!("{method} is not for {path}")), "{answer}");
    }
}
