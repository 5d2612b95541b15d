use super::{at_ms, hex};
use crate::{Apdu, Control, Link, LinkConfig, LinkError, Received};
use std::vec::Vec;

fn link(started: bool) -> Link {
    let mut link = Link::new(LinkConfig { k: 3, w: 2, ..LinkConfig::DEFAULT });
    link.connected(at_ms(0).mono);
    if started {
        assert_eq!(link.receive(at_ms(0).mono, Apdu::U(Control::StartAct)), Received::Started);
        assert_eq!(sent(&mut link, 0), ["68040B000000"]);
    }
    link
}

/// What the link sends by itself.
fn sent(link: &mut Link, ms: u64) -> Vec<std::string::String> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while link.control(at_ms(ms).mono, &mut out) {
        all.push(out.iter().map(|byte| std::format!("{byte:02X}")).collect());
        out.clear();
    }
    all
}

fn i(send: u16, receive: u16) -> Apdu<'static> {
    Apdu::I { send, receive, asdu: &[1, 2] }
}

fn send(link: &mut Link, ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(link.may_send());
    link.send(at_ms(ms).mono, &[7], &mut out);
    out
}

#[test]
fn data_flows_once_it_is_started() {
    let mut controlling = link(false);
    assert!(!controlling.may_send() && !controlling.is_started());
    controlling.start();
    assert_eq!(sent(&mut controlling, 0), ["680407000000"]);
    assert_eq!(controlling.receive(at_ms(1).mono, Apdu::U(Control::StartCon)), Received::Started);
    assert!(controlling.may_send());
    assert_eq!(send(&mut controlling, 2), hex("68 05 0000 0000 07"));
    assert_eq!(controlling.receive(at_ms(3).mono, i(0, 1)), Received::Asdu(&[1, 2]));
    assert_eq!((controlling.acknowledged(), controlling.unacknowledged()), (1, 0));
    assert_eq!(send(&mut controlling, 4), hex("68 05 0200 0200 07"));
    controlling.stop();
    assert!(!controlling.may_send());
    assert_eq!(sent(&mut controlling, 5), ["680413000000"]);
    // Until the stop is confirmed, data may come.
    assert_eq!(controlling.receive(at_ms(6).mono, i(1, 2)), Received::Asdu(&[1, 2]));
    assert_eq!(controlling.receive(at_ms(6).mono, Apdu::U(Control::StopCon)), Received::Stopped);
    assert_eq!(controlling.receive(at_ms(7).mono, i(2, 2)), Received::Broken(LinkError::NotStarted));
}

#[test]
fn a_stop_acknowledges_what_came_before_it_is_confirmed() {
    let mut controlled = link(true);
    assert_eq!(controlled.receive(at_ms(1).mono, i(0, 0)), Received::Asdu(&[1, 2]));
    assert_eq!(controlled.receive(at_ms(2).mono, Apdu::U(Control::StopAct)), Received::Stopped);
    assert_eq!(sent(&mut controlled, 3), ["680401000200", "680423000000"]);
    assert!(!controlled.may_send());
}

#[test]
fn data_before_the_start_breaks_the_link() {
    assert_eq!(link(false).receive(at_ms(0).mono, i(0, 0)), Received::Broken(LinkError::NotStarted));
    // The confirmation and the first data may cross.
    let mut starting = link(false);
    starting.start();
    assert_eq!(starting.receive(at_ms(0).mono, i(0, 0)), Received::Asdu(&[1, 2]));
}

#[test]
fn frames_that_are_not_the_next_break_the_link() {
    let check = |apdu: Apdu<'_>, expect: LinkError| {
        let mut link = link(true);
        link.receive(at_ms(0).mono, i(0, 0));
        send(&mut link, 0);
        assert_eq!(link.receive(at_ms(1).mono, apdu), Received::Broken(expect));
    };
    check(i(0, 0), LinkError::SendNumber { found: 0, expected: 1 });
    check(i(2, 0), LinkError::SendNumber { found: 2, expected: 1 });
    check(i(1, 2), LinkError::ReceiveNumber { found: 2 });
    check(Apdu::S { receive: 2 }, LinkError::ReceiveNumber { found: 2 });
    check(Apdu::S { receive: 0x7FFF }, LinkError::ReceiveNumber { found: 0x7FFF });
}

