//! `/v1/trace`: what a device and the node say to each other, in words or as a capture for Wireshark.
//!
//! Who reads it needs the right to administer the device's topic: the bytes of a protocol may have secrets, and values of points
//! that a reader may not read.

use super::arguments::{TopicAt, wrong};
use super::authorization::{Authenticated, Authorized};
use super::logins::LoginEnd;
use super::pieces::Pieces;
use super::problem::Problem;
use crate::config::DeviceConfig;
use crate::field::{self, FieldInput};
use crate::trace::{
    Copied, Line, PcapngWriter, Selected, TraceAsk, TraceCounters, TraceLine, TracedConnection, Viewer, read_counter,
    read_file,
};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{DeviceId, Words};
use tieline_service::exposition::Exposition;
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Query, Word};
use tieline_service::parameters;
use tokio::sync::{mpsc, oneshot};

/// Records that may wait for one who follows; the next is missed, and counted.
const FOLLOWED_MAX: usize = 1024;
/// Pieces of an answer that may wait for the caller.
const WAITING_MAX: usize = 2;
/// Bytes of a piece.
const PIECE_BYTES: usize = 32 * 1024;
const LINES: &str = "application/x-ndjson";
const CAPTURE: &str = "application/x-pcapng";
/// How long a shard may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What traces count.
pub(super) fn metrics(e: &mut Exposition, counters: &TraceCounters) {
    let TraceCounters { memory_bytes, follower_drops, disk_bytes, disk_dropped_bytes } = counters;
    e.gauge("tieline_trace_memory_bytes", "Memory that protocol traces hold.", read_counter(memory_bytes));
    let drops = "Records of protocol traces that a reader who follows did not take in time.";
    e.counter("tieline_trace_follower_drops_total", drops, read_counter(follower_drops));
    let disk = "Bytes of protocol traces written to the disk.";
    e.counter("tieline_trace_disk_bytes_total", disk, read_counter(disk_bytes));
    let dropped = "Bytes of protocol traces that the disk did not take, or not in time.";
    e.counter("tieline_trace_disk_dropped_bytes_total", dropped, read_counter(disk_dropped_bytes));
}

parameters! {
    /// Which part of a trace is asked for, and as what.
    pub struct TraceAsked {
        /// The last minute, the minute before the device went away the last time, or the files on the disk
        from: Word<From> = "memory",
        /// Only messages that carry this point, by its name in the device's list
        point: Option<String>,
        /// Only what went wrong
        errors: bool = "false",
        /// Lines, or a capture that Wireshark opens
        format: Word<Format> = "lines",
        /// Go on with each message as it comes
        follow: bool = "false",
    }
}

/// Lines, events or a capture.
pub struct Trace(Response);

impl Trace {
    fn of(media_type: &'static str, body: Body) -> Self {
        Self(([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))], body).into_response())
    }
}

impl IntoResponse for Trace {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Output for Trace {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let line = schemas.written::<TraceLine<'_>>();
        operation.content(200, LINES, line.clone());
        operation.content(200, "text/event-stream", line);
        operation.content(200, CAPTURE, serde_json::json!({ "type": "string", "format": "binary" }));
    }
}

/// The trace of one device.
pub async fn trace(
    authenticated: Authenticated,
    TopicAt { topic, .. }: TopicAt,
    Query(asked): Query<TraceAsked>,
) -> Result<Trace, Problem> {
    let authorized = authenticated.must(Verb::Admin, &topic).await?;
    let known = authorized.app.known.all();
    let found = known.iter().find(|device| device.config.topic == topic);
    let found = found.ok_or_else(|| Problem::not_found(format!("there is no device {topic:?}")))?;
    let (device, id) = (&found.config, found.id);
    if !device.trace.enabled {
        let words = format!("{topic:?} is not traced: enabled is false in [device.{}.trace]", device.name);
        return Err(Problem::new(StatusCode::CONFLICT, words));
    }
    let asked = Asked::of(asked, device, id)?;
    if asked.follow {
        return follow(&authorized, &asked).await;
    }
    let source = source(&authorized, &asked).await?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let (kind, is_capture) = match asked.format {
        Format::Lines => (LINES, false),
        Format::Pcapng => (CAPTURE, true),
    };
    let (pieces, incoming) = mpsc::channel::<io::Result<Bytes>>(WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        let written = if is_capture { asked.write_capture(source, out) } else { asked.write_lines(source, out) };
        if let Err(error) = written {
            // A caller that has gone needs no error.
            let _ = pieces.blocking_send(Err(error));
        }
        drop(recall);
    });
    let stream = futures_util::stream::unfold(incoming, |mut incoming| async {
        incoming.recv().await.map(|piece| (piece, incoming))
    });
    Ok(Trace::of(kind, Body::from_stream(stream)))
}

/// Where the records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Memory,
    Away,
    Disk,
}

impl Words for From {
    const WORDS: &'static [(&'static str, Self)] =
        &[("memory", Self::Memory), ("away", Self::Away), ("disk", Self::Disk)];
}

/// What they are told as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Lines,
    Pcapng,
}

impl Words for Format {
    const WORDS: &'static [(&'static str, Self)] = &[("lines", Self::Lines), ("pcapng", Self::Pcapng)];
}

/// What is asked for.
struct Asked {
    device: DeviceConfig,
    id: DeviceId,
    from: From,
    format: Format,
    point: Option<usize>,
    errors: bool,
    follow: bool,
}

