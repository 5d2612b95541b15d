//! Sessions and last values over restarts of the node (docs/ledger.md).

use super::peer::{Peer, RECORDED, Server, at, hello, keep, one, payload_of, text, will};
use bytes::Bytes;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tieline_core::{Filter, Timestamp, Topic};
use tieline_history::{HistoryQuery, HistoryReader};
use tieline_journal::{Journal, Limits, Seq};
use tieline_ledger::{Message, Record, Session, Will};
use tieline_mqtt::{
    Ack, Connack, Connect, Guarantee, Packet, PacketId, Properties, Property, Publish, Qos, ReasonCode, Subscribe,
    SubscriptionFilter, SubscriptionId, UserProperty, Version, Will as ConnectWill,
};
use tieline_store::{FolderStorage, HISTORY_FOLDER, JOURNAL_FOLDER};

const ONCE: Qos = Qos::AtLeastOnce;
const TWICE: Qos = Qos::ExactlyOnce;

#[track_caller]
fn comes(server: &Server, connect: Connect, present: bool) -> Peer {
    let (peer, Connack { session_present, reason, .. }) = server.connect(connect);
    assert_eq!((session_present, reason), (present, ReasonCode::Success));
    peer
}

fn ack(message: &Publish) -> Ack {
    Ack::new(message.guarantee.packet_id().unwrap(), ReasonCode::Success)
}

#[test]
fn a_session_goes_on_after_a_restart() {
    let server = Server::start();
    let mut peer = comes(&server, keep("c", 100), false);
    let id = one(Property::SubscriptionIdentifier(SubscriptionId::new(7).unwrap()));
    peer.subscribe_as(&[("a/#", at(TWICE))], id);
    peer.subscribe(&[("b", at(ONCE)), ("gone", at(ONCE))]);
    peer.unsubscribe(&["gone"]);
    peer.vanish();
    let mut writer = server.client("writer");
    for (topic, payload, qos) in
        [("a/1", "1", ONCE), ("b", "2", TWICE), ("a/2", "3", TWICE), ("a", "loose", Qos::AtMostOnce)]
    {
        writer.publish(topic, payload, qos, false);
    }
    let server = server.restart();
    let mut writer = server.client("writer");
    writer.publish("b", "4", ONCE, false);
    writer.publish("gone", "5", ONCE, false);
    let mut peer = comes(&server, keep("c", 100), true);
    for (payload, qos, ids) in [("1", ONCE, &[7][..]), ("2", ONCE, &[]), ("3", TWICE, &[7]), ("4", ONCE, &[])] {
        let message = peer.take();
        let known: Vec<u32> = message.properties.iter().filter_map(subscription_id).collect();
        assert_eq!((payload_of(&message).as_str(), message.guarantee.qos(), &known[..]), (payload, qos, ids));
    }
    writer.publish("a/3", "6", TWICE, false);
    assert_eq!(payload_of(&peer.take()), "6");
    // What was acknowledged is not there again.
    peer.flush();
    peer.vanish();
    let server = server.restart();
    assert_eq!(comes(&server, keep("c", 100), true).payloads(), [""; 0]);
}

fn subscription_id(property: Property) -> Option<u32> {
    if let Property::SubscriptionIdentifier(id) = property { Some(id.number()) } else { None }
}

#[test]
fn a_clean_start_forgets_the_session_on_the_disk() {
    let server = Server::start();
    let mut peer = comes(&server, keep("c", 100), false);
    peer.subscribe(&[("a", at(ONCE))]);
    peer.vanish();
    let clean = Connect { clean_start: true, ..keep("c", 100) };
    comes(&server, clean, false).vanish();
    let server = server.restart();
    server.client("writer").publish("a", "1", ONCE, false);
    assert_eq!(comes(&server, keep("c", 0), true).payloads(), [""; 0]);
    // Who came without an expiry has no session after it.
    comes(&server.restart(), keep("c", 100), false);
}

