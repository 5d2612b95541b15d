//! What reading much of one BACnet device takes: time, and processor time of a value. The floor moves the same datagrams in the
//! same turns between bare sockets of the same runtime.
//!
//! ```text
//! client (a thread) ⇄ device of ours (a thread)      floor: datagrams of the same lengths, as they were recorded
//! ```

use super::{Experiment, Figures, Options, Row};
use crate::process::thread_cpu;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, take_turns};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Serialize;
use std::cell::RefCell;
use std::future::{Future, pending};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tieline_bacnet::client::{Client, ClientConfig, Event, PeerLimits, Request};
use tieline_bacnet::device::{Device, DeviceConfig, DeviceEvent};
use tieline_bacnet::names::Segmentation;
use tieline_bacnet::server::{Object, Server, ServerConfig, ServerEvent};
use tieline_bacnet::service::ReadMultipleAck;
use tieline_bacnet::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use tieline_core::{Instant, Now};
use tieline_net::{Clock, Counters, DatagramMachine, Endpoint, EndpointOwner, Shard, ShardThread};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, oneshot};

/// Objects of the list that is read, the device itself included.
const LISTED: usize = 303;
/// Values that are read together.
const VALUES: usize = 800;
const INSTANCE: u32 = 1;
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the longest datagram.
const DATAGRAM_BYTES: usize = 2048;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// What the device says of itself.
    Profile,
    /// Its object list.
    ObjectList,
    /// Many values by one request, whose answer has segments as the request has.
    OneAnswer,
    /// Many values by as many requests as it takes.
    Fitting,
}

impl What {
    const ALL: [Self; 4] = [Self::Profile, Self::ObjectList, Self::OneAnswer, Self::Fitting];

    const fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::ObjectList => "object list",
            Self::OneAnswer => "800 values, one answer",
            Self::Fitting => "800 values, requests that fit",
        }
    }

    /// Objects of the device besides itself.
    const fn objects(self) -> usize {
        match self {
            Self::Profile | Self::ObjectList => LISTED - 1,
            Self::OneAnswer | Self::Fitting => VALUES,
        }
    }
}

/// What a row measured: medians over its rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BacnetFigures {
    /// Values that are read.
    pub values: u64,
    /// Datagrams of both directions.
    pub datagrams: u64,
    /// From the call to the values, in milliseconds: the median of a round.
    pub ms: f64,
    /// The floor's.
    pub floor_ms: f64,
    /// Time over the floor's.
    pub ratio_to_floor: f64,
    /// Processor time of the client's thread for a value, in microseconds.
    pub cpu_us_per_value: f64,
    /// The floor's.
    pub floor_cpu_us_per_value: f64,
}

/// One side of a round.
#[derive(Clone, Debug, Default)]
struct Timed {
    values: u64,
    ms: f64,
    cpu_us: f64,
    turns: Turns,
}

/// Bytes of datagrams, in the order in which they went: first those of the client, then those of the device, and so on.
type Turns = Vec<(Sent, Vec<usize>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    ByClient,
    ByDevice,
}

/// The rows of the experiment.
pub fn rows(options: &Options, progress: &Progress) -> Vec<Row> {
    What::ALL.into_iter().map(|what| row(options, progress, what)).collect()
}

fn row(options: &Options, progress: &Progress, what: What) -> Row {
    let span = options.span;
    let (mut ours, mut floor) = (Vec::<Timed>::new(), Vec::new());
    let name = format!("field: BACnet, {}", what.word());
    let invalid = take_turns(options.rounds, progress, &name, |side| {
        match side {
            Side::Ours => {
                ours.push(on_threads(move |shard| serve(shard, what), move |shard, to| read(shard, to, what, span))?);
            }
            Side::Floor => {
                let turns = ours.last().map(|timed| timed.turns.clone()).context("no round before the floor")?;
                let same = turns.clone();
                floor.push(on_threads(move |_| replay(same), move |_, to| repeat(to, turns, span))?);
            }
        }
        Ok(())
    });
    let figures = invalid.is_none().then(|| Figures::Bacnet(figures(&ours, &floor)));
    let rounds = Some(options.rounds);
    Row { what: Some(what.word()), rounds, figures, invalid, ..Row::new(Experiment::Bacnet) }
}

