//! Keeps a site connected to its hubs, and says in the log how it goes.

use super::{HubEvent, HubSite};
use crate::config::{BacnetHub, HubUrl, Priority};
use crate::field::bacnet::SiteOwner;
use crate::field::driver::Context;
use aws_lc_rs::rand;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tieline_bacnet::sc::connector::{Event, Reason};
use tieline_bacnet::sc::{HUB_PROTOCOL, Hub};
use tieline_core::{Instant, Now};
use tieline_net::{Closed, Connection, Owner, Session, Target, open};
use tieline_websocket::Request;

/// How the hubs of a site are reached.
pub(in crate::field::bacnet) struct Targets {
    primary: (HubUrl, Target),
    failover: Option<(HubUrl, Target)>,
}

impl Targets {
    /// The targets of a network.
    ///
    /// # Errors
    /// TLS files that cannot be used.
    pub(in crate::field::bacnet) fn new(
        context: &Context,
        hub: &BacnetHub,
        priority: Option<Priority>,
    ) -> io::Result<Self> {
        let target = |url: &HubUrl| Ok::<_, io::Error>((url.clone(), context.target(&url.transport, priority)?));
        Ok(Self { primary: target(&hub.primary)?, failover: hub.failover.as_ref().map(target).transpose()? })
    }

    fn of(&self, hub: Hub) -> &(HubUrl, Target) {
        match (hub, &self.failover) {
            (Hub::Failover, Some(failover)) => failover,
            (Hub::Failover, None) | (Hub::Primary, _) => &self.primary,
        }
    }

    /// What the WebSocket to a hub begins with.
    fn request(&self, hub: Hub) -> Request {
        let (HubUrl { host, path, .. }, _) = self.of(hub);
        let (mut key, mut seed) = ([0; 16], [0; 16]);
        // Without a random source no connection of TLS would have come about.
        let _ = rand::fill(&mut key).and_then(|()| rand::fill(&mut seed));
        Request { host: host.clone(), path: path.clone(), protocol: HUB_PROTOCOL.to_owned(), key, seed }
    }
}

/// Dials hubs and drives the session over their connections, until it is closed or stopped.
pub(in crate::field::bacnet) async fn serve(session: Session<HubSite>, targets: Targets, mut owner: HubOwner) {
    let mut next = None;
    loop {
        let (hub, connection) = match next.take() {
            Some(next) => next,
            None => {
                let (hub, at) = session.look(HubSite::next_dial).unwrap_or((Hub::Primary, Instant::ZERO));
                match session.idle(dial(&session, &targets, hub, at), &mut owner).await {
                    Err(_) => return,
                    Ok(Ok(connection)) => (hub, connection),
                    Ok(Err(error)) => {
                        owner.not_reached(&session, hub, &error.to_string());
                        continue;
                    }
                }
            }
        };
        session.with(|site, now| site.dialled(now, hub, targets.request(hub)));
        let why;
        (why, next) = run(&session, &targets, connection, &mut owner).await;
        if why == Closed::Owner || session.look(HubSite::is_stopping) {
            return;
        }
    }
}

/// Drives the session over a connection. Over one to the failover hub, the primary hub is dialled meanwhile; once it is there,
/// its connection is the next.
async fn run(
    session: &Session<HubSite>,
    targets: &Targets,
    connection: Connection,
    owner: &mut HubOwner,
) -> (Closed, Option<(Hub, Connection)>) {
    let mut note = owner.clone();
    let mut run = pin!(session.run(connection, owner));
    loop {
        let Some((hub, at)) = session.look(HubSite::standby) else { return (run.await, None) };
        let dialled = tokio::select! {
            biased;
            why = &mut run => return (why, None),
            dialled = dial(session, targets, hub, at) => dialled,
        };
        match dialled {
            Ok(connection) => {
                session.with(HubSite::leave);
                return (run.await, Some((hub, connection)));
            }
            Err(error) => note.not_reached(session, hub, &error.to_string()),
        }
    }
}

