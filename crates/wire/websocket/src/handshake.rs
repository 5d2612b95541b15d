//! The opening handshake (RFC 6455 section 4.2): what a client must ask for, and the answer.

use crate::base64::{encode, is_key};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use httparse::{EMPTY_HEADER, Header, Request, Status};
use sha1::{Digest, Sha1};

/// Bytes of a request, at most.
pub const REQUEST_BYTES_MAX: usize = 8192;
/// Headers of a request, at most.
pub const HEADERS_MAX: usize = 64;
/// What the answer proves that the server knows (section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What a server offers; one value is shared by all its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The path of the request, without a query: `/mqtt`.
    pub path: String,
    /// The subprotocol that a client must name and the answer chooses.
    pub protocol: String,
    /// Hosts whose pages may connect, as in the `Origin` of a browser, without scheme and port. What is no browser
    /// sends none and is let in.
    pub hosts: Vec<String>,
    /// Whether texts are taken like binary messages; what is no UTF-8 is closed on with 1007.
    pub texts: bool,
}

/// Why a handshake was refused, with the status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400: not HTTP/1.1, or no handshake.
    Malformed,
    /// 403: a page of a host that may not connect.
    Origin,
    /// 404: another path.
    Path,
    /// 405: another method than GET.
    Method,
    /// 400: the subprotocol is not named.
    Protocol,
    /// 426: no handshake, or another version than 13.
    Version,
    /// 431: more than [`REQUEST_BYTES_MAX`] or [`HEADERS_MAX`].
    TooLarge,
}

impl Refusal {
    fn status(self) -> &'static str {
        match self {
            Self::Malformed | Self::Protocol => "400 Bad Request",
            Self::Origin => "403 Forbidden",
            Self::Path => "404 Not Found",
            Self::Method => "405 Method Not Allowed\r\nAllow: GET",
            Self::Version => "426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
            Self::TooLarge => "431 Request Header Fields Too Large",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Malformed => "expected the opening handshake of a WebSocket (RFC 6455)",
            Self::Origin => "pages of this origin may not connect",
            Self::Path => "nothing is here",
            Self::Method => "expected GET",
            Self::Protocol => "expected a Sec-WebSocket-Protocol that is offered here",
            Self::Version => "expected Upgrade: websocket with Sec-WebSocket-Version: 13",
            Self::TooLarge => "the request is too large",
        }
    }

    /// The answer that says so.
    pub(crate) fn answer(self) -> String {
        let (status, words) = (self.status(), self.words());
        let length = words.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{words}\n"
        )
    }
}

/// Reads a request: nothing while it is not whole; then its bytes and the answer.
pub(crate) fn answer(bytes: &[u8], offer: &Offer) -> Result<Option<(usize, String)>, Refusal> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) if bytes.len() >= REQUEST_BYTES_MAX => return Err(Refusal::TooLarge),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
        Err(_) => return Err(Refusal::Malformed),
    };
    let key = check(&request, offer)?;
    let proof = proof(key);
    let protocol = &offer.protocol;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    Ok(Some((used, answer)))
}

/// What shows that a server has read the key, as in `Sec-WebSocket-Accept`.
pub(crate) fn proof(key: &[u8]) -> String {
    let mut proof = String::new();
    encode(&Sha1::new().chain_update(key).chain_update(GUID).finalize(), &mut proof);
    proof
}

/// What section 4.2.1 asks of a request; the key.
fn check<'a>(request: &Request<'_, 'a>, offer: &Offer) -> Result<&'a [u8], Refusal> {
    if request.version != Some(1) {
        return Err(Refusal::Malformed);
    }
    if request.method != Some("GET") {
        return Err(Refusal::Method);
    }
    let path = request.path.unwrap_or_default();
    if path.split('?').next() != Some(&offer.path) {
        return Err(Refusal::Path);
    }
    let headers: &[Header<'a>] = request.headers;
    if !lists(headers, "upgrade", "websocket", true) || !lists(headers, "connection", "upgrade", true) {
        return Err(Refusal::Version);
    }
    if only(headers, "host")?.is_none() {
        return Err(Refusal::Malformed);
    }
    if only(headers, "sec-websocket-version")? != Some(b"13") {
        return Err(Refusal::Version);
    }
    if let Some(origin) = only(headers, "origin")?
        && !is_allowed(origin, &offer.hosts)
    {
        return Err(Refusal::Origin);
    }
    let key = only(headers, "sec-websocket-key")?.filter(|key| is_key(key)).ok_or(Refusal::Malformed)?;
    if !lists(headers, "sec-websocket-protocol", &offer.protocol, false) {
        return Err(Refusal::Protocol);
    }
    Ok(key)
}

fn named<'h, 'a>(headers: &'h [Header<'a>], name: &'h str) -> impl Iterator<Item = &'a [u8]> + use<'h, 'a> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.trim_ascii())
}

/// The value of a header that may come once.
pub(crate) fn only<'a>(headers: &[Header<'a>], name: &str) -> Result<Option<&'a [u8]>, Refusal> {
    let mut all = named(headers, name);
    match (all.next(), all.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Refusal::Malformed),
    }
}

/// Whether one of a header's values is this word.
pub(crate) fn lists(headers: &[Header<'_>], name: &str, word: &str, any_case: bool) -> bool {
    named(headers, name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|found| if any_case { found.eq_ignore_ascii_case(word.as_bytes()) } else { found == word.as_bytes() })
}

/// Whether pages of an origin (`scheme://host:port`) may connect.
fn is_allowed(origin: &[u8], hosts: &[String]) -> bool {
    let Some((_, rest)) = core::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let host = match rest.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => rest,
    };
    hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
}
