//! What a subscriber's bytes go through: nothing, TLS, or a WebSocket. The publisher's always go through nothing, so
//! that only the fan-out differs.

use anyhow::{Context, Result, bail, ensure};
use rustls::{ClientConfig, ClientConnection};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_net::tls::{Tls, TlsFiles, TlsVersion, Trust};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The opening handshake of a WebSocket (RFC 6455 section 4.1), with the key of its example.
const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// What bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP and nothing more.
    Tcp,
    /// TLS 1.3.
    Tls,
    /// A WebSocket, without TLS.
    Ws,
}

impl std::str::FromStr for Transport {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "tcp" => Ok(Self::Tcp),
            "tls" => Ok(Self::Tls),
            "ws" => Ok(Self::Ws),
            _ => Err("expected tcp, tls or ws".to_owned()),
        }
    }
}

/// Where subscribers come in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Door {
    /// The address.
    pub address: SocketAddr,
    /// What is spoken below MQTT.
    pub transport: Transport,
    /// Where the server's [`Credentials`] are.
    pub folder: PathBuf,
}

/// A certificate that vouches for itself, and its key.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The file of the certificate.
    pub certificate: PathBuf,
    /// The file of its key.
    pub key: PathBuf,
}

impl Credentials {
    /// Where they are in a folder.
    pub fn within(folder: &Path) -> Self {
        Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
    }

    /// Makes both, for a server at 127.0.0.1.
    pub fn make(folder: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).context("a certificate")?;
        let own = Self::within(folder);
        std::fs::write(&own.certificate, made.cert.pem())?;
        std::fs::write(&own.key, made.signing_key.serialize_pem())?;
        // A key that everybody may read is refused.
        std::fs::set_permissions(&own.key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(own)
    }
}

impl Door {
    /// What connections through it are made with.
    pub fn dialer(&self) -> Result<Dialer> {
        let config = match self.transport {
            Transport::Tcp | Transport::Ws => None,
            Transport::Tls => {
                let Credentials { certificate, key } = Credentials::within(&self.folder);
                let trust = Trust::Authorities(certificate.clone());
                let version_min = TlsVersion::Tls13;
                let files = TlsFiles { certificate, key, trust, client_names: Vec::new(), version_min };
                Some(Tls::load(files).context("the certificate of the run")?.client())
            }
        };
        Ok(Dialer { address: self.address, transport: self.transport, config })
    }
}

/// Makes connections.
#[derive(Debug)]
pub struct Dialer {
    address: SocketAddr,
    transport: Transport,
    config: Option<Arc<ClientConfig>>,
}

impl Dialer {
    /// A connection that is ready for MQTT; `receive_bytes` is what the kernel may keep for it.
    pub fn connect(&self, receive_bytes: Option<usize>) -> Result<Stream> {
        let socket = self.socket()?;
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect(&self.address.into()).context("the server cannot be reached")?;
        self.over(socket.into())
    }

    /// A connection that is being made, and does not block.
    pub fn begin(&self) -> Result<TcpStream> {
        let socket = self.socket()?;
        socket.set_nonblocking(true)?;
        match socket.connect(&self.address.into()) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                Err(error).context("the server cannot be reached")
            }
            Ok(()) | Err(_) => Ok(socket.into()),
        }
    }

    /// What is spoken below MQTT, over a connection that was made.
    pub fn over(&self, socket: TcpStream) -> Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        match (self.transport, &self.config) {
            (Transport::Ws, _) => Ok(Stream::Ws(Box::new(Framed::open(socket)?))),
            (_, Some(config)) => {
                let name = self.address.ip().into();
                let records = ClientConnection::new(Arc::clone(config), name).context("TLS")?;
                Ok(Stream::Tls(Box::new(Sealed { socket, records })))
            }
            (_, None) => Ok(Stream::Tcp(socket)),
        }
    }

    fn socket(&self) -> Result<Socket> {
        Ok(Socket::new(Domain::for_address(self.address), Type::STREAM, None)?)
    }
}

/// One connection.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// TLS.
    Tls(Box<Sealed>),
    /// A WebSocket.
    Ws(Box<Framed>),
}

