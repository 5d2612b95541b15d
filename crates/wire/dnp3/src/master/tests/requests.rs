//! Requests of the owner: what goes out, what the answer means.

use super::super::{
    Addressee, Answer, ControlProcedure, DeadBand, Freeze, Master, MasterConfig, MasterEvent, Request, Restart,
    Selection, SubmitError, TimeSync,
};
use super::quiet;
use super::script::{Play, latch_on};
use crate::app::{ALL_ATTRIBUTES, AttributeValue, Function, Qualifier};
use crate::link::Broadcast;
use crate::{AnalogCommand, Classes, Control, DnpTime, EventClass, GroupVar};
use alloc::string::String;
use tieline_core::{Instant, Machine, Now};

/// Submits `request` as task 7 and plays `script`, in which the outstation is known to be online.
#[track_caller]
fn check(request: Request, script: &str) {
    check_with(quiet(), request, script);
}

#[track_caller]
fn check_with(config: MasterConfig, request: Request, script: &str) {
    let mut play = Play::new(config);
    play.run("connect\n! ready");
    play.submit(request, 7).unwrap();
    play.run(script);
    play.end(script);
}

/// A request that is answered by an empty response.
#[track_caller]
fn check_sent(request: Request, sent: &str) {
    let script = alloc::format!("> C0 {sent}\n< C0 81 0000\n! online\n! task 7 done");
    check(request, &script);
}

fn counters() -> [Selection; 1] {
    [Selection::all(GroupVar::new(20, 0))]
}

#[test]
fn requests_are_sent_as_the_standard_says() {
    let (g20, g30) = (GroupVar::new(20, 0), GroupVar::new(30, 0));
    check_sent(Request::assign_class(&[]), "16");
    check_sent(
        Request::assign_class(&[
            (Some(EventClass::Class2), &[Selection::span(GroupVar::new(1, 0), 9, 3), Selection::all(g20)]),
            (None, &[Selection::indices(g30, &[1, 300])]),
        ]),
        "16 3C0306 0100 00 03 09 1400 06 3C0106 1E00 28 0200 0100 2C01",
    );
    check_sent(Request::freeze(Freeze::Immediate, true, &counters()), "07 1400 06");
    check_sent(Request::freeze(Freeze::Clear, true, &[Selection::indices(g20, &[1, 2])]), "09 1400 17 02 01 02");
    let at = Freeze::AtTime { time: DnpTime::from_millis(0x0102_0304_0506), interval_ms: 60_000 };
    check_sent(Request::freeze(at, true, &counters()), "0B 3202 07 01 060504030201 60EA0000 1400 06");
    check_sent(Request::unsolicited(true, Classes::ALL), "14 3C0206 3C0306 3C0406");
    check_sent(Request::unsolicited(false, Classes::CLASS_3), "15 3C0406");
    check_sent(
        Request::write_dead_bands(&[(1, DeadBand::U16(10)), (2, DeadBand::U16(11)), (3, DeadBand::F32(0.5))]).unwrap(),
        "02 2201 17 02 01 0A00 02 0B00 2203 17 01 03 0000003F",
    );
    check_sent(Request::write_dead_bands(&[(256, DeadBand::U32(7))]).unwrap(), "02 2202 28 0100 0001 07000000");
    check_sent(
        Request::write_strings(&[(4, b"ab"), (5, b"cd"), (6, b"e")]).unwrap(),
        "02 6E02 00 04 05 6162 6364 6E01 00 06 06 65",
    );
    assert!(Request::write_strings(&[(0, b"")]).is_err());
    check_sent(Request::write_attribute(0, 247, &AttributeValue::text("ab")).unwrap(), "02 00F7 00 00 00 01 02 6162");
    check_sent(Request::clear_restart(), "02 5001 00 07 07 00");
    check_sent(Request::save_configuration(), "13");
    check_sent(Request::activate_configuration(&["a", "bc"]).unwrap(), "1F 4608 5B 02 0100 61 0200 6263");
    check_sent(Request::raw(16, &[90, 1, 6]), "10 5A0106");
}

