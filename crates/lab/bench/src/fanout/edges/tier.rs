//! A core, who publishes to it, its edges, and their subscribers.

use super::super::heard::{Told, Window};
use super::super::plan::Plan;
use super::super::player::Player;
use super::super::publish::Publisher;
use super::super::servers::{Durability, Kind, Purpose, Server, Upstream};
use super::super::speech::Speech;
use super::super::transport::Transport;
use super::super::trial::{Role, Setting, listeners_of, start, subscribe};
use super::{Load, Options};
use crate::process::threads_cpu_s_of;
use crate::rounds::number;
use anyhow::{Result, anyhow, bail};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an edge may take until it has all topics.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Subscribers with deltas, as edges are.
pub const SETTING: Setting = Setting { delta: true, ..Setting::plain(Kind::Tieline, Transport::Tcp) };

/// A core whose topics all have values.
pub struct Core<'a> {
    options: &'a Options,
    plan: Plan,
    /// The core.
    pub server: Server,
}

impl<'a> Core<'a> {
    /// Starts it.
    pub fn start(options: &'a Options, plan: Plan) -> Result<Self> {
        let server = Server::start(Kind::Tieline, &purpose(&options.load, &plan, None))?;
        Publisher::connect(Speech::Mqtt, server.address, true)?.load(&plan)?;
        Ok(Self { options, plan, server })
    }

    /// Publishes what is due from `start_us` on until `end_us`.
    pub fn publish(&self, start_us: u64, end_us: u64) -> Result<Publishing> {
        let (plan, mut publisher) = (self.plan, Publisher::connect(Speech::Mqtt, self.server.address, true)?);
        Ok(Publishing(std::thread::spawn(move || publisher.run(&plan, start_us, end_us).map(drop))))
    }

    /// Starts an edge of it, reached at `address`; it may not have any topic yet.
    pub fn begin_edge(&self, address: SocketAddr, number: usize) -> Result<Server> {
        let upstream = Upstream { address, number, window: self.options.window };
        Server::start(Kind::Tieline, &purpose(&self.options.load, &self.plan, Some(upstream)))
    }

    /// Starts an edge of it, and waits until it has all topics.
    pub fn edge(&self, number: usize) -> Result<Server> {
        let edge = self.begin_edge(self.server.address, number)?;
        self.wait_for_all(&edge)?;
        Ok(edge)
    }

    /// Waits until an edge has the newest values of all topics.
    pub fn wait_for_all(&self, edge: &Server) -> Result<()> {
        let all = number(self.plan.topics as u64);
        wait_until("the edge has all topics", || {
            let [topics, away] = ["topics", "topics_away"]
                .map(|name| edge.metric(&format!("tieline_edge_{name}{{upstream=\"upstream\"}}")));
            Ok(is_up(edge)? && topics? >= all && away? == 0.0)
        })
    }
}

/// Whether an edge is connected.
pub fn is_up(edge: &Server) -> Result<bool> {
    Ok(edge.metric("tieline_edge_link{upstream=\"upstream\",state=\"up\"}")? > 0.0)
}

/// Updates that go on.
pub struct Publishing(JoinHandle<Result<()>>);

impl Publishing {
    /// Waits until the last was published.
    pub fn end(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!("the publisher failed"))?
    }
}

/// Waits until something is so.
pub fn wait_until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > PATIENCE {
            bail!("{PATIENCE:?} passed before {what}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn purpose<'a>(load: &'a Load, plan: &'a Plan, upstream: Option<Upstream>) -> Purpose<'a> {
    let (transport, durability, program) = (Transport::Tcp, Durability::Memory, load.program.as_deref());
    let shards = load.shards.first().copied().unwrap_or(1);
    Purpose { program, plan, sessions: plan.subscribers, transport, durability, shards, upstream }
}

/// Starts the subscribers of a plan, spread over servers, and lets them subscribe.
pub fn seat(load: &Load, plan: &Plan, servers: &[&Server]) -> Result<Vec<Player>> {
    let mut seated = Vec::new();
    let mut first = 0;
    for (at, server) in servers.iter().enumerate() {
        let end = plan.subscribers * (at + 1) / servers.len();
        let role = listeners_of(SETTING, plan, &server.door, first, end - first);
        seated.push(start(load, &Role::Listen(role))?);
        first = end;
    }
    seated.iter().try_for_each(|player| player.expect("connected"))?;
    subscribe(&mut seated)?;
    Ok(seated)
}

/// Tells subscribers when values count.
pub fn tell_window(seated: &mut [Player], window: Window) -> Result<()> {
    let line = serde_json::to_string(&window)?;
    seated.iter_mut().try_for_each(|player| player.tell(&line))
}

/// What all of them got.
pub fn told(seated: &[Player]) -> Result<Told> {
    let mut all = Told::default();
    for player in seated {
        all.add(player.told()?);
    }
    Ok(all)
}

/// Processor time of servers so far, in seconds.
pub fn cpu_s<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Result<f64> {
    let mut all = 0.0;
    for server in servers {
        all += threads_cpu_s_of(server.process())?.values().sum::<f64>();
    }
    Ok(all)
}
