//! Messages as text, for people: what a protocol trace prints.
//!
//! ```text
//! request 7 unit 1 read holding registers 10-12
//! response 7 unit 1 read holding registers 10-12: 1500 65526 1
//! response 8 unit 1 read holding registers 900: exception 2 (illegal_data_address)
//! ```
//!
//! A [`Dissector`] follows both directions of a connection, as the client sees them: an answer does not name its addresses, its
//! request does. Every frame gives one [`Entry`], and so does every run of bytes that is no frame.

use crate::frame::{Mbap, MbapDecoder, RtuWindow};
use crate::pdu::{EXCEPTION_BIT, request_bytes, response_bytes};
use crate::{Bits, Framing, Function, Reply, Request, Response, Table, Unit, rtu_frame, tcp_frame};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Requests whose answers are waited for; the oldest is forgotten.
const OPEN_MAX: usize = 64;
/// Values of one message that are shown.
const VALUES_MAX: usize = 128;

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client: a request.
    Client,
    /// The server: an answer.
    Server,
}

/// Addresses that a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which of the four.
    pub table: Table,
    /// The first address, from 0.
    pub start: u16,
    /// How many.
    pub count: u16,
}

impl Span {
    /// Whether it has some of the same addresses.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |span: &Self| u32::from(span.start) + u32::from(span.count);
        self.table == other.table && u32::from(self.start) < end(other) && u32::from(other.start) < end(self)
    }
}

/// One frame, or one run of bytes that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who sent it.
    pub sender: Sender,
    /// The transaction, on TCP.
    pub transaction: Option<u16>,
    /// Which unit; none of bytes that are no frame.
    pub unit: Option<Unit>,
    /// The function code, without the bit of exceptions.
    pub function: Option<u8>,
    /// The addresses, of an answer those of its request.
    pub spans: Vec<Span>,
    /// One line.
    pub summary: String,
    /// Why the device refused, or why the message was not understood.
    pub refusal: Option<String>,
    /// The frame as it is on the line; empty of bytes that are no frame.
    pub frame: Vec<u8>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        match &self.refusal {
            Some(refusal) => write!(f, ": {refusal}"),
            None => Ok(()),
        }
    }
}

/// A request that was seen.
#[derive(Clone, Debug)]
struct Open {
    transaction: Option<u16>,
    unit: Unit,
    request: Request,
}

/// Follows both directions of a connection.
#[derive(Debug)]
pub struct Dissector {
    framing: Framing,
    /// By sender.
    mbap: [MbapDecoder; 2],
    rtu: [RtuWindow; 2],
    last: Option<Sender>,
    open: VecDeque<Open>,
}