#[test]
fn last_values_are_back() {
    let pair: UserProperty = (text("unit"), text("A"));
    let server = Server::start();
    let mut writer = server.client("writer");
    for (number, qos) in [Qos::AtMostOnce, ONCE, TWICE].into_iter().enumerate() {
        writer.publish(&format!("v/{number}"), "old", qos, true);
        writer.publish_with(&format!("v/{number}"), "new", qos, true, one(Property::UserProperty(pair.clone())));
        writer.publish(&format!("cleared/{number}"), "1", qos, true);
        writer.publish(&format!("cleared/{number}"), "", qos, true);
    }
    writer.publish("passing", "1", ONCE, false);
    writer.publish_with("short", "1", ONCE, true, one(Property::MessageExpiry(1000)));
    let server = server.restart().restart();
    let mut reader = server.client("reader");
    reader.subscribe(&[("#", at(TWICE))]);
    let mut found: Vec<_> = Vec::new();
    for _ in 0..4 {
        let message = reader.take();
        assert!(message.retain);
        let pairs: Vec<UserProperty> = message.properties.user_properties().collect();
        if &*message.topic == "short" {
            let left_s = message.properties.message_expiry_s().unwrap();
            assert!((1..=1000).contains(&left_s), "{left_s}");
        } else {
            assert_eq!(pairs, std::slice::from_ref(&pair));
        }
        found.push((message.topic.to_string(), payload_of(&message), message.guarantee.qos()));
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let expect = [("short", "1", ONCE), ("v/0", "new", Qos::AtMostOnce), ("v/1", "new", ONCE), ("v/2", "new", TWICE)];
    assert_eq!(found, expect.map(|(topic, payload, qos)| (topic.to_owned(), payload.to_owned(), qos)));
    assert_eq!(reader.payloads(), [""; 0]);
}

/// Its client is not asked again: what a new subscription selects is owed until the session has it.
#[test]
fn last_values_of_a_new_subscription_are_owed_over_a_restart() {
    // More than wait for a client at a time.
    const COUNT: usize = 700;
    let server = Server::start();
    let mut writer = server.client("writer");
    (0..COUNT).for_each(|number| writer.publish(&format!("v/{number}"), "1", ONCE, true));
    let mut peer = comes(&server, keep("c", 100), false);
    peer.subscribe(&[("v/#", at(ONCE))]);
    peer.take();
    peer.vanish();
    let server = server.restart();
    let mut peer = comes(&server, keep("c", 100), true);
    let mut found = std::collections::BTreeSet::new();
    while found.len() < COUNT {
        let message = peer.take();
        assert!(message.retain);
        found.insert(message.topic.to_string());
    }
    peer.flush();
    peer.vanish();
    // It has them all, and is told nothing again.
    let server = server.restart();
    assert_eq!(comes(&server, keep("c", 100), true).payloads(), [""; 0]);
}

/// A client that asks much at once waits for the disk, and is not ended.
#[test]
fn thousands_of_subscriptions_at_once_are_answered() {
    const COUNT: u16 = 6000;
    let server = Server::start();
    let mut peer = comes(&server, keep("c", 100), false);
    for number in 1..=COUNT {
        let filter = SubscriptionFilter { filter: text(&format!("a/{number}")), options: at(ONCE) };
        let packet_id = PacketId::new(number).unwrap();
        let filters = vec![filter];
        peer.send(&Packet::Subscribe(Subscribe { packet_id, properties: Properties::default(), filters }));
    }
    for number in 1..=COUNT {
        let Packet::Suback(answer) = peer.answer() else { panic!("no SUBACK") };
        assert_eq!((answer.packet_id.get(), &answer.reasons[..]), (number, &[ReasonCode::GrantedQos1][..]));
    }
    peer.vanish();
    let server = server.restart();
    server.client("writer").publish(&format!("a/{COUNT}"), "1", ONCE, false);
    assert_eq!(payload_of(&comes(&server, keep("c", 100), true).take()), "1");
}

#[test]
fn in_memory_nothing_is_kept() {
    let server = Server::with("durability = 'memory'\n");
    let mut peer = comes(&server, keep("c", 100), false);
    peer.subscribe(&[("a", at(ONCE))]);
    peer.publish("a", "1", TWICE, true);
    peer.vanish();
    let server = server.restart();
    let mut peer = comes(&server, keep("c", 100), false);
    peer.subscribe(&[("a", at(ONCE))]);
    assert_eq!(peer.payloads(), [""; 0]);
}

/// Each step of an exchange of QoS 1 and 2 goes on where it was (sections 4.3 and 4.4), in both directions.
#[test]
fn exchanges_go_on_where_they_were() {
    let server = Server::start();
    let mut reader = comes(&server, keep("reader", 100), false);
    reader.subscribe(&[("a", at(TWICE))]);
    let mut writer = comes(&server, keep("writer", 100), false);
    for (payload, qos) in [("1", ONCE), ("2", TWICE), ("3", TWICE)] {
        writer.publish("a", payload, qos, false);
    }
    let sent: Vec<Publish> = (0..3).map(|_| reader.message()).collect();
    reader.send(&Packet::Pubrec(ack(&sent[1])));
    assert_eq!(reader.answer(), Packet::Pubrel(ack(&sent[1])));
    // PUBREC has come for this one, and no PUBREL was sent.
    let held = Publish {
        guarantee: Guarantee::ExactlyOnce { packet_id: writer.packet_id(), dup: false },
        topic: text("a"),
        payload: Bytes::from_static(b"4"),
        ..Publish::default()
    };
    writer.send(&Packet::Publish(held.clone()));
    assert_eq!(writer.answer(), Packet::Pubrec(ack(&held)));
    reader.vanish();
    writer.vanish();
    let server = server.restart();

    let mut writer = comes(&server, keep("writer", 100), true);
    let packet_id = held.guarantee.packet_id().unwrap();
    let again = Publish { guarantee: Guarantee::ExactlyOnce { packet_id, dup: true }, ..held.clone() };
    writer.send(&Packet::Publish(again));
    assert_eq!(writer.answer(), Packet::Pubrec(ack(&held)));
    writer.send(&Packet::Pubrel(ack(&held)));
    assert_eq!(writer.answer(), Packet::Pubcomp(ack(&held)));

    let mut reader = comes(&server, keep("reader", 100), true);
    // [MQTT-4.4.0-1]: with the identifiers that they had; what was received is released, and not sent again.
    assert_eq!(reader.next(), Some(Packet::Pubrel(ack(&sent[1]))));
    reader.send(&Packet::Pubcomp(ack(&sent[1])));
    for first in [&sent[0], &sent[2]] {
        let message = reader.message();
        assert_eq!((&message.payload, message.guarantee.packet_id()), (&first.payload, first.guarantee.packet_id()));
        assert!(message.guarantee.dup());
        reader.acknowledge(&message);
    }
    assert_eq!(payload_of(&reader.take()), "4");
    assert_eq!(reader.payloads(), [""; 0]);
    reader.vanish();
    writer.vanish();

    // The identifier stands for another message now.
    let server = server.restart();
    let mut reader = comes(&server, keep("reader", 100), true);
    let mut writer = comes(&server, keep("writer", 100), true);
    writer.send(&Packet::Publish(Publish { payload: Bytes::from_static(b"5"), ..held.clone() }));
    assert_eq!(writer.answer(), Packet::Pubrec(ack(&held)));
    assert_eq!(payload_of(&reader.take()), "5");
}

/// [MQTT-3.3.1-1]: whatever became of the node meanwhile, and whether the client was away or only its window closed.
#[test]
fn dup_is_on_what_was_sent_before_a_restart_alone() {
    let server = Server::start();
    let window = Property::ReceiveMaximum(1.try_into().unwrap());
    let narrow =
        Connect { properties: [Property::SessionExpiry(100), window].into_iter().collect(), ..keep("reader", 100) };
    let mut reader = comes(&server, narrow, false);
    reader.subscribe(&[("a", at(TWICE))]);
    let mut writer = server.client("writer");
    writer.publish("a", "1", ONCE, false);
    writer.publish("a", "2", TWICE, false);
    assert_eq!(payload_of(&reader.message()), "1");
    reader.vanish();
    writer.publish("a", "3", ONCE, false);
    let dups = |reader: &mut Peer| {
        [(); 3].map(|()| {
            let message = reader.message();
            (payload_of(&message), message.guarantee.dup())
        })
    };
    let server = server.restart();
    let mut reader = comes(&server, keep("reader", 100), true);
    assert_eq!(dups(&mut reader), [("1", true), ("2", false), ("3", false)].map(|(of, dup)| (of.to_owned(), dup)));
    // What is acknowledged is on the disk.
    server.client("other").publish("b", "1", ONCE, false);
    reader.vanish();
    let server = server.restart();
    let mut reader = comes(&server, keep("reader", 100), true);
    assert_eq!(dups(&mut reader), ["1", "2", "3"].map(|of| (of.to_owned(), true)));
}

/// A QoS 2 message of `c1`'s.
fn exactly_once(packet_id: u16, payload: &'static str, dup: bool) -> Publish {
    Publish {
        guarantee: Guarantee::ExactlyOnce { packet_id: PacketId::new(packet_id).unwrap(), dup },
        topic: text("a"),
        payload: Bytes::from_static(payload.as_bytes()),
        ..Publish::default()
    }
}

/// Sends it, and gives the reason of its PUBREC.
#[track_caller]
fn hand_over(writer: &mut Peer, message: &Publish) -> ReasonCode {
    writer.send(&Packet::Publish(message.clone()));
    let Packet::Pubrec(Ack { packet_id, reason, .. }) = writer.answer() else { panic!("no PUBREC") };
    assert_eq!(Some(packet_id), message.guarantee.packet_id());
    reason
}

/// How often each message stands in the history of a node that has stopped.
fn recorded(folder: &TempDir) -> Vec<String> {
    let reader = HistoryReader::open(&folder.path().join("data")).unwrap();
    let rows = reader.query(HistoryQuery::of(Filter::new("a").unwrap())).unwrap();
    let mut values: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap().point.value)).collect();
    values.sort();
    values
}

