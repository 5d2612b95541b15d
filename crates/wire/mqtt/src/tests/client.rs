//! A client session, packet by packet.

use super::{decode, hex};
use crate::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Machine, Now, Topic};

fn open(config: ClientConfig, connack: &str) -> ClientSession {
    let mut client = ClientSession::new(config);
    client.handle_connected(Now::default());
    assert!(matches!(sent(&mut client)[..], [Packet::Connect(_)]));
    give(&mut client, connack);
    client
}

fn give(client: &mut ClientSession, bytes: &str) {
    let bytes = hex(bytes);
    assert_eq!(client.handle_input(Now::default(), &bytes), bytes.len());
}

fn sent(client: &mut ClientSession) -> Vec<Packet> {
    let mut out = Vec::new();
    while client.poll_transmit(Now::default(), &mut out) {}
    decode(Version::V5, u32::MAX, &[&out]).unwrap()
}

fn events(client: &mut ClientSession) -> Vec<ClientEvent> {
    core::iter::from_fn(|| client.poll_event()).collect()
}

fn publish(client: &mut ClientSession, qos: Qos) -> u64 {
    client.publish(Message::new(Topic::new("t").unwrap(), b"x".as_slice(), Instant::ZERO), qos, false).unwrap()
}

const ACCEPTED: &str = "20 03 00 00 00";
const RESUMED: &str = "20 03 01 00 00";

#[test]
fn refusal_and_goodbye_carry_the_servers_words() {
    let mut client = open(ClientConfig::default(), "20 08 00 87 05 1f 0002 6e6f");
    let refused = ClientEvent::Refused { reason: ReasonCode::NotAuthorized, text: "no".to_string() };
    assert_eq!((events(&mut client), client.is_closed()), ([refused].into(), true));
    let mut client = open(ClientConfig::default(), ACCEPTED);
    assert!(matches!(events(&mut client)[..], [ClientEvent::Connected(_)]));
    give(&mut client, "e0 07 8b 05 1f 0002 6e6f");
    let end = ClientEnd::Server { reason: ReasonCode::ServerShuttingDown, text: "no".to_string() };
    assert_eq!((events(&mut client), client.is_closed()), ([ClientEvent::Ended(end)].into(), true));
}

#[test]
fn who_holds_its_input_takes_nothing_and_waits_for_no_answer() {
    let config = ClientConfig { keep_alive_s: 4, answer_timeout: Duration::from_secs(1), ..ClientConfig::default() };
    let mut client = open(config, ACCEPTED);
    events(&mut client);
    let at = |s: u64| Now { mono: Instant::ZERO + Duration::from_secs(s), ..Now::default() };
    client.hold_input(true);
    let message = hex("30 04 0001 74 00");
    assert_eq!((client.handle_input(at(1), &message), client.is_waiting()), (0, true));
    // PINGREQ goes out, and its answer may be behind what is not taken.
    client.handle_timeout(at(3));
    assert!(matches!(sent(&mut client)[..], [Packet::Pingreq]));
    assert_eq!(client.timeout(), None);
    client.handle_timeout(at(100));
    assert!(client.is_open());
    client.hold_input(false);
    assert_eq!(client.handle_input(at(100), &message), message.len());
    assert!(matches!(events(&mut client)[..], [ClientEvent::Message(_)]));
    assert_eq!(client.timeout(), Some(at(3).mono));
}

#[test]
fn mqtt_3_2_0_1_the_first_packet_is_connack() {
    let mut client = open(ClientConfig::default(), "d0 00");
    assert!(matches!(&events(&mut client)[..], [ClientEvent::Ended(ClientEnd::Broken(_))]));
}

#[test]
fn what_is_published_without_a_connection_waits() {
    let mut client = ClientSession::new(ClientConfig::default());
    let token = publish(&mut client, Qos::AtMostOnce);
    client.handle_connected(Now::default());
    assert!(matches!(sent(&mut client)[..], [Packet::Connect(_)]));
    give(&mut client, ACCEPTED);
    assert!(matches!(sent(&mut client)[..], [Packet::Publish(_)]));
    let outcome = PublishOutcome::Answered(ReasonCode::Success);
    assert_eq!(events(&mut client)[1..], [ClientEvent::Published { token, outcome }]);
}

