use super::super::{MasterConfig, TimeSync};
use super::quiet;
use super::script::check;
use crate::Classes;

#[test]
fn disables_reads_and_enables() {
    check(
        MasterConfig::default(),
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0000
         ! online
         > C1 01 3C0206 3C0306 3C0406 3C0106
         < C1 81 0000 0101 00 0000 01
         ! binary 0 = true
         ! end
         > C2 14 3C0206 3C0306 3C0406
         < C2 81 0000
         ! ready
         silent",
    );
}

#[test]
fn clears_a_restart_seen_at_start() {
    check(
        MasterConfig::default(),
        "connect
         < F0 82 8000              // null unsolicited: confirmed at any time
         ! online
         ! restarted
         ! iin 0080
         > D0 00
         > C0 02 5001 00 0707 00
         < C0 81 0000
         ! iin 0000
         > C1 15 3C0206 3C0306 3C0406
         < C1 81 0000
         > C2 01 3C0206 3C0306 3C0406 3C0106
         < C2 81 0000
         ! end
         > C3 14 3C0206 3C0306 3C0406
         < C3 81 0000
         ! ready",
    );
}

#[test]
fn starts_over_after_a_restart() {
    let config = MasterConfig { integrity: Classes::CLASS_0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < C0 81 0000
         ! online
         ! end
         ! ready
         poll 1
         > C1 01 3C0106
         < C1 81 8000
         ! restarted
         ! iin 0080
         ! end
         ! task 1 done
         > C2 02 5001 00 0707 00
         < C2 81 8000              // a device that does not clear it is not asked for ever
         > C3 01 3C0106
         < C3 81 8000
         ! end
         ! ready
         silent",
    );
}

#[test]
fn reads_again_after_an_overflow() {
    let config = MasterConfig { integrity: Classes::CLASS_0, ..quiet() };
    check(
        config,
        "connect
         > C0 01 3C0106
         < C0 81 0000
         ! online
         ! end
         ! ready
         < F0 82 0008 0201 17 01 03 81
         ! events lost
         ! iin 0800
         ! binary 3 = true event unsolicited
         ! end unsolicited
         > D0 00
         > C1 01 3C0106
         < C1 81 0008
         ! end
         silent",
    );
}

#[test]
fn what_a_device_cannot_do_is_left_out() {
    check(
        MasterConfig::default(),
        "connect
         > C0 15 3C0206 3C0306 3C0406
         < C0 81 0001
         ! online
         ! iin 0100
         > C1 01 3C0206 3C0306 3C0406 3C0106
         < C1 81 0002
         ! iin 0200
         ! end
         > C2 14 3C0206 3C0306 3C0406
         < C2 81 0001
         ! iin 0100
         ! ready
         silent",
    );
}

#[test]
fn sets_the_time_by_lan() {
    check(
        MasterConfig { time_sync: TimeSync::Lan, ..quiet() },
        "connect
         ! ready
         < F0 82 1000
         ! online
         ! iin 0010
         > D0 00
         > C0 18
         wait 20
         < C0 81 1000
         > C1 02 3203 07 01 000001000000    // when the record request was sent
         < C1 81 0000
         ! iin 0000
         < F1 82 1000                       // again at once: not more often than configured
         ! iin 0010
         > D1 00
         silent",
    );
}

#[test]
fn sets_the_time_by_delay() {
    check(
        MasterConfig { time_sync: TimeSync::DelayMeasure, ..quiet() },
        "connect
         ! ready
         < F0 82 1000
         ! online
         ! iin 0010
         > D0 00
         > C0 17
         wait 120
         < C0 81 1000 3402 07 01 1400       // 20 ms of 120 inside: 50 ms each way
         > C1 02 3201 07 01 AA0001000000    // 0x10000 + 120 + 50
         < C1 81 0000
         ! iin 0000",
    );
}

#[test]
fn a_duty_that_fails_is_tried_again() {
    check(
        MasterConfig { integrity: Classes::CLASS_0, retries: 0, ..quiet() },
        "connect
         > C0 01 3C0106
         wait 5000
         ! offline timeout
         status?
         status!
         silent
         wait 5000
         > C1 01 3C0106
         < C0 81 0000              // late: the answer to the first
         silent
         < C1 81 0000
         ! online
         ! end
         ! ready",
    );
}
