//! A small run of everything, in threads.

use super::*;

pub fn options() -> Options {
    Options {
        subscribers: vec![8],
        topics: 40,
        rates: vec![400],
        subscriptions_each: 10,
        form: Form::Json,
        delta: vec![false],
        windows_ms: vec![0],
        retain: true,
        durabilities: vec![Durability::Memory],
        shards: vec![1],
        quota: None,
        transports: vec![Transport::Tcp],
        stalled: 0,
        peers: false,
        span: Duration::from_millis(200),
        rounds: 2,
        program: None,
    }
}

#[test]
fn every_subscriber_gets_every_value() {
    let rows = run(&options(), &Progress::new(false)).unwrap();
    assert_eq!(rows.iter().map(|row| row.server).collect::<Vec<_>>(), [Kind::Tieline, Kind::Floor]);
    for row in &rows {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        // 80 updates in 200 ms, of 40 topics with 2 subscribers each, twice.
        assert_eq!((figures.delivered, figures.lost), (320, 0), "{figures:?}");
        assert!((figures.bytes_per_event - 968.0).abs() < 2.0, "{figures:?}");
        assert!(figures.latency.p99 > 0);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    std::fs::write(&file, serde_json::to_string(&rows).unwrap()).unwrap();
    let again = read_rows(&[file.clone(), file]).unwrap();
    assert_eq!(serde_json::to_string(&again[..2]).unwrap(), serde_json::to_string(&rows).unwrap());
    assert!(charts(&rows).iter().all(|(_, chart)| chart.to_svg().contains("tieline")));
}

/// What an edge node subscribes to takes several packets.
#[test]
fn a_subscriber_of_very_many_topics_gets_every_value() {
    let options = Options { subscribers: vec![2], topics: 5000, subscriptions_each: 5000, rounds: 1, ..options() };
    let rows = run(&options, &Progress::new(false)).unwrap();
    for row in &rows {
        assert_eq!(row.invalid, None);
        assert_eq!(row.figures.as_ref().unwrap().delivered, 160, "{row:?}");
    }
}

#[test]
fn shards_are_beside_one() {
    let rows = run(&Options { shards: vec![1, 2, 3], rounds: 1, ..options() }, &Progress::new(false)).unwrap();
    let of = |shards: usize| rows.iter().find(|row| row.server == Kind::Tieline && row.shards == shards).unwrap();
    for shards in [1, 2, 3] {
        let row = of(shards);
        assert_eq!(row.invalid, None);
        assert_eq!(row.figures.as_ref().unwrap().ratio_to_one_shard.is_some(), shards > 1, "{row:?}");
    }
    for (name, chart) in charts(&rows) {
        let over: Vec<Vec<f64>> =
            chart.curves.iter().map(|curve| curve.points.iter().map(|point| point.0).collect()).collect();
        assert!(
            name.starts_with("fanout-shards-") && over.iter().all(|shards| shards == &[1.0, 2.0, 3.0]),
            "{name} {over:?}"
        );
    }
}

#[test]
fn what_durability_costs_is_beside_what_memory_does() {
    let durabilities = vec![Durability::Memory, Durability::Synced];
    let rows = run(&Options { durabilities, rounds: 1, ..options() }, &Progress::new(false)).unwrap();
    let [memory, synced, floor] = &rows[..] else { panic!("{rows:?}") };
    let beside = |row: &Row| row.figures.as_ref().unwrap().ratio_to_memory.is_some();
    assert_eq!(rows.iter().map(|row| row.invalid.as_deref()).collect::<Vec<_>>(), [None; 3]);
    assert_eq!((synced.durability, beside(memory), beside(synced)), (Durability::Synced, false, true));
    assert_eq!((floor.server, beside(floor)), (Kind::Floor, false));
}

#[test]
fn values_in_windows_and_as_deltas_are_the_same_values() {
    let options = Options { delta: vec![false, true], windows_ms: vec![0, 20], rounds: 1, ..options() };
    let rows = run(&options, &Progress::new(false)).unwrap();
    let ours: Vec<_> = rows.iter().filter(|row| row.server == Kind::Tieline).collect();
    assert_eq!(
        ours.iter().map(|row| (row.delta, row.window_ms)).collect::<Vec<_>>(),
        [(false, 0), (false, 20), (true, 0), (true, 20)]
    );
    for row in ours {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        assert_eq!(figures.delivered, 160, "{figures:?}");
        assert_eq!(figures.bytes_per_event < 26.0, row.delta, "{figures:?}");
        assert_eq!(figures.ratio_to_whole.is_some(), row.delta);
        assert_eq!(figures.spared_percent.is_some_and(|spared| spared > 95.0), row.delta, "{figures:?}");
    }
}

#[test]
fn points_come_by_field_and_whole() {
    let options =
        Options { form: Form::Point, delta: vec![false, true], windows_ms: vec![0, 20], rounds: 1, ..options() };
    let rows = run(&options, &Progress::new(false)).unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        assert_eq!((row.value, figures.delivered), (Form::Point, 160), "{figures:?}");
        assert_eq!(figures.bytes_per_event <= 12.0, row.delta, "{figures:?}");
    }
}

