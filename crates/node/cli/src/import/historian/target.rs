//! Where samples go: a running node, or the data folder of one that is stopped.

use crate::import::args::VolttronHistoryArgs;
use crate::who;
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::sync::mpsc;
use std::time::Duration;
use tieline_client::HttpClient;
use tieline_core::{Body, Timestamp, Topic, Update, Value};
use tieline_history::{HistoryOptions, HistoryWriter, NotRecorded};
use tieline_journal::Seq;
use tieline_node::FolderLock;

/// Bytes of JSON of one call, less what one sample may have.
const CALL_BYTES: usize = 512 << 10;
/// How often, and how long, a full journal is waited for.
const ATTEMPTS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest time for a call: a node answers when what it took can be read.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A sample on its way.
#[derive(Clone, Debug)]
pub struct Sample {
    pub topic: Topic,
    pub time: Timestamp,
    pub body: Body,
}

/// Where samples go.
pub enum Target {
    Node(HttpClient),
    Folder { writer: HistoryWriter, last: Seq, _lock: FolderLock },
}

impl Target {
    pub fn open(args: &VolttronHistoryArgs) -> Result<Self> {
        let Some(data) = &args.data else { return Ok(Self::Node(who::http(&args.node, Some(CALL_TIMEOUT))?)) };
        let _lock = FolderLock::take(data).map_err(|why| anyhow!("{}: {why}", data.display()))?;
        let writer = HistoryWriter::open(data, HistoryOptions::default())
            .with_context(|| format!("{}: the history cannot be opened", data.display()))?;
        Ok(Self::Folder { writer, last: Seq(0), _lock })
    }

    /// Stores samples; those that are there already count once.
    pub fn store(&mut self, samples: Vec<Sample>) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        match self {
            Self::Node(client) => send(client, &samples),
            Self::Folder { writer, last, .. } => {
                let sample = |Sample { topic, time, body }| tieline_journal::Sample {
                    time,
                    update: Update { topic, body },
                    again: true,
                };
                *last = submit(writer, *last, &samples.into_iter().map(sample).collect::<Vec<_>>())?;
                Ok(())
            }
        }
    }

    /// Waits until all can be read.
    pub fn close(self) -> Result<()> {
        let Self::Folder { writer, last, .. } = self else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            if writer.handle().wait_stored(last, PATIENCE) {
                return Ok(());
            }
        }
        bail!("the store does not take what the journal has; a node that starts goes on with it")
    }
}

fn submit(writer: &HistoryWriter, last: Seq, samples: &[tieline_journal::Sample]) -> Result<Seq> {
    let handle = writer.handle();
    for _ in 0..ATTEMPTS {
        let (told, receipt) = mpsc::sync_channel(1);
        handle.submit(samples.to_vec(), Box::new(move |stored| drop(told.send(stored))));
        match receipt.recv()? {
            Ok(seq) => return Ok(seq),
            // The store makes room in the journal.
            Err(NotRecorded::Full) => drop(handle.wait_stored(last, PATIENCE)),
            Err(error) => bail!("{error}"),
        }
    }
    bail!("the journal stays full")
}

/// Sends samples to a node, in as many calls as it takes.
fn send(client: &HttpClient, samples: &[Sample]) -> Result<()> {
    let mut body = Vec::with_capacity(CALL_BYTES + 4096);
    for sample in samples {
        body.push(if body.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut body, &as_json(sample))?;
        if body.len() >= CALL_BYTES {
            put(client, &mut body)?;
        }
    }
    if body.is_empty() { Ok(()) } else { put(client, &mut body) }
}

fn put(client: &HttpClient, body: &mut Vec<u8>) -> Result<()> {
    body.push(b']');
    let _: Json = client.put("/v1/history", body, &[("content-type", "application/json")])?;
    body.clear();
    Ok(())
}

/// A sample as a node imports it, with its kind: 5.0 stays a double.
fn as_json(sample: &Sample) -> Json {
    let (kind, value) = match &sample.body {
        Body::Point(point) => match &point.value {
            Value::Null => ("null", Json::Null),
            Value::Bool(truth) => ("boolean", json!(truth)),
            Value::Int(integer) => ("integer", json!(integer)),
            Value::Float(double) if double.is_finite() => ("double", json!(double)),
            Value::Float(double) => ("double", json!(double.to_string())),
            Value::Text(text) => ("text", json!(&**text)),
            Value::Bytes(bytes) => ("text", json!(String::from_utf8_lossy(bytes))),
        },
        body => ("payload", json!(String::from_utf8_lossy(&body.to_payload()))),
    };
    json!({ "topic": sample.topic.as_str(), "t": sample.time.to_string(), "v": value, "kind": kind })
}
