//! IEC 60870-5-104 servers over TCP: connections of clients to one station, and what its owner tells them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tieline_core::Now;
use tieline_iec104::{Change, CommandAnswer, Database, Server, ServerConfig, ServerEvent};
use tieline_net::{Closed, Limits, ListenConfig, Owner, Peer, Session, Shard};
use tieline_transport::Route;

/// Connections of clients to one station at most.
const CONNECTIONS_MAX: usize = 64;

/// What a station does of what clients ask.
pub trait Iec104Station {
    /// Takes what a client did. Of a command: whether it was carried out, and what changed with it, which all clients are told.
    fn take(&mut self, now: Now, event: &ServerEvent) -> (CommandAnswer, Vec<Change>);
}

/// The clients of a station.
#[derive(Clone, Debug, Default)]
pub struct Iec104Clients(Rc<RefCell<Connected>>);

#[derive(Debug, Default)]
struct Connected {
    sessions: BTreeMap<u64, Session<Server>>,
    count: u64,
}

impl Iec104Clients {
    /// Tells all clients of changes.
    pub fn report(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        for session in self.0.borrow().sessions.values() {
            session.with(|server, _| changes.iter().for_each(|change| server.report(*change)));
        }
    }
}

/// Serves a station to clients until the shard ends. Returns the address in use, and the clients.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve<S: Iec104Station + 'static>(
    shard: &Rc<Shard>,
    listen: SocketAddr,
    config: ServerConfig,
    database: Rc<RefCell<Database>>,
    station: Rc<RefCell<S>>,
) -> io::Result<(SocketAddr, Iec104Clients)> {
    let listen_on = ListenConfig { sessions_max: CONNECTIONS_MAX, ..ListenConfig::new(listen.to_string()) };
    let (limits, of, clients) = (Rc::new(Limits::default()), Rc::clone(shard), Iec104Clients::default());
    let told = clients.clone();
    let start_session = move || {
        let server = Server::new(config.clone(), Rc::clone(&database));
        let session = Session::new(&of, server, Rc::clone(&limits));
        (session, Connection { station: Rc::clone(&station), clients: told.clone(), number: 0 })
    };
    let address = Route::Listen(listen_on).start_each(shard, 0, start_session).await?;
    Ok((address.unwrap_or(listen), clients))
}

/// One client.
struct Connection<S> {
    station: Rc<RefCell<S>>,
    clients: Iec104Clients,
    /// Which of the clients it is.
    number: u64,
}

impl<S: Iec104Station> Owner<Server> for Connection<S> {
    fn connected(&mut self, session: &Session<Server>, _now: Now, _peer: &Peer) {
        let mut connected = self.clients.0.borrow_mut();
        connected.count += 1;
        self.number = connected.count;
        connected.sessions.insert(self.number, session.clone());
    }

    fn event(&mut self, session: &Session<Server>, now: Now, event: ServerEvent) {
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
