//! Pairs of an outstation and a master.

use super::loopback::{Guest, Host, Pair};
use super::pingpong::PingPong;
use super::reporter::{Reporter, value_of};
use crate::load::{Counts, Go};
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Machine, Now};
use tieline_dnp3::app::Found;
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent};
use tieline_dnp3::outstation::OutstationEvent;
use tieline_dnp3::{Measured, Measurement, PointType};
use tieline_net::{Accepted, Limits, Owner, Session, Shard};
use tokio::net::TcpStream;

/// Outstations that listen and masters that connect. A pair is ready once its master has been through its start-up.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// Values in a report.
    pub values: u16,
}

/// The outstations of a thread.
pub struct Outstations {
    shard: Rc<Shard>,
    values: u16,
    go: Go,
    counts: Arc<Counts>,
    sessions: RefCell<Vec<Session<Reporter>>>,
}

/// The masters of a thread.
pub struct Masters {
    shard: Rc<Shard>,
    values: u16,
    counts: Arc<Counts>,
}

impl Pair for Machines {
    type Host = Outstations;
    type Guest = Masters;

    fn host(&self, shard: Rc<Shard>, go: Go, counts: Arc<Counts>) -> Outstations {
        Outstations { shard, values: self.values, go, counts, sessions: RefCell::default() }
    }

    fn guest(&self, shard: Rc<Shard>, counts: Arc<Counts>) -> Masters {
        Masters { shard, values: self.values, counts }
    }
}

impl Host for Outstations {
    fn accepted(&self, connection: Accepted) {
        let reporter = Reporter::new(self.values, self.go.clone(), Arc::clone(&self.counts));
        let session = Session::new(&self.shard, reporter, Limits::default());
        self.sessions.borrow_mut().push(session.clone());
        tokio::task::spawn_local(async move {
            let _place = connection.place;
            session.run(connection.stream, &mut Silent).await;
        });
    }

    fn turned(&self) {
        self.sessions.borrow().iter().for_each(|session| session.with(Reporter::go_on));
    }
}

impl Guest for Masters {
    fn connected(&self, stream: TcpStream) {
        let session = Session::new(&self.shard, Master::new(MasterConfig::default()), Limits::default());
        let mut reader = Reader::new(self.values, Arc::clone(&self.counts));
        tokio::task::spawn_local(async move {
            session.run(stream, &mut reader).await;
            reader.counts.count_broken();
        });
    }
}

/// The outstations' owner, who has nothing to do.
struct Silent;

impl Owner<Reporter> for Silent {
    fn event(&mut self, _session: &Session<Reporter>, _now: Now, _event: OutstationEvent) {}
}

/// A master's owner: knows what every value must be.
#[derive(Debug)]
struct Reader {
    counts: Arc<Counts>,
    values: u16,
    /// The report that is due.
    report: u64,
    /// Right values of it so far.
    right: u16,
    /// Others.
    wrong: u16,
}

impl Reader {
    const fn new(values: u16, counts: Arc<Counts>) -> Self {
        Self { counts, values, report: 0, right: 0, wrong: 0 }
    }

    fn take(&mut self, event: &MasterEvent) {
        match event {
            MasterEvent::Values { values, unsolicited: true } => values.iter().for_each(|found| self.check(&found)),
            MasterEvent::FragmentEnd { unsolicited: true, .. } => self.end(),
            MasterEvent::Ready => self.counts.count_ready(),
            MasterEvent::Online
            | MasterEvent::Offline(_)
            | MasterEvent::Restarted
            | MasterEvent::EventsLost
            | MasterEvent::Indications(_)
            | MasterEvent::Values { .. }
            | MasterEvent::FragmentEnd { .. }
            | MasterEvent::Answer { .. }
            | MasterEvent::LinkAlive
            | MasterEvent::Files(_)
            | MasterEvent::Security(_)
            | MasterEvent::TaskDone { .. } => {}
        }
    }

    fn check(&mut self, found: &Found) {
        match found {
            Found::Measurement { measurement, event: true, .. } if self.is_due(measurement) => self.right += 1,
            Found::Measurement { .. } | Found::Object { .. } => self.wrong += 1,
        }
    }

    fn is_due(&self, measurement: &Measurement) -> bool {
        let Measured::Analog(value) = measurement.value else { return false };
        measurement.point_type == PointType::Analog
            && measurement.index == self.right
            && value.to_bits() == value_of(self.report, self.right).to_bits()
    }

    fn end(&mut self) {
        match (self.right, self.wrong) {
            // The response without values that announces a restart.
            (0, 0) => return,
            (right, 0) if right == self.values => self.counts.count_done(),
            _ => self.counts.count_wrong(),
        }
        self.report += 1;
        (self.right, self.wrong) = (0, 0);
    }
}

impl Owner<Master> for Reader {
    fn event(&mut self, _session: &Session<Master>, _now: Now, event: MasterEvent) {
        self.take(&event);
    }
}

/// Bytes on the wire of a report and of its confirm, from exchanges of the same machines without sockets.
pub fn wire_bytes(values: u16) -> Result<PingPong> {
    let (now, counts) = (Now::default(), Arc::<Counts>::default());
    let mut outstation = Reporter::new(values, Go::always(), Arc::clone(&counts));
    let (mut master, mut reader) = (Master::new(MasterConfig::default()), Reader::new(values, counts));
    outstation.handle_connected(now);
    master.handle_connected(now);
    // The start-up takes a dozen messages; the last ones of so many are a report and its confirm.
    for turn in 1.. {
        outstation.go_on(now);
        let reports = transmit(&mut outstation, now);
        reports.iter().for_each(|message| give(&mut master, now, message, |event| reader.take(&event)));
        let confirms = transmit(&mut master, now);
        confirms.iter().for_each(|message| give(&mut outstation, now, message, |_| ()));
        if turn == 32 {
            let ([report], [confirm]) = (&reports[..], &confirms[..]) else { break };
            return Ok(PingPong { ping: report.len(), pong: confirm.len() });
        }
    }
    bail!("a report of {values} values is not one response and one confirm")
}

fn transmit<M: Machine>(machine: &mut M, now: Now) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| {
        let mut message = Vec::new();
        machine.poll_transmit(now, &mut message).then_some(message)
    })
    .collect()
}

fn give<M: Machine>(machine: &mut M, now: Now, message: &[u8], mut learn: impl FnMut(M::Event)) {
    let mut rest = message;
    while !rest.is_empty() {
        let used = machine.handle_input(now, rest);
        rest = rest.get(used..).unwrap_or_default();
        let mut drained = 0;
        while let Some(event) = machine.poll_event() {
            learn(event);
            drained += 1;
        }
        if used == 0 && drained == 0 {
            return;
        }
    }
    while let Some(event) = machine.poll_event() {
        learn(event);
    }
}
