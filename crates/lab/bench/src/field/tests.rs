use super::*;

fn tiny(experiment: Experiment) -> Options {
    Options {
        experiments: vec![experiment],
        connections: vec![3],
        registers: vec![18],
        devices: vec![3],
        protocols: Protocol::ALL.to_vec(),
        every: Duration::from_millis(200),
        node_span: Duration::from_secs(1),
        program: None,
        node: None,
        span: Duration::from_millis(100),
        rounds: 2,
    }
}

fn run_tiny(experiment: Experiment) -> Vec<Row> {
    run_all(&tiny(experiment))
}

fn run_all(options: &Options) -> Vec<Row> {
    let rows = run(options, &Progress::new(false)).unwrap();
    for row in &rows {
        assert_eq!(row.invalid, None);
    }
    let mut out = Vec::new();
    write(&mut out, &rows, Shape::Table { width: 120 }).unwrap();
    assert!(!out.is_empty());
    rows
}

#[test]
fn reads_are_counted_beside_their_floor() {
    let rows = run_tiny(Experiment::Reads);
    let Some(Figures::Reads(figures)) = &rows[0].figures else { panic!("{rows:?}") };
    assert!(figures.cpu_us_per_read > 0.0 && figures.ratio_to_floor > 0.0, "{figures:?}");
}

#[test]
fn more_in_flight_reads_more() {
    let rows = run_tiny(Experiment::Window);
    let Some(Figures::Window(figures)) = &rows[2].figures else { panic!("{rows:?}") };
    assert!(figures.ratio_to_one > 4.0, "{figures:?}");
    assert_eq!(charts(&rows).len(), 1);
}

#[test]
fn spread_needs_no_clock() {
    let rows = run_tiny(Experiment::Spread);
    assert_eq!((rows.len(), charts(&rows).len()), (2, 1));
}

fn check_node(protocol: Protocol) {
    let rows = run_all(&Options { protocols: vec![protocol], rounds: 1, ..tiny(Experiment::Node) });
    for row in &rows {
        let Some(Figures::Node(figures)) = &row.figures else { panic!("{row:?}") };
        // Nodes of other tests may be in this process, so nothing is said of the size of shares.
        assert!(figures.points_per_s > 0.0 && figures.latency_ms_p99 > 0.0, "{figures:?}");
        assert_eq!(figures.late_ms_p50.is_some(), protocol.is_polled());
    }
}

#[test]
fn a_node_is_measured_from_modbus_devices_to_subscriber() {
    check_node(Protocol::Modbus);
}

#[test]
fn a_node_is_measured_from_bacnet_devices_to_subscriber() {
    check_node(Protocol::Bacnet);
}

#[test]
fn a_node_is_measured_from_dnp3_devices_to_subscriber() {
    check_node(Protocol::Dnp3);
}

#[test]
fn a_node_is_measured_from_iec104_devices_to_subscriber() {
    check_node(Protocol::Iec104);
}

#[test]
fn a_node_is_measured_with_and_without_traces() {
    let options = Options { protocols: vec![Protocol::Modbus], rounds: 1, ..tiny(Experiment::Trace) };
    let rows = run_all(&options);
    let Some(Figures::Trace(figures)) = &rows[0].figures else { panic!("{rows:?}") };
    // The driver's share is a difference, which a busy machine makes negative in so short a run.
    assert!(figures.ratio_to_untraced > 0.0 && figures.node_percent > 0.0, "{figures:?}");
}

#[test]
fn values_of_a_bacnet_device_are_timed() {
    let rows = run_tiny(Experiment::Bacnet);
    let of = |what: &str| match rows.iter().find(|row| row.what == Some(what)).map(|row| &row.figures) {
        Some(Some(Figures::Bacnet(figures))) => *figures,
        _ => panic!("{what} of {rows:?}"),
    };
    assert_eq!(of("object list").values, 303);
    // The list is in two segments: request, segment, acknowledgement, segment, acknowledgement.
    assert_eq!(of("object list").datagrams, 5);
    assert_eq!(of("800 values, one answer").values, 800);
    assert!(of("800 values, one answer").cpu_us_per_value > 0.0);
}

#[test]
fn styles_are_counted() {
    let rows = run_tiny(Experiment::Styles);
    let figures = |at: usize| match &rows[at].figures {
        Some(Figures::Styles(figures)) => *figures,
        _ => panic!("{rows:?}"),
    };
    assert_eq!((figures(0).messages, figures(2).messages), (19.0, 1.0));
    assert!(figures(0).four_ways_to_this > 1.0 && figures(7).four_ways_to_this == 1.0, "{rows:?}");
}

#[test]
fn memory_without_a_program_is_said() {
    let rows = run(&tiny(Experiment::Memory), &Progress::new(false)).unwrap();
    assert!(rows[0].invalid.as_ref().unwrap().contains("no program"), "{rows:?}");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let check = |options: Options, expect: &str| {
        let refused = run(&options, &Progress::new(false)).unwrap_err().to_string();
        assert!(refused.contains(expect), "{refused}");
    };
    check(Options { registers: vec![126], ..tiny(Experiment::Reads) }, "126 registers");
    check(Options { connections: vec![0], ..tiny(Experiment::Reads) }, "0 connections");
    check(Options { rounds: 0, ..tiny(Experiment::Reads) }, "rounds");
    check(Options { every: Duration::from_millis(10), ..tiny(Experiment::Node) }, "10ms");
    check(Options { connections: vec![usize::MAX / 8], ..tiny(Experiment::Reads) }, "file descriptors");
}