#[test]
fn curves_go_from_few_subscribers_to_many() {
    let line = |subscribers| {
        let figures = "\"events_per_s\":1,\"delivered\":1,\"lost\":0,\"cores\":1,\"cpu_s_per_million\":1,\
            \"bytes_per_event\":9,\"latency_us_p50\":1,\"latency_us_p90\":1,\"latency_us_p99\":1";
        format!(
            "{{\"server\":\"tieline\",\"subscribers\":{subscribers},\"topics\":1,\"rate_per_s\":1,\
             \"subscriptions_each\":1,\"delta\":true,\"window_ms\":0,\"transport\":\"tcp\",\"retain\":true,\
             \"stalled\":0,\"due_per_s\":1,\"rounds\":1,{figures}}}"
        )
    };
    let text = format!("[{},{},{}]", line(5000), line(200), line(1000));
    let rows: Vec<Row> = serde_json::from_str(&text).unwrap();
    assert!(rows.iter().all(|row| row.value == Form::Json), "rows from before there were points");
    for (name, chart) in charts(&rows) {
        let curve = chart.curves.iter().find(|curve| curve.name == "tieline, deltas").unwrap();
        let subscribers: Vec<f64> = curve.points.iter().map(|point| point.0).collect();
        assert_eq!(subscribers, [200.0, 1000.0, 5000.0], "{name}");
    }
}

#[test]
fn values_are_the_same_over_tls_and_web_sockets_and_beside_the_stalled() {
    let transports = vec![Transport::Tcp, Transport::Tls, Transport::Ws];
    let options = Options { transports, stalled: 1, rounds: 1, ..options() };
    let rows = run(&options, &Progress::new(false)).unwrap();
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        assert_eq!(figures.delivered, 160, "{row:?}");
        let (plain, calm) = (row.transport == Transport::Tcp, row.stalled == 0);
        assert_eq!((figures.ratio_to_tcp.is_none(), figures.p99_ratio_to_none_stalled.is_none()), (plain, calm));
    }
}

#[test]
fn all_come_back() {
    let transports = vec![Transport::Tcp, Transport::Tls];
    let options = Options { transports, rounds: 1, ..options() };
    let rows = reconnect::run(&options, 20, &Progress::new(false)).unwrap();
    for row in &rows {
        assert_eq!(row.invalid, None);
        let figures = row.figures.as_ref().unwrap();
        assert!(figures.back_s > 0.0 && figures.back_s_p50 <= figures.back_s, "{figures:?}");
        assert!(figures.latency_us_p99_before > 0 && figures.latency_us_p99_meanwhile > 0, "{figures:?}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options: Options| run(&options, &Progress::new(false)).unwrap_err().to_string();
    let why = refused(Options { topics: 41, ..options() });
    assert!(why.contains("multiple of the subscriptions"), "{why}");
    assert!(refused(Options { rounds: 0, ..options() }).contains("rounds"));
    assert!(refused(Options { form: Form::Point, rates: vec![4000], ..options() }).contains("20ms"));
    assert!(refused(Options { subscribers: vec![0], ..options() }).contains("subscribers"));
}