fn figures(ours: &[Timed], floor: &[Timed]) -> BacnetFigures {
    let all = |rounds: &[Timed], of: fn(&Timed) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let (ms, floor_ms) = (all(ours, |timed| timed.ms), all(floor, |timed| timed.ms));
    let values = ours.first().map_or(0, |timed| timed.values);
    let datagrams = ours.first().map_or(0, |timed| timed.turns.iter().map(|(_, lengths)| lengths.len() as u64).sum());
    let cpu = |rounds: &[Timed]| short(median(&all(rounds, |timed| timed.cpu_us)) / number(values.max(1)));
    BacnetFigures {
        values,
        datagrams,
        ms: short(median(&ms)),
        floor_ms: short(median(&floor_ms)),
        ratio_to_floor: short(median_ratio(&ms, &floor_ms)),
        cpu_us_per_value: cpu(ours),
        floor_cpu_us_per_value: cpu(floor),
    }
}

/// Runs a device on a thread, which says where it is, and its reader on another.
fn on_threads<D, R>(
    device: impl FnOnce(Rc<Shard>) -> D + Send + 'static,
    reader: impl FnOnce(Rc<Shard>, SocketAddrV4) -> R + Send + 'static,
) -> Result<Timed>
where
    D: Future<Output = Result<(SocketAddrV4, Served)>> + 'static,
    R: Future<Output = Result<Timed>> + 'static,
{
    let (bound, address) = oneshot::channel();
    let main = move |shard| async move {
        match device(shard).await {
            Ok((address, served)) => {
                let _ = bound.send(Ok(address));
                let _ = served.await;
                pending::<()>().await;
            }
            Err(error) => drop(bound.send(Err(error))),
        }
    };
    let _device = ShardThread::spawn("bacnet-device", Clock::start(), Arc::new(Counters::default()), main)?;
    let to = address.blocking_recv().context("the device has ended")??;
    let (tell, told) = channel();
    let main = move |shard| async move {
        let _ = tell.send(reader(shard, to).await);
        pending::<()>().await;
    };
    let _reader = ShardThread::spawn("bacnet-reader", Clock::start(), Arc::new(Counters::default()), main)?;
    told.recv_timeout(PATIENCE).context("the reader says nothing")?
}

/// What a device does after it has said where it is.
type Served = std::pin::Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// Repeats what is timed until so much time is over; the first is not counted.
struct Laps {
    times_ms: Vec<f64>,
    cpu: Duration,
    until: tokio::time::Instant,
}

impl Laps {
    fn begin(span: Duration) -> Self {
        Self { times_ms: Vec::new(), cpu: thread_cpu(), until: tokio::time::Instant::now() + span }
    }

    /// Whether there is to be another.
    fn add(&mut self, took: Duration) -> bool {
        self.times_ms.push(took.as_secs_f64() * 1e3);
        tokio::time::Instant::now() < self.until
    }

    fn timed(&self, values: u64, turns: Turns) -> Timed {
        let cpu_us = thread_cpu().saturating_sub(self.cpu).as_secs_f64() * 1e6 / number(self.times_ms.len() as u64);
        Timed { values, ms: median(&self.times_ms), cpu_us, turns }
    }
}

// Ours.

async fn serve(shard: Rc<Shard>, what: What) -> Result<(SocketAddrV4, Served)> {
    let mut server = Server::new(ServerConfig { instance: INSTANCE, ..ServerConfig::default() });
    for (number, object) in (0_u16..).zip(objects(what)) {
        let value = Value::Real(f32::from(number));
        server.add(Object::new(object.object_type(), object.instance(), &format!("point {number}"), value));
    }
    let endpoint = Endpoint::new(&shard, OnSocket(server));
    let (address, _) = endpoint.start("127.0.0.1:0".parse()?, None, Silent).await?;
    let SocketAddr::V4(address) = address else { bail!("{address} is not of IPv4") };
    // The socket is served by a task of its own.
    Ok((address, Box::pin(pending())))
}

