//! A client that says exactly what it is told to, and shows every packet that it gets.

use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;
use tieline_mqtt::{
    Ack, Binary, Connack, Connect, Decoder, Disconnect, Guarantee, Packet, PacketId, Properties, Property, Publish,
    Qos, ReasonCode, Suback, Subscribe, SubscriptionFilter, SubscriptionOptions, Text, Unsubscribe, Version, Will,
};
use tieline_node::config::from_text;
use tieline_node::{Node, StartError};

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lines that let a node record history; without, it does not.
pub const RECORDED: &str = "[history]\nenabled = true\n";

/// A node without devices, and its folder.
pub struct Server {
    pub node: Node,
    folder: TempDir,
    mqtt: String,
}

impl Server {
    pub fn start() -> Self {
        Self::with("")
    }

    /// A node with these lines in `[mqtt]`, and tables behind them.
    pub fn with(mqtt: &str) -> Self {
        Self::over(tempfile::tempdir().unwrap(), mqtt)
    }

    /// The same in a folder where one ran before.
    pub fn over(folder: TempDir, mqtt: &str) -> Self {
        let node = Self::try_over(&folder, mqtt).unwrap();
        Self { node, folder, mqtt: mqtt.to_owned() }
    }

    pub fn try_over(folder: &TempDir, mqtt: &str) -> Result<Node, StartError> {
        let history = if mqtt.contains(RECORDED) { "" } else { "[history]\nenabled = false\n" };
        let text = format!("[http]\nlisten = '127.0.0.1:0'\n{history}[mqtt]\nlisten = '127.0.0.1:0'\n{mqtt}");
        Node::start(&from_text("node.toml", &text, folder.path()).unwrap(), &folder.path().join("data"))
    }

    /// The node stops; its folder stays.
    pub fn stop(self) -> TempDir {
        drop(self.node);
        self.folder
    }

    /// The node stops and starts again.
    pub fn restart(self) -> Self {
        let mqtt = self.mqtt.clone();
        Self::over(self.stop(), &mqtt)
    }

    /// A connection whose CONNECT is this.
    pub fn connect(&self, connect: Connect) -> (Peer, Connack) {
        let stream = TcpStream::connect(self.node.mqtt()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let version = connect.version;
        let mut peer = Peer {
            stream,
            version,
            decoder: Decoder::new(u32::MAX),
            unread: Vec::new(),
            early: VecDeque::new(),
            last_id: 0,
        };
        peer.send(&Packet::Connect(Box::new(connect)));
        match peer.next() {
            Some(Packet::Connack(connack)) => (peer, connack),
            other => panic!("no CONNACK but {other:?}"),
        }
    }

    /// A client of 5.0 without a session of before or after.
    pub fn client(&self, name: &str) -> Peer {
        let (peer, connack) = self.connect(hello(name));
        assert_eq!((connack.reason, connack.session_present), (ReasonCode::Success, false));
        peer
    }
}

/// A CONNECT of 5.0 with a clean start.
pub fn hello(name: &str) -> Connect {
    Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 60,
        properties: Properties::default(),
        client_id: text(name),
        will: None,
        user_name: None,
        password: None,
    }
}

/// A CONNECT of 5.0 that goes on with its session, and keeps it for so long.
pub fn keep(name: &str, expiry_s: u32) -> Connect {
    Connect { clean_start: false, properties: one(Property::SessionExpiry(expiry_s)), ..hello(name) }
}

/// A will with these properties.
pub fn will(topic: &str, retain: bool, properties: Properties) -> Option<Will> {
    let payload = Binary::new(Bytes::from_static(b"gone")).unwrap();
    Some(Will { topic: text(topic), payload, qos: Qos::AtLeastOnce, retain, properties })
}

pub fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

pub fn one(property: Property) -> Properties {
    std::iter::once(property).collect()
}

pub fn at(qos: Qos) -> SubscriptionOptions {
    SubscriptionOptions { qos, ..SubscriptionOptions::default() }
}

pub struct Peer {
    stream: TcpStream,
    version: Version,
    decoder: Decoder,
    unread: Vec<u8>,
    /// Messages that came while an answer was waited for.
    early: VecDeque<Packet>,
    last_id: u16,
}

