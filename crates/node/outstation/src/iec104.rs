//! IEC 60870-5-104 servers over TCP and TLS: connections of clients to one station, and what its owner tells them.

use crate::treatment::{Presence, Reply, Treatment};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tieline_core::Now;
use tieline_iec104::{Change, CommandAnswer, Database, Group, Server, ServerConfig, ServerEvent, Treatment as Treated};
use tieline_net::{Closed, Limits, Owner, Peer, Session, Shard};
use tieline_transport::{CertificateCache, Transport};

/// Connections of clients to one station at most.
const CONNECTIONS_MAX: usize = 64;

/// What a station does of what clients ask.
pub trait Iec104Station {
    /// Takes what a client did. Of a command: whether it was carried out, and what changed with it, which all clients are told.
    fn take(&mut self, now: Now, event: &ServerEvent) -> (CommandAnswer, Vec<Change>);

    /// How it treats the next request, where the server asks ([`ServerConfig::is_treated`]).
    fn treat(&mut self, _now: Now) -> Treatment {
        Treatment::WELL
    }

    /// Whether it is there at all.
    fn presence(&mut self, _now: Now) -> Presence {
        Presence::There
    }
}

/// How a station is served.
#[derive(Clone, Debug)]
pub struct Iec104Service {
    /// Where, and whether over TLS.
    pub transport: Transport,
    /// How each connection works.
    pub config: ServerConfig,
    /// Redundancy groups by the addresses of their clients; one without addresses is that of all others.
    pub groups: Vec<Vec<IpAddr>>,
}

/// The clients of a station.
#[derive(Clone, Debug)]
pub struct Iec104Clients(Rc<RefCell<Connected>>);

#[derive(Debug)]
struct Connected {
    sessions: BTreeMap<u64, Session<Server>>,
    count: u64,
    groups: Vec<(Vec<IpAddr>, Group)>,
}

impl Iec104Clients {
    fn new(service: &Iec104Service) -> Self {
        let group = |addresses: &Vec<IpAddr>| (addresses.clone(), Group::new(service.config.reports_max));
        let groups = service.groups.iter().map(group).collect();
        Self(Rc::new(RefCell::new(Connected { sessions: BTreeMap::new(), count: 0, groups })))
    }

    /// Tells all clients of changes.
    pub fn report(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let connected = self.0.borrow();
        for (_, group) in &connected.groups {
            changes.iter().for_each(|change| group.report(*change));
        }
        for session in connected.sessions.values() {
            session.with(|server, _| changes.iter().for_each(|change| server.report(*change)));
        }
    }

    /// Lets clients see whether the station is there: one that is off has no connections, and has lost what it was to tell.
    pub fn attend(&self, presence: Presence) {
        let connected = self.0.borrow();
        if presence == Presence::Off {
            connected.groups.iter().for_each(|(_, group)| group.clear());
        }
        for session in connected.sessions.values() {
            show(session, presence);
        }
    }

    /// Takes a client; the number of its connection.
    fn add(&self, session: &Session<Server>, peer: &Peer) -> u64 {
        let mut connected = self.0.borrow_mut();
        connected.count += 1;
        let number = connected.count;
        if let Some(group) = connected.group_of(peer) {
            session.with(|server, _| server.join(group));
        }
        connected.sessions.insert(number, session.clone());
        number
    }

    /// One of a group was started: the one that was started before is to see it.
    fn nudge(&self) {
        self.0.borrow().sessions.values().for_each(Session::nudge);
    }
}

impl Connected {
    fn group_of(&self, peer: &Peer) -> Option<&Group> {
        let Peer::Address(address) = peer else { return None };
        let named = self.groups.iter().find(|(addresses, _)| addresses.contains(&address.ip().to_canonical()));
        let found = named.or_else(|| self.groups.iter().find(|(addresses, _)| addresses.is_empty()));
        found.map(|(_, group)| group)
    }
}

fn show(session: &Session<Server>, presence: Presence) {
    match presence {
        Presence::Off => session.close(),
        Presence::There | Presence::Silent => {
            session.with(|server, _| server.mute(presence == Presence::Silent));
        }
    }
}

/// Serves a station to clients until the shard ends. Returns the address in use, and the clients.
///
/// # Errors
/// The address cannot be listened on, or TLS files cannot be used.
pub async fn serve<S: Iec104Station + 'static>(
    shard: &Rc<Shard>,
    service: &Iec104Service,
    database: Rc<RefCell<Database>>,
    station: Rc<RefCell<S>>,
) -> io::Result<(Option<SocketAddr>, Iec104Clients)> {
    let route = service.transport.route(&CertificateCache::default(), CONNECTIONS_MAX).map_err(io::Error::other)?;
    let (limits, of, config) = (Rc::new(Limits::default()), Rc::clone(shard), service.config.clone());
    let clients = Iec104Clients::new(service);
    let told = clients.clone();
    let start_session = move || {
        let server = Server::new(config.clone(), Rc::clone(&database));
        let session = Session::new(&of, server, Rc::clone(&limits));
        (session, Connection { station: Rc::clone(&station), clients: told.clone(), number: 0 })
    };
    let address = route.start_each(shard, 0, start_session).await?;
    Ok((address, clients))
}

/// One client.
struct Connection<S> {
    station: Rc<RefCell<S>>,
    clients: Iec104Clients,
    /// Which of the clients it is.
    number: u64,
}

impl<S: Iec104Station> Connection<S> {
    fn treat(&self, session: &Session<Server>, now: Now, id: u64) {
        let Treatment { after, reply } = self.station.borrow_mut().treat(now);
        let end = move |server: &mut Server, now: Now| match reply {
            Reply::Answer => server.treat(now, id, Treated::Answer),
            Reply::Refuse => server.treat(now, id, Treated::Refuse),
            Reply::Noise(bytes) => server.treat(now, id, Treated::Noise(&bytes)),
            Reply::Nothing { is_carried_out } => server.treat(now, id, Treated::Ignore { is_done: is_carried_out }),
            Reply::Off => {}
        };
        if reply == Reply::Off {
            return session.close();
        }
        if after.is_zero() {
            return session.with(end);
        }
        let session = session.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(after).await;
            session.with(end);
        });
    }
}

impl<S: Iec104Station> Owner<Server> for Connection<S> {
    fn connected(&mut self, session: &Session<Server>, now: Now, peer: &Peer) {
        self.number = self.clients.add(session, peer);
        show(session, self.station.borrow_mut().presence(now));
    }

    fn event(&mut self, session: &Session<Server>, now: Now, event: ServerEvent) {
        if let ServerEvent::Request { id } = event {
            return self.treat(session, now, id);
        }
        if event == ServerEvent::Started {
            self.clients.nudge();
        }
        let (answer, changes) = self.station.borrow_mut().take(now, &event);
        let ServerEvent::Command { id, .. } = event else { return };
        // The confirmation is first, then what changed, then the termination.
        let confirmed = if answer == CommandAnswer::Done { CommandAnswer::Accepted } else { answer };
        session.with(|server, _| server.answer(id, confirmed));
        self.clients.report(&changes);
        if answer == CommandAnswer::Done {
            session.with(|server, _| server.terminate(id, true));
        }
    }

    fn closed(&mut self, _session: &Session<Server>, _now: Now, _why: Closed) {
        self.clients.0.borrow_mut().sessions.remove(&self.number);
    }
}