impl Dissector {
    /// A dissector at the start of a connection.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self { framing, mbap: Default::default(), rtu: Default::default(), last: None, open: VecDeque::new() }
    }

    /// Takes what a sender sent next and appends an entry for every frame that it completes.
    pub fn push(&mut self, sender: Sender, bytes: &[u8], entries: &mut Vec<Entry>) {
        if self.framing.is_rtu() {
            self.push_rtu(sender, bytes, entries)
        } else {
            self.push_mbap(sender, bytes, entries)
        }
    }

    /// The connection ends: a frame that is incomplete is refused, and no answer comes any more.
    pub fn finish(&mut self, entries: &mut Vec<Entry>) {
        for sender in [Sender::Client, Sender::Server] {
            self.flush(sender, entries);
        }
        let [client, server] = &mut self.mbap;
        client.clear();
        server.clear();
        self.open.clear();
        self.last = None;
    }

    fn push_mbap(&mut self, sender: Sender, bytes: &[u8], entries: &mut Vec<Entry>) {
        let [client, server] = &mut self.mbap;
        let decoder = if sender == Sender::Client { client } else { server };
        let mut frames: Vec<(u16, Unit, Vec<u8>)> = Vec::new();
        let (_, dropped) = decoder.decode(bytes, |Mbap { transaction, unit, pdu }| {
            frames.push((transaction, unit, pdu.to_vec()));
            true
        });
        if decoder.is_lost() {
            decoder.clear();
        }
        if dropped > 0 {
            entries.push(no_frame(sender, dropped, "no MBAP header"));
        }
        for (transaction, unit, pdu) in frames {
            let mut frame = Vec::new();
            tcp_frame(transaction, unit, &mut frame, |out| out.extend_from_slice(&pdu));
            let entry = self.message(sender, Some(transaction), unit, &pdu);
            entries.push(Entry { frame, ..entry });
        }
    }

    fn push_rtu(&mut self, sender: Sender, bytes: &[u8], entries: &mut Vec<Entry>) {
        // One of them speaks at a time: what the other has begun has no end.
        if let Some(other) = self.last.filter(|last| *last != sender) {
            self.flush(other, entries);
        }
        self.last = Some(sender);
        for byte in bytes {
            let length = |_: Unit, pdu: &[u8]| match sender {
                Sender::Client => request_bytes(pdu).ok().flatten(),
                Sender::Server => response_bytes(pdu).ok().flatten(),
            };
            let window = self.window(sender);
            let found = window.push(*byte, length).map(|(unit, pdu, noise)| (unit, pdu.to_vec(), noise));
            let Some((unit, pdu, noise)) = found else { continue };
            window.clear();
            if noise > 0 {
                entries.push(no_frame(sender, noise, "no frame with a right CRC"));
            }
            entries.push(self.rtu_message(sender, unit, &pdu));
        }
        // A read or a write that is a frame as a whole, of a function without a known length.
        let whole = self.window(sender).whole().map(|(unit, pdu)| (unit, pdu.to_vec()));
        if let Some((unit, pdu)) = whole {
            self.window(sender).clear();
            entries.push(self.rtu_message(sender, unit, &pdu));
        }
    }

    fn rtu_message(&mut self, sender: Sender, unit: Unit, pdu: &[u8]) -> Entry {
        let mut frame = Vec::new();
        rtu_frame(unit, &mut frame, |out| out.extend_from_slice(pdu));
        Entry { frame, ..self.message(sender, None, unit, pdu) }
    }

    const fn window(&mut self, sender: Sender) -> &mut RtuWindow {
        let [client, server] = &mut self.rtu;
        match sender {
            Sender::Client => client,
            Sender::Server => server,
        }
    }

    fn flush(&mut self, sender: Sender, entries: &mut Vec<Entry>) {
        let left = self.window(sender).clear();
        if left > 0 {
            entries.push(no_frame(sender, left, "no frame with a right CRC"));
        }
    }

    fn message(&mut self, sender: Sender, transaction: Option<u16>, unit: Unit, pdu: &[u8]) -> Entry {
        match sender {
            Sender::Client => self.request(transaction, unit, pdu),
            Sender::Server => self.response(transaction, unit, pdu),
        }
    }

    fn request(&mut self, transaction: Option<u16>, unit: Unit, pdu: &[u8]) -> Entry {
        let mut entry = headed(Sender::Client, transaction, unit, pdu);
        match Request::parse(pdu) {
            Ok(request) => {
                entry.spans = spans(&request);
                let _ = write!(entry.summary, "{}{}", addresses(&request), written(&request));
                if self.open.len() >= OPEN_MAX {
                    self.open.pop_front();
                }
                self.open.push_back(Open { transaction, unit, request });
            }
            Err(error) => entry.refusal = Some(error.to_string()),
        }
        entry
    }

    fn response(&mut self, transaction: Option<u16>, unit: Unit, pdu: &[u8]) -> Entry {
        let mut entry = headed(Sender::Server, transaction, unit, pdu);
        // On a serial line an answer is to the last request: those before it were given up.
        let at = match transaction {
            Some(_) => self.open.iter().position(|open| open.transaction == transaction && open.unit == unit),
            None => self.open.iter().rposition(|open| open.unit == unit),
        };
        let Some(Open { request, .. }) = at.and_then(|at| self.open.remove(at)) else {
            let exception = pdu.first().is_some_and(|code| code & EXCEPTION_BIT != 0);
            entry.refusal = Some(match pdu.get(1).filter(|_| exception) {
                Some(code) => crate::ExceptionCode(*code).to_string(),
                None => "its request is not in the trace".to_string(),
            });
            return entry;
        };
        if transaction.is_none() {
            self.open.clear();
        }
        entry.spans = spans(&request);
        entry.summary.push_str(&addresses(&request));
        match Response::parse(&request, pdu) {
            Ok(Reply::Done(response)) => entry.summary.push_str(&answered(&response)),
            Ok(Reply::Refused(code)) => entry.refusal = Some(code.to_string()),
            Err(error) => entry.refusal = Some(error.to_string()),
        }
        entry
    }
}

