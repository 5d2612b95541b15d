//! Points of MQTT clients: a second until all are acknowledged, and until all can be queried.
//!
//! A node with a history; clients publish the points of their devices with QoS 1, each point a message, the 18 messages of a device in
//! one write, and keep as many without an acknowledgement as the node allows. The floor takes the same bytes from as many sockets,
//! counts their packets, appends as much to a file as the journal of the node got, syncs what came together, and acknowledges it.

use super::PATIENCE;
use super::plain::PlainFile;
use super::series::topics;
use super::stages::payload;
use crate::bus::node;
use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, take_turns};
use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use serde::Serialize;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::Topic;
use tieline_mqtt::{
    Connack, Connect, Decoder, Guarantee, Packet, PacketId, Properties, Publish, ReasonCode, Text, Version,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("clients", "clients"),
    ("points", "points"),
    ("points/s acknowledged", "points_per_s_acknowledged"),
    ("floor", "floor_points_per_s_acknowledged"),
    ("ratio to floor", "ratio_to_floor"),
    ("points/s queryable", "points_per_s_queryable"),
    ("CPU µs a point", "cpu_us_per_point"),
    ("floor", "floor_cpu_us_per_point"),
];

/// Points of a device: the messages of a write.
const DEVICE_POINTS: usize = 18;
/// Devices of all clients, or one each of more clients.
const DEVICES: usize = 512;
/// Messages without an acknowledgement that the node allows a client.
const WINDOW: usize = 64;
/// Bytes of a point in the node's journal.
const JOURNAL_BYTES: usize = 16;
const STORED: &str = "tieline_history_stored_points_total ";

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Points of a measurement, about.
    pub points: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// Numbers of clients.
    pub clients: Vec<usize>,
}

/// One row. Figures are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Clients, each with a connection.
    pub clients: usize,
    /// Points of a round.
    pub points: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Points a second until the last one was acknowledged: all survive a power cut.
    pub points_per_s_acknowledged: f64,
    /// The floor's.
    pub floor_points_per_s_acknowledged: f64,
    /// The node's time over that of the floor.
    pub ratio_to_floor: f64,
    /// Points a second until the last one can be queried.
    pub points_per_s_queryable: f64,
    /// Processor time of a point in the node: bus, journal and store, without the clients.
    pub cpu_us_per_point: f64,
    /// The floor's.
    pub floor_cpu_us_per_point: f64,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.points > 0 && options.rounds > 0, "points and rounds are 1 or more");
    let row = |clients: &usize| {
        process::reserve_descriptors(*clients, 4)?;
        Load::new(options.points, *clients)?.row(options.rounds, progress)
    };
    options.clients.iter().map(row).collect()
}

/// What each client sends.
struct Load {
    points: usize,
    clients: Vec<Rc<Packets>>,
}

/// The messages of a client as bytes.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// How long a round took.
#[derive(Clone, Copy, Debug)]
struct Took {
    acknowledged: Duration,
    queryable: Duration,
    /// Processor time without the clients.
    cpu: Duration,
}

impl Load {
    fn new(points: usize, count: usize) -> Result<Self> {
        let topics = topics(DEVICES.max(count) * DEVICE_POINTS)?;
        let seconds = points.div_ceil(topics.len()) as u64;
        let mut clients: Vec<Packets> = std::iter::repeat_with(Packets::default).take(count).collect();
        for second in 0..seconds {
            for (number, topic) in topics.iter().enumerate() {
                let client = clients.get_mut(number / DEVICE_POINTS % count).context("a client")?;
                client.add(topic, payload(number as u64, second))?;
            }
        }
        Ok(Self {
            points: topics.len() * usize::try_from(seconds)?,
            clients: clients.into_iter().map(Rc::new).collect(),
        })
    }

    fn row(&self, rounds: usize, progress: &Progress) -> Result<Row> {
        let (mut ours, mut floor): (Vec<Took>, Vec<Took>) = (Vec::new(), Vec::new());
        let what = format!("history: {} points of {} clients", self.points, self.clients.len());
        let invalid = take_turns(rounds, progress, &what, |side| {
            match side {
                Side::Ours => ours.push(self.to_node()?),
                Side::Floor => floor.push(self.to_floor()?),
            }
            Ok(())
        });
        let figures = invalid.is_none().then(|| self.figures(&ours, &floor));
        Ok(Row { clients: self.clients.len(), points: self.points, rounds, figures, invalid })
    }

