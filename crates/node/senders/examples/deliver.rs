//! Notifications without a node: what tests run against mail servers, webhooks and Alertmanager.
//!
//! `deliver FILE RECEIVERS`: FILE keeps what outlives a restart; RECEIVERS is a JSON object of receivers by name, who are all told
//! of every alarm at once. Standard input: a line `STANDING TOPIC SEQ` for each alarm that stands, `start`, then such a line for each change,
//! `flood on`, `flood off`, `test NAME`, `counts`; `halt`, `go`: the bus
//! stands still and turns again. Standard output: what was published, answers, and the log.

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_core::{Filter, Instant, Now, Timestamp, Topic, Value, Words};
use tieline_notify::{AlarmName, Choice, Notice, Route, Standing, Step};
use tieline_senders::{Alertmanager, Calls, Desk, Mail, MailTls, Receiver, Receivers, Sender, Webhook};

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stdout).init();
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("which file?")?;
    let receivers: Json = serde_json::from_str(&arguments.next().ok_or("which receivers?")?)?;
    let receivers = receivers_of(&receivers)?;
    let started = std::time::Instant::now();
    let clock = move || {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono: Instant::ZERO + started.elapsed(), utc: Timestamp::from_micros(0).later(utc) }
    };
    let publish = |name: &str, text: String| writeln!(std::io::stdout(), "published {name} {text}").is_ok();
    let bus = Arc::new(Mutex::new(()));
    let turning = Arc::clone(&bus);
    let calls = Calls { publish: Arc::new(publish), turn: Arc::new(move || turning.lock().is_ok()) };
    let desk = Desk::start(file.as_ref(), receivers, Arc::new(clock), calls)?;
    let mut lines = std::io::stdin().lock().lines();
    // The alarms that stand are named first, until a line says so.
    let mut standing = Vec::new();
    for line in lines.by_ref() {
        match line?.split_whitespace().collect::<Vec<_>>()[..] {
            ["start"] => break,
            [word, topic, seq] => standing.push(notice(topic, seq.parse()?, standing_of(word)?)?),
            _ => return Err("an alarm, or start".into()),
        }
    }
    desk.standing(standing).map_err(|_| "full")?;
    let mut halted = None;
    for line in lines {
        match &*line? {
            "halt" => halted = bus.lock().ok(),
            "go" => halted = None,
            line => obey(&desk, line)?,
        }
    }
    drop(halted);
    Ok(())
}

fn obey(desk: &Desk, line: &str) -> Result<(), Box<dyn Error>> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["test", name] => {
            let answer = desk.test(name).map_err(|_| "full")?.recv()?;
            writeln!(std::io::stdout(), "test {answer:?}")?;
        }
        ["counts"] => {
            let ends: Vec<_> = desk.counts().ends().filter(|(.., count)| *count > 0).collect();
            writeln!(std::io::stdout(), "counts {ends:?}")?;
        }
        ["flood", word] => desk.flood(word == "on").map_err(|_| "full")?,
        [word, topic, seq] => desk.notice(notice(topic, seq.parse()?, standing_of(word)?)?).map_err(|_| "full")?,
        _ => return Err(format!("what is {line:?}?").into()),
    }
    Ok(())
}

fn standing_of(word: &str) -> Result<Standing, Box<dyn Error>> {
    Ok(Standing::of_word(word).ok_or("no such standing")?)
}

fn notice(topic: &str, seq: u64, standing: Standing) -> Result<Notice, Box<dyn Error>> {
    Ok(Notice {
        alarm: AlarmName { topic: Topic::new(topic)?, kind: "high".into() },
        seq,
        standing,
        priority: "high".into(),
        severity: 700,
        state: if standing == Standing::Returned { "returned" } else { "unacknowledged" }.into(),
        group: "feeders".into(),
        text: "überload, \u{201c}hot\u{201d}".into(),
        value: Value::Float(412.0),
        since: Timestamp::from_millis(1_764_381_600_000),
        count: 3,
    })
}

fn every(fields: &Json) -> Result<Option<Duration>, Box<dyn Error>> {
    let millis = fields.get("heartbeat_ms").map(|millis| millis.as_u64().ok_or("a number")).transpose()?;
    Ok(millis.map(Duration::from_millis))
}

fn receivers_of(named: &Json) -> Result<Receivers, Box<dyn Error>> {
    let mut receivers = BTreeMap::new();
    for (name, fields) in named.as_object().ok_or("an object")? {
        let to = fields.get("to").and_then(Json::as_array).into_iter().flatten();
        let to = to.filter_map(Json::as_str).map(str::to_owned).collect();
        receivers.insert(
            Arc::from(name.as_str()),
            Receiver { sender: sender(name, fields)?, to, on_call: None, heartbeat: every(fields)? },
        );
    }
    let steps = receivers.keys().map(|name| Step { to: Arc::clone(name), after: Duration::ZERO }).collect();
    let choice = Choice { filter: Filter::new("#")?, severity_min: 0, groups: vec![] };
    let routes = vec![Route::new(choice, steps, Duration::ZERO, None)?];
    Ok(Receivers { node: "test".to_owned(), routes, receivers })
}

fn sender(name: &str, fields: &Json) -> Result<Sender, Box<dyn Error>> {
    let text = |key: &str| fields.get(key).and_then(Json::as_str).map(str::to_owned);
    let must = |key: &str| text(key).ok_or_else(|| format!("{name}: no {key}"));
    let path = |key: &str| text(key).map(Into::into);
    Ok(match &*must("kind")? {
        "webhook" => Sender::Webhook(Webhook {
            url: must("url")?,
            secret_file: path("secret_file"),
            authorities: path("authorities"),
            may_be_own: fields.get("own").and_then(Json::as_bool).unwrap_or(false),
        }),
        "alertmanager" => Sender::Alertmanager(Alertmanager { url: must("url")?, authorities: path("authorities") }),
        "smtp" => Sender::Mail(Mail {
            host: must("host")?,
            port: must("port")?.parse()?,
            tls: MailTls::of_word(&must("tls")?).ok_or("no such tls")?,
            authorities: path("authorities"),
            user: text("user").zip(path("password_file")),
            from: must("from")?,
        }),
        "mqtt" => Sender::Mqtt,
        other => return Err(format!("no sender {other}").into()),
    })
}