#[test]
fn a_kept_session_sends_again_and_a_lost_one_says_so() {
    for (connack, resumed) in [(RESUMED, true), (ACCEPTED, false)] {
        let config = ClientConfig { clean_start: false, session_expiry_s: 60, ..ClientConfig::default() };
        let mut client = open(config, ACCEPTED);
        let token = publish(&mut client, Qos::AtLeastOnce);
        assert!(matches!(sent(&mut client)[..], [Packet::Publish(_)]));
        client.handle_disconnected(Now::default());
        events(&mut client);
        client.handle_connected(Now::default());
        sent(&mut client);
        give(&mut client, connack);
        let again = sent(&mut client);
        if resumed {
            assert!(matches!(&again[..], [Packet::Publish(p)] if p.guarantee.dup()));
            events(&mut client);
            give(&mut client, "40 02 0001");
            let outcome = PublishOutcome::Answered(ReasonCode::Success);
            assert_eq!(events(&mut client), [ClientEvent::Published { token, outcome }]);
        } else {
            assert!(again.is_empty());
            let outcome = PublishOutcome::Unknown;
            assert!(events(&mut client).contains(&ClientEvent::Published { token, outcome }));
        }
    }
}

#[test]
fn what_was_not_sent_ends_with_the_connection_where_that_is_wanted() {
    for forgets_unsent in [false, true] {
        let mut client = open(ClientConfig { forgets_unsent, ..ClientConfig::default() }, ACCEPTED);
        events(&mut client);
        let token = publish(&mut client, Qos::AtLeastOnce);
        client.handle_disconnected(Now::default());
        let forgotten = ClientEvent::Published { token, outcome: PublishOutcome::Unsent };
        assert_eq!(events(&mut client).contains(&forgotten), forgets_unsent);
        client.handle_connected(Now::default());
        sent(&mut client);
        give(&mut client, ACCEPTED);
        assert_eq!(sent(&mut client).is_empty(), forgets_unsent);
    }
}

#[test]
fn a_message_is_acknowledged_when_it_is_taken() {
    let mut client = open(ClientConfig::default(), ACCEPTED);
    events(&mut client);
    give(&mut client, "32 06 0001 61 0007 00");
    assert!(sent(&mut client).is_empty());
    assert!(matches!(&events(&mut client)[..], [ClientEvent::Message(m)] if m.qos == Qos::AtLeastOnce));
    assert_eq!(sent(&mut client), [Packet::Puback(Ack::new(PacketId::new(7).unwrap(), ReasonCode::Success))]);
}

#[test]
fn a_session_nobody_asked_for_is_an_error() {
    // [MQTT-3.2.2-4]
    let mut client = open(ClientConfig { clean_start: true, ..ClientConfig::default() }, RESUMED);
    assert!(client.is_closed());
    assert!(matches!(&events(&mut client)[..], [ClientEvent::Ended(ClientEnd::Broken(_))]));
}

#[test]
fn the_servers_word_on_keep_alive_counts() {
    // [MQTT-3.1.2-21], [MQTT-3.2.2-21]: as configured, and as the server says.
    for (connack, due_s) in [(ACCEPTED, 60), ("20 06 00 00 03 13 0005", 5)] {
        let client = open(ClientConfig { keep_alive_s: 60, ..ClientConfig::default() }, connack);
        let due = client.timeout().unwrap();
        assert!(due <= Now::default().later(Duration::from_secs(due_s)).mono, "{due:?}");
        assert!(due > Now::default().later(Duration::from_secs(due_s / 2)).mono, "{due:?}");
    }
}

#[test]
fn a_client_keeps_to_the_servers_packet_size() {
    // [MQTT-3.2.2-15]: 20 bytes.
    let mut client = open(ClientConfig::default(), "20 08 00 00 05 27 00000014");
    let long = Message::new(Topic::new("t").unwrap(), [0; 20].as_slice(), Instant::ZERO);
    client.publish(long, Qos::AtLeastOnce, false).unwrap();
    publish(&mut client, Qos::AtLeastOnce);
    let sent = sent(&mut client);
    assert!(matches!(&sent[..], [Packet::Publish(p)] if p.payload.len() == 1), "{sent:?}");
}

#[test]
fn a_client_keeps_to_the_qos_and_retain_that_the_server_takes() {
    // [MQTT-3.2.2-11], [MQTT-3.2.2-14]: the properties of CONNACK, and which of QoS 0 to 2 go, plain and retained.
    let all = [true; 6];
    for (connack, goes) in [
        (ACCEPTED, all),
        ("20 05 00 00 02 24 01", [true, true, true, true, false, false]),
        ("20 05 00 00 02 24 00", [true, true, false, false, false, false]),
        ("20 05 00 00 02 25 00", [true, false, true, false, true, false]),
        ("20 05 00 00 02 25 01", all),
    ] {
        let mut client = open(ClientConfig::default(), connack);
        events(&mut client);
        for (at, goes) in goes.into_iter().enumerate() {
            let qos = Qos::from_bits(u8::try_from(at / 2).unwrap()).unwrap();
            let message = Message::new(Topic::new("t").unwrap(), b"x".as_slice(), Instant::ZERO);
            let token = client.publish(message, qos, at % 2 == 1).unwrap();
            assert_eq!(sent(&mut client).len(), usize::from(goes), "{connack} {qos:?}");
            let is_refused = |event: &ClientEvent| matches!(event, ClientEvent::Published { token: of, outcome: PublishOutcome::Answered(reason) } if *of == token && reason.is_error());
            assert_eq!(events(&mut client).iter().any(is_refused), !goes, "{connack} {qos:?}");
        }
    }
}

