//! The poll of a device, from the moment when it is due to the updates that it brings.

use crate::meter::Operation;
use std::time::Duration;
use tieline_core::{DeviceId, Now, PointId, Quality, Reading, Topic, Value};
use tieline_poll::{
    Collection, DeviceSpec, Limits, LinkState, PointSpec, PointTable, PollClass, PollResult, PollSpec, Poller, Publish,
    Urgency,
};

const DEVICE: DeviceId = DeviceId(0);
const CLASS: PollClass = PollClass(0);
const POINTS: u32 = 18;
const EVERY: Duration = Duration::from_secs(1);

/// Counts one; each point and all points are published, and from time to time the statistics of the device.
pub fn round() -> Result<Operation, String> {
    let mut now = Now::default();
    let mut poller = online(now).map_err(|error| error.to_string())?;
    let mut turn = 0_i64;
    Ok(Box::new(move |meter| {
        turn += 1;
        now = now.later(EVERY);
        let updates = meter.count(|| {
            poller.handle_timeout(now);
            while let Some((device, class, part)) = poller.poll_request(now) {
                poller.handle_batch(now, device, (0..POINTS).map(|point| reading(point, turn)));
                poller.handle_poll_done(now, device, class, part, PollResult::Ok);
            }
            std::iter::from_fn(|| poller.poll_update()).count()
        });
        let expect = usize::try_from(POINTS).unwrap_or(usize::MAX) + 1;
        if (expect..=expect + 2).contains(&updates) { Ok(()) } else { Err(format!("{updates} updates")) }
    }))
}

fn online(now: Now) -> Result<Poller, Box<dyn std::error::Error>> {
    let point = |number| PointSpec { class: Some(CLASS), ..PointSpec::new(&format!("p{number:02}")) };
    let spec = DeviceSpec {
        topic: Topic::new("plant/1/meter/2")?,
        table: PointTable::new((0..POINTS).map(point).collect())?,
        polls: vec![PollSpec { class: CLASS, every: EVERY }],
        gap_min: Duration::ZERO,
        slow_after: None,
        stale_after: None,
        publish: Publish { all_every: EVERY / 2, ..Publish::default() },
        urgency: Urgency::Monitoring,
        collection: Collection::POLLED,
    };
    let mut poller = Poller::new(Limits::default());
    poller.add_device(now, DEVICE, spec)?;
    poller.handle_link(now, DEVICE, LinkState::Online);
    while poller.poll_update().is_some() {}
    Ok(poller)
}

fn reading(point: u32, turn: i64) -> Reading {
    let value = Value::Int(turn + i64::from(point));
    Reading { point: PointId(point), value, quality: Quality::GOOD, time: None, event: false }
}
