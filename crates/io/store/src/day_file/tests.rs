use super::*;
use crate::DayFile;

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("2026-11-26-0000000001.parquet");
    let floats = |from: i64, count: i64| Fields {
        times: (from..from + count).collect(),
        kinds: vec![(FLOAT, count as usize)],
        qualities: vec![(0, count as usize - 1), (512, 1)],
        floats: (0..count).map(|n| if n == 7 { f64::NAN } else { n as f64 * 0.1 }).collect(),
        ..Fields::default()
    };
    let mixed = Fields {
        times: vec![1, 2, 2, 5, 6, 7, 8, 9],
        kinds: vec![(INT, 2), (BOOL, 1), (3, 1), (NULL, 1), (4, 1), (6, 2)],
        qualities: vec![(0, 8)],
        floats: vec![],
        integers: vec![i64::MAX, -1, 1],
        blobs: [&b"on"[..], b"text", b"{}", b"\xff"].map(Bytes::copy_from_slice).to_vec(),
    };
    let all = [
        (topic("a"), floats(0, 300_000)),
        (topic("b"), mixed),
        (topic("c"), floats(5, 100_000)),
        (topic("d"), floats(9, 200_000)),
    ];
    let mut writer = DayWriter::create(&path).unwrap();
    let places: Vec<DayPlace> = all.iter().map(|(topic, fields)| writer.add(topic, fields.clone()).unwrap()).collect();
    assert!(!path.exists());
    let written = writer.finish().unwrap();
    assert_eq!(crate::day_file_check(&path, |_| ()).unwrap(), Some(written));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), written.bytes);
    assert_eq!(places[3], DayPlace { group: 1, row: 0, rows: 200_000 });
    let mut file = DayFile::open(&path).unwrap().unwrap();
    // Forward, backward, and the same again.
    for number in [0, 1, 2, 3, 2, 2, 1, 3, 0, 1] {
        let (place, (topic, fields)) = (places[number], &all[number]);
        let found = file.read(place).unwrap();
        assert_eq!(format!("{found:?}"), format!("{fields:?}"), "{topic}");
    }
    // Pieces, some of them of one page.
    for (first, rows) in [(0, 10), (10, 5), (4090, 20), (4110, 100), (299_990, 10), (7, 1), (7, 1)] {
        let found = file.read(DayPlace { group: 0, row: first, rows }).unwrap();
        let times: Vec<i64> = (i64::from(first)..i64::from(first + rows)).collect();
        assert_eq!((found.times, found.floats.len()), (times, rows as usize));
    }
    let of = |found: Vec<(String, DayPlace)>| found.into_iter().map(|(_, place)| place).collect::<Vec<_>>();
    assert_eq!(of(file.topics(usize::MAX).unwrap()), places);
    let pieces = file.topics(200_000).unwrap();
    assert_eq!(pieces[1], ("a".to_owned(), DayPlace { group: 0, row: 200_000, rows: 100_000 }));
    assert_eq!(pieces.len(), places.len() + 1);
    assert!(file.read(DayPlace { group: 1, row: 0, rows: 200_001 }).is_err());
    assert!(DayFile::open(&folder.path().join("none")).unwrap().is_none());
}
