//! A small run of everything, in threads.

use super::*;

fn options() -> Options {
    Options {
        subscribers: vec![8],
        topics: 40,
        rate: 400,
        subscriptions_each: 10,
        delta: vec![false],
        windows_ms: vec![0],
        retain: true,
        stalled: 1,
        peers: false,
        span: Duration::from_millis(200),
        rounds: 2,
        program: None,
    }
}

#[test]
fn every_subscriber_gets_every_value() {
    let rows = run(&options(), &Progress::new(false)).unwrap();
    assert_eq!(rows.iter().map(|row| row.server).collect::<Vec<_>>(), ["tieline", "floor"]);
    for row in &rows {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        // 80 updates in 200 ms, of 40 topics with 2 subscribers each, twice.
        assert_eq!((figures.delivered, figures.lost), (320, 0), "{figures:?}");
        assert!((figures.bytes_per_event - 968.0).abs() < 2.0, "{figures:?}");
        assert!(figures.latency_us_p99 > 0);
    }
    assert!(charts(&rows).iter().all(|(_, chart)| chart.to_svg().contains("tieline")));
}

#[test]
fn values_in_windows_and_as_deltas_are_the_same_values() {
    let options = Options { delta: vec![true], windows_ms: vec![0, 20], rounds: 1, ..options() };
    for row in run(&options, &Progress::new(false)).unwrap().iter().filter(|row| row.server == "tieline") {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        assert!(figures.delivered == 160 && figures.bytes_per_event < 26.0, "{figures:?}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options: Options| run(&options, &Progress::new(false)).unwrap_err().to_string();
    let why = refused(Options { topics: 41, ..options() });
    assert!(why.contains("multiple of the subscriptions"), "{why}");
    assert!(refused(Options { rounds: 0, ..options() }).contains("rounds"));
    assert!(refused(Options { subscribers: vec![0], ..options() }).contains("subscribers"));
}