    fn figures(&self, ours: &[Took], floor: &[Took]) -> Figures {
        let seconds =
            |all: &[Took], of: fn(&Took) -> Duration| all.iter().map(|took| of(took).as_secs_f64()).collect::<Vec<_>>();
        let (acknowledged, floor_s) =
            (seconds(ours, |took| took.acknowledged), seconds(floor, |took| took.acknowledged));
        let points = number(self.points as u64);
        let cpu_us = |all| short(median(&seconds(all, |took| took.cpu)) * 1e6 / points);
        Figures {
            points_per_s_acknowledged: short(points / median(&acknowledged)),
            floor_points_per_s_acknowledged: short(points / median(&floor_s)),
            ratio_to_floor: short(median_ratio(&acknowledged, &floor_s)),
            points_per_s_queryable: short(points / median(&seconds(ours, |took| took.queryable))),
            cpu_us_per_point: cpu_us(ours),
            floor_cpu_us_per_point: cpu_us(floor),
        }
    }

    fn to_node(&self) -> Result<Took> {
        let folder = TempDir::new().context("a folder for the node's data")?;
        let (node, _) = node::start(folder.path(), true, false)?;
        let metrics = format!("http://{}/metrics", node.http());
        self.publish(node.mqtt(), || {
            let began = Instant::now();
            while stored(&metrics)? < self.points as u64 {
                ensure!(began.elapsed() < PATIENCE, "the store did not have all in time");
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
    }

    fn to_floor(&self) -> Result<Took> {
        let folder = TempDir::new().context("a folder for the plain file")?;
        let file = PlainFile::create(&folder.path().join("plain"), JOURNAL_BYTES * DEVICE_POINTS, Duration::ZERO)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("floor".into()).spawn(move || serve(listener, file, stopped))?;
        let took = self.publish(address, || Ok(()));
        drop(stop);
        thread.join().map_err(|_| anyhow!("the floor's thread panicked"))??;
        took
    }

    /// Has all clients publish all from one thread; then waits.
    fn publish(&self, address: SocketAddr, wait: impl FnOnce() -> Result<()>) -> Result<Took> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = LocalSet::new();
        let clients = runtime.block_on(local.run_until(self.connect(address)))?;
        let (began, cpu, own) = (Instant::now(), process::cpu(), process::thread_cpu());
        runtime.block_on(local.run_until(async {
            let send = |(stream, packets): (TcpStream, &Rc<Packets>)| {
                tokio::task::spawn_local(send_all(stream, Rc::clone(packets)))
            };
            let tasks: Vec<_> = clients.into_iter().zip(&self.clients).map(send).collect();
            for task in tasks {
                tokio::time::timeout(PATIENCE, task).await.context("acknowledgements did not come in time")???;
            }
            anyhow::Ok(())
        }))?;
        let acknowledged = began.elapsed();
        let own = process::thread_cpu() - own;
        wait()?;
        Ok(Took { acknowledged, queryable: began.elapsed(), cpu: (process::cpu() - cpu).saturating_sub(own) })
    }

    async fn connect(&self, address: SocketAddr) -> Result<Vec<TcpStream>> {
        let mut streams = Vec::new();
        for client in 0..self.clients.len() {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let connect = Connect {
                version: Version::V5,
                clean_start: true,
                keep_alive_s: 0,
                properties: Properties::default(),
                client_id: Text::truncated(&format!("bench-{client}")),
                will: None,
                user_name: None,
                password: None,
            };
            stream.write_all(&emitted(&Packet::Connect(Box::new(connect)))?).await?;
            let mut answers = Answers::default();
            match tokio::time::timeout(PATIENCE, answers.next(&mut stream)).await.context("no CONNACK came")?? {
                Packet::Connack(Connack { reason: ReasonCode::Success, .. }) => streams.push(stream),
                other => bail!("{other:?} is no connection"),
            }
        }
        Ok(streams)
    }
}

impl Packets {
    /// Packet identifiers go round: fewer are under way than there are.
    fn add(&mut self, topic: &Topic, payload: Bytes) -> Result<()> {
        let packet_id = u16::try_from(self.ends.len() % usize::from(u16::MAX) + 1)?;
        let packet_id = PacketId::new(packet_id).context("a packet identifier")?;
        let publish = Publish {
            guarantee: Guarantee::AtLeastOnce { packet_id, dup: false },
            topic: Text::truncated(topic.as_str()),
            payload,
            ..Publish::default()
        };
        self.bytes.extend(emitted(&Packet::Publish(publish))?);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// The bytes of some of them, one after the other.
    fn between(&self, first: usize, end: usize) -> &[u8] {
        let before = |place: usize| place.checked_sub(1).and_then(|place| self.ends.get(place)).copied().unwrap_or(0);
        self.bytes.get(before(first)..before(end)).unwrap_or_default()
    }
}

fn emitted(packet: &Packet) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    packet.emit(Version::V5, &mut bytes)?;
    Ok(bytes)
}

/// Publishes all, whole devices together, and waits until all are acknowledged.
async fn send_all(mut stream: TcpStream, packets: Rc<Packets>) -> Result<()> {
    let (mut sent, mut acknowledged, count) = (0, 0, packets.ends.len());
    let mut answers = Answers::default();
    while acknowledged < count {
        let devices = (acknowledged + WINDOW - sent) / DEVICE_POINTS;
        let end = count.min(sent + devices * DEVICE_POINTS);
        stream.write_all(packets.between(sent, end)).await?;
        sent = end;
        acknowledged += answers.acknowledged(&mut stream).await?;
    }
    Ok(())
}

/// What comes from a server.
struct Answers {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// How many of the bytes were read, and how many taken.
    read: usize,
    taken: usize,
}

impl Default for Answers {
    fn default() -> Self {
        Self { decoder: Decoder::new(1 << 20), bytes: vec![0; 16_384], read: 0, taken: 0 }
    }
}

impl Answers {
    async fn next(&mut self, stream: &mut TcpStream) -> Result<Packet> {
        loop {
            if let Some(packet) = self.taken()? {
                return Ok(packet);
            }
            self.fill(stream).await?;
        }
    }

    /// How many messages were acknowledged; waits until it is one at least.
    async fn acknowledged(&mut self, stream: &mut TcpStream) -> Result<usize> {
        let mut count = 0;
        while count == 0 {
            self.fill(stream).await?;
            while let Some(packet) = self.taken()? {
                match packet {
                    Packet::Puback(ack) if ack.reason < ReasonCode::UnspecifiedError => count += 1,
                    other => bail!("{other:?} is no acknowledgement"),
                }
            }
        }
        Ok(count)
    }

    fn taken(&mut self) -> Result<Option<Packet>> {
        let rest = self.bytes.get(self.taken..self.read).unwrap_or_default();
        let (length, frame) = self.decoder.feed(rest)?;
        self.taken += length;
        Ok(frame.map(|frame| Packet::parse(Version::V5, &frame)).transpose()?)
    }

    async fn fill(&mut self, stream: &mut TcpStream) -> Result<()> {
        (self.read, self.taken) = (stream.read(&mut self.bytes).await?, 0);
        ensure!(self.read > 0, "the connection was closed");
        Ok(())
    }
}

fn stored(metrics: &str) -> Result<u64> {
    let text = ureq::get(metrics).call()?.body_mut().read_to_string()?;
    let value = text.lines().find_map(|line| line.strip_prefix(STORED)).context("no count of stored points")?;
    value.parse().with_context(|| format!("{value:?} is no count"))
}

/// The floor's server, until it is stopped.
fn serve(listener: std::net::TcpListener, file: PlainFile, stopped: oneshot::Receiver<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (local, file) = (LocalSet::new(), Rc::new(file));
    runtime.block_on(local.run_until(async {
        let listener = TcpListener::from_std(listener)?;
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::task::spawn_local(acknowledge(stream, Rc::clone(&file)));
            }
        };
        tokio::select! {
            ended = accept => ended,
            _ = stopped => Ok(()),
        }
    }))
}

/// Acknowledges what comes, once the file has it.
async fn acknowledge(mut stream: TcpStream, file: Rc<PlainFile>) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut incoming, mut answer) = (Answers::default(), Vec::new());
    loop {
        incoming.fill(&mut stream).await?;
        answer.clear();
        let mut is_connected = true;
        loop {
            let rest = incoming.bytes.get(incoming.taken..incoming.read).unwrap_or_default();
            let (length, frame) = incoming.decoder.feed(rest)?;
            incoming.taken += length;
            let Some(frame) = frame else { break };
            if frame.packet_type == tieline_mqtt::PacketType::Connect {
                is_connected = false;
                answer.extend([0x20, 3, 0, 0, 0]);
            } else {
                answer.extend([0x40, 2, 0, 1]);
            }
        }
        if is_connected && !answer.is_empty() {
            let (tell, told) = oneshot::channel();
            file.submit(Box::new(move |result| _ = tell.send(result.is_ok())));
            ensure!(told.await?, "the plain file failed");
        }
        stream.write_all(&answer).await?;
    }
}
