//! Faults that simulated links found, each as the shortest conversation that shows it.

use super::super::{Master, MasterConfig};
use super::quiet;
use super::script::check;
use crate::Classes;
use crate::app::Fragment;
use crate::endpoint::{Endpoint, EndpointConfig, Role};
use crate::link::LinkAddress;
use alloc::vec::Vec;
use tieline_core::{Machine, Now};

#[test]
fn fragments_of_an_answer_use_up_numbers() {
    check(
        quiet(),
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < A0 81 0000 0102 00 03 03 81
         ! online
         ! binary 3 = true
         ! end
         > C0 00
         < 41 81 0000 0102 00 04 04 81
         ! binary 4 = true
         ! end
         ! task 7 done
         poll 8
         > C2 01 3C0106",
    );
}

#[test]
fn an_answer_to_a_predecessor_is_not_taken() {
    let now = Now::default();
    let mut answered = 0;
    for random in 0..32 {
        let mut master = Master::new(quiet());
        master.vary(random);
        master.handle_connected(now);
        while master.poll_event().is_some() {}
        master.poll(now, Classes::EVENTS, 1).unwrap();
        let (mut peer, mut request) =
            (Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(10))), Vec::new());
        assert!(master.poll_transmit(now, &mut request));
        while peer.handle_input(&request).1.is_none() {
            request.drain(..1);
        }
        let sequence = Fragment::parse(peer.fragment()).unwrap().control.sequence;
        assert_eq!(u64::from(sequence.number()), random % 16);
        // The answer to a master that was here before, and began with number 0.
        let mut late = Vec::new();
        peer.write_fragment(LinkAddress::new(1), &[0xC0, 0x81, 0, 0], &mut late);
        master.handle_input(now, &late);
        answered += core::iter::from_fn(|| master.poll_event()).count();
    }
    // Two of thirty-two began with 0 too: `online`, `end` and `task 1 done`.
    assert_eq!(answered, 6);
}

#[test]
fn a_restart_while_reports_are_being_enabled_leaves_that_due() {
    let config = MasterConfig { integrity: Classes::NONE, ..MasterConfig::default() };
    check(
        config,
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         ! online
         > C1 14 3C0206 3C0306 3C0406
         < F0 82 8000                           // it restarts before it sees the request
         ! restarted
         ! iin 0080
         > D0 00
         < C1 81 8000
         > C2 02 5001 00 07 07 00
         < C2 81 0000
         ! iin 0000
         > C3 15 3C0206 3C0306 3C0406
         < C3 81 0000
         > C4 14 3C0206 3C0306 3C0406
         < C4 81 0000
         ! ready",
    );
}

#[test]
fn present_values_are_read_when_an_overflow_is_over() {
    let config = MasterConfig { integrity: Classes::CLASS_0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < C0 81 0000
         ! online
         ! end
         ! ready
         < F0 82 0008
         ! events lost
         ! iin 0800
         > D0 00
         > C1 01 3C0106
         < C1 81 0008
         ! end
         silent
         < F1 82 0000
         ! iin 0000
         > D1 00
         > C2 01 3C0106",
    );
}

#[test]
fn a_link_that_answers_is_read_again() {
    let config = MasterConfig { integrity: Classes::CLASS_0, retries: 0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < C0 81 0000
         ! online
         ! end
         ! ready
         direct 7
         > C1 05 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         ! task 7 timeout, maybe operated
         ! offline timeout
         status?
         status!
         > C2 01 3C0106
         < C2 81 0000
         ! online
         ! end",
    );
}

#[test]
fn a_report_that_comes_again_after_the_next_is_known() {
    check(
        quiet(),
        "connect
         ! ready
         < F3 82 0000 0201 17 01 03 81
         ! online
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D3 00
         < F4 82 0000 0201 17 01 04 81
         ! binary 4 = true event unsolicited
         ! end unsolicited
         > D4 00
         < F3 82 0000 0201 17 01 03 81
         > D3 00",
    );
}

