//! What is said to each server, and how much of it comes back at a time: just enough of MQTT 5.0 and of NATS, so that the
//! clients, which share the machine with the server, cost little.

use super::plan::name;
use super::transport::Stream;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use tieline_mqtt::{
    Connect, Packet, PacketId, Properties, Property, Qos, RetainHandling, Subscribe, SubscriptionFilter,
    SubscriptionOptions, Text, Version,
};

/// Filters of one SUBSCRIBE: few enough for the limits of every server and for the buffers of a socket.
const FILTERS_MAX: usize = 1000;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speech {
    /// MQTT 5.0.
    Mqtt,
    /// NATS.
    Nats,
    /// The floor: a number comes, and frames of MQTT go back.
    Raw,
}

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<'a> {
    /// The topic's name; empty where an alias stands for it.
    pub topic: &'a [u8],
    /// The number that stands, or from now on is to stand, for the topic; 0 is none.
    pub alias: u16,
    /// What is carried.
    pub payload: &'a [u8],
}

/// What bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole message of so many bytes.
    Message(usize, Arrived<'a>),
    /// Something else that is whole, of so many bytes.
    Other(usize),
    /// Less than a whole anything.
    Part,
}

impl Speech {
    /// What separates the levels of a topic.
    pub const fn separator(self) -> char {
        match self {
            Self::Mqtt | Self::Raw => '/',
            Self::Nats => '.',
        }
    }

    /// Connects and introduces itself; [`Speech::await_in`] waits for the answer.
    pub fn greet(self, stream: &mut Stream, number: usize, who: &str) -> Result<()> {
        Ok(stream.write_all(&self.hello(number, who)?)?)
    }

    /// What a client says first.
    ///
    /// # Errors
    /// Its number is too large.
    pub fn hello(self, number: usize, who: &str) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Mqtt => {
                let properties = [Property::TopicAliasMaximum(u16::MAX)].into_iter().collect();
                packet(&Packet::Connect(Box::new(Connect {
                    version: Version::V5,
                    clean_start: true,
                    keep_alive_s: 0,
                    properties,
                    client_id: Text::truncated(&format!("fan-{who}-{number}")),
                    will: None,
                    user_name: None,
                    password: None,
                })))?
            }
            Self::Nats => b"CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false}\r\nPING\r\n".to_vec(),
            Self::Raw => u32::try_from(number)?.to_be_bytes().to_vec(),
        })
    }

    /// Waits until the server has let it in.
    pub fn await_in(self, stream: &mut Stream) -> Result<()> {
        match self {
            Self::Mqtt => {
                let connack = await_packet(stream, 2).context("CONNACK")?;
                ensure!(connack.get(1) == Some(&0), "the server refused a client: {connack:02x?}");
                Ok(())
            }
            Self::Nats => await_line(stream, "PONG"),
            Self::Raw => Ok(()),
        }
    }

    /// What asks for topics, without their last values: packets, each to be sent when the one before is answered
    /// ([`Speech::await_subscribed`]), so that neither side waits for the other with its buffers full.
    pub fn subscribe(
        self,
        topics: impl Iterator<Item = usize>,
        user_properties: &[(String, String)],
    ) -> Result<Vec<Vec<u8>>> {
        let topics: Vec<usize> = topics.collect();
        let mut packets = Vec::new();
        for (number, some) in (0..).zip(topics.chunks(FILTERS_MAX)) {
            packets.push(match self {
                Self::Mqtt => subscribe_packet(number, some, user_properties)?,
                Self::Nats => {
                    let first = usize::from(number) * FILTERS_MAX;
                    let subs = (first..).zip(some).map(|(sid, topic)| format!("SUB {} {sid}\r\n", name(*topic, '.')));
                    let mut text: String = subs.collect();
                    text.push_str("PING\r\n");
                    text.into_bytes()
                }
                Self::Raw => Vec::new(),
            });
        }
        Ok(packets)
    }

    /// Waits until the server has taken the subscriptions of one packet.
    pub fn await_subscribed(self, stream: &mut Stream) -> Result<()> {
        match self {
            Self::Mqtt => {
                let suback = await_packet(stream, 9).context("SUBACK")?;
                let refused = suback.iter().skip(2).any(|reason| *reason >= 0x80);
                ensure!(!refused, "the server refused a subscription");
                Ok(())
            }
            Self::Nats => await_line(stream, "PONG"),
            Self::Raw => Ok(()),
        }
    }

    /// Appends a message.
    pub fn publish(self, topic: usize, value: &[u8], retain: bool, out: &mut Vec<u8>) {
        let topic = name(topic, self.separator());
        match self {
            Self::Mqtt | Self::Raw => {
                out.push(0x30 | u8::from(retain));
                push_length(topic.len() + 3 + value.len(), out);
                out.extend_from_slice(&u16::try_from(topic.len()).unwrap_or(0).to_be_bytes());
                out.extend_from_slice(topic.as_bytes());
                out.push(0);
            }
            Self::Nats => {
                let _ = write!(out, "PUB {topic} {}\r\n", value.len());
            }
        }
        out.extend_from_slice(value);
        if self == Self::Nats {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Waits until the server has taken all that was published before.
    pub fn settle(self, stream: &mut Stream) -> Result<()> {
        match self {
            Self::Mqtt => {
                stream.write_all(&packet(&Packet::Pingreq)?)?;
                await_packet(stream, 13).map(drop).context("PINGRESP")
            }
            Self::Nats => {
                stream.write_all(b"PING\r\n")?;
                await_line(stream, "PONG")
            }
            Self::Raw => Ok(()),
        }
    }

    /// What a subscriber's bytes begin with.
    pub fn next(self, bytes: &[u8]) -> Result<Next<'_>> {
        match self {
            Self::Mqtt | Self::Raw => next_mqtt(bytes),
            Self::Nats => next_nats(bytes),
        }
    }
}