impl Peer {
    pub fn send(&mut self, packet: &Packet) {
        let mut bytes = Vec::new();
        packet.emit(self.version, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next packet; none at the end of the connection.
    pub fn next(&mut self) -> Option<Packet> {
        self.early.pop_front().or_else(|| self.read())
    }

    /// The next packet that is no message.
    pub fn answer(&mut self) -> Packet {
        loop {
            match self.read().expect("the connection ended") {
                packet @ Packet::Publish(_) => self.early.push_back(packet),
                packet => return packet,
            }
        }
    }

    fn read(&mut self) -> Option<Packet> {
        loop {
            if !self.unread.is_empty() {
                let (used, frame) = self.decoder.feed(&self.unread).unwrap();
                self.unread.drain(..used);
                if let Some(frame) = frame {
                    return Some(Packet::parse(self.version, &frame).unwrap());
                }
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.unread.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came in time: {error}"),
            }
        }
    }

    /// All that comes before the answer to a ping: what the server has for this client by now.
    pub fn flush(&mut self) -> Vec<Packet> {
        self.send(&Packet::Pingreq);
        let mut packets = Vec::new();
        loop {
            match self.next().expect("the connection ended") {
                Packet::Pingresp => return packets,
                packet => packets.push(packet),
            }
        }
    }

    /// The payloads that have come by now, unanswered.
    pub fn payloads(&mut self) -> Vec<String> {
        self.flush().iter().map(|packet| payload_of(message_of(packet))).collect()
    }

    /// The next message, unanswered.
    pub fn message(&mut self) -> Publish {
        message_of(&self.next().expect("the connection ended")).clone()
    }

    /// The next message, acknowledged.
    pub fn take(&mut self) -> Publish {
        let message = self.message();
        self.acknowledge(&message);
        message
    }

    pub fn acknowledge(&mut self, message: &Publish) {
        let ack = |packet_id| Ack::new(packet_id, ReasonCode::Success);
        match message.guarantee {
            Guarantee::AtMostOnce => {}
            Guarantee::AtLeastOnce { packet_id, .. } => self.send(&Packet::Puback(ack(packet_id))),
            Guarantee::ExactlyOnce { packet_id, .. } => {
                self.send(&Packet::Pubrec(ack(packet_id)));
                assert_eq!(self.answer(), Packet::Pubrel(ack(packet_id)));
                self.send(&Packet::Pubcomp(ack(packet_id)));
            }
        }
    }

    /// Publishes and waits for the answer.
    pub fn publish(&mut self, topic: &str, payload: &str, qos: Qos, retain: bool) {
        self.publish_with(topic, payload, qos, retain, Properties::default());
    }

    pub fn publish_with(&mut self, topic: &str, payload: &str, qos: Qos, retain: bool, properties: Properties) {
        let packet_id = self.packet_id();
        let guarantee = match qos {
            Qos::AtMostOnce => Guarantee::AtMostOnce,
            Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup: false },
            Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup: false },
        };
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        self.send(&Packet::Publish(Publish { guarantee, retain, topic: text(topic), properties, payload }));
        let ack = Ack::new(packet_id, ReasonCode::Success);
        match qos {
            Qos::AtMostOnce => {
                self.send(&Packet::Pingreq);
                assert_eq!(self.answer(), Packet::Pingresp);
            }
            Qos::AtLeastOnce => assert_eq!(self.answer(), Packet::Puback(ack)),
            Qos::ExactlyOnce => {
                assert_eq!(self.answer(), Packet::Pubrec(ack.clone()));
                self.send(&Packet::Pubrel(ack.clone()));
                assert_eq!(self.answer(), Packet::Pubcomp(ack));
            }
        }
    }

    /// Publishes many without waiting for the answer of each, and then for those of all.
    pub fn publish_many(&mut self, topic: &str, payloads: std::ops::Range<usize>, qos: Qos) {
        let mut packet_ids = Vec::new();
        for number in payloads {
            let packet_id = self.packet_id();
            let guarantee = match qos {
                Qos::AtMostOnce => Guarantee::AtMostOnce,
                Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup: false },
                Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup: false },
            };
            let (topic, payload) = (text(topic), Bytes::from(number.to_string()));
            let properties = Properties::default();
            self.send(&Packet::Publish(Publish { guarantee, retain: false, topic, properties, payload }));
            packet_ids.push(packet_id);
        }
        let acks: Vec<_> = packet_ids.into_iter().map(|packet_id| Ack::new(packet_id, ReasonCode::Success)).collect();
        match qos {
            Qos::AtMostOnce => {}
            Qos::AtLeastOnce => acks.iter().for_each(|ack| assert_eq!(self.answer(), Packet::Puback(ack.clone()))),
            Qos::ExactlyOnce => {
                acks.iter().for_each(|ack| assert_eq!(self.answer(), Packet::Pubrec(ack.clone())));
                acks.iter().for_each(|ack| self.send(&Packet::Pubrel(ack.clone())));
                acks.iter().for_each(|ack| assert_eq!(self.answer(), Packet::Pubcomp(ack.clone())));
            }
        }
    }

    /// Subscribes and returns the reasons.
    pub fn subscribe(&mut self, filters: &[(&str, SubscriptionOptions)]) -> Vec<ReasonCode> {
        self.subscribe_as(filters, Properties::default())
    }

    pub fn subscribe_as(&mut self, filters: &[(&str, SubscriptionOptions)], properties: Properties) -> Vec<ReasonCode> {
        let packet_id = self.packet_id();
        let filter = |(filter, options): &(&str, _)| SubscriptionFilter { filter: text(filter), options: *options };
        let filters = filters.iter().map(filter).collect();
        self.send(&Packet::Subscribe(Subscribe { packet_id, properties, filters }));
        match self.answer() {
            Packet::Suback(Suback { packet_id: of, reasons, .. }) if of == packet_id => reasons,
            other => panic!("no SUBACK but {other:?}"),
        }
    }

    /// Unsubscribes and returns the reasons.
    pub fn unsubscribe(&mut self, filters: &[&str]) -> Vec<ReasonCode> {
        let packet_id = self.packet_id();
        let filters = filters.iter().map(|filter| text(filter)).collect();
        self.send(&Packet::Unsubscribe(Unsubscribe { packet_id, properties: Properties::default(), filters }));
        match self.answer() {
            Packet::Unsuback(answer) if answer.packet_id == packet_id => answer.reasons,
            other => panic!("no UNSUBACK but {other:?}"),
        }
    }

    /// Says goodbye with this reason, and waits for the end.
    pub fn leave(mut self, reason: ReasonCode, properties: Properties) {
        self.send(&Packet::Disconnect(Disconnect { reason, properties }));
        while self.next().is_some() {}
    }

    /// Ends the connection without a word, and waits until the server has seen it.
    pub fn vanish(mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        while self.next().is_some() {}
    }

    pub fn packet_id(&mut self) -> PacketId {
        self.last_id += 1;
        PacketId::new(self.last_id).unwrap()
    }
}

pub fn message_of(packet: &Packet) -> &Publish {
    let Packet::Publish(publish) = packet else { panic!("no message but {packet:?}") };
    publish
}

pub fn payload_of(message: &Publish) -> String {
    String::from_utf8(message.payload.to_vec()).unwrap()
}