impl Stream {
    /// The socket, to wait for.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(sealed) => &sealed.socket,
            Self::Ws(framed) => &framed.socket,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Tls(sealed) => sealed.read(buffer),
            Self::Ws(framed) => framed.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Tls(sealed) => sealed.write(bytes),
            Self::Ws(framed) => framed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection; the handshake goes on with each call.
pub struct Sealed {
    socket: TcpStream,
    records: ClientConnection,
}

impl Sealed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.records.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.send()?;
            if self.records.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.records.process_new_packets().map_err(io::Error::other)?;
            self.send()?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.records.writer().write(bytes)?;
        self.send().map(|()| taken)
    }

    /// Sends what is enciphered; what the socket does not take at once goes with a later call.
    fn send(&mut self) -> io::Result<()> {
        while self.records.wants_write() {
            match self.records.write_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                other => other?,
            };
        }
        Ok(())
    }
}

/// A WebSocket: what is written is one frame, what is read is the bytes of all.
pub struct Framed {
    socket: TcpStream,
    /// The head of a frame that has come in part.
    head: Vec<u8>,
    /// Bytes of the present frame that are still to come.
    left: usize,
}

impl Framed {
    fn open(mut socket: TcpStream) -> Result<Self> {
        socket.write_all(UPGRADE)?;
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte)?;
            answer.extend_from_slice(&byte);
        }
        ensure!(answer.starts_with(b"HTTP/1.1 101"), "no WebSocket: {}", String::from_utf8_lossy(&answer).trim());
        Ok(Self { socket, head: Vec::new(), left: 0 })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.socket.read(buffer)?;
            let kept = self.unframe(buffer.get_mut(..read).unwrap_or_default()).map_err(io::Error::other)?;
            if read == 0 || kept > 0 {
                return Ok(kept);
            }
        }
    }

    /// Moves what is inside frames to the front; returns how much it is.
    fn unframe(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let (mut from, mut kept) = (0, 0);
        while let Some(byte) = bytes.get(from).copied() {
            if self.left > 0 {
                let part = self.left.min(bytes.len() - from);
                bytes.copy_within(from..from + part, kept);
                (from, kept, self.left) = (from + part, kept + part, self.left - part);
                continue;
            }
            self.head.push(byte);
            from += 1;
            if let Some(length) = payload_bytes(&self.head)? {
                self.left = length;
                self.head.clear();
            }
        }
        Ok(kept)
    }

    /// One frame. Its key is 0: bytes go as they are (a key that nobody can guess is for browsers, section 10.3).
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut frame = vec![0x82];
        match u16::try_from(bytes.len()) {
            Ok(short @ 0..126) => frame.push(0x80 | u8::try_from(short).unwrap_or(0)),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(bytes);
        self.socket.write_all(&frame).map(|()| bytes.len())
    }
}

/// Bytes that follow a head, where it is whole.
fn payload_bytes(head: &[u8]) -> Result<Option<usize>> {
    let [first, second, rest @ ..] = head else { return Ok(None) };
    if *first != 0x82 {
        bail!("a frame that begins with {first:#04x}, expected a whole binary message");
    }
    let length = match second {
        127 => rest.first_chunk().map(|length| u64::from_be_bytes(*length)),
        126 => rest.first_chunk().map(|length| u64::from(u16::from_be_bytes(*length))),
        short => Some(u64::from(*short)),
    };
    length.map(usize::try_from).transpose().context("a frame longer than memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn bytes_of_frames_are_found_in_any_piece_of_a_stream() {
        let mut wire = vec![0x82, 3, b'a', b'b', b'c', 0x82, 126, 0, 200];
        wire.extend_from_slice(&[7; 200]);
        wire.extend_from_slice(&[0x82, 0]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for size in [1, 2, 5, 9, 300] {
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut framed = Framed { socket, head: Vec::new(), left: 0 };
            let mut inside = Vec::new();
            for piece in wire.chunks(size) {
                let mut piece = piece.to_vec();
                let kept = framed.unframe(&mut piece).unwrap();
                inside.extend_from_slice(&piece[..kept]);
            }
            assert_eq!((inside.len(), &inside[..4]), (203, &b"abc\x07"[..]), "{size}");
        }
        assert!(payload_bytes(&[0x81, 0]).is_err());
    }

    #[test]
    fn words_of_transports() {
        assert_eq!("tls".parse(), Ok(Transport::Tls));
        assert!("udp".parse::<Transport>().unwrap_err().contains("tcp, tls or ws"));
    }
}
