//! `tieline sub` and `tieline pub`: MQTT.

use crate::args::{MqttArgs, PubArgs, SubArgs};
use crate::{log, signals, who};
use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;
use serde_json::json;
use std::io::{self, BufRead, Read, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use tieline_client::{MqttClient, MqttOptions, Qos, Received, Subscription};

/// Prints updates until there are enough, or a signal comes.
pub fn sub(args: &SubArgs) -> Result<ExitCode> {
    log::start("warn", false);
    signals::until_done(follow(args))?.transpose()?;
    Ok(ExitCode::SUCCESS)
}

/// Publishes one message, or one a line.
pub fn publish(args: &PubArgs) -> Result<ExitCode> {
    log::start("warn", false);
    let work = async {
        match &args.payload {
            Some(payload) => publish_one(args, payload).await,
            None => publish_lines(args).await,
        }
    };
    match signals::until_done(work)? {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => bail!("interrupted before the node answered; the message may have arrived"),
    }
}

async fn publish_one(args: &PubArgs, payload: &str) -> Result<()> {
    let payload = match payload {
        "-" => {
            let mut octets = Vec::new();
            io::stdin().lock().read_to_end(&mut octets).context("cannot read standard input")?;
            octets
        }
        text => text.as_bytes().to_vec(),
    };
    let client = connect(&args.node).await?;
    client.publish(&args.topic, payload, qos(args.qos), args.retain).await.with_context(|| args.topic.clone())?;
    client.close().await;
    Ok(())
}

/// Publishes lines until there are no more; says how they went where they went as what changed.
async fn publish_lines(args: &PubArgs) -> Result<()> {
    let options = MqttOptions { deltas: args.delta, ..who::mqtt(&args.node)? };
    let client = MqttClient::connect(&options).await.with_context(|| format!("no MQTT at {}", args.node.mqtt))?;
    let (say, mut said) = tokio::sync::mpsc::channel(1);
    // Not a task of the runtime: a read of a terminal ends when it likes.
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if say.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = said.recv().await {
        let line = line.context("cannot read standard input")?;
        client
            .publish_value(&args.topic, line, qos(args.qos), args.retain)
            .await
            .with_context(|| args.topic.clone())?;
    }
    if args.delta {
        let stats = client.sender_stats().await?;
        eprintln!(
            "tieline: {} values whole, {} as what changed, {} refused",
            stats.values, stats.deltas, stats.refused
        );
    }
    client.close().await;
    Ok(())
}

async fn connect(node: &MqttArgs) -> Result<MqttClient> {
    MqttClient::connect(&who::mqtt(node)?).await.with_context(|| format!("no MQTT at {}", node.mqtt))
}

const fn qos(level: u8) -> Qos {
    match level {
        0 => Qos::AtMostOnce,
        _ => Qos::AtLeastOnce,
    }
}

async fn follow(args: &SubArgs) -> Result<()> {
    let client = connect(&args.node).await?;
    let mut streams = Streams { streams: Vec::new(), turn: 0, lost_told: 0 };
    for filter in &args.filters {
        let subscribed = client.subscribe(filter, qos(args.qos)).await;
        streams.streams.push(subscribed.with_context(|| format!("the filter {filter:?}"))?);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let Some(received) = streams.next(&mut out).await? else {
            bail!("the node ended a subscription");
        };
        line.clear();
        match args.json {
            true => write_json(&received, &mut line),
            false => write_plain(&received, &mut line),
        }
        out.write_all(&line)?;
    }
    out.flush()?;
    client.close().await;
    Ok(())
}

/// Several subscriptions, read in turn.
struct Streams {
    streams: Vec<Subscription>,
    turn: usize,
    lost_told: u64,
}

impl Streams {
    /// The next message of any; none when one has ended. What was printed is flushed before there is a wait.
    async fn next(&mut self, out: &mut impl Write) -> Result<Option<Received>> {
        let count = self.streams.len();
        self.turn = (self.turn + 1) % count;
        let mut flushed = Ok(());
        let found = std::future::poll_fn(|cx| {
            let (before, after) = self.streams.split_at_mut(self.turn);
            for stream in after.iter_mut().chain(before) {
                if let Poll::Ready(found) = pin!(stream.next()).poll(cx) {
                    return Poll::Ready(found);
                }
            }
            flushed = out.flush();
            if flushed.is_err() { Poll::Ready(None) } else { Poll::Pending }
        });
        let found = found.await;
        flushed?;
        let lost = self.streams.iter().map(Subscription::lost).sum::<u64>();
        if lost >= self.lost_told.saturating_mul(2).max(1) {
            eprintln!("tieline: {lost} updates were lost: they are read too slowly");
            self.lost_told = lost;
        }
        Ok(found)
    }
}

/// `topic payload`; control characters are escaped, so that an update is a line.
fn write_plain(received: &Received, line: &mut Vec<u8>) {
    let message = &received.message;
    let text = match std::str::from_utf8(&message.payload) {
        Ok(text) => text.chars().fold(String::new(), |mut shown, c| {
            match c.is_control() {
                true => shown.extend(c.escape_default()),
                false => shown.push(c),
            }
            shown
        }),
        Err(_) => hex(&message.payload),
    };
    line.extend_from_slice(format!("{} {text}\n", message.topic).as_bytes());
}

/// `{"topic", "payload", "retain", "qos"}`; the payload is JSON where it is, then a text, then `{"hex"}`.
fn write_json(received: &Received, line: &mut Vec<u8>) {
    let message = &received.message;
    let payload = match std::str::from_utf8(&message.payload) {
        // Line ends stand only between the parts of JSON.
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => text.trim().replace(['\n', '\r'], " "),
        Ok(text) => json!(text).to_string(),
        Err(_) => hex(&message.payload),
    };
    let (topic, retain, qos) = (json!(message.topic.as_str()), received.retain, received.qos.bits());
    let object = format!("{{\"topic\":{topic},\"payload\":{payload},\"retain\":{retain},\"qos\":{qos}}}\n");
    line.extend_from_slice(object.as_bytes());
}

fn hex(octets: &[u8]) -> String {
    let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    json!({ "hex": digits }).to_string()
}
