//! What can be told without a fleet.

use super::fleet::metric_of;
use super::link::SlowLink;
use super::probe::{Seen, latencies, read_time};
use super::sites::published_s;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn readings_are_told_from_marks() {
    let check = |text: &str, expect| assert_eq!(read_time(text.as_bytes()), expect, "{text}");
    check("{\"v\":1.5,\"q\":\"good\",\"t\":\"1970-01-01T00:00:01.5Z\"}", Some(1_500_000));
    check("{\"v\":1.5,\"q\":\"bad\",\"t\":\"1970-01-01T00:00:01.5Z\",\"why\":[\"away\"]}", None);
    check("1.5", None);
    let seen = [(10, 15), (20, 40), (30, 90)].map(|(read_us, stored_us)| Seen { read_us, stored_us });
    let some = latencies(&seen, 10, 30).unwrap();
    assert_eq!((some.len(), some.max()), (2, 20));
}

#[test]
fn metrics_have_labels() {
    let text = "# TYPE a gauge\na 1.5\na_b 2\na{site=\"s1\"} 3\n";
    let check = |name, expect| assert_eq!(metric_of(text, name), expect, "{name}");
    check("a", 1.5);
    check("a{site=\"s1\"}", 3.0);
    check("a{site=\"s2\"}", 0.0);
    assert_eq!((published_s(4, 500, 18), published_s(4, 50, 18), published_s(8, 500, 18)), (Some(60.0), None, None));
}

#[test]
fn a_link_takes_its_time_and_ends_what_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = SlowLink::to(listener.local_addr().unwrap(), 1_000_000, Duration::from_millis(40)).unwrap();
    let mut near = TcpStream::connect(link.address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let begin = Instant::now();
    // 5,000 bytes at 1 Mbit/s are 40 ms, and 20 ms more on the way.
    near.write_all(&[7; 5000]).unwrap();
    let mut found = vec![0; 5000];
    far.read_exact(&mut found).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(59), "{:?}", begin.elapsed());
    assert!(found.iter().all(|byte| *byte == 7));
    link.cut(true);
    assert_eq!(near.read(&mut found).unwrap_or(0), 0);
    // A connection ends at once, until the link is there again.
    let mut early = TcpStream::connect(link.address).unwrap();
    assert_eq!(early.read(&mut found).unwrap_or(0), 0);
    link.cut(false);
    let mut again = TcpStream::connect(link.address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    again.write_all(b"x").unwrap();
    far.read_exact(&mut found[..1]).unwrap();
}
