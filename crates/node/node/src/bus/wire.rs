//! An MQTT session as the bus sees it: the protocol's machine, and frames that it shares with other sessions.

use super::frames::FrameBytes;
use super::gathered::{Gathered, Hold};
use super::persistence::ChangedSessions;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tieline_mqtt::{ConnectRequest, ServerEvent, ServerSession, SessionChange};
use tieline_websocket::{CloseCode, Offer, WebSocket};
use tokio::sync::Notify;

/// The protocol's machine with a queue of shared frames behind it.
#[derive(Debug)]
pub struct Wire {
    /// The protocol.
    pub mqtt: ServerSession,
    shared: RefCell<Shared>,
    /// A CONNECT whose owner can answer it.
    again: Option<Box<ConnectRequest>>,
    /// The WebSocket around it, where the client came over one.
    web: Option<Box<WebSocket>>,
    /// Who is to be told once the socket has taken everything.
    told_when_clear: RefCell<Option<Box<Waits>>>,
    /// What the ledger has to do with it, where it has.
    kept: Option<Box<KeptWire>>,
}

/// What the ledger has to do with a session.
#[derive(Debug, Default)]
struct KeptWire {
    /// Who is told of session changes.
    tells: Option<(usize, Rc<ChangedSessions>)>,
    /// Whether it was, since they were taken.
    is_notified: bool,
    /// How many wait until something is on the disk: nothing is said meanwhile.
    output_holds: u32,
}

/// Sessions whose sockets take bytes again, by their place on the bus.
#[derive(Debug)]
pub struct Clear {
    pub(super) places: RefCell<Vec<usize>>,
    pub(super) work: Rc<Notify>,
}

/// Who is to be told of one socket.
#[derive(Debug)]
struct Waits {
    place: usize,
    clear: Rc<Clear>,
}

/// Frames on their way to one socket.
#[derive(Debug)]
struct Shared {
    /// Most sessions have one frame at a time: it takes no queue.
    first: Option<Bytes>,
    behind: Option<Box<Behind>>,
    bytes: usize,
    bytes_max: usize,
}

/// Frames behind the first, or all of them.
#[derive(Debug)]
enum Behind {
    Frames(VecDeque<Bytes>),
    /// All, where they are to wait for one another.
    Gathered(Box<Gathered>),
}

impl Wire {
    /// A session for which so many bytes may wait of what its owner keeps for it.
    #[must_use]
    pub fn new(mqtt: ServerSession, bytes_max: usize) -> Self {
        let shared = Shared { first: None, behind: None, bytes: 0, bytes_max };
        let told_when_clear = RefCell::default();
        Self { mqtt, shared: RefCell::new(shared), again: None, web: None, told_when_clear, kept: None }
    }

    /// The same inside a WebSocket, where one is offered.
    #[must_use]
    pub fn over(self, offer: Option<&Arc<Offer>>) -> Self {
        Self { web: offer.map(|offer| Box::new(WebSocket::new(Arc::clone(offer)))), ..self }
    }

    /// Lets the owner see a CONNECT a second time.
    pub fn ask_again(&mut self, request: ConnectRequest) {
        self.again = Some(Box::new(request));
    }

