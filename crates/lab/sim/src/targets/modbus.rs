//! Modbus: units of data, and both machines, against any bytes.

use crate::Choices;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now, Timestamp};
use tieline_modbus::layout::Layout;
use tieline_modbus::{
    ADU_RTU_BYTES_MAX, ADU_TCP_BYTES_MAX, Bank, Client, ClientConfig, ClientEvent, ExceptionCode, Framing, Priority,
    Reply, Request, Response, SerialTiming, Server, ServerConfig, ServerEvent, Table, Transaction, Unit, crc,
    rtu_frame, tcp_frame,
};

/// Steps of one run at most.
const STEPS_MAX: usize = 300;
/// Messages and events that one step may cause at most.
const WORK_MAX: usize = 2000;
const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };

/// A request and an answer to it, or a layout and registers: the first byte is the length of the first. What can be read
/// is written as it was.
pub(super) fn frame(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (first, second) = rest.split_at(usize::from(*length).min(rest.len()));
    if let Ok(request) = Request::parse(first) {
        let mut again = Vec::new();
        request.emit(&mut again);
        assert_eq!(Request::parse(&again), Ok(request.clone()));
        if let Ok(Reply::Done(response)) = Response::parse(&request, second) {
            let mut again = Vec::new();
            response.emit(&request, &mut again).expect("an answer that was read");
            assert_eq!(Response::parse(&request, &again), Ok(Reply::Done(response)));
        }
    }
    if let Some(layout) = std::str::from_utf8(first).ok().and_then(|text| text.parse::<Layout>().ok()) {
        let registers: Vec<u16> = second.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        let registers = registers.get(..usize::from(layout.registers())).unwrap_or(&registers);
        if let Ok(value) = layout.decode(registers)
            && let Ok(encoded) = layout.encode(&value)
        {
            assert_eq!(encoded.len(), registers.len());
        }
    }
}

fn framing(choices: &mut Choices) -> Framing {
    let baud = NonZeroU32::new(19_200).expect("not zero");
    choices.pick(&[Framing::Tcp, Framing::RtuOverTcp, Framing::Rtu(SerialTiming::new(baud))])
}

fn framed(framing: Framing, number: u16, unit: Unit, pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>| out.extend_from_slice(pdu);
    if framing.is_rtu() {
        rtu_frame(unit, &mut out, put)
    } else {
        tcp_frame(number, unit, &mut out, put)
    }
    out
}

/// Number, unit and PDU of a message, which is one whole frame.
fn unframed(framing: Framing, message: &[u8]) -> (u16, Unit, &[u8]) {
    if framing.is_rtu() {
        assert!(message.len() <= ADU_RTU_BYTES_MAX && crc(message) == 0, "{message:02X?}");
        return (0, Unit(message[0]), &message[1..message.len() - 2]);
    }
    assert!(message.len() <= ADU_TCP_BYTES_MAX && message[2..4] == [0, 0], "{message:02X?}");
    assert_eq!(usize::from(u16::from_be_bytes([message[4], message[5]])), message.len() - 6);
    (u16::from_be_bytes([message[0], message[1]]), Unit(message[6]), &message[7..])
}

fn request(choices: &mut Choices) -> Request {
    let mut word = || u16::try_from(choices.below(65_536)).expect("a word");
    let (start, value) = (word(), word());
    match word() % 6 {
        0 => Request::Read { table: Table::Coils, start, count: value % 2002 },
        1 => Request::WriteRegister { address: start, value },
        2 => Request::WriteRegisters { start, values: [value, start].into() },
        3 => Request::MaskWrite { address: start, and: value, or: start },
        4 => Request::ReadWrite { read_start: start, read_count: 2, write_start: 0, values: [value].into() },
        _ => Request::Read { table: Table::HoldingRegisters, start, count: value % 127 },
    }
}

/// A client and all that was asked of it.
struct Asking {
    client: Client,
    framing: Framing,
    now: Now,
    /// The last request that went out.
    last: Option<(u16, Unit, Request)>,
    /// How often each transaction ended.
    ends: BTreeMap<u64, u32>,
}

impl Asking {
    fn drain(&mut self) {
        for _ in 0..WORK_MAX {
            if let Some(event) = self.client.poll_event() {
                self.note(&event);
                continue;
            }
            let mut message = Vec::new();
            if !self.client.poll_transmit(self.now, &mut message) {
                return;
            }
            let (number, unit, pdu) = unframed(self.framing, &message);
            self.last = Some((number, unit, Request::parse(pdu).expect("a legal request")));
        }
        panic!("a machine that does not come to rest");
    }