/// One SUBSCRIBE, the `number`th of a connection.
fn subscribe_packet(number: u16, topics: &[usize], user_properties: &[(String, String)]) -> Result<Vec<u8>> {
    let options = SubscriptionOptions { retain_handling: RetainHandling::Never, ..Default::default() };
    let options = SubscriptionOptions { qos: Qos::AtMostOnce, ..options };
    let filter = |topic: &usize| SubscriptionFilter { filter: Text::truncated(&name(*topic, '/')), options };
    let wish =
        |(name, value): &(String, String)| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
    // Each is answered before the next is sent: numbers may come again.
    packet(&Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(number % u16::MAX + 1).context("1 to 65535 are identifiers")?,
        properties: user_properties.iter().map(wish).collect::<Properties>(),
        filters: topics.iter().map(filter).collect(),
    }))
}

fn next_mqtt(bytes: &[u8]) -> Result<Next<'_>> {
    let Some((head, length)) = header(bytes)? else { return Ok(Next::Part) };
    let Some(body) = bytes.get(head..head + length) else { return Ok(Next::Part) };
    if bytes.first().is_none_or(|first| first >> 4 != 3) {
        return Ok(Next::Other(head + length));
    }
    let arrived = publish_body(body).context("a PUBLISH that cannot be read")?;
    Ok(Next::Message(head + length, arrived))
}

/// A QoS 0 PUBLISH with no other property than a topic alias, and the one that marks deltas behind it.
fn publish_body(body: &[u8]) -> Option<Arrived<'_>> {
    let (length, rest) = body.split_first_chunk::<2>()?;
    let (topic, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    let (properties, rest) = rest.split_first()?;
    let (properties, payload) = rest.split_at_checked(usize::from(*properties))?;
    let alias = match properties {
        [] | [0x26, ..] => 0,
        [0x23, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => return None,
    };
    Some(Arrived { topic, alias, payload })
}

/// Bytes of the fixed header, and how many follow it.
fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let (mut length, mut at) = (0, 1);
    for shift in [0, 7, 14, 21] {
        let Some(byte) = bytes.get(at) else { return Ok(None) };
        length |= usize::from(byte & 0x7F) << shift;
        at += 1;
        if byte & 0x80 == 0 {
            return Ok(Some((at, length)));
        }
    }
    bail!("a length of more than four bytes")
}

fn next_nats(bytes: &[u8]) -> Result<Next<'_>> {
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(Next::Part) };
    let head = bytes.get(..line.saturating_sub(1)).unwrap_or_default();
    let Some(words) = head.strip_prefix(b"MSG ") else { return Ok(Next::Other(line + 1)) };
    let mut words = words.split(|byte| *byte == b' ');
    let topic = words.next().context("a MSG without a subject")?;
    let length: usize = std::str::from_utf8(words.next_back().unwrap_or_default())?.parse()?;
    let (from, to) = (line + 1, line + 1 + length);
    match bytes.get(from..to).filter(|_| bytes.len() >= to + 2) {
        Some(payload) => Ok(Next::Message(to + 2, Arrived { topic, alias: 0, payload })),
        None => Ok(Next::Part),
    }
}