fn objects(what: What) -> Vec<ObjectId> {
    let count = u32::try_from(what.objects()).unwrap_or(0);
    (0..count).map(|instance| ObjectId::new(ObjectType::ANALOG_INPUT, instance)).collect()
}

async fn read(shard: Rc<Shard>, to: SocketAddrV4, what: What, span: Duration) -> Result<Timed> {
    let outcome = Outcome::default();
    let endpoint = Endpoint::new(&shard, Reader::new(to, what));
    endpoint.start("127.0.0.1:0".parse()?, None, outcome.clone()).await?;
    let once = async |begin: fn(&mut Reader, Now) -> Result<()>| {
        let began = tokio::time::Instant::now();
        endpoint.with(begin)?;
        let values = outcome.wait().await?;
        Ok::<_, anyhow::Error>((values, began.elapsed()))
    };
    once(Reader::learn).await?;
    let (values, _) = once(Reader::begin).await?;
    let turns = endpoint.with(|reader, _| std::mem::take(&mut reader.turns));
    let mut laps = Laps::begin(span);
    while laps.add(once(Reader::begin).await?.1) {}
    Ok(laps.timed(values, turns))
}

struct OnSocket(Server);

impl DatagramMachine for OnSocket {
    type Address = SocketAddr;

    type Event = ServerEvent;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.0.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.0.handle_timeout(now);
    }

    fn timeout(&self) -> Option<Instant> {
        self.0.timeout()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        self.0.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, _now: Now) -> Option<ServerEvent> {
        self.0.poll_event()
    }
}

struct Silent;

impl EndpointOwner<OnSocket> for Silent {
    fn event(&mut self, _endpoint: &Endpoint<OnSocket>, _now: Now, _event: ServerEvent) {}
}

/// Reads one device.
struct Reader {
    client: Client,
    device: Device,
    what: What,
    references: Vec<PropertyRef>,
    /// Recorded until the owner takes them.
    turns: Turns,
}

impl Reader {
    fn new(to: SocketAddrV4, what: What) -> Self {
        let present = |object| PropertyRef::new(object, PropertyId::PRESENT_VALUE);
        Self {
            client: Client::new(ClientConfig::default()),
            device: Device::new(
                Peer::direct(to),
                Some(INSTANCE),
                DeviceConfig { in_flight: 1, ..DeviceConfig::default() },
            ),
            what,
            references: objects(what).into_iter().map(present).collect(),
            turns: Turns::new(),
        }
    }

    fn learn(&mut self, now: Now) -> Result<()> {
        self.device.learn(now, &mut self.client).map(drop).map_err(|error| anyhow!("{error}"))
    }

    fn begin(&mut self, now: Now) -> Result<()> {
        self.turns.clear();
        let asked = match self.what {
            What::Profile => return self.learn(now),
            What::ObjectList => self.device.read_object_list(now, &mut self.client).map(drop),
            What::Fitting => self.device.read(now, &mut self.client, self.references.clone()).map(drop),
            What::OneAnswer => {
                let limits = PeerLimits { max_apdu: 1476, segmentation: Segmentation::BOTH, ..PeerLimits::default() };
                self.client.set_limits(self.device.peer(), limits);
                self.client.request(now, self.device.peer(), Request::ReadMultiple(&self.references)).map(drop)
            }
        };
        asked.map_err(|error| anyhow!("{error}"))
    }

    fn moved(&mut self, by: Sent, bytes: usize) {
        match self.turns.last_mut() {
            Some((last, lengths)) if *last == by => lengths.push(bytes),
            _ => self.turns.push((by, vec![bytes])),
        }
    }

    /// How many values an event brings, all of them right; none where it is not the end.
    fn ended(&self, event: DeviceEvent) -> Option<Result<u64>> {
        match event {
            DeviceEvent::Learned(Ok(_)) => Some(Ok(11)),
            DeviceEvent::ObjectList { objects: Ok(objects), .. } => Some(Ok(objects.len() as u64)),
            DeviceEvent::Read { results, .. } => {
                let values = results.into_iter().map(|(_, value)| value.ok());
                Some(Self::count(values))
            }
            DeviceEvent::Learned(Err(failure)) | DeviceEvent::ObjectList { objects: Err(failure), .. } => {
                Some(Err(anyhow!("{failure}")))
            }
            _ => None,
        }
    }

