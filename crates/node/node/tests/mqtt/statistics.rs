//! What the node tells of its clients and topics: `$SYS`, `/v1/sessions`, `/v1/busiest`.

use super::peer::{Server, at, payload_of};
use serde_json::Value;
use std::collections::BTreeMap;
use tieline_client::HttpClient;
use tieline_mqtt::Qos;

fn ask(server: &Server, path: &str) -> Value {
    HttpClient::new(&server.node.http().to_string()).get(path).unwrap()
}

#[test]
fn sys_tells_what_is_counted_under_known_names() {
    let server = Server::with("sys_interval = '1s'");
    let mut watch = server.client("watch");
    watch.subscribe(&[("$SYS/#", at(Qos::AtMostOnce))]);
    server.client("other").publish("a/b", "hello", Qos::AtLeastOnce, true);
    // What was there, and what has changed since.
    let mut known = BTreeMap::new();
    let mut wait = |topic: &str, expect: &dyn Fn(&str) -> bool| {
        while known.get(topic).is_none_or(|value: &String| !expect(value)) {
            let message = watch.message();
            known.insert(message.topic.to_string(), payload_of(&message));
        }
    };
    let version = format!("tieline version {}", env!("CARGO_PKG_VERSION"));
    for (topic, expect) in [
        ("broker/publish/messages/received", "1"),
        ("broker/publish/bytes/received", "5"),
        ("broker/clients/connected", "1"),
        ("broker/version", &version),
        ("node/lag/sessions", "0"),
    ] {
        wait(&format!("$SYS/{topic}"), &|value| value == expect);
    }
    for topic in ["broker/load/publish/received/15min", "broker/bytes/sent", "node/process/memory_bytes"] {
        wait(&format!("$SYS/{topic}"), &|value| value.parse::<f64>().is_ok_and(|value| value > 0.0));
    }
}

#[test]
fn sys_is_silent_where_it_is_off() {
    let server = Server::with("sys_interval = '0s'");
    let mut watch = server.client("watch");
    watch.subscribe(&[("$SYS/broker/#", at(Qos::AtMostOnce))]);
    assert_eq!(watch.payloads(), [""; 0]);
}

#[test]
fn sessions_are_told() {
    let server = Server::with("sys_interval = '1s'");
    let mut reader = server.client("reader/1");
    reader.subscribe(&[("site/#", at(Qos::AtMostOnce))]);
    let mut writer = server.client("writer/1");
    for (topic, times) in [("site/seldom", 1), ("site/often", 5)] {
        for _ in 0..times {
            writer.publish(topic, "12345678", Qos::AtLeastOnce, true);
        }
    }
    assert_eq!(reader.payloads().len(), 6);
    let found = ask(&server, "/v1/sessions?client=read");
    assert_eq!((&found["connected"], &found["away"]), (&2.into(), &0.into()));
    assert_eq!(found["sessions"].as_array().map(Vec::len), Some(1), "{found}");
    let session = &found["sessions"][0];
    let told: Vec<_> = ["client", "late_ms", "waiting", "waiting_bytes", "blocked", "subscriptions"]
        .map(|name| session[name].to_string())
        .into();
    assert_eq!(told, ["\"reader/1\"", "0", "0", "0", "false", "1"]);
    assert!(session["bytes_out"].as_u64() > Some(6 * 8), "{session}");
    let sum = ask(&server, "/v1/status");
    assert_eq!(sum["totals"]["published"], 6);
    assert!(sum["process"]["memory_bytes"].as_u64() > Some(1_000_000), "{sum}");
}

#[test]
fn busy_topics_are_told() {
    let server = Server::with("sys_interval = '1s'");
    let mut writer = server.client("writer");
    loop {
        for topic in ["often", "often", "often", "seldom"] {
            writer.publish(topic, "12345678", Qos::AtLeastOnce, true);
        }
        let found = ask(&server, "/v1/busiest?limit=2");
        let of = |at: usize, name: &str| found["topics"][at][name].as_u64().unwrap_or_default();
        // A window that holds enough of both.
        if of(1, "updates") < 10 {
            continue;
        }
        let topics = [0, 1].map(|at| found["topics"][at]["topic"].clone());
        assert_eq!(topics, ["often", "seldom"]);
        assert!(of(0, "updates").abs_diff(3 * of(1, "updates")) <= 3, "{found}");
        assert_eq!((of(0, "over"), of(0, "bytes")), (0, 8 * of(0, "updates")));
        assert!(found["window_s"].as_f64() >= Some(1.0) && found["topics"][0]["updates_per_s"].as_f64() > Some(0.0));
        return;
    }
}