/// Lets a node that has stopped have no history.
fn lose_history(folder: &TempDir) {
    let data = folder.path().join("data");
    std::fs::remove_dir_all(data.join(JOURNAL_FOLDER)).unwrap();
    std::fs::remove_dir_all(data.join(HISTORY_FOLDER)).unwrap();
}

/// Whether the node died before history had a message that the ledger has, or after it: what comes again is recorded once,
/// and given to nobody twice.
#[test]
fn what_comes_again_is_in_history_once() {
    for lost in [false, true] {
        let server = Server::with(RECORDED);
        let mut reader = comes(&server, keep("reader", 100), false);
        reader.subscribe(&[("a", at(TWICE))]);
        let mut writer = comes(&server, keep("c1", 100), false);
        // Alike in all but their identifiers.
        for id in [1, 2] {
            assert_eq!(hand_over(&mut writer, &exactly_once(id, "same", false)), ReasonCode::Success);
        }
        assert_eq!([payload_of(&reader.take()), payload_of(&reader.take())], ["same", "same"]);
        reader.vanish();
        writer.vanish();
        let folder = server.stop();
        assert_eq!(recorded(&folder).len(), 2);
        if lost {
            lose_history(&folder);
        }
        let server = Server::over(folder, RECORDED);
        let mut writer = comes(&server, keep("c1", 100), true);
        for id in [1, 2, 1, 2] {
            assert_eq!(hand_over(&mut writer, &exactly_once(id, "same", true)), ReasonCode::Success);
        }
        for id in [1, 2] {
            let ack = ack(&exactly_once(id, "same", true));
            writer.send(&Packet::Pubrel(ack.clone()));
            assert_eq!(writer.answer(), Packet::Pubcomp(ack));
        }
        assert_eq!(hand_over(&mut writer, &exactly_once(1, "same", false)), ReasonCode::Success);
        let mut reader = comes(&server, keep("reader", 100), true);
        assert_eq!(payload_of(&reader.take()), "same");
        assert_eq!(reader.payloads(), [""; 0]);
        assert_eq!(recorded(&server.stop()).len(), 3, "lost: {lost}");
    }
}