    fn note(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Answer { id, .. }
            | ClientEvent::Exception { id, .. }
            | ClientEvent::Sent { id }
            | ClientEvent::Failed { id, .. } => {
                let ends = self.ends.get_mut(id).expect("a transaction that was asked");
                *ends += 1;
                assert_eq!(*ends, 1, "{id} ended twice");
            }
            ClientEvent::WindowReduced { .. } | ClientEvent::Closing => {}
        }
    }

    fn ask(&mut self, choices: &mut Choices) {
        let id = self.ends.len() as u64;
        let unit = Unit(choices.below(4).to_le_bytes()[0]);
        let deadline = self.now.mono + choices.millis(0, 5000);
        let priority = if choices.chance(20) { Priority::Urgent } else { Priority::Normal };
        let transaction = Transaction { id, unit, request: request(choices), deadline, priority };
        if self.client.submit(transaction).is_ok() {
            self.ends.insert(id, 0);
        }
    }

    /// Answers the last request: right, refused, or nearly.
    fn answer(&mut self, choices: &mut Choices) {
        let Some((number, unit, request)) = self.last.clone() else { return };
        let mut pdu = Vec::new();
        if choices.chance(30) {
            ExceptionCode(2).emit(request.function().code(), &mut pdu);
        } else if let Err(code) = Bank::new(2000)
            .handle(&request)
            .and_then(|response| response.emit(&request, &mut pdu).map_err(|_| ExceptionCode(4)))
        {
            code.emit(request.function().code(), &mut pdu);
        }
        let mut message = framed(self.framing, number, unit, &pdu);
        if choices.chance(30) {
            let at = usize::try_from(choices.below(message.len() as u64)).unwrap_or(0);
            message[at] ^= 1 << choices.below(8);
        }
        let cut = usize::try_from(choices.below(message.len() as u64 + 1)).unwrap_or(0);
        let (piece, rest) = message.split_at(cut);
        self.feed(piece);
        if choices.chance(80) {
            self.feed(rest);
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        assert_eq!(self.client.handle_input(self.now, bytes), bytes.len());
        self.drain();
    }

    fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        for _ in 0..WORK_MAX {
            let next = self.client.timeout().unwrap_or(end).min(end).max(self.now.mono);
            self.now = self.now.later(next.since(self.now.mono));
            self.client.handle_timeout(self.now);
            self.drain();
            if self.client.timeout().is_none_or(|deadline| deadline > end) {
                self.now = self.now.later(end.since(self.now.mono));
                return;
            }
        }
        panic!("a deadline that never moves: {:?} at {:?}", self.client.timeout(), self.now.mono);
    }
}

/// Steps of a device, of time and of the owner, against a client: every transaction ends once, everything comes to rest, and
/// all it sends is one legal request.
pub(super) fn client(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let framing = framing(&mut choices);
    let config = ClientConfig {
        in_flight: 1 + choices.below(20).to_le_bytes()[0],
        retries: choices.below(3).to_le_bytes()[0],
        queue_max: 20,
        ..ClientConfig::new(framing)
    };
    let client = Client::new(config);
    let mut asking = Asking { client, framing, now: START, last: None, ends: BTreeMap::new() };
    let mut connected = false;
    for _ in 0..STEPS_MAX {
        match choices.below(10) {
            0 => asking.ask(&mut choices),
            1 if connected && !asking.client.is_closed() => {
                let count = usize::try_from(choices.below(300)).unwrap_or(0);
                let noise = choices.bytes(count);
                asking.feed(&noise);
            }
            2 | 3 => asking.pass(choices.millis(0, 1500)),
            4 if connected => {
                asking.client.handle_disconnected(asking.now);
                connected = false;
            }
            4 | 5 if !connected => {
                asking.client.handle_connected(asking.now);
                connected = true;
            }
            6 | 7 => asking.answer(&mut choices),
            _ => asking.ask(&mut choices),
        }
        asking.drain();
        if choices.is_spent() {
            break;
        }
    }
    asking.client.handle_disconnected(asking.now);
    asking.drain();
    assert!(asking.ends.values().all(|ends| *ends == 1), "transactions that never ended: {:?}", asking.ends);
}

/// A stream of a client, noise and requests, against a server whose owner answers late or not at all: all it sends is one
/// answer, and it always goes on.
pub(super) fn server(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let framing = framing(&mut choices);
    let requests_max = 1 + choices.below(4).to_le_bytes()[0];
    let mut server = Server::new(ServerConfig { requests_max, ..ServerConfig::new(framing, Unit(1)) });
    let (mut now, mut bank, mut open) = (START, Bank::new(300), Vec::new());
    server.handle_connected(now);
    for _ in 0..STEPS_MAX {
        let stream = if choices.chance(50) {
            let mut pdu = Vec::new();
            request(&mut choices).emit(&mut pdu);
            framed(framing, 7, Unit(choices.below(3).to_le_bytes()[0]), &pdu)
        } else {
            let count = usize::try_from(choices.below(300)).unwrap_or(0);
            choices.bytes(count)
        };
        let mut rest = stream.as_slice();
        for _ in 0..WORK_MAX {
            let used = server.handle_input(now, rest);
            rest = &rest[used..];
            while let Some(event) = server.poll_event() {
                if let ServerEvent::Request { id, request, .. } = event {
                    open.push((id, request));
                }
            }
            assert!(open.len() <= usize::from(requests_max));
            if rest.is_empty() {
                break;
            }
            if used == 0 {
                assert!(server.is_waiting(), "no progress");
                open.drain(..).for_each(|(id, request)| server.answer(id, bank.handle(&request)));
                now = now.later(Duration::from_millis(10));
            }
            send(&mut server, framing, now);
        }
        assert!(rest.is_empty() || server.is_closed(), "a server that takes no more");
        if choices.chance(50) {
            open.drain(..).for_each(|(id, request)| server.answer(id, bank.handle(&request)));
        }
        now = now.later(choices.millis(0, 60));
        server.handle_timeout(now);
        send(&mut server, framing, now);
        if server.is_closed() {
            server.handle_disconnected(now);
            server.handle_connected(now);
            open.clear();
        }
        if choices.is_spent() {
            break;
        }
    }
}

fn send(server: &mut Server, framing: Framing, now: Now) {
    let mut message = Vec::new();
    while server.poll_transmit(now, &mut message) {
        let (_, _, pdu) = unframed(framing, &message);
        assert!(pdu.len() >= 2, "{message:02X?}");
        message.clear();
    }
}
