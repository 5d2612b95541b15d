//! The frames of the binary protocol; `docs/seal-protocol.md` is its specification.
//!
//! ```text
//! bytes   4        1      4      …
//!          length   kind   id     body
//! ```
//!
//! Numbers have their high byte first; `length` counts what follows it. Requests are answered in any order, by id.

use crate::Ispb;
use tieline_core::{Cursor, Truncated};

/// The version of the protocol.
pub const VERSION: u8 = 1;
/// Bytes of a frame's length.
pub const LENGTH_BYTES: usize = 4;
/// Bytes that a frame may have besides message or content.
pub const OVERHEAD_BYTES_MAX: usize = 1024;

/// Bit 0 of a request's options: compress or decompress.
const COMPRESSION: u8 = 0x01;

/// A frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// 01: the first of a connection.
    Hello {
        /// The version that the client speaks.
        version: u8,
        /// Its token.
        token: &'a str,
    },
    /// 02.
    Pack {
        /// The domain that sends.
        domain: &'a str,
        /// The institution that receives.
        recipient: Ispb,
        /// The version of the key that signs; 0 is the highest active one.
        key_version: u32,
        /// C02.
        version: u8,
        /// C03.
        error: u8,
        /// C04.
        treatment: u8,
        /// Whether content of a compressed treatment is to be compressed.
        compress: bool,
        /// The content.
        content: &'a [u8],
    },
    /// 03.
    Unpack {
        /// The domain that receives.
        domain: &'a str,
        /// The institution that must have sent; none is any peer.
        sender: Option<Ispb>,
        /// Whether compressed content is to be decompressed.
        inflate: bool,
        /// The message.
        message: &'a [u8],
    },
    /// 04: are you there?
    Ping,
}

/// A frame from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// 81: the token is known.
    Welcome {
        /// The version that is spoken.
        version: u8,
        /// Requests that may wait for their answers; more are not read.
        in_flight_max: u32,
        /// Bytes of content at most.
        content_bytes_max: u64,
    },
    /// 82: a sealed message.
    Packed {
        /// The message.
        message: &'a [u8],
    },
    /// 83: verified content.
    Unpacked {
        /// The institution whose key signed.
        sender: Ispb,
        /// C03 as it came, not authenticated.
        error: u8,
        /// C04 as it came, not authenticated.
        treatment: u8,
        /// The content.
        content: &'a [u8],
    },
    /// 84: here; so many operations wait.
    Pong {
        /// Operations that wait.
        waiting: u32,
    },
    /// 85: the server stops; what is answered is answered, nothing new is read.
    Closing,
    /// 8f: no.
    Refused {
        /// Why.
        reason: Reason,
        /// The value of C03 that tells the sender; 0 where no message is to blame.
        code: u8,
        /// In words.
        text: &'a str,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// 1: the request is not possible.
    Request = 1,
    /// 2: the client has not this right, or no known token.
    Right = 2,
    /// 3: the message is refused.
    Message = 3,
    /// 4: more bytes than are taken.
    TooLarge = 4,
    /// 5: too many operations wait; another server may take it.
    Busy = 5,
    /// 6: the server stops; another server may take it.
    Closing = 6,
    /// 7: the server failed; another server may take it.
    Failed = 7,
}

impl Reason {
    const ALL: [Self; 7] =
        [Self::Request, Self::Right, Self::Message, Self::TooLarge, Self::Busy, Self::Closing, Self::Failed];

    /// Whether another server may answer differently.
    #[must_use]
    pub const fn is_of_this_server(self) -> bool {
        match self {
            Self::Busy | Self::Closing | Self::Failed => true,
            Self::Request | Self::Right | Self::Message | Self::TooLarge => false,
        }
    }
}

/// A frame that breaks the protocol; the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Self
    }
}

/// What stands at the beginning of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A whole frame, without its length, and the bytes that it takes with it.
    Whole(&'a [u8], usize),
    /// Not enough yet.
    Part,
}