/// What history does not take when it comes again is refused, and another message from then on.
#[test]
fn what_history_cannot_take_again_is_refused() {
    let server = Server::with(RECORDED);
    let mut writer = comes(&server, keep("c1", 100), false);
    assert_eq!(hand_over(&mut writer, &exactly_once(1, "1", false)), ReasonCode::Success);
    writer.vanish();
    let folder = server.stop();
    lose_history(&folder);
    let in_its_place = folder.path().join("data").join(JOURNAL_FOLDER);
    std::fs::write(&in_its_place, "no folder").unwrap();
    let server = Server::over(folder, RECORDED);
    let mut writer = comes(&server, keep("c1", 100), true);
    assert_eq!(hand_over(&mut writer, &exactly_once(1, "1", true)), ReasonCode::QuotaExceeded);
    writer.vanish();
    let folder = server.stop();
    std::fs::remove_file(&in_its_place).unwrap();
    let server = Server::over(folder, RECORDED);
    let mut reader = server.client("reader");
    reader.subscribe(&[("a", at(TWICE))]);
    let mut writer = comes(&server, keep("c1", 100), true);
    assert_eq!(hand_over(&mut writer, &exactly_once(1, "1", false)), ReasonCode::Success);
    assert_eq!(payload_of(&reader.take()), "1");
    assert_eq!(recorded(&server.stop()).len(), 1);
}