fn packet(packet: &Packet) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    packet.emit(Version::V5, &mut out).context("a packet that is too long")?;
    Ok(out)
}

/// The kind and the length of the packet that bytes begin with, and its body where all of it has come.
pub fn next_packet(bytes: &[u8]) -> Result<Option<(u8, usize, &[u8])>> {
    let Some((head, length)) = header(bytes)? else { return Ok(None) };
    let whole = bytes.get(head..head + length).zip(bytes.first());
    Ok(whole.map(|(body, first)| (first >> 4, head + length, body)))
}

/// The body of the next packet of a kind, without its packet identifier's meaning; others are passed over.
fn await_packet(stream: &mut Stream, kind: u8) -> Result<Vec<u8>> {
    loop {
        let (mut first, mut byte) = ([0], [0]);
        stream.read_exact(&mut first)?;
        let mut head = vec![first[0]];
        let length = loop {
            stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
            if let Some((_, length)) = header(&head)? {
                break length;
            }
        };
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if first[0] >> 4 == kind {
            return Ok(body);
        }
    }
}

fn await_line(stream: &mut Stream, word: &str) -> Result<()> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        stream.read_exact(&mut byte)?;
        line.extend_from_slice(&byte);
        if byte == *b"\n" {
            ensure!(!line.starts_with(b"-ERR"), "{}", String::from_utf8_lossy(&line).trim());
            if line.starts_with(word.as_bytes()) {
                return Ok(());
            }
            line.clear();
        }
    }
}

fn push_length(mut length: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(length & 0x7F).unwrap_or(0);
        length >>= 7;
        out.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_subscriptions_are_several_packets() {
        let bytes = |speech: Speech, count| speech.subscribe(0..count, &[]).unwrap();
        for (count, packets) in [(1, 1), (1000, 1), (1001, 2), (100_000, 100)] {
            for speech in [Speech::Mqtt, Speech::Nats, Speech::Raw] {
                assert_eq!(bytes(speech, count).len(), packets, "{speech:?} {count}");
            }
        }
        let mut topics = Vec::new();
        for (number, packet) in bytes(Speech::Mqtt, 2500).iter().enumerate() {
            let (kind, length, body) = next_packet(packet).unwrap().unwrap();
            assert!(kind == 8 && length == packet.len() && length < 32 * 1024, "{kind} {length}");
            assert_eq!(body[..2], u16::try_from(number + 1).unwrap().to_be_bytes());
            // Each filter: its length, 12 bytes, its options.
            topics.extend(body[3..].chunks(15).map(|one| super::super::plan::topic_of(&one[2..14]).unwrap()));
        }
        assert!(topics.into_iter().eq(0..2500));
        let text = String::from_utf8(bytes(Speech::Nats, 1001).concat()).unwrap();
        assert!(text.contains("SUB fan.00001000 1000\r\nPING\r\n"), "each has a number of its own");
    }

    #[test]
    fn messages_are_found_in_any_piece_of_a_stream() {
        let (mut mqtt, mut nats) = (Vec::new(), b"PING\r\nMSG fan.00000007 3 950\r\n".to_vec());
        let value = crate::fanout::quote::blank();
        Speech::Mqtt.publish(7, &value, true, &mut mqtt);
        assert_eq!(mqtt.len(), 968);
        nats.extend_from_slice(&value);
        nats.extend_from_slice(b"\r\n");
        assert_eq!(Speech::Nats.next(&nats).unwrap(), Next::Other(6));
        for (speech, bytes, topic) in
            [(Speech::Mqtt, &mqtt[..], &b"fan/00000007"[..]), (Speech::Nats, &nats[6..], &b"fan.00000007"[..])]
        {
            for cut in 0..bytes.len() {
                assert_eq!(speech.next(&bytes[..cut]).unwrap(), Next::Part, "{cut}");
            }
            let arrived = Arrived { topic, alias: 0, payload: &value };
            assert_eq!(speech.next(bytes).unwrap(), Next::Message(bytes.len(), arrived));
        }
        assert!(Speech::Mqtt.next(&[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]).is_err());
    }
}
