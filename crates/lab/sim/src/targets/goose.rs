//! GOOSE: frames, and a subscription against any messages.

use crate::Choices;
use tieline_core::{Instant, Now, Timestamp};
use tieline_goose::{
    Frame, FrameHead, MacAddress, Message, PduHead, Received, Simulation, Subscriber, SubscriberConfig, TimeQuality,
    UtcTime, Value, shown_data, shown_head,
};

/// Messages of one run at most.
const MESSAGES_MAX: usize = 300;
const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };

/// A frame: what can be read is told in one line, and read again as it was written.
pub(super) fn frame(bytes: &[u8]) {
    let _ = Frame::parse(bytes);
    let Ok(message) = Message::parse(bytes) else { return };
    let (head, data) = (shown_head(&message), shown_data(message.pdu.all_data));
    assert!(!head.contains('\n') && !data.contains('\n') && head.len() + data.len() < 100_000);
    let values: Option<Vec<Value>> = message.pdu.all_data.map(Value::of).collect();
    let Some(values) = values else { return };
    let (mut apdu, mut again) = (Vec::new(), Vec::new());
    message.pdu.head.emit(&values, &mut apdu);
    if message.frame.emit(&apdu, &mut again) {
        let again = Message::parse(&again).expect("what was written");
        assert_eq!((again.frame, again.pdu.head), (message.frame, message.pdu.head));
        assert_eq!(shown_data(again.pdu.all_data), data);
    }
}

/// Messages of any numbers and times against a subscription: its time to live ends, and each message is counted once.
pub(super) fn subscriber(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let config = SubscriberConfig {
        gocb_ref: "a".into(),
        app_id: None,
        dat_set: None,
        go_id: None,
        conf_rev: choices.chance(30).then_some(1),
        simulation: choices.pick(&[Simulation::Ignore, Simulation::Accept]),
    };
    let (mut subscriber, mut now) = (Subscriber::new(config), START);
    for count in 1..=MESSAGES_MAX {
        now = now.later(choices.millis(0, 50));
        let frame = any_frame(&mut choices, now);
        let message = Message::parse(&frame).expect("what was written");
        let was_alive = subscriber.timeout().is_some_and(|deadline| deadline > now.mono);
        let received = subscriber.receive(now.mono, &message);
        assert!(was_alive || !matches!(received, Received::Changed { .. } | Received::Repeated | Received::Restarted));
        assert_eq!(subscriber.counters().messages, count as u64);
        if let Some(deadline) = subscriber.timeout().filter(|_| choices.chance(20)) {
            now = now.later(deadline.since(now.mono));
            assert!(subscriber.handle_timeout(now.mono) && !subscriber.is_alive());
        }
        if choices.is_spent() {
            break;
        }
    }
}

fn any_frame(choices: &mut Choices, now: Now) -> Vec<u8> {
    let number = |choices: &mut Choices| choices.pick(&[0, 1, 2, 3, u32::MAX - 1, u32::MAX]);
    let quality = choices.pick(&[TimeQuality::SYNCHRONIZED, TimeQuality::UNSYNCHRONIZED]);
    let time = choices.pick(&[now.utc, START.utc, Timestamp::from_millis(0)]);
    let head = PduHead {
        gocb_ref: "a",
        time_allowed_ms: choices.pick(&[0, 10, 100]),
        dat_set: "b",
        go_id: None,
        time: UtcTime::new(time, quality),
        st_num: number(choices),
        sq_num: number(choices),
        is_simulated: choices.chance(20),
        conf_rev: choices.pick(&[1, 1, 1, 2]),
        needs_commissioning: choices.chance(5),
    };
    let frame = FrameHead {
        destination: MacAddress::default(),
        source: MacAddress::default(),
        tag: None,
        app_id: 0,
        reserved1: 0,
        reserved2: 0,
        is_simulated: false,
    };
    let (mut apdu, mut out) = (Vec::new(), Vec::new());
    head.emit(&[Value::Boolean(choices.chance(50))], &mut apdu);
    assert!(frame.emit(&apdu, &mut out));
    out
}
