//! Clients that are sent shared frames past all that the bus knows of them: nothing waits for them, and another thread has
//! their sockets. Most clients, most of the time: an update to them costs a look at this table and at the record of their
//! connection. Of a client that may not read all that it has subscribed to, the table has the read filter: all clients with the
//! same rules ask it once for each update.
//!
//! A passage lasts until something else is done with the session ([`tieline_net::Session::open_passage`]): the bus opens one
//! when an update went past, and makes nothing that is to go before the next frame but through the session, or after
//! [`Client::flow_mut`] has closed the passage. What a client may read changes only with [`Client::put_read_filter`], which
//! closes it too.

use super::client::Client;
use super::state::Bus;
use crate::access::{DeliveryFilter, Serial};
use std::rc::Rc;
use tieline_mqtt::Version;
use tieline_net::{Passage, SharedFrame};

/// The passages of clients, by their keys.
#[derive(Debug, Default)]
pub struct Passages {
    places: Vec<Option<Open>>,
    /// Frames that went past since they were counted, and their bytes.
    passed: (usize, usize),
}

/// A line of memory has two of them.
#[derive(Debug)]
#[repr(align(32))]
struct Open {
    passage: Passage,
    /// What updates have to pass.
    read_filter: Option<Rc<DeliveryFilter>>,
    version: Version,
}

impl Passages {
    /// Opens the passage of a client, where it may have one.
    pub(super) fn open(&mut self, key: usize, client: &Client) {
        let of_wire = client.session.look(|wire| Some((wire.mqtt.version(), wire.shared_frame_max()?)));
        let open = of_wire.and_then(|(version, frame_max)| {
            let passage = client.session.open_passage(frame_max)?;
            let read_filter = client.identity.as_ref().and_then(|identity| identity.read_filter.clone());
            Some(Open { passage, read_filter, version })
        });
        if self.places.len() <= key && open.is_some() {
            self.places.resize_with(key + 1, || None);
        }
        if let Some(place) = self.places.get_mut(key) {
            *place = open;
        }
    }

    /// Whether a client may have one.
    #[inline]
    pub(super) fn may_pass(&self, key: usize) -> bool {
        self.places.get(key).is_some_and(Option::is_some)
    }

    /// Writes a client the frame of its version, or nothing where it may not read the topic; false where the update is to go
    /// another way.
    pub(super) fn write<'a>(
        &mut self,
        key: usize,
        (serial, topic): (Serial, &str),
        is_urgent: bool,
        frame_of: impl FnOnce(Version) -> Option<SharedFrame<'a>>,
    ) -> bool {
        let Self { places, passed: (frames, bytes) } = self;
        let Some(place) = places.get_mut(key) else { return false };
        let Some(Open { passage, read_filter, version }) = place else { return false };
        let is_done = if read_filter.as_ref().is_some_and(|filter| !filter.allows_update(serial, topic)) {
            // Where it is closed, the client may have another read filter since.
            passage.is_open()
        } else {
            let Some(frame) = frame_of(*version) else { return false };
            let is_written = passage.write(frame, is_urgent);
            if is_written {
                (*frames, *bytes) = (*frames + 1, *bytes + frame.len());
            }
            is_written
        };
        if !is_done {
            *place = None;
        }
        is_done
    }

    /// A client has gone.
    pub(super) fn forget(&mut self, key: usize) {
        if let Some(place) = self.places.get_mut(key) {
            *place = None;
        }
    }
}

impl Client {
    /// Its deliveries have to pass this from now on: no frame goes past it by what held before.
    pub(super) fn put_read_filter(&mut self, read_filter: Option<Rc<DeliveryFilter>>) {
        self.session.close_passage();
        if let Some(identity) = &mut self.identity {
            identity.read_filter = read_filter;
        }
    }
}

