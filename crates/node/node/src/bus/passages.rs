//! Clients that are sent shared frames past all that the bus knows of them: nothing waits for them, nothing is checked for
//! them, and another thread has their sockets. Most clients, most of the time: an update to them costs a look at this table
//! and at the record of their connection.
//!
//! A passage lasts until something else is done with the session ([`tieline_net::Session::open_passage`]): the bus opens one
//! when an update went past, and makes nothing that is to go before the next frame but through the session, or after
//! [`Client::flow_mut`] has closed the passage.

use super::client::Client;
use super::state::Bus;
use tieline_mqtt::Version;
use tieline_net::{Passage, SharedFrame};

/// The passages of clients, by their keys.
#[derive(Debug, Default)]
pub struct Passages(Vec<Option<Open>>);

#[derive(Debug)]
struct Open {
    passage: Passage,
    version: Version,
}

impl Passages {
    /// Opens the passage of a client, where it may have one: what it may read is checked for each update otherwise.
    pub(super) fn open(&mut self, key: usize, client: &Client) {
        if client.identity.is_some() {
            return;
        }
        let of_wire = client.session.look(|wire| Some((wire.mqtt.version(), wire.shared_frame_max()?)));
        let open = of_wire
            .and_then(|(version, frame_max)| Some(Open { passage: client.session.open_passage(frame_max)?, version }));
        if self.0.len() <= key && open.is_some() {
            self.0.resize_with(key + 1, || None);
        }
        if let Some(place) = self.0.get_mut(key) {
            *place = open;
        }
    }

    /// Whether a client may have one.
    #[inline]
    pub(super) fn may_pass(&self, key: usize) -> bool {
        self.0.get(key).is_some_and(Option::is_some)
    }

    /// Writes a client the frame of its version; the bytes of it, or none where the update is to go another way.
    pub(super) fn write<'a>(
        &mut self,
        key: usize,
        is_urgent: bool,
        frame_of: impl FnOnce(Version) -> Option<SharedFrame<'a>>,
    ) -> Option<usize> {
        let place = self.0.get_mut(key)?;
        let Open { passage, version } = place.as_ref()?;
        let frame = frame_of(*version)?;
        if passage.write(frame, is_urgent) {
            return Some(frame.len());
        }
        *place = None;
        None
    }

    /// A client has gone.
    pub(super) fn forget(&mut self, key: usize) {
        if let Some(place) = self.0.get_mut(key) {
            *place = None;
        }
    }
}

impl Bus {
    /// Counts frames that went past all that is known of clients.
    pub(super) fn count_passed(&mut self, frames: usize, bytes: usize) {
        if frames > 0 {
            self.counters.deliveries += u64::try_from(frames).unwrap_or(u64::MAX);
            self.shard.count_past(frames, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use crate::bus::state::Subscriber;
    use crate::bus::wire::Wire;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Duration;
    use tieline_core::{Body, Filter, Now, Topic};
    use tieline_mqtt::{Accept, Message, Qos, ServerConfig, ServerEvent, ServerSession};
    use tieline_net::{Limits, Owner, Session, SocketShards};
    use tieline_topics::Options;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const CONNECT: &[u8] = b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01c";

    /// Lets everybody in.
    struct Open(Rc<RefCell<Bus>>);

    impl Owner<Wire> for Open {
        fn event(&mut self, session: &Session<Wire>, now: Now, event: ServerEvent) {
            if let ServerEvent::Connect(request) = event {
                self.0.borrow_mut().enter(now.mono, session, &request);
                session.with(|wire, _| wire.mqtt.accept(now, Accept::default()));
            }
        }
    }

    fn publish(bus: &RefCell<Bus>, text: &'static str) {
        let (mut bus, message) =
            (bus.borrow_mut(), Message::new(Topic::new("t").unwrap(), text, tieline_core::Instant::ZERO));
        let (now, body) = (bus.now(), Body::Opaque(message.payload.clone()));
        bus.apply_message(now, message, &body, Qos::AtMostOnce, false, None).unwrap();
        // The next turn of the bus.
        bus.flush(now);
    }

    async fn check(bus: Rc<RefCell<Bus>>) {
        let (shard, key) = (Rc::clone(&bus.borrow().shard), 0);
        let shards = SocketShards::local(&shard, 1, Duration::from_secs(30));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (far, near) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (mut far, near) = (far.unwrap(), shards.place(near.unwrap().0.into()).unwrap());
        let mqtt = ServerSession::new(Arc::new(ServerConfig::default()), 1);
        let session = Session::new(&shard, Wire::new(mqtt, 1 << 20), Limits::default());
        let (driven, mut owner) = (session.clone(), Open(Rc::clone(&bus)));
        tokio::task::spawn_local(async move { driven.run(near, &mut owner).await });
        far.write_all(CONNECT).await.unwrap();
        let mut connack = [0; 2];
        far.read_exact(&mut connack).await.unwrap();
        far.read_exact(&mut vec![0; connack[1].into()]).await.unwrap();
        bus.borrow_mut().subscribe_narrowed(key, &Filter::new("#").unwrap(), None, Options::default()).unwrap();
        let is_open = || bus.borrow().passages.may_pass(key);
        let before = (session.traffic().messages_out, is_open());
        publish(&bus, "1");
        assert_eq!((before, is_open()), ((1, false), true));
        publish(&bus, "2");
        assert_eq!((session.traffic().messages_out, bus.borrow().counters().deliveries), (3, 2));
        if let Some(Subscriber::Client(client)) = bus.borrow_mut().subscribers.get_mut(key) {
            client.flow_mut();
        }
        let number = tieline_net::FrameNumber::next();
        let frame = |_| Some(SharedFrame::new(b"not sent", number));
        let written = bus.borrow_mut().passages.write(key, false, frame);
        assert_eq!((written, is_open()), (None, false));
        publish(&bus, "3");
        bus.borrow_mut().passages.forget(key);
        publish(&bus, "4");
        let mut heard = vec![0; 4 * 7];
        far.read_exact(&mut heard).await.unwrap();
        let texts: Vec<u8> = heard.chunks(7).map(|frame| frame[6]).collect();
        assert_eq!(texts, b"1234");
    }

    /// Updates go past a client, until something may wait for it; and their order stays.
    #[test]
    fn updates_go_past_a_client_until_something_may_wait_for_it() {
        let (bus, _rest) = alone();
        let bus = Rc::new(RefCell::new(bus));
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap();
        runtime.block_on(check(bus));
    }
}