    /// Whether the client broke a rule of WebSocket.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.web.as_ref().is_some_and(|web| web.is_faulty())
    }

    /// Puts `place` on the list once the socket has taken everything.
    pub fn tell_when_clear(&self, place: usize, clear: &Rc<Clear>) {
        *self.told_when_clear.borrow_mut() = Some(Box::new(Waits { place, clear: Rc::clone(clear) }));
    }

    /// Puts a place on the list when the session has changed; none when its changes are not recorded.
    pub fn report_changes(&mut self, place: Option<(usize, Rc<ChangedSessions>)>) {
        if place.is_some() || self.kept.is_some() {
            self.kept.get_or_insert_default().tells = place;
        }
    }

    /// The session changes since the last time, and the number of the last one.
    pub fn take_changes(&mut self) -> (Vec<SessionChange>, u64) {
        if let Some(kept) = &mut self.kept {
            kept.is_notified = false;
        }
        self.mqtt.take_changes()
    }

    /// Holds output until [`Wire::release_output`], as often as this was called.
    pub fn hold_output(&mut self) {
        self.kept.get_or_insert_default().output_holds += 1;
    }

    /// One less to wait for.
    pub fn release_output(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.output_holds = kept.output_holds.saturating_sub(1);
        }
    }

    /// Whether somebody waits.
    #[must_use]
    pub fn is_output_held(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.output_holds > 0)
    }

    fn look_for_changes(&mut self) {
        if let Some(kept) = &mut self.kept
            && let Some((place, changed)) = &kept.tells
            && !kept.is_notified
            && self.mqtt.has_changes()
        {
            kept.is_notified = true;
            changed.places.borrow_mut().push(*place);
            changed.work.notify_one();
        }
    }

    /// Queues a frame that other sessions may get too. None is dropped: the caller looks first whether the socket takes
    /// bytes ([`Session::is_clear`](tieline_net::Session::is_clear)), and lets it take them once many wait.
    pub fn push_shared(&self, frame: Bytes) {
        if frame.is_empty() {
            return;
        }
        self.shared.borrow_mut().push(frame);
    }

    /// Queues a frame that other sessions may get too, where the session takes one; returns the bytes that wait now, and that may.
    pub(super) fn queue(&self, frame: &mut FrameBytes) -> Option<(usize, usize)> {
        if self.is_output_held() || !self.mqtt.can_take_shared_frame(frame.as_slice().len()) {
            return None;
        }
        let shared = &mut *self.shared.borrow_mut();
        shared.push(frame.share());
        Some((shared.bytes, shared.bytes_max))
    }

    /// Shared frames wait so long for one another from here on.
    pub fn set_write_window(&mut self, window: Duration) {
        self.shared.get_mut().behind =
            (!window.is_zero()).then(|| Box::new(Behind::Gathered(Box::new(Gathered::new(window)))));
    }

    /// Whether shared frames wait for one another.
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.shared.borrow_mut().gathered().is_some()
    }

    /// Adds a frame of this length to those that wait for one another, where the session takes one; returns what [`Wire::queue`] does.
    pub(super) fn gather(&self, len: usize, put: impl FnOnce(&mut Vec<u8>)) -> Option<(usize, usize)> {
        let takes = !self.is_output_held() && self.mqtt.can_take_shared_frame(len);
        let shared = &mut *self.shared.borrow_mut();
        let bytes = shared.gathered().filter(|_| takes)?.push(put);
        shared.bytes += bytes;
        Some((shared.bytes, shared.bytes_max))
    }

    /// Frames that wait for one another do so no longer.
    pub fn hurry(&self) {
        if let Some(gathered) = self.shared.borrow_mut().gathered() {
            gathered.hurry();
        }
    }

    /// Whether what waits is to wait: for the disk, or, where nothing else is pending, for more.
    pub(super) fn hold(&self, now: Instant, is_behind: bool) -> Hold {
        if self.is_output_held() {
            return Hold::Armed;
        }
        let shared = &mut *self.shared.borrow_mut();
        let may_wait = !is_behind && shared.bytes > 0;
        shared.gathered().filter(|_| may_wait).map_or(Hold::No, |gathered| gathered.hold(now))
    }

    /// Whether a frame of this length may go to the socket as it is: nothing goes before it, and nothing around it.
    #[must_use]
    pub fn passes(&self, len: usize) -> bool {
        self.shared_frame_max().is_some_and(|max| len <= max)
    }

    /// The longest frame that may; none where none may.
    #[must_use]
    pub fn shared_frame_max(&self) -> Option<usize> {
        let is_free = {
            let shared = self.shared.borrow();
            shared.bytes == 0 && shared.behind.is_none()
        };
        let may = self.web.is_none() && !self.is_output_held() && !self.mqtt.has_output() && is_free;
        self.mqtt.shared_frame_max().filter(|_| may)
    }

    /// Whether frames that its owner makes may be written now.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        !self.is_output_held() && self.mqtt.can_take_shared_frame(0)
    }

    /// Bytes that may wait.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.shared.borrow().bytes_max
    }

    /// Bytes of shared frames that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.shared.borrow().bytes
    }
}