#[test]
fn a_raw_request_has_any_code() {
    for code in 0..=u8::MAX {
        let sent = alloc::format!("{code:02X} 3C0206");
        let script = match Function::from_code(code) {
            Some(function) if function.is_unanswered() || function.is_response() => {
                alloc::format!("> C0 {sent}\nwait 0\n! task 7 sent")
            }
            // A code without a meaning is refused by the outstation, which says so.
            Some(_) | None => {
                alloc::format!("> C0 {sent}\n< C0 81 0001\n! online\n! iin 0100\n! task 7 function_not_supported")
            }
        };
        check(Request::raw(code, &[60, 2, 6]), &script);
    }
}

#[test]
fn reads_name_what_they_ask_for() {
    let read =
        Request::read(&[Selection::count(GroupVar::new(2, 0), 300), Selection::span(GroupVar::new(1, 2), 0, 400)]);
    check(
        read,
        "> C0 01 0200 08 2C01 0102 01 0000 9001
         < C0 81 0000 0102 00 03 03 81
         ! online
         ! binary 3 = true
         ! end
         ! task 7 done",
    );
}

#[test]
fn what_is_no_measurement_is_told_too() {
    check(
        Request::read_attributes(0, ALL_ATTRIBUTES),
        "> C0 01 00FE 00 00 00
         < E0 81 0000 00FA 00 00 00 01 02 6162 00D9 00 00 00 02 01 07 2201 00 01 02 0500 0600
         ! online
         ! Attribute(Attribute { set: 0, variation: 250, value: Text([97, 98]) })
         ! Attribute(Attribute { set: 0, variation: 217, value: Unsigned(7) })
         ! DeadBand { index: 1, value: 5.0 }
         ! DeadBand { index: 2, value: 6.0 }
         ! end
         ! task 7 done
         > C0 00",
    );
    check(
        Request::read(&[Selection::all(GroupVar::new(13, 0))]),
        "> C0 01 0D00 06
         < C0 81 0000 0D01 17 01 03 84 2B05 17 01 02 00 0000003F 1403 00 04 04 01 05000000 1608 17 01 04 01 0500 000000010000 3201 07 01 000001000000
         ! online
         ! Commanded { point_type: BinaryOutput, index: 3, value: Bit(true), status: NotSupported, stamp: None } event
         ! Commanded { point_type: AnalogOutput, index: 2, value: Analog(0.5), status: Success, stamp: None } event
         ! Delta { point_type: Counter, index: 4, change: 5, flags: Flags(1), stamp: None }
         ! Delta { point_type: Counter, index: 4, change: 5, flags: Flags(1), stamp: Some(Stamp { time: DnpTime(16777216), synchronized: true }) } event
         ! Time(DnpTime(65536))
         ! end
         ! task 7 done",
    );
}

#[test]
fn what_is_unknown_costs_no_more_than_itself() {
    let read = || Request::read_classes(Classes::CLASS_0);
    // A size prefix says where the next header is; the interval of opendnp3's class 0 has a start and a stop.
    check(
        read(),
        "> C0 01 3C0106
         < C0 81 0000 C801 5B 01 0200 AABB 3204 00 00 00 0102030405060708090A0B 0101 00 00 00 01
         ! online
         ! binary 0 = true
         ! end
         ! task 7 done",
    );
    // Objects of unknown size hide what follows them, and nothing before.
    check(
        read(),
        "> C0 01 3C0106
         < C0 81 0000 0101 00 00 00 01 01C8 00 00 00 AA 0101 00 01 01 01
         ! online
         ! binary 0 = true
         ! end
         ! task 7 done",
    );
}

#[test]
fn a_restart_tells_how_long_it_takes_and_is_sent_once() {
    check(
        Request::restart(Restart::Cold),
        "> C0 0D
         < C0 81 0000 3401 07 01 0500
         ! online
         ! answer 7 delay 5000
         ! task 7 done",
    );
    check(
        Request::restart(Restart::Warm),
        "> C0 0E
         wait 5000
         ! task 7 timeout
         ! offline timeout
         status?",
    );
}

