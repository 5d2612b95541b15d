//! A read of 18 registers: by a client alone, and by one that a session drives.

use crate::meter::Operation;
use crate::room::{Client as Device, Ears};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tieline_modbus::{
    Client, ClientConfig, ClientEvent, Framing, Priority, Request, Response, SubmitError, Table, Transaction, Unit,
};
use tieline_net::{Clock, Connection, Counters, Limits, Owner, Session, Shard};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

const REGISTERS: u16 = 18;
const UNIT: Unit = Unit(1);
const FUNCTION: u8 = 3;
/// Bytes of a request: header 7, function 1, start 2, count 2.
const REQUEST_BYTES: usize = 12;
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts from the transaction to the event with its answer.
pub fn read() -> Result<Operation, String> {
    let (mut client, now, mut request) = (client(), Now::default(), Vec::new());
    client.handle_connected(now);
    let mut turn = 0_u16;
    Ok(Box::new(move |meter| {
        let answer = answer(turn);
        let event = meter.count(|| {
            ask(&mut client, now.mono, turn).ok()?;
            request.clear();
            while client.poll_transmit(now, &mut request) {}
            client.handle_input(now, &answer);
            client.poll_event()
        });
        let is_right = event.is_some_and(|event| is_answer(&event, turn));
        turn = turn.wrapping_add(1);
        if is_right && request.len() == REQUEST_BYTES { Ok(()) } else { Err("the read failed".to_owned()) }
    }))
}

/// Counts from the bytes of an answer to those of the next request.
pub fn session_read() -> Result<Operation, String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let (runtime, tasks, ears) = (runtime.map_err(|error| error.to_string())?, LocalSet::new(), Ears::default());
    let (device, carrier) = Device::new(&ears);
    let right = Rc::new(Cell::new(0));
    let mut reader = Reader { next: 0, right: Rc::clone(&right) };
    tasks.block_on(&runtime, async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let session = Session::new(&shard, client(), Limits::default());
        tokio::task::spawn_local(async move { session.run(Connection::from(carrier), &mut reader).await });
        ears.wait(REQUEST_BYTES, 0).await;
    });
    let mut turn = 0_u16;
    Ok(Box::new(move |meter| {
        let (answer, wanted, before) = (answer(turn), ears.bytes() + REQUEST_BYTES, right.get());
        turn = turn.wrapping_add(1);
        meter.count(|| {
            device.say(&answer);
            tasks.block_on(&runtime, ears.wait(wanted, 0));
        });
        if right.get() == before + 1 { Ok(()) } else { Err("another answer".to_owned()) }
    }))
}

/// Asks again when there is an answer.
struct Reader {
    next: u16,
    right: Rc<Cell<u32>>,
}

impl Reader {
    fn begin(&self, session: &Session<Client>) {
        let _ = session.with(|client, now| ask(client, now.mono, self.next));
    }
}

impl Owner<Client> for Reader {
    fn event(&mut self, session: &Session<Client>, _now: Now, event: ClientEvent) {
        self.right.set(self.right.get() + u32::from(is_answer(&event, self.next)));
        self.next = self.next.wrapping_add(1);
        self.begin(session);
    }

    fn connected(&mut self, session: &Session<Client>, _now: Now, _peer: &tieline_net::Peer) {
        self.begin(session);
    }
}

fn client() -> Client {
    Client::new(ClientConfig { answer_timeout: PATIENCE, ..ClientConfig::new(Framing::Tcp) })
}

fn ask(client: &mut Client, now: Instant, number: u16) -> Result<(), SubmitError> {
    let request = Request::Read { table: Table::HoldingRegisters, start: number, count: REGISTERS };
    let (id, deadline) = (number.into(), now + PATIENCE);
    client.submit(Transaction { id, unit: UNIT, request, deadline, priority: Priority::Normal })
}

/// What a device answers to the request of this number: a client counts them.
fn answer(number: u16) -> Vec<u8> {
    let ([high, low], bytes) = (number.to_be_bytes(), 2 * REGISTERS);
    let [.., length] = (bytes + 3).to_be_bytes();
    let [.., bytes] = bytes.to_be_bytes();
    let head = [high, low, 0, 0, 0, length, UNIT.0, FUNCTION, bytes];
    head.into_iter().chain((0..REGISTERS).flat_map(|register| value(number, register).to_be_bytes())).collect()
}

const fn value(number: u16, register: u16) -> u16 {
    number.wrapping_add(register)
}

fn is_answer(event: &ClientEvent, number: u16) -> bool {
    let ClientEvent::Answer { id, response: Response::Registers(found) } = event else { return false };
    *id == u64::from(number) && found.iter().copied().eq((0..REGISTERS).map(|register| value(number, register)))
}
