//! Modbus servers over TCP: connections of clients, and what answers them.

use crate::treatment::{NOISE_BYTES, Reply, Treatment};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tieline_core::Now;
use tieline_modbus::{ExceptionCode, Request, Response, Server, ServerConfig, ServerEvent, Unit};
use tieline_net::{Limits, ListenConfig, Owner, Session, Shard};
use tieline_transport::Route;

/// Connections of clients to one server at most.
const CONNECTIONS_MAX: usize = 64;

/// What is behind a server: one device, or several by their units.
pub trait ModbusDevice {
    /// Does what a request asks.
    ///
    /// # Errors
    /// The exception that the client gets.
    fn answer(&mut self, now: Now, unit: Unit, request: &Request) -> Result<Response, ExceptionCode>;

    /// How it treats the next request; one that is well answers at once.
    fn treat(&mut self, _now: Now) -> Treatment {
        Treatment::WELL
    }
}

/// Serves a device to clients until the shard ends. Returns the address in use.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve<D: ModbusDevice + 'static>(
    shard: &Rc<Shard>,
    listen: SocketAddr,
    config: ServerConfig,
    device: Rc<RefCell<D>>,
) -> io::Result<SocketAddr> {
    let listen_on = ListenConfig { sessions_max: CONNECTIONS_MAX, ..ListenConfig::new(listen.to_string()) };
    let (limits, of) = (Rc::new(Limits::default()), Rc::clone(shard));
    let start_session = move || {
        let session = Session::new(&of, Server::new(config.clone()), Rc::clone(&limits));
        (session, Connection(Rc::clone(&device)))
    };
    let address = Route::Listen(listen_on).start_each(shard, 0, start_session).await?;
    Ok(address.unwrap_or(listen))
}

/// One client.
struct Connection<D>(Rc<RefCell<D>>);

impl<D: ModbusDevice> Owner<Server> for Connection<D> {
    fn event(&mut self, session: &Session<Server>, now: Now, event: ServerEvent) {
        match event {
            ServerEvent::Request { id, unit, request } => {
                let Treatment { after, reply } = self.0.borrow_mut().treat(now);
                let answer = |device: &mut D| device.answer(now, unit, &request);
                let end = match reply {
                    Reply::Answer => End::Answer(answer(&mut self.0.borrow_mut())),
                    Reply::Refuse => End::Answer(Err(ExceptionCode::SERVER_DEVICE_FAILURE)),
                    Reply::Noise(bytes) => End::Noise(bytes),
                    Reply::Nothing { is_carried_out } => {
                        if is_carried_out {
                            drop(answer(&mut self.0.borrow_mut()));
                        }
                        End::Nothing
                    }
                    Reply::Off => return session.close(),
                };
                if after.is_zero() {
                    return session.with(|server, _| end.reach(server, id));
                }
                let session = session.clone();
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(after).await;
                    session.with(|server, _| end.reach(server, id));
                });
            }
            // There are none over TCP.
            ServerEvent::Broadcast { .. } => {}
        }
    }
}

/// What a request comes to.
enum End {
    Answer(Result<Response, ExceptionCode>),
    Noise([u8; NOISE_BYTES]),
    Nothing,
}

impl End {
    /// Tells it to the client; one that is gone by then hears nothing.
    fn reach(self, server: &mut Server, id: u64) {
        match self {
            Self::Answer(answer) => server.answer(id, answer),
            Self::Noise(bytes) => server.fail(id, &bytes),
            Self::Nothing => server.fail(id, &[]),
        }
    }
}

/// Registers in a row, from an address on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    start: u16,
    values: Vec<u16>,
}

impl Registers {
    /// None yet, from an address on.
    #[must_use]
    pub const fn from(start: u16) -> Self {
        Self { start, values: Vec::new() }
    }

    /// Adds registers at the end.
    pub fn extend(&mut self, values: impl IntoIterator<Item = u16>) {
        self.values.extend(values);
    }

    /// Adds a number of 32 bits, the high word first.
    pub fn push_u32(&mut self, value: u32) {
        let [a, b, c, d] = value.to_be_bytes();
        self.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    }

    /// Adds a text, cut or filled up with zeros to so many registers.
    pub fn push_text(&mut self, text: &str, registers: usize) {
        let mut bytes = text.bytes().chain(std::iter::repeat(0));
        let mut next = || bytes.next().unwrap_or(0);
        self.extend(std::iter::repeat_with(|| u16::from_be_bytes([next(), next()])).take(registers));
    }

    /// The registers of a read.
    ///
    /// # Errors
    /// Some of them are not there.
    pub fn read(&self, start: u16, count: u16) -> Result<Response, ExceptionCode> {
        let first = start.checked_sub(self.start).map(usize::from).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)?;
        let found = self.values.get(first..first + usize::from(count)).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)?;
        Ok(Response::Registers(found.into()))
    }
}

/// The registers that a request writes, by address; none of other requests.
#[must_use]
pub fn written(request: &Request) -> Option<Vec<(u16, u16)>> {
    match request {
        Request::WriteRegister { address, value } => Some(vec![(*address, *value)]),
        Request::WriteRegisters { start, values } => Some((*start..=u16::MAX).zip(values.iter().copied()).collect()),
        Request::Read { .. }
        | Request::WriteCoil { .. }
        | Request::WriteCoils { .. }
        | Request::MaskWrite { .. }
        | Request::ReadWrite { .. }
        | Request::Identification { .. } => None,
    }
}

/// The coils that a request writes, by address; none of other requests.
#[must_use]
pub fn switched(request: &Request) -> Option<Vec<(u16, bool)>> {
    match request {
        Request::WriteCoil { address, on } => Some(vec![(*address, *on)]),
        Request::WriteCoils { start, values } => Some((*start..=u16::MAX).zip(values.iter()).collect()),
        Request::Read { .. }
        | Request::WriteRegister { .. }
        | Request::WriteRegisters { .. }
        | Request::MaskWrite { .. }
        | Request::ReadWrite { .. }
        | Request::Identification { .. } => None,
    }
}

/// The bits of a read, which begin at address 0.
///
/// # Errors
/// Some of them are not there.
pub fn read_bits(bits: &[bool], start: u16, count: u16) -> Result<Response, ExceptionCode> {
    let first = usize::from(start);
    let found = bits.get(first..first + usize::from(count)).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)?;
    Ok(Response::Bits(found.iter().copied().collect()))
}
