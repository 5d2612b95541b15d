//! A hall and its clients: connections in memory, whose far ends only count what they are sent.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tieline_net::Carrier;
use tokio::io::ReadBuf;

/// What all clients together were sent, and who waits for more.
#[derive(Clone, Debug, Default)]
pub struct Ears(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    bytes: usize,
    closed: usize,
    waiter: Option<Waker>,
}

/// A client's side of a connection.
#[derive(Clone, Debug, Default)]
pub struct Client(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    reader: Option<Waker>,
}

/// The broker's side.
struct End {
    client: Client,
    ears: Ears,
}

impl Client {
    /// A connection, and its client.
    pub fn new(ears: &Ears) -> (Self, Box<dyn Carrier>) {
        let client = Self::default();
        (client.clone(), Box::new(End { client, ears: ears.clone() }))
    }

    /// Sends bytes.
    pub fn say(&self, bytes: &[u8]) {
        let mut said = lock(&self.0);
        said.bytes.extend_from_slice(bytes);
        said.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl Ears {
    /// Bytes that were sent to clients.
    pub fn bytes(&self) -> usize {
        lock(&self.0).bytes
    }

    /// Connections that the broker has let go.
    pub fn closed(&self) -> usize {
        lock(&self.0).closed
    }

    /// Waits for so many bytes, and so many closed connections.
    pub async fn wait(&self, bytes: usize, closed: usize) {
        std::future::poll_fn(|cx| {
            let mut heard = lock(&self.0);
            if heard.bytes >= bytes && heard.closed >= closed {
                return Poll::Ready(());
            }
            heard.waiter = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn hear(&self, bytes: usize, closed: usize) {
        let mut heard = lock(&self.0);
        heard.bytes += bytes;
        heard.closed += closed;
        heard.waiter.take().into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").finish_non_exhaustive()
    }
}

impl Carrier for End {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut said = lock(&self.client.0);
        if said.bytes.is_empty() {
            said.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = said.bytes.len().min(buffer.remaining());
        buffer.put_slice(said.bytes.get(..count).unwrap_or_default());
        said.bytes.drain(..count);
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ears.hear(bytes.len(), 0);
        Ok(bytes.len())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.ears.hear(0, 1);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CONNECT of MQTT 5.0, with a clean start and without a keep alive.
pub fn connect(client: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x05\x02\0\0\0", &text(client)])
}

/// The same of a user.
pub fn connect_as(client: &str, user: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x05\x82\0\0\0", &text(client), &text(user)])
}

/// SUBSCRIBE at QoS 0.
pub fn subscribe(filter: &str) -> Vec<u8> {
    packet(0x82, &[&[0, 1, 0], &text(filter), &[0]])
}

/// UNSUBSCRIBE.
pub fn unsubscribe(filter: &str) -> Vec<u8> {
    packet(0xA2, &[&[0, 2, 0], &text(filter)])
}

/// PUBLISH at QoS 0.
pub fn publish(topic: &str, payload: &[u8]) -> Vec<u8> {
    packet(0x30, &[&text(topic), &[0], payload])
}

/// DISCONNECT.
pub const DISCONNECT: &[u8] = &[0xE0, 0];

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&length, text.as_bytes()].concat()
}

fn packet(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let (low, high) = (body.len() % 128, body.len() / 128);
    let length = |part: usize| u8::try_from(part).unwrap_or(u8::MAX);
    let head = if high == 0 { vec![kind, length(low)] } else { vec![kind, length(low) | 128, length(high)] };
    [head, body].concat()
}
