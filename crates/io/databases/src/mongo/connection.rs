//! A connection to a server: commands and their answers, one at a time.
//!
//! ```text
//!  OP_MSG   length │ request │ answered request │ 2013 │ flags │ 0 document │ 1 length name 0 document …
//! ```

use super::bson::{Bson, Document, Writer};
use super::scram::Scram;
use crate::DatabaseError;
use crate::tls::LoadTls;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

const OP_MSG: u32 = 2013;
const HEADER_BYTES: usize = 16;
/// Bytes of the longest answer.
const ANSWER_BYTES_MAX: usize = 48_000_000;
/// The longest time to connect to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Exchanges of one authentication.
const EXCHANGES_MAX: usize = 4;

/// How a server is reached and who asks.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// The database that has the user.
    pub(crate) auth_database: String,
    pub(crate) tls: Option<LoadTls>,
    pub(crate) timeout: Duration,
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    request: u32,
    timeout: Duration,
    message: Vec<u8>,
    answer: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    /// Connects to the first host that takes writes.
    pub(crate) fn open(address: &Address, must_write: bool) -> Result<Self, DatabaseError> {
        let mut last = DatabaseError::Refused("no host was given".to_owned());
        for (host, port) in &address.hosts {
            match Self::open_host(address, host, *port, must_write) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open_host(address: &Address, host: &str, port: u16, must_write: bool) -> Result<Self, DatabaseError> {
        let away = |error: &dyn std::fmt::Display| DatabaseError::Away(format!("{host}:{port}: {error}"));
        let mut found = (host, port).to_socket_addrs().map_err(|error| away(&error))?;
        let at = found.next().ok_or_else(|| away(&"no address"))?;
        let socket = TcpStream::connect_timeout(&at, CONNECT_TIMEOUT).map_err(|error| away(&error))?;
        socket.set_nodelay(true).map_err(|error| away(&error))?;
        let stream = match &address.tls {
            None => Stream::Plain(socket),
            Some(load) => {
                let config = load().map_err(DatabaseError::Refused)?;
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| DatabaseError::Refused(format!("{host:?} is no name for TLS")))?;
                let client = ClientConnection::new(config, name).map_err(|error| away(&error))?;
                Stream::Tls(Box::new(StreamOwned::new(client, socket)))
            }
        };
        let (message, answer) = (Vec::new(), Vec::new());
        let mut connection = Self { stream, request: 0, timeout: address.timeout, message, answer };
        connection.greet(must_write).map_err(|error| named(host, port, error))?;
        if let Some(user) = &address.user {
            let password = address.password.as_deref().unwrap_or_default();
            connection.authenticate(user, password, &address.auth_database)?;
        }
        Ok(connection)
    }

    fn greet(&mut self, must_write: bool) -> Result<(), DatabaseError> {
        let mut hello = Writer::default();
        hello.begin().int32("hello", 1).document("client").document("driver").text("name", "tieline");
        hello.text("version", env!("CARGO_PKG_VERSION")).end().document("os").text("type", "Linux").end().end();
        hello.text("$db", "admin").end();
        let answer = self.ask(hello.bytes(), None, Duration::ZERO)?;
        let is_writable =
            ["isWritablePrimary", "ismaster"].iter().any(|name| answer.get(name).is_some_and(Bson::is_true));
        if must_write && !is_writable {
            return Err(DatabaseError::Away("it takes no writes".to_owned()));
        }
        Ok(())
    }

    fn authenticate(&mut self, user: &str, password: &str, database: &str) -> Result<(), DatabaseError> {
        let refused = |words: &str| DatabaseError::Refused(format!("authentication of {user:?}: {words}"));
        let mut random = [0; 18];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
        read.map_err(|error| refused(&error.to_string()))?;
        let scram = Scram::new(user, &random);
        let mut start = Writer::default();
        start.begin().int32("saslStart", 1).text("mechanism", "SCRAM-SHA-256");
        start.binary("payload", scram.message().as_bytes());
        start.document("options").bool("skipEmptyExchange", true).end().text("$db", database).end();
        let answer = self.ask(start.bytes(), None, Duration::ZERO)?;
        let (conversation, said, _) = sasl(answer);
        let proved = scram.prove(&said, password).ok_or_else(|| refused("the server said what is no SCRAM-SHA-256"))?;
        let mut message = proved.message.clone();
        for _ in 0..EXCHANGES_MAX {
            let mut go_on = Writer::default();
            go_on.begin().int32("saslContinue", 1).int32("conversationId", conversation);
            go_on.binary("payload", message.as_bytes()).text("$db", database).end();
            let (_, said, is_done) = sasl(self.ask(go_on.bytes(), None, Duration::ZERO)?);
            if !message.is_empty() && !proved.is_signed(&said) {
                return Err(refused("the server does not know the password"));
            }
            if is_done {
                return Ok(());
            }
            message.clear();
        }
        Err(refused("it does not end"))
    }

    /// Sends a command, with documents under a name beside it, and reads the answer. `more` is time beyond the time-out.
    pub(crate) fn ask(
        &mut self,
        command: &[u8],
        documents: Option<(&str, &[u8])>,
        more: Duration,
    ) -> Result<Document<'_>, DatabaseError> {
        self.request = self.request.wrapping_add(1);
        self.message.clear();
        self.message.extend([0; 4]);
        for word in [self.request, 0, OP_MSG, 0] {
            self.message.extend(word.to_le_bytes());
        }
        self.message.push(0);
        self.message.extend(command);
        if let Some((name, bytes)) = documents {
            self.message.push(1);
            let length = u32::try_from(4 + name.len() + 1 + bytes.len()).unwrap_or(u32::MAX);
            self.message.extend(length.to_le_bytes());
            self.message.extend(name.as_bytes());
            self.message.push(0);
            self.message.extend(bytes);
        }
        let length = u32::try_from(self.message.len()).unwrap_or(u32::MAX);
        if let Some(place) = self.message.first_chunk_mut() {
            *place = length.to_le_bytes();
        }
        let deadline = Instant::now() + self.timeout + more;
        self.exchange(deadline).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => DatabaseError::Away("no answer in time".to_owned()),
            _ => DatabaseError::Away(format!("the connection failed: {error}")),
        })?;
        let answer = read_answer(&self.answer, self.request)?;
        if answer.get("ok").is_some_and(Bson::is_true) {
            return Ok(answer);
        }
        let code = answer.get("code").and_then(Bson::int).unwrap_or_default();
        let words = answer.get("errmsg").and_then(Bson::text).unwrap_or("it failed");
        Err(blame(code, words))
    }

    fn exchange(&mut self, deadline: Instant) -> io::Result<()> {
        let mut rest = self.message.as_slice();
        while !rest.is_empty() {
            self.stream.limit(deadline)?;
            let written = self.stream.write(rest)?;
            rest = rest.get(written..).filter(|_| written > 0).ok_or(io::ErrorKind::WriteZero)?;
        }
        self.stream.flush()?;
        self.answer.resize(HEADER_BYTES, 0);
        self.stream.read_all(&mut self.answer, deadline)?;
        let length = self.answer.first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let body = length.checked_sub(HEADER_BYTES).filter(|body| *body <= ANSWER_BYTES_MAX);
        let body = body.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer has a wrong length"))?;
        // What a length promises takes memory when it comes.
        let mut piece = [0; 64 << 10];
        let mut left = body;
        while left > 0 {
            let size = left.min(piece.len());
            let Some(part) = piece.get_mut(..size) else { break };
            self.stream.read_all(part, deadline)?;
            self.answer.extend_from_slice(part);
            left -= size;
        }
        Ok(())
    }
}