#[test]
fn what_came_is_acknowledged_after_w_frames_or_t2() {
    let mut link = link(true);
    link.receive(at_ms(0).mono, i(0, 0));
    assert_eq!(sent(&mut link, 0), [""; 0]);
    link.receive(at_ms(1).mono, i(1, 0));
    assert_eq!(sent(&mut link, 1), ["680401000400"]);
    link.receive(at_ms(2).mono, i(2, 0));
    assert_eq!(link.timeout(), Some(at_ms(10_002).mono));
    link.handle_timeout(at_ms(10_002).mono).unwrap();
    assert_eq!(sent(&mut link, 10_002), ["680401000600"]);
    // An I frame carries it as well.
    link.receive(at_ms(10_003).mono, i(3, 0));
    assert_eq!(send(&mut link, 10_004), hex("68 05 0000 0800 07"));
    link.handle_timeout(at_ms(20_004).mono).unwrap();
    assert_eq!(sent(&mut link, 20_004), [""; 0]);
    assert_eq!(link.counters().acknowledgements, 2);
}

#[test]
fn k_frames_may_wait_for_their_acknowledgement_and_not_longer_than_t1() {
    let mut link = link(true);
    for ms in 0..3 {
        send(&mut link, ms);
    }
    assert!(!link.may_send());
    assert_eq!(link.receive(at_ms(3).mono, Apdu::S { receive: 1 }), Received::Nothing);
    assert!(link.may_send());
    assert_eq!(link.acknowledged(), 1);
    assert_eq!(link.timeout(), Some(at_ms(15_001).mono));
    assert_eq!(link.handle_timeout(at_ms(15_000).mono), Ok(()));
    assert_eq!(link.handle_timeout(at_ms(15_001).mono), Err(LinkError::NotAcknowledged));
}

#[test]
fn an_idle_link_is_tested() {
    let mut link = link(true);
    assert_eq!(link.timeout(), Some(at_ms(20_000).mono));
    link.handle_timeout(at_ms(20_000).mono).unwrap();
    assert_eq!(sent(&mut link, 20_000), ["680443000000"]);
    assert_eq!(link.receive(at_ms(20_500).mono, Apdu::U(Control::TestCon)), Received::Nothing);
    assert_eq!(link.timeout(), Some(at_ms(40_500).mono));
    link.handle_timeout(at_ms(40_500).mono).unwrap();
    assert_eq!(sent(&mut link, 40_500), ["680443000000"]);
    assert_eq!(link.handle_timeout(at_ms(55_499).mono), Ok(()));
    assert_eq!(link.handle_timeout(at_ms(55_500).mono), Err(LinkError::NotConfirmed(Control::TestAct)));
    assert_eq!(link.counters().tests, 2);
}

#[test]
fn tests_of_the_other_side_are_confirmed() {
    let mut link = link(false);
    assert_eq!(link.receive(at_ms(0).mono, Apdu::U(Control::TestAct)), Received::Nothing);
    assert_eq!(link.receive(at_ms(0).mono, Apdu::U(Control::TestAct)), Received::Nothing);
    assert_eq!(sent(&mut link, 0), ["680483000000"]);
    for unasked in [Control::TestCon, Control::StartCon, Control::StopCon] {
        assert_eq!(link.receive(at_ms(0).mono, Apdu::U(unasked)), Received::Nothing);
    }
    assert_eq!((link.counters().unexpected, link.is_started()), (3, false));
}

#[test]
fn a_start_that_is_not_confirmed_breaks_the_link() {
    let mut link = link(false);
    link.start();
    sent(&mut link, 0);
    assert_eq!(link.handle_timeout(at_ms(15_000).mono), Err(LinkError::NotConfirmed(Control::StartAct)));
}

#[test]
fn numbers_begin_again_after_the_last() {
    let mut link = Link::new(LinkConfig { k: 1, w: 1, ..LinkConfig::DEFAULT });
    link.connected(at_ms(0).mono);
    link.receive(at_ms(0).mono, Apdu::U(Control::StartAct));
    for round in 0..70_000_u32 {
        let number = u16::try_from(round % 0x8000).unwrap();
        let mut out = Vec::new();
        assert_eq!(link.send(at_ms(0).mono, &[7], &mut out), u64::from(round) + 1);
        assert_eq!(Apdu::parse(&out), Ok(Apdu::I { send: number, receive: number, asdu: &[7] }));
        let next = (number + 1) % 0x8000;
        assert_eq!(link.receive(at_ms(0).mono, i(number, next)), Received::Asdu(&[1, 2]), "{round}");
        assert!(link.may_send());
    }
    assert_eq!(link.acknowledged(), 70_000);
}