#[test]
fn the_clock_is_set_on_demand() {
    check(
        Request::sync_time(TimeSync::Lan),
        "> C0 18
         < C0 81 0000
         ! online
         > C1 02 3203 07 01 000001000000
         < C1 81 0000
         ! task 7 done",
    );
    check(
        Request::sync_time(TimeSync::DelayMeasure),
        "> C0 17
         wait 100
         < C0 81 0000 3402 07 01 1400
         ! online
         > C1 02 3201 07 01 8C0001000000
         < C1 81 0004
         ! iin 0400
         ! task 7 parameter_error",
    );
    check(
        Request::sync_time(TimeSync::Write),
        "> C0 02 3201 07 01 000001000000
         < C0 81 0000
         ! online
         ! task 7 done",
    );
    check(
        Request::sync_time(TimeSync::Lan),
        "> C0 18
         < C0 81 0001
         ! online
         ! iin 0100
         ! task 7 function_not_supported",
    );
}

#[test]
fn the_delay_is_measured() {
    check(
        Request::measure_delay(),
        "> C0 17
         wait 100
         < C0 81 0000 3402 07 01 1400
         ! online
         ! answer 7 round trip 100 inside 20
         ! task 7 done",
    );
}

const LATCH: &str = "0C01 17 01 03 03 01 64000000 00000000";

fn several(procedure: ControlProcedure) -> Request {
    let analog = |value| Control::Analog(AnalogCommand::Int16(value));
    let controls =
        [(3, latch_on()), (4, latch_on()), (5, analog(-2)), (6, Control::Analog(AnalogCommand::Float32(f32::NAN)))];
    Request::control(procedure, &controls, None).unwrap()
}

/// The controls of [`several`] with these statuses.
fn objects(statuses: [&str; 4]) -> String {
    let [a, b, c, d] = statuses;
    alloc::format!(
        "0C01 17 02 03 03 01 64000000 00000000 {a} 04 03 01 64000000 00000000 {b} 2902 17 01 05 FEFF {c} 2903 17 01 06 0000C07F {d}"
    )
}

#[test]
fn several_controls_go_in_one_request() {
    let (all, third) = (objects(["00"; 4]), objects(["00", "00", "07", "00"]));
    check(
        several(ControlProcedure::SelectBeforeOperate),
        &alloc::format!(
            "> C0 03 {all}
             < C0 81 0000 {all}
             ! online
             > C1 04 {all}
             < C1 81 0000 {third}
             ! answer 7 success success local success
             ! task 7 local"
        ),
    );
    // One that is not selected keeps all from operating.
    check(
        several(ControlProcedure::SelectBeforeOperate),
        &alloc::format!(
            "> C0 03 {all}
             < C0 81 0000 {third}
             ! online
             ! answer 7 success success local success
             ! task 7 local"
        ),
    );
}

#[test]
fn an_echo_that_leaves_out_or_adds_a_control_is_none() {
    let all = objects(["00"; 4]);
    let (short, long) = (all.replace(" 2903 17 01 06 0000C07F 00", ""), alloc::format!("{all} {LATCH} 00"));
    let other = all.replace("FEFF", "FEFE");
    for echo in [short, long, other] {
        check(
            several(ControlProcedure::SelectBeforeOperate),
            &alloc::format!("> C0 03 {all}\n< C0 81 0000 {echo}\n! online\n! task 7 bad_echo"),
        );
    }
}

#[test]
fn steps_of_a_control_can_be_sent_alone() {
    let one = |procedure| Request::control(procedure, &[(3, latch_on())], None).unwrap();
    check(
        one(ControlProcedure::Select),
        &alloc::format!("> C0 03 {LATCH} 00\n< C0 81 0000 {LATCH} 00\n! online\n! task 7 done"),
    );
    check(
        one(ControlProcedure::Operate),
        &alloc::format!("> C0 04 {LATCH} 00\n< C0 81 0000 {LATCH} 02\n! online\n! task 7 no_select"),
    );
    check(
        one(ControlProcedure::Operate),
        &alloc::format!("> C0 04 {LATCH} 00\nwait 5000\n! task 7 timeout, maybe operated\n! offline timeout\nstatus?"),
    );
    let wide = Request::control(ControlProcedure::Direct, &[(3, latch_on())], Some(Qualifier(0x27))).unwrap();
    check(
        wide,
        &alloc::format!(
            "> C0 05 0C01 27 01 0300 03 01 64000000 00000000 00\n< C0 81 0000 {LATCH} 00\n! online\n! task 7 done"
        ),
    );
    assert!(Request::control(ControlProcedure::Direct, &[(3, latch_on())], Some(Qualifier::SPAN_8)).is_err());
}

