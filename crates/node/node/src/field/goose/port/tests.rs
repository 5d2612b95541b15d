use super::*;
use crate::config::from_text;
use tieline_core::{CommandMode, PointId, Quality, Validity, Value};
use tieline_goose::{PduHead, TimeQuality, Value as Data};

const LIST: &str = "name,type,index,quality,time\ntrip,boolean,1.1,1.2,1.3\nlevel,float32,2,,\n";
const DEVICE: DeviceId = DeviceId(7);

fn at_ms(ms: u64) -> Now {
    let utc = "2026-11-20T09:30:00Z".parse().unwrap();
    Now { mono: Instant(1_000_000_000), utc }.later(Duration::from_millis(ms))
}

fn config(keys: &str, list: &str) -> DeviceConfig {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.csv"), list).unwrap();
    let place = "interface='eth1', control_block='LD/LLN0$GO$g', destination='01:0c:cd:01:00:07'";
    let text = format!("[device.d]\nprotocol='goose'\npoints='p.csv'\ngoose={{{place}{keys}}}\n");
    from_text("n.toml", &text, folder.path()).unwrap().devices.remove(0)
}

fn member(config: &DeviceConfig) -> Member {
    let card = MacAddress([2, 0, 0, 0, 0, 9]);
    Member::new(at_ms(0), config, config.protocol.goose().unwrap(), card).unwrap()
}

fn port(keys: &str) -> Port {
    let mut port = Port::default();
    port.add(at_ms(0), DEVICE, member(&config(keys, LIST)), None);
    port
}