impl Stream {
    fn limit(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let left = left.ok_or(io::ErrorKind::TimedOut)?;
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        };
        socket.set_read_timeout(Some(left))?;
        socket.set_write_timeout(Some(left))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }

    fn read_all(&mut self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            self.limit(deadline)?;
            let read = match self {
                Self::Plain(socket) => socket.read(into)?,
                Self::Tls(stream) => stream.read(into)?,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = into.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The document of an answer to a request.
pub fn read_answer(bytes: &[u8], request: u32) -> Result<Document<'_>, DatabaseError> {
    let wrong = |words: &str| DatabaseError::Away(format!("an answer is wrong: {words}"));
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|four| u32::from_le_bytes(*four));
    if word(12) != Some(OP_MSG) {
        return Err(wrong("it is no OP_MSG"));
    }
    if word(8) != Some(request) {
        return Err(wrong("it is of another request"));
    }
    let flags = word(HEADER_BYTES).ok_or_else(|| wrong("it ends early"))?;
    // With a checksum it ends with four more bytes; flags below 16 that are not known must not be passed over.
    if flags & 0xfffe != 0 {
        return Err(wrong("it has flags that are not known"));
    }
    match bytes.get(HEADER_BYTES + 4..) {
        Some([0, rest @ ..]) => Document::read(rest).map(|(found, _)| found).map_err(|error| wrong(&error.to_string())),
        _ => Err(wrong("it does not begin with a document")),
    }
}

/// Who is to blame for an error, by its code.
pub(super) fn blame(code: i64, words: &str) -> DatabaseError {
    let words = format!("it answers {code}: {words}");
    match code {
        // Values, documents, keys: they stay as they are.
        2 | 22 | 121 | 10334 | 17280 | 17419 | 17420 => DatabaseError::Rejected(words),
        // No primary, shutting down, time, conflicts and duplicates of an earlier attempt: they pass.
        6 | 7 | 50 | 89 | 91 | 112 | 189 | 262 | 9001 | 10107 | 11000 | 11600 | 11602 | 13435 | 13436 => {
            DatabaseError::Away(words)
        }
        _ => DatabaseError::Refused(words),
    }
}

fn named(host: &str, port: u16, error: DatabaseError) -> DatabaseError {
    match error {
        DatabaseError::Away(words) => DatabaseError::Away(format!("{host}:{port}: {words}")),
        other => other,
    }
}

/// Conversation, payload and whether it is done.
fn sasl(answer: Document<'_>) -> (i32, String, bool) {
    let conversation = answer.get("conversationId").and_then(Bson::int).and_then(|n| i32::try_from(n).ok());
    let payload = match answer.get("payload") {
        Some(Bson::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Bson::Text(text)) => text.to_owned(),
        _ => String::new(),
    };
    (conversation.unwrap_or_default(), payload, answer.get("done").is_some_and(Bson::is_true))
}