/// One attempt at a hub, at its time.
async fn dial(session: &Session<HubSite>, targets: &Targets, hub: Hub, at: Instant) -> io::Result<Connection> {
    let shard = session.shard();
    tokio::time::sleep_until(shard.clock().at(at)).await;
    open(&targets.of(hub).1, shard.counters()).await
}

/// Learns of the connection to a hub.
#[derive(Clone)]
pub(in crate::field::bacnet) struct HubOwner {
    site: SiteOwner,
    hub: Arc<BacnetHub>,
    /// What the log said last of why each hub is not reached.
    noted: [Option<String>; 2],
    /// The hub that was reached last, where it did not answer the request for a WebSocket.
    not_opened: Option<Hub>,
}

impl HubOwner {
    pub(in crate::field::bacnet) const fn new(site: SiteOwner, hub: Arc<BacnetHub>) -> Self {
        Self { site, hub, noted: [None, None], not_opened: None }
    }

    fn url(&self, hub: Hub) -> String {
        let url = match (hub, &self.hub.failover) {
            (Hub::Failover, Some(failover)) => failover,
            (Hub::Failover, None) | (Hub::Primary, _) => &self.hub.primary,
        };
        format!("wss://{}{}", url.host, url.path)
    }

    fn not_reached(&mut self, session: &Session<HubSite>, hub: Hub, why: &str) {
        session.with(|site, now| site.dial_failed(now, hub));
        self.note(session, hub, why);
    }

    /// Says why a hub is not reached; in the log once.
    fn note(&mut self, session: &Session<HubSite>, hub: Hub, why: &str) {
        session.with(|site, _| site.set_trouble(format!("the {} hub is not connected: {why}", hub.name())));
        let (network, url) = (&self.hub.network, self.url(hub));
        let [primary, failover] = &mut self.noted;
        let noted = if hub == Hub::Primary { primary } else { failover };
        if noted.as_deref() != Some(why) {
            tracing::warn!(network, hub = hub.name(), url, why, "the hub is not connected, and is dialled again");
            *noted = Some(why.to_owned());
        }
    }

    fn link(&mut self, session: &Session<HubSite>, event: &Event) {
        let network = &self.hub.network;
        match event {
            Event::Up(hub, connect) => {
                let (url, vmac) = (self.url(*hub), session.look(|site| site.vmac().to_string()));
                tracing::info!(network, hub = hub.name(), url, vmac, hub_uuid = %connect.uuid, "the hub accepted the node");
                self.noted = [None, None];
                self.site.probe_all();
            }
            Event::Down(_, Reason::Left) => {}
            Event::Down(hub, reason) => self.note(session, *hub, &reason.to_string()),
            Event::Renamed(vmac) => tracing::info!(network, %vmac, "the node has another virtual address"),
            Event::Refused(from, function, error) => {
                let from = from.map(|from| from.to_string()).unwrap_or_default();
                tracing::debug!(network, from, function, %error, "a node refuses a message");
            }
            Event::Npdu { .. } => {}
        }
    }
}

impl Owner<HubSite> for HubOwner {
    fn event(&mut self, session: &Session<HubSite>, now: Now, event: HubEvent) {
        match event {
            HubEvent::Site(event) => self.site.handle(now, event),
            HubEvent::Link(event) => self.link(session, &event),
            HubEvent::NotOpened(hub, Some(fault)) => self.note(session, hub, &fault.to_string()),
            HubEvent::NotOpened(hub, None) => self.not_opened = Some(hub),
        }
    }

    /// A hub that does not take the certificate of the node says so after the handshake of TLS 1.3.
    fn closed(&mut self, session: &Session<HubSite>, _now: Now, why: Closed) {
        let not_opened = self.not_opened.take();
        match (why, not_opened) {
            (Closed::Tls(_), _) => self.note(session, session.look(|site| site.hub), &why.to_string()),
            (Closed::Peer, Some(hub)) => {
                let why =
                    "the hub closed the connection before the WebSocket was open: it may not take our certificate";
                self.note(session, hub, why);
            }
            (_, Some(hub)) => self.note(session, hub, &format!("the WebSocket was not opened: {why}")),
            (_, None) => {}
        }
    }
}
