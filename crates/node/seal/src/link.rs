//! One connection of the binary protocol, as workers and the door see it.

use crate::protocol::Response;
use crate::public_refusal::PublicRefusal;
use crate::work::Output;
use socket2::SockRef;
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

/// Bytes of requests that are not answered yet; then nothing more is read.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Bytes of answers that wait for the peer to take them; then nothing more is read.
const OUT_BYTES_MAX: usize = 16 << 20;
/// A peer that takes no byte for so long is gone.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Answers on their way out, and requests that wait for one.
#[derive(Debug, Default)]
pub struct Link {
    /// Where answers may go past the writer; none where bytes are made into something else first.
    socket: Option<SharedWrite>,
    state: Mutex<State>,
    /// There is something to write, or the end.
    wake: Notify,
    /// There may be room again.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    out: Vec<u8>,
    /// Requests whose answers are in `out`, and their bytes.
    answered: (u32, usize),
    in_flight: u32,
    bytes: usize,
    /// Nothing more is read.
    ended: bool,
    /// Nothing more can be written.
    broken: bool,
    /// The writer has bytes in hand that go before those in `out`.
    writing: bool,
}

impl State {
    /// The socket has the answers of these requests.
    fn forget(&mut self, (requests, bytes): (u32, usize)) {
        self.in_flight -= requests;
        self.bytes -= bytes;
    }
}

impl Link {
    /// A link whose answers may be written to `socket` from any thread.
    pub fn over(socket: SharedWrite) -> Self {
        Self { socket: Some(socket), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was read.
    pub fn begin(&self, bytes: usize) {
        let mut state = self.lock();
        state.in_flight += 1;
        state.bytes += bytes;
    }

    /// Answers a request that [`Link::begin`] counted; [`Link::flush`] lets it go out.
    pub fn answer(&self, id: u32, answer: &Result<Output, PublicRefusal>, bytes: usize) {
        let mut state = self.lock();
        state.answered.0 += 1;
        state.answered.1 += bytes;
        match answer {
            Ok(Output::Packed(message)) => Response::Packed { message }.emit(id, &mut state.out),
            Ok(Output::Unpacked { header, sender, content }) => {
                let (error, treatment) = (header.error.0, header.treatment.code());
                Response::Unpacked { sender: *sender, error, treatment, content }.emit(id, &mut state.out);
            }
            Err(PublicRefusal { reason, code, text }) => {
                Response::Refused { reason: *reason, code: code.0, text }.emit(id, &mut state.out);
            }
        }
    }

    /// Lets what was answered go out, in one write: from this thread where the socket takes it, without waking another.
    pub fn flush(&self) {
        let mut state = self.lock();
        if let Some(socket) = self.socket.as_ref().filter(|_| !state.writing) {
            // What went wrong shows again, to the writer.
            let taken = socket.0.try_write(&state.out).unwrap_or(0);
            state.out.drain(..taken);
            if state.out.is_empty() {
                let answered = std::mem::take(&mut state.answered);
                state.forget(answered);
                if !state.ended {
                    drop(state);
                    self.room.notify_one();
                    return;
                }
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Sends what answers no counted request.
    pub fn send(&self, id: u32, response: &Response<'_>) {
        response.emit(id, &mut self.lock().out);
        self.wake.notify_one();
    }

    /// Nothing more is read: the writer ends once all is answered.
    pub fn end(&self) {
        self.lock().ended = true;
        self.wake.notify_one();
    }

    /// Waits until another request may be read; false when the connection is broken.
    pub async fn has_room(&self, in_flight_max: u32) -> bool {
        loop {
            {
                let state = self.lock();
                if state.broken {
                    return false;
                }
                let full = state.in_flight >= in_flight_max
                    || state.bytes >= IN_FLIGHT_BYTES_MAX
                    || state.out.len() >= OUT_BYTES_MAX;
                if !full {
                    return true;
                }
            }
            self.room.notified().await;
        }
    }

    /// Writes answers until the connection ends. All that gathered goes out in one write.
    pub async fn write_all(&self, mut stream: impl AsyncWrite + Unpin) {
        let mut out = Vec::new();
        loop {
            let (answered, over) = {
                let mut state = self.lock();
                std::mem::swap(&mut state.out, &mut out);
                state.writing = !out.is_empty();
                let over = out.is_empty() && state.ended && state.in_flight == 0;
                (std::mem::take(&mut state.answered), over)
            };
            if over {
                let _ = stream.shutdown().await;
                return;
            }
            if out.is_empty() {
                self.wake.notified().await;
                continue;
            }
            let written = tokio::time::timeout(WRITE_TIMEOUT, stream.write_all(&out)).await;
            out.clear();
            let mut state = self.lock();
            state.writing = false;
            state.forget(answered);
            state.broken = !matches!(written, Ok(Ok(())));
            let broken = state.broken;
            drop(state);
            self.room.notify_one();
            if broken {
                return;
            }
        }
    }
}

/// The sending half of a socket, for its writer and for workers.
#[derive(Clone, Debug)]
pub struct SharedWrite(Arc<OwnedWriteHalf>);

impl SharedWrite {
    /// Shares a half.
    pub fn new(half: OwnedWriteHalf) -> Self {
        Self(Arc::new(half))
    }
}

impl AsyncWrite for SharedWrite {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket: &tokio::net::TcpStream = self.0.as_ref().as_ref();
        loop {
            ready!(socket.poll_write_ready(cx))?;
            match socket.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket: &tokio::net::TcpStream = self.0.as_ref().as_ref();
        Poll::Ready(SockRef::from(socket).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Framed, Reason, frame};
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    /// The last answer goes out past the writer, which ends all the same.
    #[test]
    fn a_connection_ends_when_all_is_answered() {
        let test = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (_read, write) = listener.accept().await.unwrap().0.into_split();
            let write = SharedWrite::new(write);
            write.0.writable().await.unwrap();
            let link = Link::over(write.clone());
            link.begin(7);
            link.end();
            let answer = async {
                tokio::task::yield_now().await;
                link.answer(5, &Err(PublicRefusal::new(Reason::Request, "no")), 7);
                link.flush();
            };
            tokio::join!(link.write_all(write), answer);
            let mut bytes = Vec::new();
            near.read_to_end(&mut bytes).await.unwrap();
            let Ok(Framed::Whole(body, taken)) = frame(&bytes, 1024) else { panic!("{bytes:?}") };
            assert_eq!((Response::parse(body).unwrap().0, taken), (5, bytes.len()));
        };
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }
}
