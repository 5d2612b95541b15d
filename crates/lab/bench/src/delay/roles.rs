//! What each process of the scenario does: the control centre, the relay, the circuit breaker's controller, the IEDs.
//!
//! ```text
//!            command                 report (class 2)
//!   relay ─────────────▶ CB controller ─────────────▶ control centre ◀══════ IEDs, 4,800 samples/s each
//!     └──────────────────── report (class 1) ────────────▶
//! ```

use super::floor::{Bare, play_bare};
use super::link::{Door, Link, Read, Socket};
use super::stamps::{Given, Kind, Sent, now_ns, room, trace};
use anyhow::{Context, Result, bail};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{CommandMode, Instant};
use tieline_dnp3::app::{CommandStatus, Found};
use tieline_dnp3::lean::{Carrier, LeanConfig, Side};
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent};
use tieline_dnp3::outstation::{
    BoxedControlHandler, ControlHandler, Database, EventLimits, Operate, Outstation, OutstationConfig, OutstationEvent,
    PointConfig, RefuseAll, UnsolicitedConfig,
};
use tieline_dnp3::{Classes, Control, Crob, EventClass, Flags, Measured, Measurement, PointType};
use tieline_net::{Clock, Marks};
use tokio::net::unix::pipe::Receiver;

/// Samples of an IED in one report, and how many reports a second: 4,800 samples.
pub const SAMPLES: u16 = 100;
const REPORTS_PER_S: u32 = 48;
/// Close, pulse on (IEEE 1815 A.8.1): its on-time carries the fault's number.
const CLOSE: u8 = 0x41;
/// How long what is under way may take after the last fault.
pub const GRACE: Duration = Duration::from_secs(1);

/// What is between application and socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Link frames over TCP.
    Tcp,
    /// Link frames over UDP.
    Udp,
    /// Lean messages over TCP.
    LeanTcp,
    /// Lean messages over UDP.
    LeanUdp,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::LeanTcp, Self::LeanUdp];

    /// The word of the command line and of the rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::LeanTcp => "lean-tcp",
            Self::LeanUdp => "lean-udp",
        }
    }

    /// Whether each message is a datagram.
    #[must_use]
    pub const fn has_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::LeanUdp)
    }

    fn lean(self, side: Side) -> Option<LeanConfig> {
        let carrier = if self.has_datagrams() { Carrier::Datagrams } else { Carrier::Stream };
        matches!(self, Self::LeanTcp | Self::LeanUdp).then_some(LeanConfig { side, carrier })
    }
}

/// Who a process is, and whom it talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Listens for the centre, commands the controller.
    Relay { listen: SocketAddr, breaker: SocketAddr },
    /// Listens for the centre and for the relay.
    Breaker { listen: SocketAddr, relay: SocketAddr },
    /// Connects to everybody, or to some of them.
    Centre { relay: Option<SocketAddr>, breaker: Option<SocketAddr>, ieds: Vec<SocketAddr> },
    /// Listens, an IED on each address.
    Ieds { listen: Vec<SocketAddr> },
}

/// What a process is told before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub part: Part,
    pub way: Way,
    /// Whether it says as many bytes without DNP3: the floor.
    pub bare: bool,
    /// Whether its sockets are marked.
    pub marked: bool,
    pub faults: u32,
    pub interval_us: u64,
}

/// What a process has to say in the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub sent: Vec<Sent>,
    pub given: Vec<Given>,
    /// What came without DNP3.
    pub bare: Vec<Bare>,
    /// Samples that came to the centre from IEDs.
    pub samples: u64,
    /// Samples that IEDs had no room for.
    pub dropped: u64,
    /// Connections that failed.
    pub failed: u32,
    /// Whether lean messages were agreed on wherever they were to be.
    pub lean: bool,
}

/// How a process learns what is to be done: standard input and output, or channels of a test.
pub trait Signals {
    /// It listens.
    fn listening(&mut self) -> Result<()>;
    /// Its masters are through their start-up.
    fn ready(&mut self) -> Result<()>;
    /// When the first fault is due.
    fn await_start(&mut self) -> impl Future<Output = Result<u64>>;
}