#[test]
fn what_gets_no_answer_ends_when_it_is_sent() {
    let control = Request::control(ControlProcedure::DirectNoResponse, &[(3, latch_on())], None).unwrap();
    check(
        control,
        &alloc::format!(
            "> C0 06 {LATCH} 00
             wait 0
             ! task 7 sent
             < C0 81 0000
             silent
             poll 8
             > C1 01 3C0106"
        ),
    );
    check(Request::freeze(Freeze::Clear, false, &counters()), "> C0 0A 1400 06\nwait 0\n! task 7 sent");
    let all = Addressee::All(Broadcast::ConfirmNever);
    check(Request::freeze(Freeze::Immediate, true, &counters()).to(all), "> C0 07 1400 06\nwait 0\n! task 7 sent");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut play = Play::new(quiet());
    assert_eq!(play.submit(Request::measure_delay(), 1), Err(SubmitError::NotConnected));
    play.run("connect\n! ready");
    let all = Addressee::All(Broadcast::ConfirmAlways);
    for request in [
        Request::measure_delay(),
        Request::read_classes(Classes::ALL),
        Request::sync_time(TimeSync::Lan),
        several(ControlProcedure::Select),
    ] {
        assert_eq!(play.submit(request.to(all), 1), Err(SubmitError::Unanswerable));
    }
    assert_eq!(play.submit(Request::sync_time(TimeSync::Write).to(all), 1), Ok(()));
    let long = [(0, [0_u8; 250].as_slice())];
    assert_eq!(play.submit(Request::write_strings(&long).unwrap(), 1), Err(SubmitError::TooLong));
}

#[test]
fn the_owner_of_a_raw_request_gets_every_fragment() {
    check(
        Request::raw(25, &[70, 3, 0x5B, 1, 1, 0, 7]),
        "> C0 19 4603 5B 01 0100 07
         < A0 81 0000 4604 5B 01 0100 08
         ! online
         ! answer 7 objects 46045B01010008
         > C0 00
         < 41 81 0000
         ! task 7 done",
    );
}

#[test]
fn one_who_answers_to_fffc_tells_its_address() {
    let mut master = Master::new(MasterConfig { outstation: 5, ..quiet() });
    let now = Now { mono: Instant(1_000_000_000), ..Now::default() };
    let mut wire = alloc::vec::Vec::new();
    master.handle_connected(now);
    master.submit(now, Request::measure_delay().to(Addressee::Own), 7).unwrap();
    assert_eq!(master.poll_event(), Some(MasterEvent::Ready));
    assert!(master.poll_transmit(now, &mut wire));
    assert_eq!(wire.get(4..8), Some([0xFC, 0xFF, 1, 0].as_slice()));
    let mut peer = crate::endpoint::Endpoint::new(crate::endpoint::EndpointConfig::new(
        crate::endpoint::Role::Outstation,
        crate::link::LinkAddress::new(300),
    ));
    let mut answer = alloc::vec::Vec::new();
    let bytes = super::script::bytes("C0 81 0000 3402 07 01 0000");
    peer.write_fragment(crate::link::LinkAddress::new(1), &bytes, &mut answer);
    assert_eq!(master.handle_input(now, &answer), answer.len());
    assert_eq!(master.poll_event(), Some(MasterEvent::Online));
    assert_eq!(master.poll_event(), Some(MasterEvent::Answer { token: 7, answer: Answer::Address(300) }));
}

#[test]
fn a_task_that_waits_for_too_long_is_not_sent() {
    let mut play = Play::new(quiet());
    play.run("connect\n! ready\npoll 1\n> C0 01 3C0106");
    let until = super::script::START.mono + core::time::Duration::from_secs(2);
    play.submit(Request::restart(Restart::Cold).until(until), 7).unwrap();
    play.run("wait 2000\n! task 7 timeout\n< C0 81 0000\n! online\n! end\n! task 1 done");
    play.end("");
}

#[test]
fn the_restart_bit_may_stay() {
    check_with(
        MasterConfig { clear_restart: false, ..quiet() },
        Request::measure_delay(),
        "> C0 17
         < C0 81 8000 3402 07 01 0000
         ! online
         ! restarted
         ! iin 0080
         ! answer 7 round trip 0 inside 0
         ! task 7 done",
    );
}