/// Finds the first frame.
///
/// # Errors
/// It is longer than `bytes_max`.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Framed<'_>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(Framed::Part) };
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Malformed)?;
    if length > bytes_max {
        return Err(Malformed);
    }
    Ok(rest.get(..length).map_or(Framed::Part, |body| Framed::Whole(body, LENGTH_BYTES + length)))
}

impl<'a> Request<'a> {
    /// Reads a frame without its length: the request's id, and the request.
    ///
    /// # Errors
    /// It breaks the protocol.
    pub fn parse(frame: &'a [u8]) -> Result<(u32, Self), Malformed> {
        let mut c = Cursor::new(frame);
        let (kind, id) = (c.u8()?, c.u32_be()?);
        let request = match kind {
            0x01 => {
                let version = c.u8()?;
                Self::Hello { version, token: text(c.rest())? }
            }
            0x02 => {
                let domain = short_text(&mut c)?;
                let recipient = Ispb::from_bytes(c.array()?).ok_or(Malformed)?;
                let key_version = c.u32_be()?;
                let (version, error, treatment, options) = (c.u8()?, c.u8()?, c.u8()?, c.u8()?);
                let compress = options & COMPRESSION != 0;
                let content = c.rest();
                Self::Pack { domain, recipient, key_version, version, error, treatment, compress, content }
            }
            0x03 => {
                let domain = short_text(&mut c)?;
                let sender = match c.array()? {
                    [0, 0, 0, 0, 0, 0, 0, 0] => None,
                    bytes => Some(Ispb::from_bytes(bytes).ok_or(Malformed)?),
                };
                let inflate = c.u8()? & COMPRESSION != 0;
                Self::Unpack { domain, sender, inflate, message: c.rest() }
            }
            0x04 => Self::Ping,
            _ => return Err(Malformed),
        };
        Ok((id, request))
    }

    /// Appends a whole frame. Domains of more than 255 bytes are cut.
    pub fn emit(&self, id: u32, out: &mut Vec<u8>) {
        match *self {
            Self::Hello { version, token } => emit(0x01, id, &[&[version], token.as_bytes()], out),
            Self::Pack { domain, recipient, key_version, version, error, treatment, compress, content } => {
                let (bytes, domain) = short(domain);
                let fields = [version, error, treatment, u8::from(compress)];
                let head: [&[u8]; 6] =
                    [&bytes, domain, recipient.bytes(), &key_version.to_be_bytes(), &fields, content];
                emit(0x02, id, &head, out);
            }
            Self::Unpack { domain, sender, inflate, message } => {
                let (bytes, domain) = short(domain);
                let sender = sender.map_or([0; 8], |sender| *sender.bytes());
                emit(0x03, id, &[&bytes, domain, &sender, &[u8::from(inflate)], message], out);
            }
            Self::Ping => emit(0x04, id, &[], out),
        }
    }
}

impl<'a> Response<'a> {
    /// Reads a frame without its length: the id of the request that it answers, and the answer.
    ///
    /// # Errors
    /// It breaks the protocol.
    pub fn parse(frame: &'a [u8]) -> Result<(u32, Self), Malformed> {
        let mut c = Cursor::new(frame);
        let (kind, id) = (c.u8()?, c.u32_be()?);
        let response = match kind {
            0x81 => {
                let (version, in_flight_max) = (c.u8()?, c.u32_be()?);
                Self::Welcome { version, in_flight_max, content_bytes_max: u64::from_be_bytes(c.array()?) }
            }
            0x82 => Self::Packed { message: c.rest() },
            0x83 => {
                let sender = Ispb::from_bytes(c.array()?).ok_or(Malformed)?;
                let (error, treatment) = (c.u8()?, c.u8()?);
                Self::Unpacked { sender, error, treatment, content: c.rest() }
            }
            0x84 => Self::Pong { waiting: c.u32_be()? },
            0x85 => Self::Closing,
            0x8f => {
                let reason = c.u8()?;
                let reason = Reason::ALL.into_iter().find(|known| *known as u8 == reason).ok_or(Malformed)?;
                let code = c.u8()?;
                Self::Refused { reason, code, text: text(c.rest())? }
            }
            _ => return Err(Malformed),
        };
        Ok((id, response))
    }

