//! Sessions that outlive the server: what goes out before the notes of it are safe, and what does not.

use super::server::{Bench, delivery, id, message, publish_of};
use crate::*;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU16;
use tieline_core::{Machine, Now};

fn kept() -> Bench {
    let mut bench = Bench::v5(ServerConfig::default());
    bench.session.record_changes(true);
    bench
}

/// The notes in short, and the number of the last.
fn taken(bench: &mut Bench) -> (Vec<String>, u64) {
    let (changes, upto) = bench.session.take_changes();
    let short = |change: &SessionChange| match change {
        SessionChange::Pending { serial, packet_id, delivery, sent } => {
            let sent = if *sent { "" } else { ", waits" };
            format!("owed {serial} as {packet_id} {:?}{sent}", delivery.qos.bits())
        }
        SessionChange::Sent { serial } => format!("sent {serial}"),
        SessionChange::Received { serial } => format!("received {serial}"),
        SessionChange::Done { serial } => format!("done {serial}"),
        SessionChange::Released { packet_id } => format!("released {packet_id}"),
        SessionChange::Void => String::from("void"),
    };
    (changes.iter().map(short).collect(), upto)
}

fn queue(bench: &mut Bench, payload: &'static [u8], qos: Qos) {
    bench.session.deliver_kept(delivery(&message("a", payload), qos), 0).unwrap();
}

fn ack(number: u16) -> Ack {
    Ack::new(id(number), ReasonCode::Success)
}

fn ids(packets: &[Packet]) -> Vec<u16> {
    packets.iter().map(|packet| publish_of(packet).guarantee.packet_id().map_or(0, NonZeroU16::get)).collect()
}

#[test]
fn each_step_of_qos_2_waits_for_its_change_to_be_durable() {
    let mut bench = kept();
    queue(&mut bench, b"1", Qos::ExactlyOnce);
    queue(&mut bench, b"2", Qos::AtLeastOnce);
    bench.session.deliver(delivery(&message("a", b"0"), Qos::AtMostOnce)).unwrap();
    // QoS 0 alone passes; what is behind keeps its place.
    assert_eq!(ids(&bench.sent()), [0]);
    assert_eq!(taken(&mut bench), (vec!["owed 1 as 1 2".into(), "owed 2 as 2 1, waits".into()], 2));
    bench.session.settle(2, true);
    assert_eq!(ids(&bench.sent()), [1, 2]);
    assert!(bench.give("50 02 0001").is_none() && bench.give("40 02 0002").is_none());
    // PUBREC came: PUBLISH will not be sent again, which must be known before PUBREL goes out.
    assert_eq!(bench.sent(), []);
    assert_eq!(taken(&mut bench), (vec!["sent 2".into(), "received 1".into(), "done 2".into()], 5));
    assert!(bench.give("50 02 0001").is_none());
    assert_eq!(bench.sent(), []);
    bench.session.settle(5, true);
    assert_eq!(bench.sent(), [Packet::Pubrel(ack(1))]);
    assert!(bench.give("70 02 0001").is_none());
    assert_eq!(taken(&mut bench), (vec!["done 1".into()], 6));
}

#[test]
fn a_message_that_is_done_in_time_is_not_recorded() {
    let mut bench = kept();
    queue(&mut bench, b"1", Qos::AtLeastOnce);
    assert_eq!(ids(&bench.sent()), [1]);
    assert!(bench.session.has_changes() && bench.give("40 02 0001").is_none());
    assert_eq!(taken(&mut bench), (vec!["void".into()], 1));
}

#[test]
fn what_cannot_be_kept_is_not_sent_at_qos_2() {
    let mut bench = kept();
    queue(&mut bench, b"1", Qos::ExactlyOnce);
    queue(&mut bench, b"2", Qos::AtLeastOnce);
    assert_eq!(taken(&mut bench).1, 2);
    bench.session.settle(2, false);
    assert_eq!(ids(&bench.sent()), [2]);
    assert_eq!(taken(&mut bench), (vec!["done 1".into(), "sent 2".into()], 4));
}

#[test]
fn pubcomp_waits_for_its_change_to_be_durable() {
    let mut bench = kept();
    let Some(ServerEvent::Publish(_)) = bench.give("34 07 0001 61 0009 00 31") else { panic!("no message") };
    bench.session.acknowledge(id(9), ReasonCode::Success);
    assert_eq!(bench.sent(), [Packet::Pubrec(ack(9))]);
    assert!(bench.give("62 02 0009").is_none() && bench.give("62 02 0009").is_none());
    assert_eq!(bench.sent(), []);
    assert_eq!(taken(&mut bench), (vec!["released 9".into()], 1));
    bench.session.settle(1, true);
    assert_eq!(bench.sent(), [Packet::Pubcomp(ack(9))]);
}

