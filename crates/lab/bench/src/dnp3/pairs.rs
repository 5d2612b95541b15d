//! Pairs of a master and an outstation over TCP: outstations on some threads, their masters on as many others.

use super::reporter::{Reporter, value_of};
use crate::load::{Go, Load, Tally};
use anyhow::{Context, Result, bail};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use tieline_core::{Machine, Now};
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent};
use tieline_dnp3::outstation::OutstationEvent;
use tieline_dnp3::{Measured, Measurement, PointType};
use tieline_net::{
    Clock, Counters, Limits, ListenConfig, Listener, Owner, Session, Shard, ShardThread, Target, connect as dial,
};

/// Starts pairs; they are ready once every master has been through its start-up.
pub fn connect(sessions: usize, workers: usize, values: u16) -> Result<Load> {
    let mut load = Load::new(sessions);
    let clock = Clock::start();
    let mut addresses = Vec::new();
    for number in 0..workers {
        let (go, tally) = load.seat();
        let (tell, told) = sync_channel(1);
        let again = go.clone();
        let make = move || Reporter::new(values, again.clone(), Arc::clone(&tally));
        let name = format!("outstations-{number}");
        let thread = ShardThread::spawn(&name, clock, Arc::new(Counters::default()), move |shard| async move {
            serve(shard, sessions, tell, go, make).await;
        })?;
        load.keep(thread);
        addresses.push(told.recv().context("the outstations' thread ended")??);
    }
    for (number, address) in addresses.into_iter().enumerate() {
        let (_, tally) = load.seat();
        let mine = (number..sessions).step_by(workers).len();
        let name = format!("masters-{number}");
        let thread = ShardThread::spawn(&name, clock, Arc::new(Counters::default()), move |shard| async move {
            call(shard, address, mine, values, tally).await;
        })?;
        load.keep(thread);
    }
    Ok(load)
}

/// Takes connections, an outstation each, and lets them all begin when it is time.
async fn serve(
    shard: Rc<Shard>,
    sessions_max: usize,
    tell: SyncSender<std::io::Result<SocketAddr>>,
    mut go: Go,
    make: impl Fn() -> Reporter,
) {
    let config = ListenConfig { sessions_max, ..ListenConfig::new("127.0.0.1:0") };
    let listener = match Listener::bind(&config, Arc::clone(shard.counters())).await {
        Ok(listener) => listener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(listener.local_addr());
    let seats: Rc<RefCell<Vec<Session<Reporter>>>> = Rc::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let session = Session::new(&shard, make(), Limits::default());
                seats.borrow_mut().push(session.clone());
                tokio::task::spawn_local(async move {
                    let _place = accepted.place;
                    session.run(accepted.stream, &mut Silent).await;
                });
            }
            changed = go.changed.changed() => {
                if changed.is_err() {
                    return;
                }
                for session in &*seats.borrow() {
                    session.with(Reporter::go_on);
                }
            }
        }
    }
}

/// Connects masters one after the other, and keeps them.
async fn call(shard: Rc<Shard>, address: SocketAddr, sessions: usize, values: u16, tally: Arc<Tally>) {
    let target = Target::new(address.to_string());
    for _ in 0..sessions {
        let Ok(stream) = dial(&target).await else { return tally.count_broken() };
        let session = Session::new(&shard, Master::new(MasterConfig::default()), Limits::default());
        let mut reader = Reader::new(values, Arc::clone(&tally));
        tokio::task::spawn_local(async move {
            session.run(stream, &mut reader).await;
            reader.tally.count_broken();
        });
    }
    std::future::pending().await
}

/// The outstations' owner, who has nothing to do.
struct Silent;

impl Owner<Reporter> for Silent {
    fn event(&mut self, _session: &Session<Reporter>, _now: Now, _event: OutstationEvent) {}
}

/// A master's owner: knows what every value must be.
#[derive(Debug)]
struct Reader {
    tally: Arc<Tally>,
    values: u16,
    /// The report that is due.
    report: u64,
    /// Right values of it so far.
    right: u16,
    /// Others.
    wrong: u16,
}

impl Reader {
    const fn new(values: u16, tally: Arc<Tally>) -> Self {
        Self { tally, values, report: 0, right: 0, wrong: 0 }
    }

    fn take(&mut self, event: &MasterEvent) {
        match event {
            MasterEvent::Measurement { measurement, event: true, unsolicited: true } => {
                if self.is_due(measurement) {
                    self.right += 1;
                } else {
                    self.wrong += 1;
                }
            }
            MasterEvent::FragmentEnd { unsolicited: true, .. } => self.end(),
            MasterEvent::Ready => self.tally.count_ready(),
            MasterEvent::Online
            | MasterEvent::Offline(_)
            | MasterEvent::Restarted
            | MasterEvent::EventsLost
            | MasterEvent::Indications(_)
            | MasterEvent::Measurement { .. }
            | MasterEvent::FragmentEnd { .. }
            | MasterEvent::Answer { .. }
            | MasterEvent::Object { .. }
            | MasterEvent::Files(_)
            | MasterEvent::Security(_)
            | MasterEvent::TaskDone { .. } => {}
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
            (right, 0) if right == self.values => self.tally.count_done(),
            _ => self.tally.count_wrong(),
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

/// Octets on the wire of a report and of its confirm, from exchanges of the same machines without sockets.
pub fn wire_octets(values: u16) -> Result<(usize, usize)> {
    let (now, tally) = (Now::default(), Arc::<Tally>::default());
    let mut outstation = Reporter::new(values, Go::always(), Arc::clone(&tally));
    let (mut master, mut reader) = (Master::new(MasterConfig::default()), Reader::new(values, tally));
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
            return Ok((report.len(), confirm.len()));
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
