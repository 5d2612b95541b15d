//! What can be told without a core.

use super::clients::Sent;
use super::{Figures, Row, charts, median, wrong};
use std::time::{Duration, Instant};

#[test]
fn a_run_that_lost_something_has_no_figures() {
    assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[1.0]), median(&[])], [2.0, 1.0, 0.0]);
    let figures = |lost, missed, twice| Figures {
        term_s: vec![0.5],
        term_s_median: 0.5,
        term_s_max: 0.5,
        acknowledged_s: vec![0.7],
        acknowledged_s_median: 0.7,
        acknowledged_s_max: 0.7,
        acknowledged: 9,
        lost,
        missed,
        twice,
    };
    assert_eq!(wrong(&figures(0, 0, 0)), None);
    let row = |event, figures| Row { event, members: 3, times: 1, silence_s: 0.4, figures, invalid: None };
    let drawn = charts(&[row("kill", Some(figures(0, 0, 0))), row("freeze", None)]);
    let curves: Vec<_> = drawn.iter().flat_map(|(_, chart)| &chart.curves).map(|curve| curve.points.len()).collect();
    assert_eq!((drawn.len(), drawn[0].0.as_str(), curves), (1, "failover-3", vec![1, 1, 0, 0]));
    for (found, said) in [((1, 0, 0), "1 are lost"), ((0, 2, 0), "2 missed"), ((0, 0, 3), "3 twice")] {
        assert!(wrong(&figures(found.0, found.1, found.2)).is_some_and(|why| why.contains(said)));
    }
}

#[test]
fn a_number_may_be_there_twice_that_was_under_way_when_the_leader_was_lost() {
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let sent = |acknowledged: Option<u64>| Sent { number: 1, sent: at(100), acknowledged: acknowledged.map(at) };
    for (acknowledged, event, expect) in
        [(Some(150), 120, true), (Some(150), 99, false), (Some(150), 151, false), (None, 500, true)]
    {
        assert_eq!(sent(acknowledged).was_under_way(&[at(0), at(event)]), expect, "{acknowledged:?} {event}");
    }
}