    fn count(values: impl Iterator<Item = Option<Value>>) -> Result<u64> {
        let mut count = 0_u16;
        for value in values {
            ensure!(value == Some(Value::Real(f32::from(count))), "value {count} is {value:?}");
            count += 1;
        }
        Ok(count.into())
    }

    /// An answer that is of no work of the device: to the request of [`What::OneAnswer`].
    fn answered(event: Event) -> Option<Result<u64>> {
        let Event::Answer { result, .. } = event else { return None };
        let parameters = match result {
            Ok(parameters) => parameters,
            Err(failure) => return Some(Err(anyhow!("{failure}"))),
        };
        let mut results = ReadMultipleAck::new(&parameters);
        let values = std::iter::from_fn(|| results.next_value()).map(|result| result.ok()?.1.ok());
        Some(Self::count(values))
    }
}

impl DatagramMachine for Reader {
    type Address = SocketAddr;

    type Event = Result<u64>;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.moved(Sent::ByDevice, datagram.len());
            self.client.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.client.handle_timeout(now);
        self.device.handle_timeout(now, &mut self.client);
    }

    fn timeout(&self) -> Option<Instant> {
        self.client.timeout().into_iter().chain(self.device.timeout()).min()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let to = self.client.poll_transmit(now, out)?;
        self.moved(Sent::ByClient, out.len());
        Some(SocketAddr::V4(to))
    }

    fn poll_event(&mut self, now: Now) -> Option<Result<u64>> {
        loop {
            if let Some(event) = self.device.poll_event() {
                match self.ended(event) {
                    Some(ended) => return Some(ended),
                    None => continue,
                }
            }
            let event = self.client.poll_event()?;
            if let Some(event) = self.device.handle_event(now, &mut self.client, event)
                && let Some(ended) = Self::answered(event)
            {
                return Some(ended);
            }
        }
    }
}

/// Where the end of what was begun is told.
#[derive(Clone, Default)]
struct Outcome(Rc<(RefCell<Option<Result<u64>>>, Notify)>);

impl Outcome {
    async fn wait(&self) -> Result<u64> {
        loop {
            if let Some(ended) = self.0.0.take() {
                return ended;
            }
            self.0.1.notified().await;
        }
    }
}

impl EndpointOwner<Reader> for Outcome {
    fn event(&mut self, _endpoint: &Endpoint<Reader>, _now: Now, event: Result<u64>) {
        *self.0.0.borrow_mut() = Some(event);
        self.0.1.notify_one();
    }
}

// The floor.

/// A bare device: sends its datagrams when those of the client have come.
async fn replay(turns: Turns) -> Result<(SocketAddrV4, Served)> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let SocketAddr::V4(address) = socket.local_addr()? else { bail!("not an address of IPv4") };
    let served = async move {
        let mut client = None;
        loop {
            for (by, lengths) in &turns {
                turn(&socket, &mut client, Sent::ByDevice == *by, lengths).await?;
            }
        }
    };
    Ok((address, Box::pin(served)))
}

async fn repeat(to: SocketAddrV4, turns: Turns, span: Duration) -> Result<Timed> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let mut laps = Laps::begin(span);
    loop {
        let (began, mut device) = (tokio::time::Instant::now(), Some(SocketAddr::V4(to)));
        for (by, lengths) in &turns {
            turn(&socket, &mut device, Sent::ByClient == *by, lengths).await?;
        }
        if !laps.add(began.elapsed()) {
            return Ok(laps.timed(0, turns));
        }
    }
}

/// Sends datagrams of these lengths, or takes as many.
async fn turn(socket: &UdpSocket, peer: &mut Option<SocketAddr>, is_mine: bool, lengths: &[usize]) -> io::Result<()> {
    let mut buffer = [0; DATAGRAM_BYTES];
    for length in lengths {
        match *peer {
            Some(to) if is_mine => _ = socket.send_to(buffer.get(..*length).unwrap_or_default(), to).await?,
            _ => *peer = Some(socket.recv_from(&mut buffer).await?.1),
        }
    }
    Ok(())
}
