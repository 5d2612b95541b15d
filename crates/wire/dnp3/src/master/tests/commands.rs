use super::super::MasterConfig;
use super::quiet;
use super::script::check;
use crate::Classes;
use alloc::format;

#[test]
fn selects_checks_the_echo_and_operates() {
    check(
        quiet(),
        "connect
         ! ready
         select 7
         > C0 03 0C01 17 01 03 03 01 64000000 00000000 00
         < C0 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! online
         > C1 04 0C01 17 01 03 03 01 64000000 00000000 00
         < C1 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! task 7 done",
    );
}

#[test]
fn a_refusal_is_named() {
    check(
        quiet(),
        "connect
         ! ready
         direct 7
         > C0 05 0C01 17 01 03 03 01 64000000 00000000 00
         < C0 81 0000 0C01 17 01 03 03 01 64000000 00000000 07
         ! online
         ! task 7 local
         select 8
         > C1 03 0C01 17 01 03 03 01 64000000 00000000 00
         < C1 81 0400 0C01 17 01 03 03 01 64000000 00000000 04
         ! task 8 not_supported
         direct 9
         > C2 05 0C01 17 01 03 03 01 64000000 00000000 00
         < C2 81 0001
         ! iin 0100
         ! task 9 function_not_supported",
    );
}

#[test]
fn an_echo_that_differs_stops_the_command() {
    let check = |echo: &str, outcome: &str| {
        check(
            quiet(),
            &format!(
                "connect
                 ! ready
                 {}
                 < C0 81 0000 {echo}
                 ! online
                 ! task 7 {outcome}",
                "select 7\n> C0 03 0C01 17 01 03 03 01 64000000 00000000 00",
            ),
        );
    };
    check("0C01 17 01 04 03 01 64000000 00000000 00", "bad_echo"); // another index
    check("0C01 17 01 03 04 01 64000000 00000000 00", "bad_echo"); // another code
    check("0C01 17 02 03 03 01 64000000 00000000 00 03 03 01 64000000 00000000 00", "bad_echo"); // twice
    check("", "bad_echo");
    check("0C01 28 0100 0300 03 01 64000000 00000000 07", "local"); // another qualifier says the same
}

#[test]
fn an_operate_is_never_repeated() {
    check(
        quiet(),
        "connect
         ! ready
         select 7
         > C0 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         > C1 03 0C01 17 01 03 03 01 64000000 00000000 00     // nothing was operated: the select may be repeated
         < C1 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! online
         > C2 04 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         ! task 7 timeout, maybe operated
         ! offline timeout
         status?
         status!
         direct 8
         > C3 05 0C01 17 01 03 03 01 64000000 00000000 00
         disconnect
         ! task 8 connection_lost, maybe operated
         ! offline disconnected",
    );
}

#[test]
fn commands_go_before_duties_and_reads() {
    check(
        MasterConfig { integrity: Classes::CLASS_0, ..quiet() },
        "connect
         poll 1
         select 2
         direct 3
         > C0 03 0C01 17 01 03 03 01 64000000 00000000 00
         < C0 81 0000 0C01 17 01 03 03 01 64000000 00000000 04
         ! online
         ! task 2 not_supported
         > C1 05 0C01 17 01 03 03 01 64000000 00000000 00
         < C1 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! task 3 done
         > C2 01 3C0106
         < C2 81 0000
         ! end
         ! ready
         > C3 01 3C0106
         < C3 81 0000
         ! end
         ! task 1 done",
    );
}

#[test]
fn a_command_that_waits_for_too_long_is_not_sent() {
    check(
        MasterConfig { response_timeout: core::time::Duration::from_secs(60), ..quiet() },
        "connect
         ! ready
         poll 1
         > C0 01 3C0106
         select 2
         wait 10000
         ! task 2 timeout
         silent
         < C0 81 0000
         ! online
         ! end
         ! task 1 done
         silent",
    );
}

#[test]
fn a_selection_that_comes_too_late_is_not_operated() {
    check(
        quiet(),
        "connect
         ! ready
         select 7
         > C0 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         > C1 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 4999
         < C1 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! online
         > C2 04 0C01 17 01 03 03 01 64000000 00000000 00
         < C2 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! task 7 done
         select 8
         > C3 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         > C4 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 5000
         ! task 8 timeout
         ! offline timeout
         status?",
    );
    let slow = MasterConfig { response_timeout: core::time::Duration::from_secs(60), ..quiet() };
    check(
        slow,
        "connect
         ! ready
         select 7
         > C0 03 0C01 17 01 03 03 01 64000000 00000000 00
         wait 10000
         < C0 81 0000 0C01 17 01 03 03 01 64000000 00000000 00
         ! online
         ! task 7 timeout
         silent",
    );
}

#[test]
fn a_full_queue_and_a_lost_connection_refuse() {
    check(
        MasterConfig { tasks_max: 1, ..quiet() },
        "connect
         ! ready
         poll 1
         full 2
         direct 3
         disconnect
         ! task 3 connection_lost
         ! task 1 connection_lost
         ! offline disconnected",
    );
}
