//! Our side: a [`Client`] in a session for each connection, whose owner compares every register.

use super::load::{Ask, Reading, Tally};
use super::wire::{UNIT, is_right, start_of};
use anyhow::Result;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;
use tieline_modbus::{
    Client, ClientConfig, ClientEvent, Framing, Priority, Request, Response, Table, Transaction, Unit,
};
use tieline_net::{Closed, Limits, Owner, Peer, Session, Shard, Target, connect as dial};

/// A read that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection of ours.
pub struct Ours {
    session: Session<Client>,
    plan: Rc<Plan>,
}

/// What a connection reads next, known to its owner and to who paces it.
struct Plan {
    next: Cell<u64>,
    ask: Ask,
    tally: Rc<Tally>,
}

impl Plan {
    fn begin(&self, session: &Session<Client>) {
        let (id, registers) = (self.next.get(), self.ask.registers);
        self.next.set(id + 1);
        let start = start_of(id, registers);
        let request = Request::Read { table: Table::HoldingRegisters, start, count: registers };
        self.tally.count_begun();
        let taken = session.with(|client, now| {
            let deadline = now.mono + PATIENCE;
            client.submit(Transaction { id, unit: Unit(UNIT), request, deadline, priority: Priority::Normal })
        });
        if taken.is_err() {
            self.tally.count_broken();
        }
    }
}

impl Reading for Ours {
    type Shared = (Arc<ClientConfig>, Rc<Limits>);

    fn shared(ask: Ask) -> Self::Shared {
        let in_flight = ask.window;
        let config =
            ClientConfig { in_flight, answer_timeout: PATIENCE, retries: 0, ..ClientConfig::new(Framing::Tcp) };
        (Arc::new(config), Rc::default())
    }

    async fn connect(
        shard: &Rc<Shard>,
        to: SocketAddr,
        ask: Ask,
        (config, limits): &Self::Shared,
        tally: &Rc<Tally>,
    ) -> Result<Self> {
        let stream = dial(&Target::new(to.to_string())).await?;
        let session = Session::new(shard, Client::new(Arc::clone(config)), Rc::clone(limits));
        let plan = Rc::new(Plan { next: Cell::new(0), ask, tally: Rc::clone(tally) });
        let (driven, mut reader) = (session.clone(), Reader(Rc::clone(&plan)));
        tokio::task::spawn_local(async move { driven.run(stream, &mut reader).await });
        Ok(Self { session, plan })
    }

    fn begin(&self) {
        self.plan.begin(&self.session);
    }
}

/// Learns of answers.
struct Reader(Rc<Plan>);

impl Owner<Client> for Reader {
    fn event(&mut self, session: &Session<Client>, _now: Now, event: ClientEvent) {
        let Plan { ask, tally, .. } = &*self.0;
        match event {
            ClientEvent::Answer { id, response: Response::Registers(values) } => {
                tally.count_done(is_right(id, ask.registers, &values));
                if ask.every.is_none() && tally.is_going() {
                    self.0.begin(session);
                }
            }
            ClientEvent::Answer { .. } | ClientEvent::Exception { .. } => tally.count_done(false),
            ClientEvent::Sent { .. }
            | ClientEvent::Failed { .. }
            | ClientEvent::WindowReduced { .. }
            | ClientEvent::Closing => tally.count_broken(),
        }
    }

    fn connected(&mut self, _session: &Session<Client>, _now: Now, _peer: &Peer) {
        self.0.tally.count_ready();
    }

    fn closed(&mut self, _session: &Session<Client>, _now: Now, _why: Closed) {
        self.0.tally.count_broken();
    }
}
