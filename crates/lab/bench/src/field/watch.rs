//! One MQTT subscriber of everything that devices publish, which compares every value.

use super::devices::{POINTS, STAMP_RANGE, now_us};
use crate::process::thread_cpu;
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};
use tieline_core::{Filter, Now};
use tieline_mqtt::{ClientConfig, ClientEvent, ClientSession, Message, Qos, RetainHandling, SubscriptionOptions, Text};
use tieline_net::{Clock, Closed, Counters, Limits, Owner, Session, Shard, ShardThread, Target, open as dial};
use tokio::time::sleep;

/// Topics of devices are below it.
pub const ROOT: &str = "bench";
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// What a subscriber compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The values of so many simulated devices.
    Devices(usize),
    /// Nothing: any topics, which are counted.
    Nothing,
}

/// What came since it was last forgotten.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Devices from which anything came ever.
    pub devices: usize,
    /// Messages of single points.
    pub points: u64,
    /// Messages of all points of a device.
    pub alls: u64,
    /// Bytes of all packets.
    pub bytes: u64,
    /// From a device's answer to its value here.
    pub latency_us: Histogram<u64>,
    /// Share of a core that the subscriber took.
    pub core_percent: f64,
    /// What was wrong first.
    pub wrong: Option<String>,
}

enum Ask {
    Forget,
    Look,
}

/// A subscriber on a thread of its own.
pub struct Watch {
    ask: Sender<Ask>,
    told: Receiver<Taken>,
    _thread: ShardThread,
}

impl Watch {
    /// Subscribes to everything of devices.
    pub fn start(node: SocketAddr, check: Check) -> Result<Self> {
        let ((ask, asked), (tell, told)) = (channel(), channel());
        let main = move |shard: Rc<Shard>| async move {
            let Ok(session) = open(&shard, node, check).await else { return };
            answer(&session, &asked, &tell).await;
        };
        let thread = ShardThread::spawn("subscriber", Clock::start(), Arc::new(Counters::default()), main)?;
        Ok(Self { ask, told, _thread: thread })
    }

    /// Counts from here on.
    pub fn forget(&self) -> Result<()> {
        self.ask.send(Ask::Forget).ok().context("the subscriber has ended")
    }

    /// Says what came.
    pub fn look(&self) -> Result<Taken> {
        self.ask.send(Ask::Look).ok().context("the subscriber has ended")?;
        let taken = self.told.recv_timeout(PATIENCE).context("the subscriber says nothing")?;
        ensure!(taken.wrong.is_none(), "{}", taken.wrong.unwrap_or_default());
        Ok(taken)
    }