#[test]
fn reports_after_disabling_was_answered_are_confirmed() {
    check(
        MasterConfig::default(),
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         ! online
         > C1 01 3C0206 3C0306 3C0406 3C0106
         < F0 82 0000 0201 17 01 03 81
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D0 00",
    );
}

#[test]
fn an_answer_to_a_read_of_somebody_before_is_not_confirmed() {
    check(
        MasterConfig::default(),
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < E0 81 0000 0201 17 01 03 81
         silent
         < C0 81 0000
         ! online
         > C1 01 3C0206 3C0306 3C0406 3C0106",
    );
}

#[test]
fn a_repeated_report_tells_no_restart_again() {
    check(
        MasterConfig::default(),
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < F3 82 8000 0201 17 01 03 81
         ! online
         ! restarted
         ! iin 0080
         < C0 81 8000
         > C1 02 5001 00 07 07 00
         < C1 81 0000
         ! iin 0000
         > C2 15 3C0206 3C0306 3C0406
         < F3 82 8000 0201 17 01 03 81          // too early again
         silent
         < C2 81 0000
         > C3 01 3C0206 3C0306 3C0406 3C0106
         < F3 82 8000 0201 17 01 03 81
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D3 00
         < F3 82 8000 0201 17 01 03 81          // the confirm was lost
         > D3 00
         < C3 81 0000
         ! end
         > C4 14 3C0206 3C0306 3C0406
         < C4 81 0000
         ! ready",
    );
}

#[test]
fn the_same_null_response_tells_another_restart() {
    check(
        quiet(),
        "connect
         ! ready
         < F0 82 8000
         ! online
         ! restarted
         ! iin 0080
         > D0 00
         > C0 02 5001 00 07 07 00
         < C0 81 0000
         ! iin 0000
         ! ready
         < F0 82 8000
         ! restarted
         ! iin 0080
         > D0 00
         > C1 02 5001 00 07 07 00",
    );
}

#[test]
fn an_overflow_that_ends_amid_an_answer_is_read_after() {
    let config = MasterConfig { integrity: Classes::CLASS_0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < A0 81 0008 0102 00 03 03 81
         ! online
         ! events lost
         ! iin 0800
         ! binary 3 = true
         ! end
         > C0 00
         < F0 82 0000                           // an event of input 3 was lost since
         ! iin 0000
         > D0 00
         < 41 81 0000 0102 00 04 04 81
         ! binary 4 = true
         ! end
         > C2 01 3C0106
         < C2 81 0000 0102 00 03 04 01 81
         ! binary 3 = false
         ! binary 4 = true
         ! end
         ! ready",
    );
}

#[test]
fn a_restart_before_enabling_is_repeated_leaves_that_due() {
    let config = MasterConfig { integrity: Classes::NONE, ..MasterConfig::default() };
    check(
        config,
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         ! online
         > C1 14 3C0206 3C0306 3C0406
         wait 5000
         < F0 82 8000                           // before the repetition is sent
         ! restarted
         ! iin 0080
         > D0 00
         > C2 14 3C0206 3C0306 3C0406
         < C2 81 8000
         > C3 02 5001 00 07 07 00
         < C3 81 0000
         ! iin 0000
         > C4 15 3C0206 3C0306 3C0406
         < C4 81 0000
         > C5 14 3C0206 3C0306 3C0406
         < C5 81 0000
         ! ready",
    );
}

#[test]
fn values_from_before_a_restart_was_cleared_are_read_again() {
    let config = MasterConfig { integrity: Classes::CLASS_0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < C0 81 8000 0102 00 03 03 81
         ! online
         ! restarted
         ! iin 0080
         ! binary 3 = true
         ! end
         > C1 02 5001 00 07 07 00
         < C1 81 0000                           // it restarted again before it saw the request
         ! iin 0000
         > C2 01 3C0106
         < C2 81 0000 0102 00 03 03 01
         ! binary 3 = false
         ! end
         ! ready",
    );
}