/// Plays a part to its end.
pub async fn play(role: &Role, signals: &mut impl Signals) -> Result<Told> {
    let told = match &role.part {
        _ if role.bare => play_bare(role, signals).await,
        Part::Relay { listen, breaker } => play_relay(role, *listen, *breaker, signals).await,
        Part::Breaker { listen, relay } => play_breaker(role, *listen, *relay, signals).await,
        Part::Centre { relay, breaker, ieds } => play_centre(role, (*relay, *breaker), ieds, signals).await,
        Part::Ieds { listen } => play_ieds(role, listen, signals).await,
    };
    // A count a little later must not find connections that end because the others are done.
    tokio::time::sleep(GRACE).await;
    told
}

impl Role {
    /// What its sockets are marked with.
    pub fn marks(&self, marks: Marks) -> Option<Marks> {
        self.marked.then_some(marks)
    }

    /// When a fault is due.
    #[must_use]
    pub fn due(&self, start: u64, fault: u32) -> u64 {
        start + u64::from(fault) * self.interval_us * 1000
    }

    /// When it is all over.
    #[must_use]
    pub fn end(&self, start: u64) -> u64 {
        self.due(start, self.faults) + nanos(GRACE)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn outstation(way: Way, class: EventClass, controls: BoxedControlHandler) -> Outstation {
    let mut database = Database::new();
    let point = PointConfig { event_variation: 3, ..PointConfig::of(PointType::Analog) };
    let added = database.add(PointType::Analog, 0, point.in_class(Some(class)));
    debug_assert_eq!(added, Ok(()));
    let unsolicited = Some(UnsolicitedConfig { protection: Classes::CLASS_1, ..UnsolicitedConfig::default() });
    let lean = way.lean(Side::Accepts);
    let config = OutstationConfig { unsolicited, lean, ..OutstationConfig::default() };
    Outstation::new(config, database, controls).with_trace(trace)
}

fn master(way: Way) -> Master {
    Master::new(MasterConfig { lean: way.lean(Side::Offers), ..MasterConfig::default() }).with_trace(trace)
}

fn report(link: &Link<Outstation>, fault: u32, due: u64) {
    let (point_type, value) = (PointType::Analog, Measured::Analog(f64::from(fault) + 1.0));
    let measurement = Measurement { point_type, index: 0, value, flags: Flags::ONLINE, stamp: None };
    let updated = link.say(fault, due, |station, now| station.update(now, measurement));
    debug_assert_eq!(updated, Ok(()));
}

async fn play_relay(role: &Role, at: SocketAddr, breaker: SocketAddr, signals: &mut impl Signals) -> Result<Told> {
    let (clock, datagrams) = (Clock::start(), role.way.has_datagrams());
    let marks = role.marks(Marks::PROTECTION);
    let door = Door::open(at, datagrams, marks).await?;
    let to_breaker = Socket::connect(breaker, datagrams, marks).await?;
    let is_ready = Rc::new(Cell::new(false));
    let learned = Rc::clone(&is_ready);
    let commands = Link::start(Kind::Command, clock, to_breaker, master(role.way), move |event, _| {
        if matches!(event, MasterEvent::Ready) {
            learned.set(true);
        }
    })
    .with_room(role.faults);
    signals.listening()?;
    let station = outstation(role.way, EventClass::Class1, Box::new(RefuseAll));
    let reports = Link::start(Kind::RelayReport, clock, door.enter(marks).await?, station, |_: OutstationEvent, _| ())
        .with_room(role.faults);
    until(|| is_ready.get()).await?;
    signals.ready()?;
    let start = signals.await_start().await?;
    let timer = Timer::new()?;
    for fault in 0..role.faults {
        let due = role.due(start, fault);
        timer.wait(due).await?;
        let control = Control::Crob(Crob { code: CLOSE, count: 1, on_ms: fault, off_ms: 0 });
        let until = Instant(u64::MAX - 1);
        commands.say(fault, due, |master, now| {
            master.command(now, control, 0, CommandMode::DirectOperate, until, u64::from(fault))
        })?;
        report(&reports, fault, due);
    }
    timer.wait(role.end(start)).await?;
    let lean = commands.call(|master, _| master.is_lean()) && reports.call(|station, _| station.is_lean());
    Ok(told([commands.sent(), reports.sent()], Vec::new(), lean))
}

fn told<const N: usize>(links: [(Vec<Sent>, bool); N], given: Vec<Given>, lean: bool) -> Told {
    let failed = links.iter().map(|(_, failed)| u32::from(*failed)).sum();
    Told { sent: links.into_iter().flat_map(|(sent, _)| sent).collect(), given, failed, lean, ..Told::default() }
}

thread_local! {
    /// Faults whose commands came to the controller, and when.
    static COMMANDED: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

struct Breaker;

impl ControlHandler for Breaker {
    fn select(&mut self, _index: u16, _control: &Control) -> CommandStatus {
        CommandStatus::Success
    }

    fn operate(&mut self, _index: u16, control: &Control, _how: Operate) -> CommandStatus {
        if let Control::Crob(crob) = control {
            COMMANDED.with_borrow_mut(|commanded| commanded.push((crob.on_ms, now_ns())));
        }
        CommandStatus::Success
    }
}

async fn play_breaker(role: &Role, at: SocketAddr, relay: SocketAddr, signals: &mut impl Signals) -> Result<Told> {
    let (clock, datagrams) = (Clock::start(), role.way.has_datagrams());
    let for_centre = Door::open(at, datagrams, role.marks(Marks::MONITORING)).await?;
    let for_relay = Door::open(relay, datagrams, role.marks(Marks::PROTECTION)).await?;
    signals.listening()?;
    let mut controlled = outstation(role.way, EventClass::Class2, Box::new(Breaker));
    let added = controlled.database_mut().add(PointType::BinaryOutput, 0, PointConfig::of(PointType::BinaryOutput));
    debug_assert_eq!(added, Ok(()));
    let given = Rc::new(RefCell::new(room(Given::NONE, role.faults)));
    // The relay comes first: the centre is started after it.
    let to_relay = for_relay.enter(role.marks(Marks::PROTECTION)).await?;
    let reports: Rc<RefCell<Option<Rc<Link<Outstation>>>>> = Rc::default();
    let (learned, reporting) = (Rc::clone(&given), Rc::clone(&reports));
    let commands = Link::start(Kind::Command, clock, to_relay, controlled, move |_: OutstationEvent, read: Read| {
        for (fault, at) in COMMANDED.with_borrow_mut(std::mem::take) {
            learned.borrow_mut().push(Given { given: at, ..read.given(Kind::Command, fault) });
            if let Some(link) = &*reporting.borrow() {
                report(link, fault, at);
            }
        }
    });
    let station = outstation(role.way, EventClass::Class2, Box::new(RefuseAll));
    let to_centre = for_centre.enter(role.marks(Marks::MONITORING)).await?;
    *reports.borrow_mut() = Some(
        Link::start(Kind::BreakerReport, clock, to_centre, station, |_: OutstationEvent, _| ()).with_room(role.faults),
    );
    signals.ready()?;
    let start = signals.await_start().await?;
    Timer::new()?.wait(role.end(start)).await?;
    let link = reports.borrow_mut().take().context("the link to the centre")?;
    let lean = commands.call(|station, _| station.is_lean()) && link.call(|station, _| station.is_lean());
    let given = given.take();
    Ok(told([commands.sent(), link.sent()], given, lean))
}

async fn play_centre(
    role: &Role,
    (relay, breaker): (Option<SocketAddr>, Option<SocketAddr>),
    ieds: &[SocketAddr],
    signals: &mut impl Signals,
) -> Result<Told> {
    let (clock, datagrams) = (Clock::start(), role.way.has_datagrams());
    let (ready, samples) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let given = Rc::new(RefCell::new(room(Given::NONE, role.faults.saturating_mul(2))));
    let (mut links, mut bulk) = (Vec::new(), Vec::new());
    signals.listening()?;
    let each = [(Kind::RelayReport, relay, Marks::PROTECTION), (Kind::BreakerReport, breaker, Marks::MONITORING)];
    for (kind, to, marks) in each {
        let Some(to) = to else { continue };
        let socket = Socket::connect(to, datagrams, role.marks(marks)).await?;
        let (given, ready) = (Rc::clone(&given), Rc::clone(&ready));
        links.push(Link::start(kind, clock, socket, master(role.way), move |event, read| match event {
            MasterEvent::Values { values, unsolicited: true } => values.iter().for_each(|found| {
                if let Found::Measurement { measurement, event: true, .. } = found
                    && let Some(fault) = fault_of(&measurement)
                {
                    given.borrow_mut().push(read.given(kind, fault));
                }
            }),
            MasterEvent::Ready => ready.set(ready.get() + 1),
            _ => {}
        }));
    }
    for to in ieds {
        let socket = Socket::connect(*to, false, role.marks(Marks::BULK)).await?;
        let (samples, ready) = (Rc::clone(&samples), Rc::clone(&ready));
        bulk.push(Link::start(Kind::Command, clock, socket, Master::new(MasterConfig::default()), move |event, _| {
            match event {
                MasterEvent::Values { values, .. } => {
                    let events = values.iter().filter(Found::is_event).count();
                    samples.set(samples.get() + u64::try_from(events).unwrap_or(0));
                }
                MasterEvent::Ready => ready.set(ready.get() + 1),
                _ => {}
            }
        }));
    }
    let all = links.len() + bulk.len();
    until(|| ready.get() >= all).await?;
    signals.ready()?;
    let start = signals.await_start().await?;
    Timer::new()?.wait(role.end(start)).await?;
    let lean = links.iter().all(|link| link.call(|master, _| master.is_lean()));
    let failed = links.iter().chain(&bulk).map(|link| u32::from(link.sent().1)).sum();
    Ok(Told { given: given.take(), samples: samples.get(), failed, lean, ..Told::default() })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers from 1 on")]
fn fault_of(measurement: &Measurement) -> Option<u32> {
    match measurement.value {
        Measured::Analog(value) if value >= 1.0 => Some(value as u32 - 1),
        _ => None,
    }
}

async fn play_ieds(role: &Role, listen: &[SocketAddr], signals: &mut impl Signals) -> Result<Told> {
    let clock = Clock::start();
    let mut doors = Vec::new();
    for at in listen {
        doors.push(Door::open(*at, false, role.marks(Marks::BULK)).await?);
    }
    signals.listening()?;
    let mut links = Vec::new();
    for door in doors {
        let mut database = Database::new();
        let point = PointConfig { event_variation: 8, ..PointConfig::of(PointType::Analog) };
        for index in 0..SAMPLES {
            database.add(PointType::Analog, index, point.in_class(Some(EventClass::Class3)))?;
        }
        let event_limits = EventLimits::all(4 * SAMPLES);
        let config = OutstationConfig { event_limits, ..OutstationConfig::default() };
        let station = Outstation::new(config, database, Box::new(RefuseAll));
        links.push(Link::start(
            Kind::Command,
            clock,
            door.enter(role.marks(Marks::BULK)).await?,
            station,
            |_: OutstationEvent, _| (),
        ));
    }
    signals.ready()?;
    let start = signals.await_start().await?;
    let count = u32::try_from(links.len().max(1)).unwrap_or(u32::MAX);
    let step = nanos(Duration::from_secs(1) / REPORTS_PER_S / count);
    // The flood is there before the first fault, and ends before the last answers are waited for.
    let (mut due, last) = (start.saturating_sub(nanos(GRACE)), role.end(start).saturating_sub(nanos(GRACE)));
    let timer = Timer::new()?;
    for round in 0_u32.. {
        for link in &links {
            timer.wait(due).await?;
            due += step;
            link.call(|station, now| {
                let sample = |index| {
                    let value = Measured::Analog(f64::from(round) + f64::from(index) / 1000.0);
                    let (point_type, flags) = (PointType::Analog, Flags::ONLINE);
                    Measurement { point_type, index, value, flags, stamp: None }
                };
                let _ = station.update_all(now, (0..SAMPLES).map(sample));
            });
        }
        if due >= last {
            break;
        }
    }
    timer.wait(role.end(start)).await?;
    let dropped = links.iter().map(|link| link.call(|station, _| station.stats().events_dropped)).sum();
    let failed = links.iter().map(|link| u32::from(link.sent().1)).sum();
    Ok(Told { dropped, failed, lean: true, ..Told::default() })
}

/// Waits for something that takes milliseconds, as long as a busy machine may need.
async fn until(done: impl Fn() -> bool) -> Result<()> {
    for _ in 0..6000 {
        if done() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bail!("the start-up did not come to its end")
}

/// A timer of the system, read like a pipe: the runtime's own counts in milliseconds.
pub struct Timer(Receiver);

impl Timer {
    /// One that is not set.
    pub fn new() -> Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    /// Waits for a time of [`now_ns`].
    pub async fn wait(&self, at: u64) -> Result<()> {
        // One that has passed lets the connections have their turn.
        if at <= now_ns() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let (tv_sec, tv_nsec) = (i64::try_from(at / 1_000_000_000)?, i64::try_from(at % 1_000_000_000)?);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: none, it_value: Timespec { tv_sec, tv_nsec } };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec)?;
        while now_ns() < at {
            self.0.readable().await?;
            // How often it has fired; nothing where it has not.
            let _ = self.0.try_read(&mut [0; 8]);
        }
        Ok(())
    }
}
