//! The client's half of the opening handshake (RFC 6455 section 4.1), and its masks (section 5.3).

use crate::base64::encode;
use crate::frame::mask;
use crate::handshake::{HEADERS_MAX, REQUEST_BYTES_MAX, lists, only, proof};
use alloc::format;
use alloc::string::String;
use core::fmt;
use httparse::{EMPTY_HEADER, Response, Status};
use sha1::{Digest, Sha1};

/// Bytes of a response, at most.
pub const RESPONSE_BYTES_MAX: usize = REQUEST_BYTES_MAX;

/// What a client asks for. `key` and `seed` are random, and new for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Host and port of the server, as in `hub.example:443`.
    pub host: String,
    /// The path, as in `/mqtt`.
    pub path: String,
    /// The subprotocol that the server must choose.
    pub protocol: String,
    /// The bytes of `Sec-WebSocket-Key`.
    pub key: [u8; 16],
    /// What the masks of frames are made of.
    pub seed: [u8; 16],
}

/// Why the response of a server is not the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFault {
    /// It is not HTTP/1.1.
    Malformed,
    /// It is longer than [`RESPONSE_BYTES_MAX`] or has more than [`HEADERS_MAX`].
    TooLarge,
    /// Its status is not 101.
    Status(u16),
    /// It does not say that the protocol is a WebSocket from here on.
    Upgrade,
    /// `Sec-WebSocket-Accept` is absent, or not that of the key.
    Accept,
    /// `Sec-WebSocket-Protocol` is absent, or not the one that was asked for.
    Protocol,
    /// It names an extension, and none was offered.
    Extension,
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the server does not answer with HTTP/1.1"),
            Self::TooLarge => {
                write!(f, "the response has more than {RESPONSE_BYTES_MAX} bytes or {HEADERS_MAX} headers")
            }
            Self::Status(status) => write!(f, "the server answers with HTTP status {status}, expected 101"),
            Self::Upgrade => f.write_str("the response has no Upgrade: websocket with Connection: Upgrade"),
            Self::Accept => f.write_str("the Sec-WebSocket-Accept of the response is not that of the key"),
            Self::Protocol => f.write_str("the server does not choose the Sec-WebSocket-Protocol that was asked for"),
            Self::Extension => f.write_str("the server chooses an extension that was not offered"),
        }
    }
}

impl core::error::Error for ResponseFault {}

/// What a client remembers of its connection.
#[derive(Debug)]
pub(crate) struct Client {
    accept: String,
    protocol: String,
    masks: Masks,
    pub(crate) fault: Option<ResponseFault>,
    /// What the close of the server said: its code, 1005 where it had none.
    pub(crate) close_code: Option<u16>,
}

impl Client {
    pub(crate) fn new(request: &Request) -> Self {
        let masks = Masks { seed: request.seed, count: 0 };
        Self {
            accept: proof(request.key_text().as_bytes()),
            protocol: request.protocol.clone(),
            masks,
            fault: None,
            close_code: None,
        }
    }

    /// Reads a response: none while it is not whole; then its bytes.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Option<usize>, ResponseFault> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let used = match response.parse(bytes) {
            Ok(Status::Complete(used)) => used,
            Ok(Status::Partial) if bytes.len() >= RESPONSE_BYTES_MAX => return Err(ResponseFault::TooLarge),
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(ResponseFault::TooLarge),
            Err(_) => return Err(ResponseFault::Malformed),
        };
        self.check(&response)?;
        Ok(Some(used))
    }

    /// What section 4.1 asks of a response.
    fn check(&self, response: &Response<'_, '_>) -> Result<(), ResponseFault> {
        if response.version != Some(1) {
            return Err(ResponseFault::Malformed);
        }
        let status = response.code.unwrap_or_default();
        if status != 101 {
            return Err(ResponseFault::Status(status));
        }
        let headers = &*response.headers;
        if !lists(headers, "upgrade", "websocket", true) || !lists(headers, "connection", "upgrade", true) {
            return Err(ResponseFault::Upgrade);
        }
        let is_only = |name, expect: &str| only(headers, name).is_ok_and(|value| value == Some(expect.as_bytes()));
        if !is_only("sec-websocket-accept", &self.accept) {
            return Err(ResponseFault::Accept);
        }
        if !is_only("sec-websocket-protocol", &self.protocol) {
            return Err(ResponseFault::Protocol);
        }
        if only(headers, "sec-websocket-extensions") != Ok(None) {
            return Err(ResponseFault::Extension);
        }
        Ok(())
    }

    /// Masks a frame whose head, with an empty key at its end, has `head` bytes.
    pub(crate) fn mask(&mut self, frame: &mut [u8], head: usize) {
        let key = self.masks.next();
        let (head, payload) = frame.split_at_mut_checked(head).unwrap_or_default();
        if let Some(place) = head.last_chunk_mut() {
            *place = key;
        }
        mask(payload, key);
    }
}

impl Request {
    fn key_text(&self) -> String {
        let mut text = String::new();
        encode(&self.key, &mut text);
        text
    }

    /// The request as it goes out.
    pub(crate) fn text(&self) -> String {
        let (Self { host, path, protocol, .. }, key) = (self, self.key_text());
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
    }
}

/// Masks that nobody can tell who does not know the seed.
#[derive(Debug)]
struct Masks {
    seed: [u8; 16],
    count: u64,
}

impl Masks {
    fn next(&mut self) -> [u8; 4] {
        self.count = self.count.wrapping_add(1);
        let digest = Sha1::new().chain_update(self.seed).chain_update(self.count.to_be_bytes()).finalize();
        digest.first_chunk().copied().unwrap_or_default()
    }
}