impl Shared {
    fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        match self.behind.as_deref_mut() {
            Some(Behind::Gathered(gathered)) => {
                gathered.push(|out| out.extend_from_slice(&frame));
            }
            Some(Behind::Frames(frames)) => frames.push_back(frame),
            None if self.bytes == frame.len() => self.first = Some(frame),
            None => self.behind = Some(Box::new(Behind::Frames([frame].into()))),
        }
    }

    fn gathered(&mut self) -> Option<&mut Gathered> {
        match self.behind.as_deref_mut() {
            Some(Behind::Gathered(gathered)) => Some(gathered),
            Some(Behind::Frames(_)) | None => None,
        }
    }

    /// Appends the next frame; false where there is none.
    fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(gathered) = self.gathered() {
            let length = gathered.pop(out);
            self.bytes -= length.unwrap_or(0);
            return length.is_some();
        }
        let frame = self.first.take().or_else(|| match self.behind.as_deref_mut() {
            Some(Behind::Frames(frames)) => frames.pop_front(),
            Some(Behind::Gathered(_)) | None => None,
        });
        let Some(frame) = frame else { return false };
        self.bytes -= frame.len();
        if self.bytes == 0 {
            self.behind = None;
        }
        out.extend_from_slice(&frame);
        true
    }

    /// All are dropped.
    fn clear(&mut self) {
        (self.first, self.bytes) = (None, 0);
        match self.gathered() {
            Some(gathered) => gathered.clear(),
            None => self.behind = None,
        }
    }
}

impl Machine for Wire {
    type Event = ServerEvent;

    fn handle_connected(&mut self, now: Now) {
        self.mqtt.handle_connected(now);
    }

