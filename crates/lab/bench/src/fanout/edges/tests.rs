//! Small runs of everything, in threads.

use super::super::tests::options as load;
use super::*;

fn options(experiment: Experiment) -> Options {
    let load = Load { subscribers: vec![4, 8], rounds: 1, ..load() };
    Options {
        experiments: vec![experiment],
        edges: vec![1, 2],
        load,
        window: Duration::ZERO,
        cut: Duration::from_millis(2100),
    }
}

fn rows(experiment: Experiment) -> Vec<Row> {
    let rows = run(&options(experiment), &Progress::new(false)).unwrap();
    assert!(rows.iter().all(|row| row.invalid.is_none()), "{rows:?}");
    rows
}

#[test]
fn every_subscriber_of_an_edge_gets_every_value_as_from_the_core() {
    let rows = rows(Experiment::Mirror);
    let shown: Vec<_> = rows.iter().map(|row| (row.subscribers, row.edges)).collect();
    assert_eq!(shown, [(4, 0), (4, 1), (4, 2), (8, 0), (8, 1), (8, 2)]);
    for row in rows {
        let Some(Figures::Mirror(figures)) = row.figures else { panic!("{row:?}") };
        // 80 updates in 200 ms, of 40 topics with 1 or 2 subscribers each.
        assert_eq!((figures.delivered, figures.lost), (row.subscribers as u64 * 20, 0), "{figures:?}");
        assert!(figures.bytes_per_event < 30.0, "deltas pass: {figures:?}");
        assert_eq!(figures.ratio_to_core.is_some(), row.edges > 0, "{figures:?}");
        assert_eq!(figures.core_ratio_to_fewest.is_some(), row.subscribers > 4, "{figures:?}");
        let further = figures.core_cpu_s_per_million_updates_each_further_edge;
        assert_eq!(further.is_some(), row.edges > 1, "{figures:?}");
    }
}

#[test]
fn an_edge_that_is_added_gets_all_topics() {
    let rows = rows(Experiment::Join);
    let Some(Figures::Join(figures)) = &rows[0].figures else { panic!("{rows:?}") };
    assert!(figures.all_s >= figures.all_s_from_listening && figures.latency_us_p99_meanwhile > 0, "{figures:?}");
}

#[test]
fn after_a_cut_the_newest_values_come() {
    let rows = rows(Experiment::Cut);
    let Some(Figures::Cut(figures)) = &rows[0].figures else { panic!("{rows:?}") };
    assert!(figures.newest_s >= figures.up_s, "{figures:?}");
    assert_eq!((figures.delivered, figures.lost), (160, 0), "{figures:?}");
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options: Options| run(&options, &Progress::new(false)).unwrap_err().to_string();
    assert!(refused(Options { edges: vec![0], ..options(Experiment::Join) }).contains("edges are 1 or more"));
    let load = Load { subscribers: Vec::new(), ..load() };
    assert!(refused(Options { load, ..options(Experiment::Cut) }).contains("subscribers"));
}
