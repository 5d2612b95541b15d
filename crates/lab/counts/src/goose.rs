//! A GOOSE message with 16 values, from a publisher to a subscription.

use crate::meter::Operation;
use std::fmt::Display;
use std::time::Duration;
use tieline_core::{Instant, Now};
use tieline_goose::{
    Curve, Data, FrameHead, MacAddress, Message, Path, Publisher, PublisherConfig, Received, Simulation, Subscriber,
    SubscriberConfig, TimeQuality, Value,
};

/// Values of the data set: half of them true or false, half of them numbers.
const VALUES: u16 = 16;
const CONTROL_BLOCK: &str = "IED1LD0/LLN0$GO$gcb1";

/// Counts from the frame of a change to its values.
pub fn read() -> Result<Operation, String> {
    let values = (0..VALUES).map(|place| value(place, 0)).collect();
    let (mut publisher, mut turn) = (Publisher::new(config()?, values).map_err(words)?, 0);
    let mut subscriber = Subscriber::new(SubscriberConfig {
        gocb_ref: CONTROL_BLOCK.into(),
        app_id: Some(0x1000),
        dat_set: None,
        go_id: None,
        conf_rev: Some(1),
        simulation: Simulation::Ignore,
    });
    publisher.start(Now::default());
    let mut frame = Vec::new();
    Ok(Box::new(move |meter| {
        turn += 1;
        let now = Now { mono: Instant::ZERO + Duration::from_millis(turn), ..Now::default() };
        let changes = (0..VALUES).map(|place| Some((Path::new(&[place + 1])?, value(place, turn))));
        publisher.set(now, &changes.collect::<Option<Vec<_>>>().unwrap_or_default()).map_err(words)?;
        // The last frame is that of the change.
        loop {
            let mut next = Vec::new();
            if !publisher.poll_transmit(now, &mut next) {
                break;
            }
            frame = next;
        }
        let right = meter.count(|| {
            let message = Message::parse(&frame).ok()?;
            let received = subscriber.receive(now.mono, &message);
            let is_new = matches!(received, Received::First | Received::Changed { .. });
            let right = message.pdu.all_data.filter(|data| is_of(data, turn)).count();
            is_new.then_some(right)
        });
        if right == Some(usize::from(VALUES)) {
            Ok(())
        } else {
            Err(format!("{right:?} values of {VALUES} were right"))
        }
    }))
}

fn config() -> Result<PublisherConfig, String> {
    let frame = FrameHead {
        destination: address("01:0c:cd:01:00:05")?,
        source: address("02:00:00:00:00:01")?,
        tag: None,
        app_id: 0x1000,
        reserved1: 0,
        reserved2: 0,
        is_simulated: false,
    };
    Ok(PublisherConfig {
        frame,
        gocb_ref: CONTROL_BLOCK.into(),
        dat_set: "IED1LD0/LLN0$trips".into(),
        go_id: Some("trips".into()),
        conf_rev: 1,
        needs_commissioning: false,
        time_quality: TimeQuality::SYNCHRONIZED,
        curve: Curve { min: Duration::from_secs(1), max: Duration::from_secs(10) },
    })
}

fn address(text: &str) -> Result<MacAddress, String> {
    text.parse().map_err(|()| format!("{text} is no MAC address"))
}

fn value(place: u16, turn: u64) -> Value {
    match place % 2 {
        0 => Value::Boolean(turn % 2 == 1),
        _ => Value::Integer(turn.cast_signed()),
    }
}

fn is_of(data: &Data<'_>, turn: u64) -> bool {
    match data {
        Data::Boolean(state) => *state == (turn % 2 == 1),
        Data::Integer(number) => *number == turn.cast_signed(),
        _ => false,
    }
}

fn words(error: impl Display) -> String {
    error.to_string()
}