impl Bus {
    /// Counts the frames that went past all that is known of clients.
    pub(super) fn count_passed(&mut self) {
        let (frames, bytes) = std::mem::take(&mut self.passages.passed);
        if frames > 0 {
            self.counters.deliveries += u64::try_from(frames).unwrap_or(u64::MAX);
            self.shard.count_past(frames, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ClientIdentity, Guard, ReadFilter, Serials};
    use crate::bus::alone::alone;
    use crate::bus::state::Subscriber;
    use crate::bus::wire::Wire;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;
    use tieline_access::{Identity, Policy, Rules, User};
    use tieline_core::{Body, Filter, Now, Topic};
    use tieline_mqtt::{Accept, Message, Qos, ServerConfig, ServerEvent, ServerSession};
    use tieline_net::{Limits, Owner, Session, SocketShards};
    use tieline_topics::Options;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const CONNECT: &[u8] = b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01c";
    /// The place of the client.
    const KEY: usize = 0;

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

    /// A bus with one client, which has subscribed to everything.
    struct World {
        bus: Rc<RefCell<Bus>>,
        session: Session<Wire>,
        far: TcpStream,
    }

    impl World {
        async fn new(bus: Rc<RefCell<Bus>>) -> Self {
            let shard = Rc::clone(&bus.borrow().shard);
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
            bus.borrow_mut().subscribe_narrowed(KEY, &Filter::new("#").unwrap(), None, Options::default()).unwrap();
            Self { bus, session, far }
        }

        fn publish(&self, topic: &str, text: &'static str) {
            let now = self.bus.borrow().now();
            self.publish_at(now, topic, text);
            // The next turn of the bus.
            self.bus.borrow_mut().flush(now);
        }

        fn publish_at(&self, now: Now, topic: &str, text: &'static str) {
            let message = Message::new(Topic::new(topic).unwrap(), text, tieline_core::Instant::ZERO);
            let body = Body::Opaque(message.payload.clone());
            self.bus.borrow_mut().apply_message(now, message, &body, Qos::AtMostOnce, false, None).unwrap();
        }

        fn is_open(&self) -> bool {
            self.bus.borrow().passages.may_pass(KEY)
        }

        /// Calls the client.
        fn client(&self, call: impl FnOnce(&mut Client)) {
            match self.bus.borrow_mut().subscribers.get_mut(KEY) {
                Some(Subscriber::Client(client)) => call(client),
                _ => panic!("there is no client"),
            }
        }

        /// Lets the client read what these rules say.
        fn permit(&self, rules: &[&str]) {
            let rules = Rules::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
            let read_filter = DeliveryFilter::new(ReadFilter::new(Arc::new(rules), "anna", "c"));
            self.client(|client| {
                let new = || Box::new(ClientIdentity { user: "anna".into(), stamp: 0, read_filter: None });
                client.identity.get_or_insert_with(new);
                client.put_read_filter(Some(Rc::new(read_filter)));
            });
        }

        /// The topics, which are a letter each, and texts of so many messages.
        async fn heard(&mut self, count: usize) -> String {
            let mut heard = vec![0; count * 7];
            self.far.read_exact(&mut heard).await.unwrap();
            heard.chunks(7).flat_map(|frame| [char::from(frame[4]), char::from(frame[6])]).collect()
        }
    }

    fn check(test: impl AsyncFnOnce(World)) {
        let (bus, _rest) = alone();
        let bus = Rc::new(RefCell::new(bus));
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap();
        runtime.block_on(async { test(World::new(bus).await).await });
    }

    /// Updates go past a client, until something may wait for it; and their order stays.
    #[test]
    fn updates_go_past_a_client_until_something_may_wait_for_it() {
        check(async |mut world| {
            let before = (world.session.traffic().messages_out, world.is_open());
            world.publish("t", "1");
            assert_eq!((before, world.is_open()), ((1, false), true));
            world.publish("t", "2");
            assert_eq!((world.session.traffic().messages_out, world.bus.borrow().counters().deliveries), (3, 2));
            world.client(|client| {
                client.flow_mut();
            });
            let number = tieline_net::FrameNumber::next();
            let frame = |_| Some(SharedFrame::new(b"not sent", number));
            let update = (Serials::default().fresh(), "t");
            let written = world.bus.borrow_mut().passages.write(KEY, update, false, frame);
            assert_eq!((written, world.is_open()), (false, false));
            world.publish("t", "3");
            world.bus.borrow_mut().passages.forget(KEY);
            world.publish("t", "4");
            assert_eq!(world.heard(4).await, "t1t2t3t4");
        });
    }

    /// A client gets what it may read at the moment, past its session too.
    #[test]
    fn what_goes_past_a_client_is_what_it_may_read() {
        check(async |mut world| {
            world.permit(&["allow read t", "allow read u"]);
            world.publish("t", "1");
            assert!(world.is_open());
            world.publish("s", "-");
            world.publish("t", "2");
            assert_eq!((world.is_open(), world.bus.borrow().counters().deliveries), (true, 2));
            world.permit(&["allow read u"]);
            world.publish("t", "-");
            world.publish("u", "3");
            assert!(world.is_open());
            world.publish("t", "-");
            world.publish("u", "4");
            world.permit(&["allow read t"]);
            // What held before keeps nothing back either.
            world.publish("t", "5");
            world.publish("u", "-");
            world.publish("t", "6");
            assert_eq!(world.heard(6).await, "t1t2u3u4t5t6");
            assert_eq!(world.bus.borrow().counters().deliveries, 6);
        });
    }

    /// Nothing goes to a client whose token has expired, though no turn of the bus has begun since.
    #[test]
    fn nothing_goes_past_a_client_whose_time_is_over() {
        check(async |mut world| {
            let policy = Policy::new([], [User::new("anna", ["VIEWER"])]).unwrap();
            let mut guard = Guard::of(Arc::new(policy), tieline_access::Limits::default());
            let now = world.bus.borrow().now();
            let expires = now.mono + Duration::from_secs(3600);
            let identity = Identity { user: "anna".into(), roles: None, expires: Some(expires), credential: 0 };
            let pass = guard.admit(now.mono, identity, "c").unwrap();
            world.bus.borrow_mut().set_guard(guard);
            let mut generation = 0;
            world.client(|client| generation = client.generation);
            world.bus.borrow_mut().place_session(pass, KEY, generation, false);
            world.publish("t", "1");
            assert!(world.is_open());
            world.publish("t", "2");
            world.publish_at(Now { mono: expires, ..now }, "t", "-");
            assert_eq!(world.heard(2).await, "t1t2");
            let mut rest = Vec::new();
            world.far.read_to_end(&mut rest).await.unwrap();
            // DISCONNECT, because it is not authorized any longer.
            assert_eq!((rest.first(), rest.get(2)), (Some(&0xE0), Some(&0x87)));
        });
    }

    /// Two of them lie in a line of memory.
    #[test]
    fn a_place_is_half_a_line() {
        assert_eq!(size_of::<Option<super::Open>>(), 32);
    }
}