/// A client of 3.1.1 is not left without an answer when it sends a message again that was refused.
#[test]
fn what_was_refused_is_new_when_it_comes_again_over_3_1_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    let in_its_place = folder.path().join("data").join(JOURNAL_FOLDER);
    std::fs::write(&in_its_place, "no folder").unwrap();
    let old = || Connect { version: Version::V311, properties: Properties::default(), ..keep("c1", 0) };
    let mut server = Server::over(folder, RECORDED);
    for (dup, present) in [(false, false), (true, true), (true, true)] {
        let mut writer = comes(&server, old(), present);
        writer.send(&Packet::Publish(exactly_once(1, "1", dup)));
        assert_eq!(writer.next(), None, "it ends without an answer");
    }
    let folder = server.stop();
    std::fs::remove_file(&in_its_place).unwrap();
    server = Server::over(folder, RECORDED);
    let mut writer = comes(&server, old(), true);
    assert_eq!(hand_over(&mut writer, &exactly_once(1, "1", true)), ReasonCode::Success);
    writer.vanish();
    assert_eq!(recorded(&server.stop()).len(), 1);
}

/// A ledger of a release that did not say when a message was recorded: what comes again is answered, and that is all.
#[test]
fn a_held_identifier_of_an_older_release_is_known() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, &[session(1, 1, Some(ago(0))), Record::Held { session: 1, packet_id: 5, sample: None }]);
    let server = Server::over(folder, RECORDED);
    let mut reader = server.client("reader");
    reader.subscribe(&[("a", at(TWICE))]);
    let mut writer = comes(&server, keep("c1", 100), true);
    assert_eq!(hand_over(&mut writer, &exactly_once(5, "1", true)), ReasonCode::Success);
    assert_eq!(reader.payloads(), [""; 0]);
    assert_eq!(recorded(&server.stop()), [""; 0]);
}

/// A ledger that has grown is said again, and what is older goes; all is there all the same.
#[test]
fn a_ledger_stays_small() {
    let server = Server::with("ledger_bytes_max = '1MiB'\n");
    let mut peer = comes(&server, keep("c", 100), false);
    peer.subscribe(&[("owed", at(TWICE))]);
    peer.vanish();
    let mut writer = server.client("writer");
    writer.publish("owed", "1", TWICE, false);
    for round in 0..80 {
        writer.publish(&format!("v/{}", round % 4), &format!("{round:060000}"), ONCE, true);
    }
    let folder = server.stop();
    let sizes = std::fs::read_dir(folder_of(&folder)).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let bytes: u64 = sizes.sum();
    assert!(bytes < 2 << 20, "{bytes} bytes of 4,800,000 that were written");
    let server = Server::over(folder, "");
    assert_eq!(payload_of(&comes(&server, keep("c", 100), true).take()), "1");
    let mut reader = server.client("reader");
    reader.subscribe(&[("v/#", at(ONCE))]);
    for expect in 76..80 {
        assert_eq!(payload_of(&reader.take()), format!("{expect:060000}"));
    }
}

fn folder_of(folder: &TempDir) -> PathBuf {
    folder.path().join("data/ledger")
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::default().later(since)
}

fn ago(hours: u64) -> Timestamp {
    Timestamp::from_micros(now().micros() - i64::try_from(Duration::from_secs(3600 * hours).as_micros()).unwrap())
}

/// Writes a ledger as a node does.
fn write(folder: &TempDir, records: &[Record]) {
    let storage = FolderStorage::open(&folder_of(folder)).unwrap();
    let (mut journal, _) = Journal::open(storage, Limits::default(), Seq(0), now()).unwrap();
    for record in records {
        let mut bytes = Vec::new();
        Record::begin(&mut bytes);
        record.emit(&mut bytes);
        journal.append(&bytes).unwrap();
    }
    journal.sync().unwrap();
}

fn session(number: u64, expiry_h: u32, away_since: Option<Timestamp>) -> Record {
    let client = format!("c{number}");
    Record::Session(Session {
        number,
        client,
        user: None,
        stamp: None,
        expiry_s: 3600 * expiry_h,
        away_since,
        will: None,
    })
}