/// An entry with what any frame says.
fn headed(sender: Sender, transaction: Option<u16>, unit: Unit, pdu: &[u8]) -> Entry {
    let function = pdu.first().map(|code| code & !EXCEPTION_BIT);
    let mut summary = String::from(match sender {
        Sender::Client => "request",
        Sender::Server => "response",
    });
    if let Some(transaction) = transaction {
        let _ = write!(summary, " {transaction}");
    }
    let _ = write!(summary, " unit {unit} ");
    match function.map(|code| (code, Function::from_code(code))) {
        Some((_, Some(function))) => summary.push_str(function.name()),
        Some((code, None)) => drop(write!(summary, "function {code}")),
        None => summary.push_str("nothing"),
    }
    Entry {
        sender,
        transaction,
        unit: Some(unit),
        function,
        spans: Vec::new(),
        summary,
        refusal: None,
        frame: Vec::new(),
    }
}

fn no_frame(sender: Sender, bytes: usize, why: &str) -> Entry {
    Entry {
        sender,
        transaction: None,
        unit: None,
        function: None,
        spans: Vec::new(),
        summary: format!("{bytes} bytes that are no frame"),
        refusal: Some(why.to_string()),
        frame: Vec::new(),
    }
}

fn spans(request: &Request) -> Vec<Span> {
    let length = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let one = |table, start, count| [Span { table, start, count }].into();
    match request {
        Request::Read { table, start, count } => one(*table, *start, *count),
        Request::WriteCoil { address, .. } => one(Table::Coils, *address, 1),
        Request::WriteRegister { address, .. } | Request::MaskWrite { address, .. } => {
            one(Table::HoldingRegisters, *address, 1)
        }
        Request::WriteCoils { start, values } => one(Table::Coils, *start, values.count()),
        Request::WriteRegisters { start, values } => one(Table::HoldingRegisters, *start, length(values.len())),
        Request::ReadWrite { read_start, read_count, write_start, values } => {
            let span = |start, count| Span { table: Table::HoldingRegisters, start, count };
            [span(*read_start, *read_count), span(*write_start, length(values.len()))].into()
        }
        Request::Identification { .. } => Vec::new(),
    }
}

/// The addresses behind the name of the function.
fn addresses(request: &Request) -> String {
    let mut text = String::new();
    for (at, Span { start, count, .. }) in spans(request).into_iter().enumerate() {
        text.push_str(if at > 0 { " write " } else { " " });
        let last = u32::from(start) + u32::from(count.saturating_sub(1));
        let _ = if count == 1 { write!(text, "{start}") } else { write!(text, "{start}-{last}") };
    }
    if let Request::Identification { code, object } = request {
        let _ = write!(text, " device identification, {code:?} from object {object}");
    }
    text
}

fn written(request: &Request) -> String {
    match request {
        Request::Read { .. } | Request::Identification { .. } => String::new(),
        Request::WriteCoil { on, .. } => format!(": {}", u8::from(*on)),
        Request::WriteRegister { value, .. } => format!(": {value}"),
        Request::WriteCoils { values, .. } => bits(values),
        Request::WriteRegisters { values, .. } | Request::ReadWrite { values, .. } => registers(values),
        Request::MaskWrite { and, or, .. } => format!(": and {and:#06x} or {or:#06x}"),
    }
}

fn answered(response: &Response) -> String {
    match response {
        Response::Bits(states) => bits(states),
        Response::Registers(values) => registers(values),
        Response::Written => ": done".to_string(),
        Response::Identification(page) => {
            let mut text = String::from(":");
            for object in page.objects.iter().take(VALUES_MAX) {
                let _ = write!(text, " {}={:?}", object.id, String::from_utf8_lossy(&object.value));
            }
            text
        }
    }
}

fn bits(states: &Bits) -> String {
    listed(states.iter().map(u16::from), usize::from(states.count()))
}

fn registers(values: &[u16]) -> String {
    listed(values.iter().copied(), values.len())
}

