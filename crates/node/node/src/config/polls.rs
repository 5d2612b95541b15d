//! `[device.NAME.poll]` of the protocols whose points are polled, each as often as it or its device says.

use super::collection::CollectionConfig;
use super::parse;
use super::points::PointConfig;
use super::reader::{Document, Section};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Different intervals of one device.
const RATES_MAX: usize = 16;

/// Reads `[device.NAME.poll]`: the interval of points that have none of their own, first, then those that points have.
pub fn read_point_polls(
    doc: &mut Document<'_>,
    mut s: Section<'_>,
    points: &[PointConfig],
) -> (Vec<Duration>, CollectionConfig) {
    let every = s.or(doc, "every", 10 * SECOND, parse::duration(SECOND / 10..=7 * DAY));
    let mut polls = vec![every];
    for point in points {
        polls.extend(point.every.filter(|every| !polls.contains(every)));
    }
    if polls.len() > RATES_MAX {
        let found = format!("{} different intervals with those of the points", polls.len());
        doc.report(s.value_at("every"), &s.key("every"), found, format!("at most {RATES_MAX}"));
        polls.truncate(RATES_MAX);
    }
    let collection = CollectionConfig::read(doc, &mut s);
    s.finish(doc);
    (polls, collection)
}
