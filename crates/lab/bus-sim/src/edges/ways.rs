//! Where nodes are, and the ways to them: networks that fail, and times in which no connection comes about.

use crate::link::{Link, LinkBehavior};
use crate::node::SimNode;
use crate::trace::Trace;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tieline_mqtt::ClientSession;
use tieline_net::{Owner, Session};
use tieline_sim::Choices;
use tokio::time::{Instant, sleep};

/// How long an upstream may be silent, in seconds, as it is configured.
pub const SILENCE_S: u64 = 4;
/// When a cut must have been noticed, and all measurements be marked.
const NOTICED: Duration = Duration::from_secs(SILENCE_S + 3);
/// What wall clocks say at the beginning, in µs.
const WALL_US: i64 = 1_795_900_000_000_000;

/// The way of one client or one edge to its node: the present connection's network, and since when there is none.
#[derive(Clone)]
pub struct Way(Rc<WayState>);

struct WayState {
    link: RefCell<Option<Link>>,
    behavior: LinkBehavior,
    choices: RefCell<Choices>,
    /// No connection comes about until then, and since when.
    closed: Cell<Option<(Instant, Instant)>>,
    numbers: Rc<Cell<u64>>,
    trace: Trace,
    to: Rc<Place>,
}

/// Where a node is: another one after it was killed.
pub struct Place {
    pub node: RefCell<Option<SimNode>>,
    pub wall: &'static AtomicI64,
}

impl Way {
    pub fn connect(&self) -> io::Result<tieline_net::Connection> {
        let Self(way) = self;
        if way.closed.get().is_some_and(|(_, until)| Instant::now() < until) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        way.closed.set(None);
        let number = way.numbers.replace(way.numbers.get() + 1);
        let seed = way.choices.borrow_mut().below(u64::MAX);
        let (link, server, client) = Link::new(way.behavior, seed, (number, &way.trace));
        *way.link.borrow_mut() = Some(link);
        let node = way.to.node.borrow().clone().ok_or(io::ErrorKind::ConnectionRefused)?;
        node.enter(server, number);
        Ok(client)
    }

    /// Nothing arrives for a while.
    pub fn hold(&self, time: Duration) {
        if let Some(link) = &*self.0.link.borrow() {
            link.hold(time);
        }
    }

    /// What is there breaks, if anything: nobody learns of it, or both ends do. Nothing new comes about for a time.
    pub fn close(&self, time: Duration, is_silent: bool) {
        let now = Instant::now();
        self.0.closed.set(Some((now, now + time)));
        if let Some(link) = &*self.0.link.borrow() {
            if is_silent { link.vanish() } else { link.cut() }
        }
    }

    /// Whether there has been none for so long that it must have been noticed.
    pub fn is_noticed(&self) -> bool {
        let now = Instant::now();
        self.0.closed.get().is_some_and(|(since, until)| now < until && since + NOTICED < now)
    }
}

/// A place without a node.
pub fn place() -> Rc<Place> {
    // As long as the process: a clock is copied to wherever it is asked.
    let wall = Box::leak(Box::new(AtomicI64::new(WALL_US)));
    Rc::new(Place { node: RefCell::default(), wall })
}

/// Keeps a client connected.
pub fn spawn_client<O: Owner<ClientSession> + 'static>(session: &Session<ClientSession>, mut owner: O, way: &Way) {
    let (session, way) = (session.clone(), way.clone());
    tokio::task::spawn_local(async move {
        loop {
            if let Ok(connection) = way.connect() {
                session.run(connection, &mut owner).await;
            }
            let pause = way.0.choices.borrow_mut().millis(1, 4000);
            sleep(pause).await;
        }
    });
}

/// A way to a place.
pub fn new_way(behavior: LinkBehavior, to: &Rc<Place>, (numbers, trace): (&Rc<Cell<u64>>, &Trace), seed: u64) -> Way {
    Way(Rc::new(WayState {
        link: RefCell::default(),
        behavior,
        choices: RefCell::new(Choices::seeded(seed)),
        closed: Cell::default(),
        numbers: Rc::clone(numbers),
        trace: trace.clone(),
        to: Rc::clone(to),
    }))
}
