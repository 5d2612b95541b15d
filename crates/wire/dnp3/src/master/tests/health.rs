use super::super::{Master, MasterConfig};
use super::quiet;
use super::script::check;

#[test]
fn a_request_is_repeated_then_given_up_and_the_link_probed() {
    check(
        quiet(),
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         wait 4999
         silent
         wait 1
         > C1 01 3C0106
         wait 5000
         ! task 7 timeout
         ! offline timeout
         status?
         wait 5000
         closed
         disconnect
         ! offline disconnected
         connect
         ! ready
         poll 8
         > C2 01 3C0106
         < C2 81 0000
         ! online
         ! end
         ! task 8 done",
    );
}

#[test]
fn silence_is_broken_by_a_status_request() {
    check(
        quiet(),
        "connect
         ! ready
         wait 59999
         silent
         wait 1
         status?
         status!
         silent
         wait 60000
         status?
         wait 5000
         ! offline timeout
         closed",
    );
}

#[test]
fn garbage_is_told_from_silence() {
    check(
        MasterConfig { retries: 0, ..quiet() },
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         << 0102030405060708090A 0564FFFFFFFFFFFFFFFF 1112131415
         wait 5000
         ! task 7 timeout
         ! offline garbage
         status?
         status!
         < C5 81 00                // too short to be a response
         < C5 01                   // not a response
         silent",
    );
}

#[test]
fn garbage_is_not_taken_for_silence_afterwards() {
    check(
        quiet(),
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         << 0102030405060708090A 0564FFFFFFFFFFFFFFFF 1112131415
         wait 5000
         > C1 01 3C0106             // the second try is not answered at all
         wait 5000
         ! task 7 timeout
         ! offline garbage
         status?
         wait 5000
         closed",
    );
}

#[test]
fn a_link_that_answers_is_told_of_while_the_outstation_is_online() {
    check(
        quiet(),
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < C0 81 0000
         ! online
         ! end
         ! task 7 done
         wait 60000
         status?
         status!
         ! link alive
         silent",
    );
}

#[test]
fn a_session_is_small() {
    let bytes = core::mem::size_of::<Master>();
    assert!(bytes <= 1536, "{bytes} bytes");
}