fn listed(values: impl Iterator<Item = u16>, count: usize) -> String {
    let mut text = String::from(":");
    for value in values.take(VALUES_MAX) {
        let _ = write!(text, " {value}");
    }
    if count > VALUES_MAX {
        let _ = write!(text, " … ({count} values)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU32;
    use proptest::prelude::*;

    const UNIT: Unit = Unit(1);

    fn serial() -> Framing {
        Framing::Rtu(crate::SerialTiming::new(NonZeroU32::new(9600).unwrap()))
    }

    fn framed(framing: Framing, transaction: u16, pdu: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match framing {
            Framing::Tcp => tcp_frame(transaction, UNIT, &mut out, |out| out.extend_from_slice(pdu)),
            Framing::Rtu(_) | Framing::RtuOverTcp => rtu_frame(UNIT, &mut out, |out| out.extend_from_slice(pdu)),
        }
        out
    }

    fn check(framing: Framing, messages: &[(Sender, &[u8])], expect: &[&str]) {
        let (mut dissector, mut entries) = (Dissector::new(framing), Vec::new());
        for (sender, pdu) in messages {
            let frame = framed(framing, 7, pdu);
            // In pieces, as a line brings them.
            frame.chunks(3).for_each(|piece| dissector.push(*sender, piece, &mut entries));
        }
        dissector.finish(&mut entries);
        let found: Vec<String> = entries.iter().map(|entry| entry.to_string().replace(" 7 unit", " unit")).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn answers_have_the_addresses_of_their_requests() {
        use Sender::{Client, Server};
        for framing in [Framing::Tcp, serial(), Framing::RtuOverTcp] {
            check(
                framing,
                &[(Client, &[3, 0, 10, 0, 2]), (Server, &[3, 4, 5, 220, 255, 246])],
                &[
                    "request unit 1 read holding registers 10-11",
                    "response unit 1 read holding registers 10-11: 1500 65526",
                ],
            );
            check(
                framing,
                &[(Client, &[5, 0, 4, 0xFF, 0]), (Server, &[0x85, 2])],
                &[
                    "request unit 1 write single coil 4: 1",
                    "response unit 1 write single coil 4: exception 2 (illegal_data_address)",
                ],
            );
            check(
                framing,
                &[(Client, &[1, 0, 0, 0, 3]), (Server, &[1, 1, 5])],
                &["request unit 1 read coils 0-2", "response unit 1 read coils 0-2: 1 0 1"],
            );
            check(
                framing,
                &[(Server, &[6, 0, 1, 0, 2])],
                &["response unit 1 write single register: its request is not in the trace"],
            );
        }
    }

    #[test]
    fn what_is_no_frame_is_told() {
        let (mut dissector, mut entries) = (Dissector::new(serial()), Vec::new());
        let mut damaged = framed(serial(), 0, &[3, 2, 0, 1]);
        damaged[3] ^= 1;
        dissector.push(Sender::Client, &framed(serial(), 0, &[3, 0, 0, 0, 1]), &mut entries);
        dissector.push(Sender::Server, &damaged, &mut entries);
        dissector.push(Sender::Client, &framed(serial(), 0, &[3, 0, 0, 0, 1]), &mut entries);
        let found: Vec<String> = entries.iter().map(Entry::to_string).collect();
        let read = "request unit 1 read holding registers 0";
        assert_eq!(found, [read, "7 bytes that are no frame: no frame with a right CRC", read]);
    }

    #[test]
    fn spans_overlap_where_they_share_an_address() {
        let span = |start, count| Span { table: Table::Coils, start, count };
        assert!(span(10, 2).overlaps(&span(11, 1)) && !span(10, 2).overlaps(&span(12, 1)));
        assert!(span(u16::MAX, 1).overlaps(&span(u16::MAX, 1)) && !span(0, 0).overlaps(&span(0, 1)));
        assert!(!span(1, 1).overlaps(&Span { table: Table::InputRegisters, start: 1, count: 1 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(pieces: Vec<(bool, Vec<u8>)>, kind in 0..3_u8) {
            let framing = match kind { 0 => Framing::Tcp, 1 => serial(), _ => Framing::RtuOverTcp };
            let (mut dissector, mut entries) = (Dissector::new(framing), Vec::new());
            for (client, bytes) in &pieces {
                let sender = if *client { Sender::Client } else { Sender::Server };
                dissector.push(sender, bytes, &mut entries);
            }
            dissector.finish(&mut entries);
            let bytes: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            prop_assert!(entries.len() <= bytes);
            prop_assert!(dissector.open.len() <= OPEN_MAX);
        }
    }
}