/// A message with these numbers: trip, its quality, level.
fn message(st_num: u32, sq_num: u32, trip: bool, quality: u64, level: f32) -> Vec<u8> {
    let time = |ms| UtcTime::new(at_ms(ms).utc, TimeQuality::SYNCHRONIZED);
    let head = PduHead {
        gocb_ref: "LD/LLN0$GO$g",
        time_allowed_ms: 100,
        dat_set: "LD/LLN0$ds",
        go_id: None,
        time: time(u64::from(st_num) * 10),
        st_num,
        sq_num,
        is_simulated: false,
        conf_rev: 1,
        needs_commissioning: false,
    };
    let quality = Data::Bits { count: 13, bits: quality };
    let values = [Data::Structure(vec![Data::Boolean(trip), quality, Data::UtcTime(time(5))]), Data::Float32(level)];
    let frame = FrameHead {
        destination: MacAddress([1, 12, 205, 1, 0, 7]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tag: None,
        app_id: 1,
        reserved1: 0,
        reserved2: 0,
        is_simulated: false,
    };
    let (mut apdu, mut bytes) = (Vec::new(), Vec::new());
    head.emit(&values, &mut apdu);
    assert!(frame.emit(&apdu, &mut bytes));
    bytes
}

fn events(port: &mut Port) -> Vec<PortEvent> {
    std::iter::from_fn(|| port.poll_event(at_ms(0))).map(|(_, event)| event).collect()
}

/// Point, value, validity, time after the start, event.
type Shown = (u32, Value, Validity, i64, bool);

fn shown(event: &PortEvent) -> Vec<Shown> {
    let PortEvent::Readings(readings) = event else { panic!("{event:?}") };
    let start = at_ms(0).utc.millis();
    let shown = readings.iter().map(|reading| {
        let ms = reading.time.map_or(-1, |time| time.millis() - start);
        (reading.point.0, reading.value.clone(), reading.quality.validity(), ms, reading.event)
    });
    shown.collect()
}

#[test]
fn changes_are_told_of_the_points_that_changed() {
    let mut port = port("");
    port.handle_datagram(at_ms(1), (), &message(1, 0, false, 0, 1.5));
    let told = events(&mut port);
    assert_eq!(told[0], PortEvent::Online);
    let good = Validity::Good;
    let all: Vec<Shown> = vec![(0, Value::Bool(false), good, 5, false), (1, Value::Float(1.5), good, 10, false)];
    assert_eq!((told.len(), shown(&told[1])), (2, all));
    port.handle_datagram(at_ms(2), (), &message(1, 1, false, 0, 1.5));
    assert_eq!(events(&mut port), [PortEvent::Alive]);
    port.handle_datagram(at_ms(3), (), &message(2, 0, true, 0, 1.5));
    assert_eq!(shown(&events(&mut port)[0]), [(0, Value::Bool(true), good, 5, true)]);
    // A quality that changes is a change.
    port.handle_datagram(at_ms(4), (), &message(3, 0, true, 0b0_1000_0000_0000, 2.0));
    let changed = [(0, Value::Bool(true), Validity::Bad, 5, true), (1, Value::Float(2.0), good, 30, true)];
    assert_eq!(shown(&events(&mut port)[0]), changed);
}

#[test]
fn a_device_is_away_when_its_messages_end_or_never_come() {
    let mut port = port(", first_message='2s'");
    assert_eq!(port.timeout(), Some(at_ms(2000).mono));
    port.handle_timeout(at_ms(2000));
    let never = PortEvent::Away("no message has come within 2s".to_owned());
    assert_eq!((events(&mut port), port.timeout()), (vec![never], None));
    port.handle_datagram(at_ms(3000), (), &message(1, 0, false, 0, 1.5));
    assert_eq!((events(&mut port).len(), port.timeout()), (2, Some(at_ms(3100).mono)));
    port.handle_timeout(at_ms(3100));
    let ended = PortEvent::Away("no message came within the time allowed to live of the last one".to_owned());
    assert_eq!((events(&mut port), port.timeout()), (vec![ended], None));
    // All points, though nothing has changed.
    port.handle_datagram(at_ms(3200), (), &message(1, 3, false, 0, 1.5));
    let told = events(&mut port);
    assert_eq!((&told[0], shown(&told[1]).len()), (&PortEvent::Online, 2));
}

#[test]
fn a_restart_is_told_with_all_points() {
    let mut port = port("");
    port.handle_datagram(at_ms(1), (), &message(5, 3, false, 0, 1.5));
    events(&mut port);
    let mut restarted = message(5, 0, false, 0, 1.5);
    // A later second of the time of the message.
    let at = restarted.windows(2).position(|two| two == [0x84, 8]).unwrap() + 5;
    restarted[at] += 1;
    port.handle_datagram(at_ms(2), (), &restarted);
    let told = events(&mut port);
    assert_eq!((&told[0], shown(&told[1]).len()), (&PortEvent::Restarted, 2));
}

#[test]
fn what_is_not_expected_is_said_once() {
    let mut port = port(", conf_rev=2");
    for sq_num in 0..3 {
        port.handle_datagram(at_ms(sq_num.into()), (), &message(1, sq_num, false, 0, 1.5));
    }
    let why = "the messages are not those that are expected: confRev 1, expected 2";
    assert_eq!(events(&mut port), [PortEvent::Away(why.to_owned())]);
}

#[test]
fn frames_of_others_are_counted() {
    let mut port = port("");
    port.handle_datagram(at_ms(0), (), &message(1, 0, false, 0, 1.5)[..40]);
    let mut other = message(1, 0, false, 0, 1.5);
    let at = other.windows(2).position(|two| two == b"LD").unwrap();
    other[at] = b'X';
    port.handle_datagram(at_ms(0), (), &other);
    assert_eq!((port.counters.unknown, port.counters.malformed, events(&mut port)), (1, 1, vec![]));
}

#[test]
fn values_of_other_types_are_counted_and_leave_the_others() {
    let mut port = Port::default();
    let list = "name,type,index\ntrip,float32,1.1\nnone,boolean,9\nlevel,float32,2\n";
    port.add(at_ms(0), DEVICE, member(&config("", list)), None);
    port.handle_datagram(at_ms(1), (), &message(1, 0, false, 0, 1.5));
    let told = events(&mut port);
    assert_eq!(shown(&told[1]), [(2, Value::Float(1.5), Validity::Good, 10, false)]);
    let Some(Member::Read(subscription)) = port.members().next() else { panic!("a subscription") };
    assert_eq!(subscription.index.misfits(), 2);
}

#[test]
fn simulated_values_are_marked() {
    let mut port = port(", simulation='accept'");
    let mut frame = message(1, 0, false, 0, 1.5);
    frame[18] |= 0x80;
    port.handle_datagram(at_ms(1), (), &frame);
    let told = events(&mut port);
    let PortEvent::Readings(readings) = &told[1] else { panic!("{told:?}") };
    assert!(readings.iter().all(|reading| reading.quality.contains(Quality::REMOTE_FORCED)));
    assert!(readings.iter().all(|reading| reading.quality.validity() == Validity::Uncertain));
}

#[test]
fn a_command_is_published_and_told() {
    let mut port = port(", publish=true, data_set='LD/LLN0$ds'");
    let told = events(&mut port);
    assert_eq!((&told[0], shown(&told[1]).len()), (&PortEvent::Online, 2));
    let mut out = Vec::new();
    assert!(port.poll_transmit(at_ms(0), &mut out).is_some());
    let mode = CommandMode::DirectOperate;
    let command = |point, value| Command { point: PointId(point), value, mode };
    port.command(at_ms(7), DEVICE, 99, &command(0, Value::Bool(true))).unwrap();
    out.clear();
    assert!(port.poll_transmit(at_ms(7), &mut out).is_some());
    let sent = Message::parse(&out).unwrap();
    assert_eq!((sent.pdu.head.st_num, sent.pdu.head.sq_num), (2, 0));
    assert_eq!(sent.frame.source, MacAddress([2, 0, 0, 0, 0, 9]));
    let shown_values = tieline_goose::shown_data(sent.pdu.all_data);
    let time = "2026-11-20T09:30:00.007Z (clock not synchronized)";
    assert_eq!(shown_values, format!("{{true, '0000000000000', {time}}}, 0.0"));
    let told = events(&mut port);
    assert_eq!(shown(&told[0]), [(0, Value::Bool(true), Validity::Good, 7, true)]);
    assert_eq!(told[1], PortEvent::Done(99));
    // The first repetition.
    assert_eq!(port.timeout(), Some(at_ms(11).mono));
    let refused = port.command(at_ms(8), DEVICE, 100, &command(1, Value::Null)).unwrap_err();
    assert_eq!(refused.reason, "out_of_range");
    let refused = port_of_reader().command(at_ms(8), DEVICE, 100, &command(0, Value::Bool(true))).unwrap_err();
    assert_eq!(refused.reason, "not_writable");
}

fn port_of_reader() -> Port {
    port("")
}

#[test]
fn a_device_that_leaves_takes_all_with_it() {
    let mut port = port("");
    port.add(at_ms(0), DeviceId(8), member(&config("", LIST)), None);
    port.handle_datagram(at_ms(1), (), &message(1, 0, false, 0, 1.5));
    assert!(port.remove(DEVICE).is_some() && port.remove(DEVICE).is_none());
    assert_eq!(events(&mut port).len(), 2);
    assert!(port.remove(DeviceId(8)).is_some());
    assert_eq!(port.timeout(), None);
    port.handle_datagram(at_ms(2), (), &message(1, 1, false, 0, 1.5));
    assert_eq!(port.counters.unknown, 1);
}

#[test]
fn values_are_told_again_before_they_are_stale() {
    let mut device = config("", LIST);
    device.stale_after = Some(Duration::from_secs(2));
    let mut port = Port::default();
    port.add(at_ms(0), DEVICE, member(&device), None);
    port.handle_datagram(at_ms(0), (), &message(1, 0, false, 0, 1.5));
    events(&mut port);
    let mut told = Vec::new();
    for sq_num in 1..=22 {
        port.handle_datagram(at_ms(u64::from(sq_num) * 50), (), &message(1, sq_num, false, 0, 1.5));
        told.extend(events(&mut port).into_iter().filter(|event| *event != PortEvent::Alive));
    }
    assert_eq!(told.iter().map(|event| shown(event).len()).collect::<Vec<_>>(), [2]);
}

#[test]
fn other_points_are_read_with_the_next_message() {
    let mut port = port("");
    port.handle_datagram(at_ms(0), (), &message(1, 0, false, 0, 1.5));
    events(&mut port);
    let other = config("", "name,type,index\nlevel,float32,2\n");
    port.set_points(at_ms(1), DEVICE, &other.points, None);
    port.handle_datagram(at_ms(1), (), &message(1, 1, false, 0, 1.5));
    assert_eq!(shown(&events(&mut port)[0]), [(0, Value::Float(1.5), Validity::Good, 10, false)]);
}
