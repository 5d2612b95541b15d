//! The scenario over loopback, in one process: what needs no namespaces.

use super::process::on_a_runtime;
use super::roles::{Part, Role, Signals, Told, play};
use super::split::Delays;
use super::stamps::now_ns;
use super::*;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// What stands for standard input and output.
struct Wires {
    tell: Sender<&'static str>,
    start: watch::Receiver<u64>,
}

impl Signals for Wires {
    fn listening(&mut self) -> Result<()> {
        Ok(self.tell.send("listening")?)
    }

    fn ready(&mut self) -> Result<()> {
        Ok(self.tell.send("ready")?)
    }

    async fn await_start(&mut self) -> Result<u64> {
        self.start.changed().await?;
        Ok(*self.start.borrow())
    }
}

/// Free ports of an address that nobody else binds: they stay free until they are used.
fn free<const N: usize>() -> [SocketAddr; N] {
    static CALLS: AtomicU8 = AtomicU8::new(1);
    let [process, ..] = std::process::id().to_le_bytes();
    let address = Ipv4Addr::new(127, 77, process, CALLS.fetch_add(1, Ordering::Relaxed));
    let held = [(); N].map(|()| TcpListener::bind((address, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap())
}

fn expect(said: &Receiver<&'static str>, word: &str) {
    assert_eq!(said.recv_timeout(Duration::from_secs(60)).unwrap(), word);
}

const FAULTS: u32 = 20;

/// Plays parts, who listens before who connects, and has what they tell.
fn told_by(parts: Vec<Part>, way: Way, bare: bool) -> Vec<Told> {
    let (start, started) = watch::channel(0);
    let mut players = Vec::new();
    for part in parts {
        let (tell, said) = channel();
        let mut wires = Wires { tell, start: started.clone() };
        let role = Role { part, way, bare, marked: true, faults: FAULTS, interval_us: 5000 };
        let thread = std::thread::spawn(move || on_a_runtime(async move { play(&role, &mut wires).await }));
        expect(&said, "listening");
        players.push((thread, said));
    }
    players.iter().for_each(|(_, said)| expect(said, "ready"));
    start.send(now_ns() + 50_000_000).unwrap();
    players.into_iter().map(|(thread, _)| thread.join().unwrap().unwrap()).collect()
}

fn check(way: Way) {
    let [relay, breaker, commands, ied] = free();
    let parts = vec![
        Part::Ieds { listen: vec![ied] },
        Part::Breaker { listen: breaker, relay: commands },
        Part::Relay { listen: relay, breaker: commands },
        Part::Centre { relay: Some(relay), breaker: Some(breaker), ieds: vec![ied] },
    ];
    let told = told_by(parts, way, false);
    assert_eq!(told.iter().map(|told| told.failed).sum::<u32>(), 0);
    assert!(told.iter().map(|told| told.samples).sum::<u64>() > 0);
    for kind in Kind::ALL {
        let delays = Delays::join(kind, FAULTS, &told).unwrap();
        assert_eq!((delays.lost, delays.splits.len()), (0, 20), "{kind:?} over {way:?}");
        let parts = delays.parts();
        assert!(parts.link_us > 0.0 && parts.application_us > 0.0 && parts.socket_us > 0.0, "{kind:?} {parts:?}");
    }
    if matches!(way, Way::LeanTcp | Way::LeanUdp) {
        assert!(told.iter().all(|told| told.lean));
    }
}

#[test]
fn a_fault_is_told_over_every_way() {
    Way::ALL.into_iter().for_each(check);
}

#[test]
fn the_floor_says_as_much_without_dnp3() {
    for way in [Way::Tcp, Way::Udp] {
        let [relay, breaker, commands] = free();
        let parts = vec![
            Part::Breaker { listen: breaker, relay: commands },
            Part::Relay { listen: relay, breaker: commands },
            Part::Centre { relay: Some(relay), breaker: Some(breaker), ieds: Vec::new() },
        ];
        let told = told_by(parts, way, true);
        for kind in Kind::ALL {
            let came = told.iter().flat_map(|told| &told.bare).filter(|bare| bare.kind == kind).count();
            assert_eq!(came, 20, "{kind:?} over {way:?}");
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let options = Options {
        ways: vec![Way::Tcp],
        ieds: vec![0],
        priorities: vec![false],
        cpu: vec![None],
        rounds: 1,
        faults: 0,
        interval: Duration::from_millis(10),
    };
    let check = |options: Options, expect: &str| {
        let refused = run(&options, &Progress::new(false)).unwrap_err().to_string();
        assert!(refused.contains(expect), "{refused}");
    };
    check(options.clone(), "0 faults");
    check(Options { faults: 1, rounds: 0, ..options.clone() }, "0 rounds");
    check(Options { faults: 1, interval: Duration::ZERO, ..options.clone() }, "1 ms apart");
    check(Options { faults: 1, ieds: vec![1001], ..options }, "1000 or fewer");
}