#[test]
fn a_qos_2_message_that_was_not_looked_at_when_the_connection_broke_comes_once() {
    // [MQTT-4.3.3-10]: the event is taken before there is another connection, or during it.
    for before in [true, false] {
        let config = ClientConfig { clean_start: false, session_expiry_s: 60, ..ClientConfig::default() };
        let mut client = open(config, ACCEPTED);
        events(&mut client);
        give(&mut client, "34 06 0001 61 0007 00");
        let came = |events: Vec<ClientEvent>| events.iter().filter(|e| matches!(e, ClientEvent::Message(_))).count();
        client.handle_disconnected(Now::default());
        let mut count = if before { came(events(&mut client)) } else { 0 };
        client.handle_connected(Now::default());
        assert!(matches!(sent(&mut client)[..], [Packet::Connect(_)]));
        count += came(events(&mut client));
        give(&mut client, RESUMED);
        count += came(events(&mut client));
        give(&mut client, "3c 06 0001 61 0007 00");
        count += came(events(&mut client));
        assert_eq!(count, 1);
        let pubrec = Packet::Pubrec(Ack::new(PacketId::new(7).unwrap(), ReasonCode::Success));
        assert_eq!(sent(&mut client), [pubrec]);
        give(&mut client, "62 02 0007");
        assert!(matches!(sent(&mut client)[..], [Packet::Pubcomp(_)]));
        // The identifier is free for another message.
        give(&mut client, "34 06 0001 61 0007 00");
        assert_eq!(came(events(&mut client)), 1);
    }
}

#[test]
fn an_exchange_that_the_server_has_completed_already_is_no_error() {
    // Section 3.7.2.1: PUBCOMP was lost, PUBREL comes again, and the identifier is not known any more.
    let config = ClientConfig { clean_start: false, session_expiry_s: 60, ..ClientConfig::default() };
    let mut client = open(config, ACCEPTED);
    let token = publish(&mut client, Qos::ExactlyOnce);
    assert!(matches!(sent(&mut client)[..], [Packet::Publish(_)]));
    events(&mut client);
    give(&mut client, "50 02 0001");
    assert!(matches!(sent(&mut client)[..], [Packet::Pubrel(_)]));
    client.handle_disconnected(Now::default());
    events(&mut client);
    client.handle_connected(Now::default());
    sent(&mut client);
    give(&mut client, RESUMED);
    assert!(matches!(sent(&mut client)[..], [Packet::Pubrel(_)]));
    events(&mut client);
    give(&mut client, "70 03 0001 92");
    let outcome = PublishOutcome::Answered(ReasonCode::Success);
    assert_eq!(events(&mut client), [ClientEvent::Published { token, outcome }]);
}

#[test]
fn a_client_takes_aliases_up_to_its_maximum() {
    // [MQTT-3.3.2-10], [MQTT-3.3.2-11]: the highest is taken, one more is not.
    let config = || ClientConfig { topic_alias_max: 2, ..ClientConfig::default() };
    for (alias, taken) in [(1, true), (2, true), (3, false)] {
        let mut client = open(config(), ACCEPTED);
        events(&mut client);
        give(&mut client, &alloc::format!("30 07 0001 61 03 23 {alias:04x}"));
        assert_eq!(matches!(&events(&mut client)[..], [ClientEvent::Message(_)]), taken);
        assert_eq!(client.is_closed(), !taken);
    }
}

/// The words of a refusal are of the message that they came for.
#[test]
fn the_words_of_a_refusal_are_kept() {
    let mut client = open(ClientConfig::default(), ACCEPTED);
    events(&mut client);
    let mut next = || {
        let message = Message::new(Topic::new("t").unwrap(), b"x".as_slice(), Instant::ZERO);
        client.publish(message, Qos::AtLeastOnce, false).unwrap()
    };
    let (first, second) = (next(), next());
    sent(&mut client);
    give(&mut client, "40 09 0001 87 05 1F 0002 6E6F");
    assert_eq!((client.refusal(first), client.refusal(second)), (Some("no"), None));
    events(&mut client);
    give(&mut client, "40 03 0002 87");
    assert_eq!(client.refusal(second), None);
}
