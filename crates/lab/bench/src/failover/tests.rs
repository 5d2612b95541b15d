//! What can be told without a core.

use super::{Figures, Row, charts, median, wrong};

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
