//! One run of one setting: its processes from their start to what they tell.

use super::Options;
use super::net::{self, Net, Quota};
use super::process::{Player, Standing};
use super::roles::{GRACE, Part, Role, Told, Way};
use super::stamps::now_ns;
use crate::rounds::number;
use anyhow::Result;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Ports of the substation.
const PORT: u16 = 20_000;
/// Ports of the floor.
const BARE_PORT: u16 = 21_000;
/// How long before the first fault the processes learn of it: the flood begins [`GRACE`] before.
const LEAD: Duration = Duration::from_millis(1500);
/// Processes of IEDs, each with its share of them.
const IED_HOSTS: usize = 2;

/// What is the same for all rounds of some rows.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub way: Way,
    pub ieds: u16,
    pub priorities: bool,
    pub cpu: Option<u32>,
    pub faults: u32,
    pub interval: Duration,
}

/// What a run's processes told, and what the port carried a second.
pub struct Outcome {
    pub told: Vec<Told>,
    pub port_bytes_per_s: f64,
}

/// Where the centre finds the relay and the controller, and the relay the controller.
#[derive(Clone, Copy)]
struct Doors {
    relay: SocketAddr,
    breaker: SocketAddr,
    commands: SocketAddr,
}

impl Doors {
    const fn at(port: u16) -> Self {
        Self { relay: net::socket(2, port), breaker: net::socket(3, port), commands: net::socket(3, port + 1) }
    }
}

impl Setting {
    /// Every combination of the options.
    pub fn all(options: &Options) -> Vec<Self> {
        let Options { faults, interval, .. } = *options;
        let mut settings = Vec::new();
        for way in &options.ways {
            for ieds in &options.ieds {
                for priorities in &options.priorities {
                    for cpu in &options.cpu {
                        let (way, ieds, priorities, cpu) = (*way, *ieds, *priorities, *cpu);
                        settings.push(Self { way, ieds, priorities, cpu, faults, interval });
                    }
                }
            }
        }
        settings
    }

    /// What a person calls it.
    pub fn name(&self) -> String {
        let priorities = if self.priorities { "on" } else { "off" };
        format!("{}, {} IEDs, priorities {priorities}", self.way.name(), self.ieds)
    }

    /// Bytes and samples a second are counted over this time.
    pub fn span(&self) -> Duration {
        self.interval * self.faults + GRACE
    }

    fn role(&self, part: Part, bare: bool) -> Role {
        let interval_us = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX);
        Role { part, way: self.way, bare, marked: self.priorities, faults: self.faults, interval_us }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// The system does not have what it needs, or a process did not come to its end.
    pub fn play(&self) -> Result<Outcome> {
        let mut hosts: Vec<String> = ["centre", "relay", "cb"].map(str::to_owned).to_vec();
        if self.ieds > 0 {
            hosts.extend((0..IED_HOSTS).map(|number| format!("ieds{number}")));
        }
        let quota = self.cpu.map(Quota::new).transpose()?;
        let net = Net::build(&hosts, self.priorities)?;
        let (mut players, mut ieds) = (Vec::new(), Vec::new());
        for (number, host) in (4_u8..).zip(hosts.iter().skip(3)) {
            let first = usize::from(number) - 4;
            let mine = (first..usize::from(self.ieds)).step_by(IED_HOSTS);
            let listen: Vec<_> =
                mine.filter_map(|ied| Some(net::socket(number, PORT + u16::try_from(ied).ok()?))).collect();
            ieds.extend(listen.iter().copied());
            players.push(Player::start(&net, host, &self.role(Part::Ieds { listen }, false), Standing::Others, None)?);
        }
        players.iter().try_for_each(|player| player.expect("listening"))?;
        for (bare, port) in [(true, BARE_PORT), (false, PORT)] {
            let ieds = if bare { Vec::new() } else { std::mem::take(&mut ieds) };
            players.extend(self.substation(&net, bare, Doors::at(port), ieds, quota.as_ref())?);
        }
        players.iter().try_for_each(|player| player.expect("ready"))?;
        let start = now_ns() + u64::try_from(LEAD.as_nanos())?;
        players.iter_mut().try_for_each(|player| player.begin(start))?;
        std::thread::sleep(LEAD);
        let (before, began) = (net.bytes_to(1)?, Instant::now());
        std::thread::sleep(self.interval * self.faults);
        let (bytes, passed) = (net.bytes_to(1)? - before, began.elapsed());
        let told = players.iter().map(|player| player.told(Duration::ZERO)).collect::<Result<_>>()?;
        // Processes end before their namespaces and their group do.
        drop(players);
        Ok(Outcome { told, port_bytes_per_s: number(bytes) / passed.as_secs_f64() })
    }

    /// Controller, relay and centre, in this order: who listens comes before who connects.
    fn substation(
        &self,
        net: &Net,
        bare: bool,
        doors: Doors,
        ieds: Vec<SocketAddr>,
        quota: Option<&Quota>,
    ) -> Result<Vec<Player>> {
        let Doors { relay, breaker, commands } = doors;
        let mut parts = vec![
            ("cb", Part::Breaker { listen: breaker, relay: commands }, Standing::Device),
            ("relay", Part::Relay { listen: relay, breaker: commands }, Standing::Device),
        ];
        let (relay, breaker) = (Some(relay), Some(breaker));
        if self.priorities && !ieds.is_empty() {
            // A lane for what must not wait, and another for the rest.
            parts.push(("centre", Part::Centre { relay, breaker, ieds: Vec::new() }, Standing::Device));
            parts.push(("centre", Part::Centre { relay: None, breaker: None, ieds }, Standing::Bulk));
        } else {
            let standing = if self.priorities { Standing::Device } else { Standing::Plain };
            parts.push(("centre", Part::Centre { relay, breaker, ieds }, standing));
        }
        let mut players = Vec::new();
        for (host, part, standing) in parts {
            let is_centre = matches!(part, Part::Centre { .. });
            let quota = quota.filter(|_| !is_centre);
            let player = Player::start(net, host, &self.role(part, bare), standing, quota)?;
            player.expect("listening")?;
            players.push(player);
        }
        Ok(players)
    }
}
