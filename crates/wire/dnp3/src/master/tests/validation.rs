//! What a master owes to what it receives, check by check: see the outstation's `tests/validation.rs`.

use super::quiet;
use super::script::check;
use crate::Classes;
use crate::master::MasterConfig;
use alloc::format;

/// While a read is out, this fragment gives nothing and is not confirmed, and the right answer still counts.
#[track_caller]
fn ignored(fragment: &str) {
    check(
        quiet(),
        &format!(
            "connect
             ! ready
             poll 7
             > C0 01 3C0106
             < {fragment}
             silent
             < C0 81 0000
             ! online
             ! end
             ! task 7 done"
        ),
    );
}

#[test]
fn a_response_of_another_number_is_ignored() {
    ignored("C1 81 0000 0102 00 03 03 81");
    ignored("EF 81 0000 0201 17 01 03 81");
}

#[test]
fn a_response_that_begins_in_the_middle_is_ignored() {
    ignored("40 81 0000 0102 00 03 03 81");
    ignored("00 81 0000 0102 00 03 03 81");
}

#[test]
fn a_solicited_response_marked_unsolicited_is_ignored() {
    ignored("D0 81 0000 0102 00 03 03 81");
}

#[test]
fn a_fragment_without_indications_is_ignored() {
    ignored("C0 81");
    ignored("C0 81 00");
    ignored("C0");
}

#[test]
fn a_request_from_an_outstation_is_ignored() {
    ignored("C0 01 3C0206");
    ignored("C0 05 0C01 17 01 03 03 01 64000000 00000000 00");
    ignored("C0 00");
}

#[test]
fn a_function_without_a_meaning_is_ignored() {
    ignored("C0 FF 0000");
}

#[test]
fn a_response_that_nobody_asked_for_is_ignored() {
    check(quiet(), "connect\n! ready\n< E0 81 0000 0201 17 01 03 81\nsilent");
}

#[test]
fn an_unsolicited_response_of_several_fragments_is_ignored() {
    for control in ["B3", "73", "33"] {
        check(quiet(), &format!("connect\n! ready\n< {control} 82 0000 0201 17 01 03 81\nsilent"));
    }
}

#[test]
fn an_unsolicited_response_without_its_mark_is_ignored() {
    check(quiet(), "connect\n! ready\n< E3 82 0000 0201 17 01 03 81\nsilent");
}

/// An unsolicited response with these objects is neither given nor confirmed.
#[track_caller]
fn broken(objects: &str) {
    check(quiet(), &format!("connect\n! ready\n< F3 82 0000 {objects}\n! offline garbage\nsilent"));
}

#[test]
fn an_object_header_that_ends_early_gives_nothing() {
    for objects in ["02", "0201", "0201 17", "0102 00 03", "0102 01 03 00 04"] {
        broken(objects);
    }
}

#[test]
fn objects_that_end_early_give_nothing_of_the_fragment() {
    broken("0201 17 01 03");
    // What came before them neither.
    broken("0201 17 01 03 81 2003 17 01 03 01 00000000 1122");
}

#[test]
fn a_range_that_ends_before_it_begins_gives_nothing() {
    broken("0102 00 04 03 81");
    broken("1E01 01 FFFF 0000 01 00000000");
}

#[test]
fn a_count_that_the_bytes_cannot_hold_gives_nothing() {
    broken("0201 28 FFFF 0300 81");
    broken("1E01 09 FFFFFFFF 01 00000000");
    broken("0101 02 00000000 FFFFFFFF 01");
}

#[test]
fn a_qualifier_that_is_reserved_gives_nothing() {
    broken("0102 0F 01 81");
    broken("0102 70 01 03 81");
}

#[test]
fn bytes_after_the_last_object_give_nothing() {
    broken("0201 17 01 03 81 02");
}

#[test]
fn points_beyond_the_highest_index_give_nothing() {
    broken("0102 02 00000100 00000100 81");
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_task_unconfirmed() {
    check(
        MasterConfig { event_poll: Classes::NONE, ..quiet() },
        "connect
         ! ready
         poll 7
         > C0 01 3C0106
         < E0 81 0000 0201 17 02 03 81
         ! task 7 malformed
         ! offline garbage
         silent",
    );
}