#[test]
fn time_passes_while_the_node_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let last = Message {
        topic: Topic::new("gone").unwrap(),
        payload: Bytes::from_static(b"gone"),
        properties: Bytes::new(),
        received: ago(5),
    };
    let Record::Session(with_will) = session(5, 1, Some(ago(3))) else { unreachable!() };
    let will = Some(Will { message: last, qos: 1, retain: true, delay_s: 7200 });
    let records = [
        session(1, 2, Some(ago(3))),
        session(2, 4, Some(ago(3))),
        // Its client was there when the node was last heard of.
        session(3, 2, None),
        session(4, 4, None),
        Record::Session(Session { will, ..with_will }),
        Record::Alive(ago(3)),
    ];
    write(&folder, &records);
    let server = Server::over(folder, "");
    for (number, present) in [(1, false), (2, true), (3, false), (4, true), (5, false)] {
        comes(&server, keep(&format!("c{number}"), 100), present);
    }
    // Its session is over, and so its will is due (section 3.1.3.2.2).
    let mut reader = server.client("reader");
    reader.subscribe(&[("gone", at(ONCE))]);
    assert_eq!(payload_of(&reader.message()), "gone");
}

#[test]
fn a_will_is_published_when_the_node_comes_back() {
    let server = Server::start();
    let ConnectWill { topic, payload, qos, retain, properties } = will("gone", true, Properties::default()).unwrap();
    let last = ConnectWill { topic, payload, qos, retain, properties };
    let peer = comes(&server, Connect { will: Some(last), ..keep("c", 100) }, false);
    // The node ends while the client is there.
    let server = server.restart();
    drop(peer);
    let mut reader = server.client("reader");
    reader.subscribe(&[("gone", at(ONCE))]);
    assert_eq!(payload_of(&reader.message()), "gone");
    comes(&server, hello("c"), false);
}

/// The will of a session that ends with its connection: published once, if the node ends before the connection does.
#[test]
fn a_will_without_a_session_is_published_when_the_node_comes_back() {
    let server = Server::start();
    let of = |name: &str| Connect { will: will(&format!("gone/{name}"), false, Properties::default()), ..hello(name) };
    let mut watch = comes(&server, keep("watch", 100), false);
    watch.subscribe(&[("gone/#", at(ONCE))]);
    comes(&server, of("good"), false).leave(ReasonCode::Success, Properties::default());
    comes(&server, of("before"), false).vanish();
    assert_eq!(payload_of(&watch.take()), "gone");
    let here = comes(&server, of("here"), false);
    let old = comes(&server, Connect { version: Version::V311, ..of("old") }, false);
    let reserved = comes(&server, Connect { will: will("$SYS/x", false, Properties::default()), ..hello("x") }, false);
    watch.flush();
    watch.vanish();
    let server = server.restart();
    drop((here, old, reserved));
    let mut watch = comes(&server, keep("watch", 100), true);
    let mut found = [watch.take(), watch.take()].map(|message| message.topic.to_string());
    found.sort();
    assert_eq!((found, watch.flush()), (["gone/here", "gone/old"].map(str::to_owned), vec![]));
    watch.vanish();
    let server = server.restart();
    assert_eq!(comes(&server, keep("watch", 100), true).flush(), []);
}

#[test]
fn a_torn_end_is_cut_and_other_damage_costs_its_frame() {
    let server = Server::start();
    for number in 0..50 {
        server.client("writer").publish(&format!("v/{number}"), "1", ONCE, true);
    }
    let folder = server.stop();
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(folder_of(&folder)).unwrap().map(|e| e.unwrap().path()).collect();
    segments.sort();
    let path = segments.first().unwrap();
    let whole = std::fs::read(path).unwrap();
    // The last frame was not written to its end.
    std::fs::write(path, &whole[..whole.len() - 3]).unwrap();
    let server = Server::over(folder, "");
    let mut reader = server.client("reader");
    reader.subscribe(&[("v/#", at(Qos::AtMostOnce))]);
    assert_eq!(reader.payloads().len(), 50);
    let folder = server.stop();
    let mut damaged = std::fs::read(path).unwrap();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(path, &damaged).unwrap();
    // The node starts without what the damaged frame said, and keeps the file.
    let server = Server::over(folder, "");
    let mut reader = server.client("reader");
    reader.subscribe(&[("v/#", at(Qos::AtMostOnce))]);
    assert_eq!(reader.payloads().len(), 49);
    let folder = server.stop();
    let mut kept = path.clone().into_os_string();
    kept.push(".damaged");
    assert_eq!(std::fs::read(kept).unwrap(), damaged);
    // Away with it, and the node starts.
    std::fs::remove_dir_all(folder_of(&folder)).unwrap();
    Server::try_over(&folder, "").unwrap();
}