impl Asked {
    fn of(asked: TraceAsked, device: &DeviceConfig, id: DeviceId) -> Result<Self, Problem> {
        let TraceAsked { from: Word(from), point, errors, format: Word(format), follow } = asked;
        let point = point.map(|name| {
            let found = device.points.iter().position(|point| point.name == name);
            found.ok_or_else(|| wrong("point", &name, &format!("the name of a point of {:?}", device.topic.as_str())))
        });
        let point = point.transpose()?;
        if follow && (from != From::Memory || format != Format::Lines) {
            return Err(Problem::bad_request("follow is of memory and of lines; from and format say otherwise"));
        }
        if format == Format::Pcapng && (point.is_some() || errors) {
            return Err(Problem::bad_request("a capture has all that was said; point and errors are of lines"));
        }
        if format == Format::Pcapng && device.address().is_none() {
            let words = format!("{:?} has no connection, so there are no bytes to capture", device.topic.as_str());
            return Err(Problem::new(StatusCode::CONFLICT, words));
        }
        Ok(Self { device: device.clone(), id, from, format, point, errors, follow })
    }

    fn viewer(&self) -> io::Result<Viewer> {
        let decoder = field::decoder_of(&self.device, self.point)?;
        let names = self.device.points.iter().map(|point| point.name.clone()).collect();
        let selected = Selected { point: self.point.is_some(), errors: self.errors };
        Ok(Viewer::new(decoder, self.id, names, selected))
    }

    fn write_lines(&self, source: Source, mut out: impl Write) -> io::Result<()> {
        let mut viewer = self.viewer()?;
        source.each(|records| {
            let mut lines = Vec::new();
            viewer.read(records, &mut lines);
            lines.iter().try_for_each(|line| writeln!(out, "{}", line.json()?))
        })?;
        out.flush()
    }

    fn write_capture(&self, source: Source, out: impl Write) -> io::Result<()> {
        let decoder = field::decoder_of(&self.device, None)?;
        let mut writer = PcapngWriter::new(out, decoder, self.id, &self.device.topic)?;
        source.each(|records| writer.write(records))?;
        writer.finish()
    }
}

/// Records, or the files that have them.
enum Source {
    Memory(Arc<[u8]>),
    Disk(Vec<PathBuf>),
}

impl Source {
    fn each(self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Memory(records) => take(&records),
            Self::Disk(files) => files.iter().try_for_each(|file| match read_file(file) {
                Ok(records) => take(&records),
                // It was the oldest, and has made room.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }),
        }
    }
}

async fn source(authorized: &Authorized, asked: &Asked) -> Result<Source, Problem> {
    match asked.from {
        From::Memory => Ok(Source::Memory(ask(authorized, asked.id, None).await?.records.into())),
        From::Away => {
            let away = ask(authorized, asked.id, None).await?.away;
            let never = || Problem::not_found("the device has not gone away since the node started");
            Ok(Source::Memory(away.ok_or_else(never)?))
        }
        From::Disk => {
            if asked.device.trace.disk == 0 {
                let words = format!("nothing is on the disk: [device.{}.trace] has no disk", asked.device.name);
                return Err(Problem::new(StatusCode::CONFLICT, words));
            }
            let files = authorized.app.about.traces.files(&TracedConnection::of(&asked.device));
            Ok(Source::Disk(files.map_err(|error| Problem::unavailable(error.to_string()))?))
        }
    }
}

/// Asks all shards; the one that has the device answers.
async fn ask(
    authorized: &Authorized,
    device: DeviceId,
    follower: Option<mpsc::Sender<Bytes>>,
) -> Result<Copied, Problem> {
    for shard in authorized.app.bus.field().await? {
        let (answer, answered) = oneshot::channel();
        let input = FieldInput::Trace(TraceAsk { device, follower: follower.clone(), answer });
        if shard.try_send(input).is_err() {
            continue;
        }
        if let Ok(Ok(copied)) = tokio::time::timeout(PATIENCE, answered).await {
            return Ok(copied);
        }
    }
    Err(Problem::unavailable("the device's thread does not answer"))
}

/// The trace so far, then each line as it comes.
async fn follow(authorized: &Authorized, asked: &Asked) -> Result<Trace, Problem> {
    let mut viewer = asked.viewer().map_err(|error| Problem::unavailable(error.to_string()))?;
    let (sender, records) = mpsc::channel(FOLLOWED_MAX);
    let copied = ask(authorized, asked.id, Some(sender)).await?;
    if !copied.follows {
        return Err(Problem::unavailable("enough readers follow the trace of this device"));
    }
    let mut lines = Vec::new();
    viewer.read(&copied.records, &mut lines);
    let following = Following { viewer, records, lines: lines.into(), login: authorized.caller.login() };
    let stream = futures_util::stream::unfold(following, |mut following| async {
        let text = following.next().await?.json().ok()?;
        Some((Ok::<_, Infallible>(Event::default().event("line").data(text)), following))
    });
    Ok(Trace(Sse::new(stream).keep_alive(KeepAlive::default()).into_response()))
}

/// One who follows.
struct Following {
    viewer: Viewer,
    records: mpsc::Receiver<Bytes>,
    lines: VecDeque<Line>,
    login: Option<LoginEnd>,
}

impl Following {
    /// The next line; none once the login or the node has ended.
    async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let records = tokio::select! {
                records = self.records.recv() => records?,
                () = ended(&mut self.login) => return None,
            };
            let mut lines = Vec::new();
            self.viewer.read(&records, &mut lines);
            self.lines.extend(lines);
        }
    }
}

/// Waits for the end of a login; where there is none, for ever.
async fn ended(login: &mut Option<LoginEnd>) {
    match login {
        Some(login) => login.gone().await,
        None => std::future::pending().await,
    }
}
