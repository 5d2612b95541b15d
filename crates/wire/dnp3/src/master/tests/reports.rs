use super::super::MasterConfig;
use super::quiet;
use super::script::check;
use crate::Classes;

#[test]
fn unsolicited_responses_are_confirmed_and_given_once() {
    check(
        quiet(),
        "connect
         ! ready
         < F3 82 0000 0201 17 02 03 81 04 01
         ! online
         ! binary 3 = true event unsolicited
         ! binary 4 = false event unsolicited
         ! end unsolicited
         > D3 00
         < F3 82 0000 0201 17 02 03 81 04 01     // repeated: its confirm was lost
         > D3 00
         < F4 82 0000 0201 17 02 03 81 04 01     // the same once more is new
         ! binary 3 = true event unsolicited
         ! binary 4 = false event unsolicited
         ! end unsolicited
         > D4 00",
    );
}

#[test]
fn unsolicited_data_before_the_integrity_poll_waits_in_the_outstation() {
    check(
        MasterConfig::default(),
        "connect
         < F0 82 0000 0201 17 01 03 81
         ! online
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         > C1 01 3C0206 3C0306 3C0406 3C0106
         < C1 81 0000 0201 17 01 03 81
         ! binary 3 = true event
         ! end
         > C2 14 3C0206 3C0306 3C0406
         < C2 81 0000
         ! ready",
    );
}

#[test]
fn an_overflow_does_not_keep_events_waiting() {
    check(
        MasterConfig { enable_unsolicited: Classes::NONE, ..MasterConfig::default() },
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         ! online
         > C1 01 3C0206 3C0306 3C0406 3C0106
         < C1 81 0000
         ! end
         ! ready
         < F0 82 0008 0201 17 01 03 81
         ! events lost
         ! iin 0800
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D0 00
         > C2 01 3C0206 3C0306 3C0406 3C0106
         < F1 82 0008 0201 17 01 04 81         // while the integrity poll is out
         ! binary 4 = true event unsolicited
         ! end unsolicited
         > D1 00
         < C2 81 0008
         ! end",
    );
}

#[test]
fn a_response_of_many_fragments_is_confirmed_one_by_one() {
    check(
        quiet(),
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < A0 81 0000 1E02 00 0000 01 0100
         ! online
         ! analog 0 = 1
         ! end
         > C0 00
         < 22 81 0000 1E02 00 0202 01 0100     // out of sequence
         < A1 81 0000 1E02 00 0202 01 0100     // a first one is not expected
         silent
         < 21 81 0000 1E02 00 0101 01 0200
         ! analog 1 = 2
         ! end
         > C1 00
         < F0 82 0000 0201 17 01 03 81         // unsolicited in between
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D0 00
         < 42 81 0000 1E02 00 0202 01 0300
         ! analog 2 = 3
         ! end
         ! task 7 done",
    );
}

#[test]
fn relative_times_count_from_the_common_time() {
    check(
        quiet(),
        "connect
         ! ready
         < F0 82 0000 3301 07 01 000100000000 0203 17 01 03 81 1000 3302 07 01 000200000000 0203 17 01 04 01 0100
         ! online
         ! binary 3 = true event unsolicited at 110
         ! binary 4 = false event unsolicited at 201?
         ! end unsolicited
         > D0 00",
    );
}

#[test]
fn classes_that_have_events_are_polled_where_configured() {
    check(
        MasterConfig { event_poll: Classes::EVENTS, ..quiet() },
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < C0 81 0600
         ! online
         ! end
         ! task 7 done
         > C1 01 3C0206 3C0306
         < E1 81 0400 0201 17 01 03 81
         ! binary 3 = true event
         ! end
         > C1 00
         > C2 01 3C0306
         < C2 81 0400              // says that there are more, and brings none: not asked for ever
         ! end
         silent",
    );
}

#[test]
fn held_confirms_wait_for_the_owner() {
    check(
        MasterConfig { hold_confirm: true, ..quiet() },
        "connect
         ! ready
         < F0 82 0000 0201 17 01 03 81
         ! online
         ! binary 3 = true event unsolicited
         ! end unsolicited held
         silent
         < F0 82 0000 0201 17 01 03 81         // repeated meanwhile
         silent
         release
         > D0 00
         poll 7
         > C0 01 3C0106
         < E0 81 0000 0201 17 01 04 81
         ! binary 4 = true event
         ! end held
         ! task 7 done
         poll 8                                // waits for the confirm
         silent
         release
         > C0 00
         > C1 01 3C0106
         < E1 81 0000 0101 00 0000 01          // no events: nothing to store first
         ! binary 0 = true
         ! end
         ! task 8 done
         > C1 00",
    );
}

#[test]
fn a_confirm_that_is_never_released_is_given_up() {
    check(
        MasterConfig { hold_confirm: true, ..quiet() },
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < A0 81 0000 0201 17 01 04 81
         ! online
         ! binary 4 = true event
         ! end held
         wait 5000
         ! task 7 timeout
         silent
         poll 8
         > C1 01 3C0106
         < C1 81 0000
         ! end
         ! task 8 done",
    );
}

#[test]
fn what_is_understood_is_kept_and_what_is_broken_is_not_confirmed() {
    check(
        quiet(),
        "connect
         ! ready
         < F0 82 0000 0201 17 01 03 81 FA01 07 01     // an object that nobody knows, after one that we do
         ! online
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D0 00
         < F1 82 0000 0201 17 09 03 81                // nine objects announced, one there
         ! offline garbage
         silent
         < F2 82 0000 0201 17 01 03 81
         ! online
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D2 00",
    );
}

#[test]
fn a_response_that_does_not_end_is_cut() {
    check(
        MasterConfig { fragments_max: 2, ..quiet() },
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < 80 81 0000
         ! online
         ! end
         < 01 81 0000
         ! end
         < 02 81 0000
         ! task 7 too_long
         silent",
    );
}
