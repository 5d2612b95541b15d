//! `tieline sub` and `tieline pub`: MQTT.

use crate::args::{PubArgs, SubArgs};
use crate::{log, signals, terminal, who};
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
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
            bytes
        }
        text => text.as_bytes().to_vec(),
    };
    let client = connect(who::mqtt(&args.node)?).await?;
    client.publish(&args.topic, payload, qos(args.qos), args.retain).await.with_context(|| args.topic.clone())?;
    client.close().await;
    if args.json {
        writeln!(io::stdout(), "{}", json!({ "status": "ok", "topic": args.topic, "published": 1 }))?;
    }
    Ok(())
}

/// Publishes lines until there are no more; says how they went where they went as what changed.
async fn publish_lines(args: &PubArgs) -> Result<()> {
    let options = MqttOptions { deltas: args.delta, ..who::mqtt(&args.node)? };
    let client = connect(options).await?;
    let mut published = 0_u64;
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
        published += 1;
    }
    if args.delta {
        let stats = client.sender_stats().await?;
        eprintln!(
            "tieline: {} values whole, {} as what changed, {} refused",
            stats.values, stats.deltas, stats.refused
        );
    }
    client.close().await;
    if args.json {
        writeln!(io::stdout(), "{}", json!({ "status": "ok", "topic": args.topic, "published": published }))?;
    }
    Ok(())
}

async fn connect(options: MqttOptions) -> Result<MqttClient> {
    MqttClient::connect(&options).await.with_context(|| format!("no MQTT at {}", options.address))
}

const fn qos(level: u8) -> Qos {
    match level {
        0 => Qos::AtMostOnce,
        _ => Qos::AtLeastOnce,
    }
}

async fn follow(args: &SubArgs) -> Result<()> {
    let client = connect(who::mqtt(&args.node)?).await?;
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
            false => write_plain(&received.message.topic, &received.message.payload, &mut line),
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

/// `topic payload`; control characters are escaped, so that an update is a line, and moves no cursor.
fn write_plain(topic: &str, payload: &[u8], line: &mut Vec<u8>) {
    let text = match std::str::from_utf8(payload) {
        Ok(text) => terminal::one_line(text),
        Err(_) => hex(payload).into(),
    };
    line.extend_from_slice(format!("{} {text}\n", terminal::one_line(topic)).as_bytes());
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
    line.extend_from_slice(terminal::json(&object).as_bytes());
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "hex": digits }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_a_line_that_moves_no_cursor() {
        let check = |topic: &str, payload: &[u8], expect: &str| {
            let mut line = Vec::new();
            write_plain(topic, payload, &mut line);
            assert_eq!(String::from_utf8(line).unwrap(), expect);
        };
        check("site/a", b"59.98", "site/a 59.98\n");
        check("a\x1b[2J\u{9b}", b"x\ny\x1b]0;t\x07", "a\\u{1b}[2J\\u{9b} x\\ny\\u{1b}]0;t\\u{7}\n");
        check("a", &[0xff, 0x1b], "a {\"hex\":\"ff1b\"}\n");
    }
}