    fn handle_disconnected(&mut self, now: Now) {
        self.again = None;
        self.shared.get_mut().clear();
        *self.told_when_clear.get_mut() = None;
        self.kept = None;
        self.mqtt.handle_disconnected(now);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        let Self { mqtt, web, .. } = self;
        let used = match web {
            None => mqtt.handle_input(now, bytes),
            Some(web) => web.handle_input(bytes, |plain| mqtt.handle_input(now, plain)),
        };
        self.look_for_changes();
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        if !self.is_output_held() {
            self.mqtt.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.is_output_held() {
            return false;
        }
        let Self { mqtt, shared, web, told_when_clear, .. } = self;
        let shared = shared.get_mut();
        let made = match web {
            Some(web) => transmit_in(web, mqtt, shared, now, out),
            None => transmit(mqtt, shared, now, out),
        };
        if !made && let Some(waits) = told_when_clear.get_mut().take() {
            let Waits { place, clear } = *waits;
            clear.places.borrow_mut().push(place);
            clear.work.notify_one();
        }
        // What has expired is no longer pending.
        self.look_for_changes();
        made
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.again.take().map(ServerEvent::Connect).or_else(|| self.mqtt.poll_event())
    }

    /// A client that is not read is not silent.
    fn timeout(&self) -> Option<Instant> {
        if self.is_output_held() { None } else { self.mqtt.timeout() }
    }

    /// Answers that wait for the disk are bounded: what would make more of them waits with the client.
    fn is_waiting(&self) -> bool {
        self.is_output_held()
    }

    /// What was to be said last is said once nobody waits.
    fn is_closed(&self) -> bool {
        !self.is_output_held() && (self.mqtt.is_closed() || self.web.as_ref().is_some_and(|web| web.is_closed()))
    }
}

/// Appends what the session has to say, or the next shared frame.
fn transmit(mqtt: &mut ServerSession, shared: &mut Shared, now: Now, out: &mut Vec<u8>) -> bool {
    mqtt.poll_transmit(now, out) || shared.pop(out)
}

/// The same inside a WebSocket, which ends with the session.
fn transmit_in(
    web: &mut WebSocket,
    mqtt: &mut ServerSession,
    shared: &mut Shared,
    now: Now,
    out: &mut Vec<u8>,
) -> bool {
    if web.poll_transmit(out, |out| transmit(mqtt, shared, now, out)) {
        return true;
    }
    if mqtt.is_closed() && web.is_open() {
        web.close(CloseCode::Normal);
    }
    web.poll_transmit(out, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use std::future::Future;
    use tieline_mqtt::{Accept, Connect, Packet, Properties, ServerConfig, Text, Version};
    use tieline_net::{Clock, Closed, Counters, Limits, Owner, Session, Shard};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const PING: [u8; 2] = [0xC0, 0];
    const PONG: [u8; 2] = [0xD0, 0];
    /// Far more than answers may wait.
    const PINGS: usize = 20_000;

    /// Lets everybody in.
    struct Open;

    impl Owner<Wire> for Open {
        fn event(&mut self, session: &Session<Wire>, now: Now, event: ServerEvent) {
            if let ServerEvent::Connect(_) = event {
                session.with(|wire, _| wire.mqtt.accept(now, Accept::default()));
            }
        }
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap().block_on(test)
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    async fn enter(far: &mut TcpStream) {
        let connect = Connect {
            version: Version::V5,
            clean_start: true,
            keep_alive_s: 0,
            properties: Properties::default(),
            client_id: Text::new("c").unwrap(),
            will: None,
            user_name: None,
            password: None,
        };
        let mut bytes = Vec::new();
        Packet::Connect(Box::new(connect)).emit(Version::V5, &mut bytes).unwrap();
        far.write_all(&bytes).await.unwrap();
        let mut answer = BytesMut::new();
        while answer.len() < 2 || answer.len() < 2 + usize::from(answer[1]) {
            far.read_buf(&mut answer).await.unwrap();
        }
        assert_eq!(answer[0], 0x20);
    }

    /// How a session ends; its client is in, and what it is answered waits.
    async fn ends_held(talk: impl AsyncFnOnce(&Session<Wire>, TcpStream)) -> Closed {
        let (near, mut far) = pair().await;
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let mqtt = ServerSession::new(Arc::new(ServerConfig::default()), 1);
        let session = Session::new(&shard, Wire::new(mqtt, 1 << 20), Limits::default());
        let mut owner = Open;
        let talk = async {
            enter(&mut far).await;
            session.with(|wire, _| wire.hold_output());
            talk(&session, far).await;
        };
        tokio::join!(session.run(near, &mut owner), talk).0
    }

    /// Its client sends as much as it likes while answers wait for the disk: it is read on when they went out.
    #[test]
    fn a_session_whose_output_is_held_stops_reading_and_goes_on() {
        let why = run(ends_held(async |session, mut far| {
            let before = session.traffic().bytes_in;
            far.write_all(&PING.repeat(PINGS)).await.unwrap();
            while session.traffic().bytes_in == before {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(session.is_connected());
            session.send(|wire, _| wire.release_output());
            let mut answers = vec![0; PONG.len() * PINGS];
            far.read_exact(&mut answers).await.unwrap();
            assert_eq!(answers, PONG.repeat(PINGS));
        }));
        assert_eq!(why, Closed::Peer);
    }

    /// A client that broke a rule meanwhile is told so behind what waited.
    #[test]
    fn a_session_whose_output_is_held_sends_it_before_it_ends() {
        let why = run(ends_held(async |session, mut far| {
            far.write_all(&[PING, PONG].concat()).await.unwrap();
            while session.look(|wire| wire.mqtt.is_open()) {
                tokio::task::yield_now().await;
            }
            session.send(|wire, _| wire.release_output());
            let mut answers = Vec::new();
            far.read_to_end(&mut answers).await.unwrap();
            let (pong, rest) = answers.split_at(2);
            assert_eq!((pong, rest[0], rest[2]), (&PONG[..], 0xE0, 0x82));
        }));
        assert_eq!(why, Closed::Machine);
    }
}