    /// Appends a whole frame.
    pub fn emit(&self, id: u32, out: &mut Vec<u8>) {
        match *self {
            Self::Welcome { version, in_flight_max, content_bytes_max } => {
                let (in_flight, bytes) = (in_flight_max.to_be_bytes(), content_bytes_max.to_be_bytes());
                emit(0x81, id, &[&[version], &in_flight, &bytes], out);
            }
            Self::Packed { message } => emit(0x82, id, &[message], out),
            Self::Unpacked { sender, error, treatment, content } => {
                emit(0x83, id, &[sender.bytes(), &[error, treatment], content], out);
            }
            Self::Pong { waiting } => emit(0x84, id, &[&waiting.to_be_bytes()], out),
            Self::Closing => emit(0x85, id, &[], out),
            Self::Refused { reason, code, text } => {
                emit(0x8f, id, &[&[reason as u8, code], text.as_bytes()], out);
            }
        }
    }
}

fn emit(kind: u8, id: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
    let bytes = 1 + 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.reserve(LENGTH_BYTES + bytes);
    out.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(&id.to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn short(text: &str) -> ([u8; 1], &[u8]) {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..bytes.len().min(255)).unwrap_or_default();
    ([u8::try_from(bytes.len()).unwrap_or(u8::MAX)], bytes)
}

fn short_text<'a>(c: &mut Cursor<'a>) -> Result<&'a str, Malformed> {
    let bytes = c.u8()?;
    text(c.take(usize::from(bytes))?)
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ispb() -> impl Strategy<Value = Ispb> {
        "[0-9A-Z]{8}".prop_map(|text| Ispb::from_text(&text).unwrap())
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0_u8..0x90) {
            let _ = frame(&bytes, 32);
            let frame = [&[kind], bytes.as_slice()].concat();
            let _ = Request::parse(&frame);
            let _ = Response::parse(&frame);
        }

        #[test]
        fn what_is_written_is_read(
            id: u32, domain in "[a-zé]{0,20}", recipient in ispb(), key_version: u32, bytes: [u8; 3], flag: bool,
            content in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let [version, error, treatment] = bytes;
            let (domain, content) = (domain.as_str(), content.as_slice());
            let requests = [
                Request::Hello { version, token: domain },
                Request::Pack { domain, recipient, key_version, version, error, treatment, compress: flag, content },
                Request::Unpack { domain, sender: flag.then_some(recipient), inflate: flag, message: content },
                Request::Ping,
            ];
            for request in requests {
                let mut out = Vec::new();
                request.emit(id, &mut out);
                let Ok(Framed::Whole(body, taken)) = frame(&out, 1024) else { panic!("{out:?}") };
                prop_assert_eq!((taken, Request::parse(body)), (out.len(), Ok((id, request))));
                prop_assert_eq!(frame(&out[..out.len() - 1], 1024), Ok(Framed::Part));
            }
            let responses = [
                Response::Welcome { version, in_flight_max: key_version, content_bytes_max: 1 << 40 },
                Response::Packed { message: content },
                Response::Unpacked { sender: recipient, error, treatment, content },
                Response::Pong { waiting: key_version },
                Response::Closing,
                Response::Refused { reason: Reason::Busy, code: error, text: domain },
            ];
            for response in responses {
                let mut out = Vec::new();
                response.emit(id, &mut out);
                let Ok(Framed::Whole(body, _)) = frame(&out, 1024) else { panic!("{out:?}") };
                prop_assert_eq!(Response::parse(body), Ok((id, response)));
            }
        }
    }
}