    /// Waits until something came of so many devices.
    pub fn await_devices(&self, devices: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let seen = self.look()?.devices;
            if seen >= devices {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "values of {seen} of {devices} devices came within {PATIENCE:?}");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// A subscriber with what it has taken.
struct Open {
    session: Session<ClientSession>,
    state: Rc<RefCell<State>>,
}

async fn open(shard: &Rc<Shard>, node: SocketAddr, check: Check) -> Result<Open> {
    let target = Target { send_buffer: None, receive_buffer: None, ..Target::new(node.to_string()) };
    let connection = dial(&target, shard.counters()).await?;
    let config = ClientConfig { client_id: Text::truncated("bench-watch"), ..ClientConfig::default() };
    let session = Session::new(shard, ClientSession::new(config), Limits::default());
    let state = Rc::new(RefCell::new(State::new(check)?));
    let (driven, mut owner) = (session.clone(), Subscriber(Rc::clone(&state)));
    tokio::task::spawn_local(async move { driven.run(connection, &mut owner).await });
    Ok(Open { session, state })
}

async fn answer(open: &Open, asked: &Receiver<Ask>, tell: &Sender<Taken>) {
    let (mut bytes, mut cpu, mut began) = (0, thread_cpu(), Instant::now());
    loop {
        let traffic = open.session.traffic().bytes_in;
        match asked.try_recv() {
            Ok(Ask::Forget) => {
                open.state.borrow_mut().forget();
                (bytes, cpu, began) = (traffic, thread_cpu(), Instant::now());
            }
            Ok(Ask::Look) => {
                let used = thread_cpu().saturating_sub(cpu).as_secs_f64();
                let core_percent = 100.0 * used / began.elapsed().as_secs_f64().max(1e-9);
                let taken = open.state.borrow().taken(traffic - bytes, core_percent);
                let _ = tell.send(taken);
            }
            Err(TryRecvError::Empty) => sleep(LOOK_EVERY).await,
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// What is known of a device.
#[derive(Clone, Debug, Default)]
struct Known {
    stamp: Option<u64>,
    /// The stamp of the last document of all points.
    all_stamp: Option<u64>,
    /// The last stamp came once more: an interrogation, or an integrity poll, reads what was reported before.
    is_repeated: bool,
    count: Option<u16>,
    /// Other points that came with this count.
    others: u16,
    /// Anything came ever.
    is_seen: bool,
}

#[derive(Debug)]
struct State {
    check: Check,
    is_strict: bool,
    known: Vec<Known>,
    devices: usize,
    points: u64,
    alls: u64,
    latency_us: Histogram<u64>,
    wrong: Option<String>,
}

impl State {
    fn new(check: Check) -> Result<Self> {
        let devices = match check {
            Check::Devices(devices) => devices,
            Check::Nothing => 0,
        };
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        let known = vec![Known::default(); devices];
        Ok(Self { check, is_strict: false, known, devices: 0, points: 0, alls: 0, latency_us, wrong: None })
    }

    fn forget(&mut self) {
        (self.points, self.alls) = (0, 0);
        self.latency_us.reset();
        // While everything is read for the first time, values of a device may come in another order.
        self.is_strict = true;
        self.known.iter_mut().for_each(|known| known.count = None);
    }

    fn taken(&self, bytes: u64, core_percent: f64) -> Taken {
        Taken {
            devices: self.devices,
            points: self.points,
            alls: self.alls,
            bytes,
            latency_us: self.latency_us.clone(),
            core_percent,
            wrong: self.wrong.clone(),
        }
    }

    fn take(&mut self, message: &Message) {
        let topic = message.topic.as_str();
        let is_all = topic.ends_with("/all");
        *(if is_all { &mut self.alls } else { &mut self.points }) += 1;
        if self.check == Check::Nothing {
            self.devices = 1;
            return;
        }
        let right = match is_all {
            true => self.take_all(topic, &message.payload),
            false => self.take_point(topic, &message.payload),
        };
        if right.is_none() && self.wrong.is_none() {
            let payload = String::from_utf8_lossy(&message.payload);
            let known = device_of(topic).and_then(|(device, _)| self.known.get(device));
            self.wrong = Some(format!("{topic} brought {payload} after {known:?}"));
        }
    }

    /// None where a value is not what it must be.
    fn take_point(&mut self, topic: &str, payload: &[u8]) -> Option<()> {
        let (device, point) = device_of(topic)?;
        let known = self.known.get_mut(device)?;
        let Some(value) = value_of(payload)? else { return Some(()) };
        match point {
            "stamp" => {
                known.is_repeated = known.stamp == Some(value);
                known.stamp = Some(value);
            }
            "count" => {
                let count = u16::try_from(value).ok()?;
                let step = u16::from(!known.is_repeated);
                let is_right = |before: u16| before.wrapping_add(step) == count && known.others == POINTS - 2;
                if self.is_strict && known.count.is_some_and(|before| !is_right(before)) {
                    return None;
                }
                self.devices += usize::from(!known.is_seen);
                known.is_seen = true;
                (known.count, known.others) = (Some(count), 0);
            }
            other => {
                let number: u16 = other.strip_prefix('p')?.parse().ok()?;
                // The subscription may begin in the middle of a device.
                let Some(count) = known.count else { return Some(()) };
                if self.is_strict && value != u64::from(count.wrapping_add(number)) {
                    return None;
                }
                known.others = known.others.saturating_add(1);
            }
        }
        if let Some(stamp) = known.stamp.filter(|_| !known.is_repeated) {
            self.latency_us.saturating_record(since(stamp));
        }
        Some(())
    }

    fn take_all(&mut self, topic: &str, payload: &[u8]) -> Option<()> {
        let (device, _) = device_of(topic)?;
        let json: serde_json::Value = serde_json::from_slice(payload).ok()?;
        let value = |name: &str| json.get(name)?.get("v");
        if value("count")?.is_null() {
            return Some(());
        }
        let count = u16::try_from(value("count").and_then(whole)?).ok()?;
        let others = (2..POINTS).all(|point| {
            let found = value(&format!("p{point:02}")).and_then(whole);
            found == Some(u64::from(count.wrapping_add(point)))
        });
        let stamp = value("stamp").and_then(whole)?;
        let known = self.known.get_mut(device)?;
        if known.stamp.is_none() {
            // Nothing but this topic is published.
            self.devices += usize::from(!known.is_seen);
            known.is_seen = true;
            if known.all_stamp.replace(stamp) != Some(stamp) {
                self.latency_us.saturating_record(since(stamp));
            }
        }
        // What a device that reports has at first is of no report.
        (others || !self.is_strict).then_some(())
    }
}

/// The device of a topic, and what follows.
fn device_of(topic: &str) -> Option<(usize, &str)> {
    let (device, point) = topic.strip_prefix(ROOT)?.strip_prefix("/d")?.split_once('/')?;
    Some((device.parse().ok()?, point))
}

/// The value of a point's payload: none before its first reading.
fn value_of(payload: &[u8]) -> Option<Option<u64>> {
    let text = std::str::from_utf8(payload).ok()?;
    let (value, _) = text.strip_prefix("{\"v\":")?.split_once(',')?;
    // Numbers of 32 bits have one decimal, which is always the same.
    let whole = value.strip_suffix(".0").or_else(|| value.strip_suffix(".1")).unwrap_or(value);
    if value == "null" { Some(None) } else { whole.parse().ok().map(Some) }
}

fn whole(value: &serde_json::Value) -> Option<u64> {
    value.as_u64().or_else(|| value_of(format!("{{\"v\":{value},").as_bytes())?)
}

/// How long ago a stamp is, which may be a remainder of [`STAMP_RANGE`].
fn since(stamp: u64) -> u64 {
    let now = now_us();
    if stamp < STAMP_RANGE {
        (now % STAMP_RANGE + STAMP_RANGE - stamp) % STAMP_RANGE
    } else {
        now.saturating_sub(stamp)
    }
}

struct Subscriber(Rc<RefCell<State>>);

impl Subscriber {
    fn fail(&self, why: String) {
        self.0.borrow_mut().wrong.get_or_insert(why);
    }
}

impl Owner<ClientSession> for Subscriber {
    fn event(&mut self, session: &Session<ClientSession>, _now: Now, event: ClientEvent) {
        match event {
            ClientEvent::Connected(_) => {
                let options = SubscriptionOptions {
                    qos: Qos::AtMostOnce,
                    no_local: true,
                    retain_as_published: false,
                    retain_handling: RetainHandling::Never,
                };
                let Ok(filter) = Filter::new(&format!("{ROOT}/#")) else { return };
                if let Err(why) = session.with(|client, _| client.subscribe(&[(filter, options)], None)) {
                    self.fail(why.to_string());
                }
            }
            ClientEvent::Message(received) => self.0.borrow_mut().take(&received.message),
            ClientEvent::Refused { text, .. } => self.fail(text),
            ClientEvent::Subscribed { .. }
            | ClientEvent::Published { .. }
            | ClientEvent::Unsubscribed { .. }
            | ClientEvent::Ended(_) => {}
        }
    }

    fn closed(&mut self, _session: &Session<ClientSession>, _now: Now, why: Closed) {
        self.fail(format!("the subscriber's connection ended: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared() {
        let mut state = State::new(Check::Devices(3)).unwrap();
        state.forget();
        let mut check = |topic: &str, value: &str, right: bool| {
            let payload = format!("{{\"v\":{value},\"q\":\"good\",\"t\":\"2026-11-23T00:00:00Z\"}}");
            assert_eq!(state.take_point(topic, payload.as_bytes()).is_some(), right, "{topic} {value}");
        };
        check("bench/d0002/p17", "9", true);
        check("bench/d0002/stamp", "null", true);
        check("bench/d0002/stamp", "17.0", true);
        check("bench/d0002/stamp", "17.5", false);
        check("bench/d0002/count", "65535", true);
        (2_u16..18).for_each(|point| check(&format!("bench/d0002/p{point:02}"), &(point - 1).to_string(), true));
        check("bench/d0002/p03", "3", false);
        check("bench/d0002/count", "1", false);
        check("bench/d0002/count", "0", true);
        // All points but one.
        (3_u16..18).for_each(|point| check(&format!("bench/d0002/p{point:02}"), &point.to_string(), true));
        check("bench/d0002/count", "1", false);
        // A new report, which is read once more afterwards.
        let mut report = |stamp: &str, count: u16| {
            check("bench/d0001/stamp", stamp, true);
            check("bench/d0001/count", &count.to_string(), true);
            (2_u16..18)
                .for_each(|point| check(&format!("bench/d0001/p{point:02}"), &(count + point).to_string(), true));
        };
        report("100.0", 4);
        report("100.0", 4);
        report("200.0", 5);
        check("bench/d0001/stamp", "200.0", true);
        check("bench/d0001/count", "6", false);
        check("bench/d0001/stamp", "300.0", true);
        check("bench/d0001/count", "5", false);
        check("bench/d0003/count", "1", false);
        check("other/d0001/count", "1", false);
        assert_eq!(state.devices, 2);
    }
}