#[test]
fn a_session_goes_on_in_another_server() {
    let mut state = SessionState::default();
    state.restore_pending(3, id(7), Qos::ExactlyOnce, None, true);
    state.restore_pending(4, id(9), Qos::ExactlyOnce, Some(delivery(&message("a", b"4"), Qos::ExactlyOnce)), true);
    state.restore_pending(5, id(1), Qos::AtLeastOnce, Some(delivery(&message("a", b"5"), Qos::AtLeastOnce)), false);
    state.restore_held(id(2), true);
    state.record_changes(true);
    // New messages go behind, with identifiers that are free.
    state.deliver_kept(delivery(&message("a", b"6"), Qos::AtLeastOnce), 0, AwayLimits { messages: 9, bytes: 9999 });
    let (changes, upto) = state.take_changes();
    assert!(
        matches!(&changes[..], [SessionChange::Pending { serial: 6, packet_id, sent: false, .. }] if packet_id.get() == 2),
        "{changes:?}"
    );
    state.settle(upto, true);
    let mut bench = Bench::resumed(ServerConfig::default(), state);
    let sent = bench.sent();
    assert!(matches!(&sent[..2], [Packet::Connack(connack), Packet::Pubrel(_)] if connack.session_present), "{sent:?}");
    assert_eq!(ids(&sent[2..]), [9, 1, 2]);
    assert_eq!(sent[2..].iter().map(|p| publish_of(p).guarantee.dup()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(taken(&mut bench).0, ["sent 6"]);
    // The client's message of before is the same one.
    assert!(bench.give("3c 07 0001 61 0002 00 31").is_none());
    assert_eq!(bench.sent(), [Packet::Pubrec(ack(2))]);
}

/// What the server of before may not have finished is handed to the owner once, as such, and answered as the owner says.
#[test]
fn what_is_not_sure_is_asked_for_again() {
    const FIRST: &str = "3c 07 0001 61 0002 00 31";
    let resumed = || {
        let mut state = SessionState::default();
        state.restore_held(id(2), false);
        state.record_changes(true);
        let mut bench = Bench::resumed(ServerConfig { receive_max: 1, ..ServerConfig::default() }, state);
        assert_eq!(bench.sent().len(), 1);
        bench
    };
    let is_again = |event| matches!(event, Some(ServerEvent::Publish(request)) if request.again);
    let mut bench = resumed();
    assert!(is_again(bench.give(FIRST)));
    assert!(bench.give(FIRST).is_none(), "the owner has it");
    bench.session.acknowledge(id(2), ReasonCode::Success);
    assert_eq!(bench.sent(), [Packet::Pubrec(ack(2))]);
    assert!(bench.give(FIRST).is_none());
    assert_eq!(bench.sent(), [Packet::Pubrec(ack(2))]);
    // One that is refused is new when it comes again.
    let mut bench = resumed();
    assert!(is_again(bench.give(FIRST)));
    bench.session.acknowledge(id(2), ReasonCode::QuotaExceeded);
    assert_eq!(bench.sent().len(), 1);
    assert!(matches!(bench.give(FIRST), Some(ServerEvent::Publish(request)) if !request.again));
    // Its client had PUBREC.
    let mut bench = resumed();
    assert!(bench.give("62 02 0002").is_none());
    assert_eq!(taken(&mut bench), (vec!["released 2".into()], 1));
    bench.session.settle(1, true);
    assert_eq!(bench.sent(), [Packet::Pubcomp(ack(2))]);
    // The connection ends before the owner has looked.
    let mut bench = resumed();
    bench.session.handle_input(Now::default(), &crate::tests::hex(FIRST));
    let mut bench = Bench::resumed(ServerConfig::default(), bench.session.take_state());
    bench.sent();
    assert!(is_again(bench.give(FIRST)));
}

/// What goes out at once is known to from the start; what waits for the window, from when it does.
#[test]
fn what_waits_is_recorded_when_it_is_sent() {
    let mut bench = Bench::v5(ServerConfig { in_flight_max: 1, ..ServerConfig::default() });
    bench.session.record_changes(true);
    for payload in [b"1", b"2", b"3"] {
        queue(&mut bench, payload, Qos::AtLeastOnce);
    }
    assert_eq!(ids(&bench.sent()), [1]);
    let pending = ["owed 1 as 1 1", "owed 2 as 2 1, waits", "owed 3 as 3 1, waits"];
    assert_eq!(taken(&mut bench).0, pending);
    assert!(bench.give("40 02 0001").is_none());
    assert_eq!(ids(&bench.sent()), [2]);
    assert_eq!(taken(&mut bench).0, ["done 1", "sent 2"]);
    // A client that has gone and comes back is sent 2 again, with DUP, and 3 for the first time.
    let mut bench = Bench::resumed(ServerConfig::default(), bench.session.take_state());
    let sent = bench.sent();
    assert_eq!(sent[1..].iter().map(|p| publish_of(p).guarantee.dup()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(taken(&mut bench).0, ["sent 3"]);
}
