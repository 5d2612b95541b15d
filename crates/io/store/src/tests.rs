//! Output formats, and the index as its users see it.

use crate::{
    ChunkRow, ClosedDay, DAY_US, Extent, FileRow, Format, Index, IndexReader, KnownFile, OlderStore, Outdated, Place,
    Removed, Row, RowPage, StoreError, ToErase, export,
};
use std::path::PathBuf;
use tempfile::TempDir;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Value, Words as _};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn row(topic: &str, micros: i64, value: impl Into<Value>, quality: Quality) -> Row {
    let topic = Topic::new(topic).unwrap();
    Row {
        topic,
        point: Point { value: value.into(), quality, time: at(micros) },
        is_payload: false,
        count: 1,
        number: 0,
        edited: None,
    }
}

fn exported(rows: &[Row], format: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rows = RowPage::from(rows.to_vec());
    let count = export(&mut rows, Format::of_word(format).unwrap(), || true, &mut out).unwrap();
    assert_eq!(count, 4);
    out
}

fn for_export() -> [Row; 4] {
    [
        row("site/p", 0, 59.98, Quality::GOOD),
        row("site/p", 1_500_000, i64::MAX, Quality::AWAY.with(Quality::STALE)),
        row("site/q", 0, "a \"b\", c", Quality::GOOD),
        row("site/q", 1, Value::Null, Quality::INITIAL),
    ]
}

#[test]
fn rows_are_written_as_text() {
    let text = |format| String::from_utf8(exported(&for_export(), format)).unwrap();
    assert_eq!(
        text("csv"),
        "topic,time,value,quality,why,count\n\
         site/p,1970-01-01T00:00:00.000Z,59.98,good,,1\n\
         site/p,1970-01-01T00:00:01.500Z,9223372036854775807,bad,away stale,1\n\
         site/q,1970-01-01T00:00:00.000Z,\"a \"\"b\"\", c\",good,,1\n\
         site/q,1970-01-01T00:00:00.000001Z,null,bad,initial,1\n"
    );
    assert_eq!(
        text("table"),
        "topic   time                                       value  quality\n\
         site/p  1970-01-01T00:00:00.000Z                   59.98  good\n\
         site/p  1970-01-01T00:00:01.500Z     9223372036854775807  bad away stale\n\
         site/q  1970-01-01T00:00:00.000Z                a \"b\", c  good\n\
         site/q  1970-01-01T00:00:00.000001Z                 null  bad initial\n"
    );
    let json: serde_json::Value = serde_json::from_str(&text("json")).unwrap();
    assert_eq!(json[1]["why"][0], "away");
    assert_eq!(json[2]["v"], "a \"b\", c");
    assert_eq!((&json[3]["topic"], &json[3]["count"]), (&"site/q".into(), &1.into()));
}

#[test]
fn a_spreadsheet_computes_nothing_of_an_export() {
    let rows = [
        row("=site", 0, "=HYPERLINK(\"x\")", Quality::GOOD),
        row("site/p", 0, -59.98, Quality::GOOD),
        row("site/p", 1, "-59.98", Quality::GOOD),
        row("site/q", 0, "@SUM(A1)", Quality::GOOD),
    ];
    assert_eq!(
        String::from_utf8(exported(&rows, "csv")).unwrap(),
        "topic,time,value,quality,why,count\n\
         '=site,1970-01-01T00:00:00.000Z,\"'=HYPERLINK(\"\"x\"\")\",good,,1\n\
         site/p,1970-01-01T00:00:00.000Z,-59.98,good,,1\n\
         site/p,1970-01-01T00:00:00.000001Z,-59.98,good,,1\n\
         site/q,1970-01-01T00:00:00.000Z,'@SUM(A1),good,,1\n"
    );
}

#[test]
fn parquet_says_what_the_rows_say() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let bytes = bytes::Bytes::from(exported(&for_export(), "parquet"));
    let reader = SerializedFileReader::new(bytes).unwrap();
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[0].contains("topic: \"site/p\"") && rows[0].contains("value: 59.98, text: null"), "{}", rows[0]);
    assert!(rows[1].contains("text: \"9223372036854775807\", quality: \"bad\", why: 1536"), "{}", rows[1]);
    assert!(rows[3].contains("value: null, text: null, quality: \"bad\""), "{}", rows[3]);
}

fn chunk(topic: u32, first: i64, last: i64, file: u32) -> ChunkRow {
    let extent = Extent { file, offset: 0, bytes: 100 };
    ChunkRow { number: 0, topic, first: at(first), last: at(last), extent, samples: 10, summary: vec![7], day: None }
}

fn index() -> (TempDir, PathBuf, Index) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = Index::open(&path).unwrap();
    (folder, path, index)
}

fn numbers(index: &mut Index, names: &[&str]) -> Vec<u32> {
    let topics: Vec<Topic> = names.iter().map(|name| Topic::new(name).unwrap()).collect();
    let mut numbers = Vec::new();
    index.numbers(topics.iter(), &mut numbers).unwrap();
    numbers
}

#[test]
fn chunks_are_found_by_topic_and_time() {
    let (_folder, path, mut index) = index();
    assert_eq!(numbers(&mut index, &["a", "b", "b", "a"]), [1, 2, 2, 1]);
    let day = DAY_US;
    let mut chunks = [chunk(1, 5, 9, 1), chunk(1, 0, 3, 1), chunk(1, day + 1, day + 2, 2), chunk(2, 6, 6, 2)];
    index.commit(&chunks, 7, None).unwrap();
    chunks.iter_mut().zip(1..).for_each(|(chunk, number)| chunk.number = number);
    let reader = IndexReader::open(&path).unwrap();
    let found = |from, to| reader.chunks(1, at(from), at(to)).unwrap();
    assert_eq!(found(i64::MIN, i64::MAX), chunks[..3]);
    assert_eq!(found(3, 5), [chunks[1].clone()]);
    assert_eq!((found(4, 5).len(), found(9, day).len(), found(day, day + 2).len()), (0, 1, 1));
    assert_eq!(reader.day_before(1, at(day + 1)).unwrap(), Some(at(0)));
    assert_eq!((reader.day_before(1, at(0)).unwrap(), reader.position().unwrap()), (None, 7));
    // After a restart numbers and places are those of before.
    drop(index);
    let mut index = Index::open(&path).unwrap();
    assert_eq!(numbers(&mut index, &["c", "b"]), [3, 2]);
    let files = [1, 2].map(|number| FileRow { number, bytes: 100, day: None });
    assert_eq!((index.position().unwrap(), index.files().unwrap()), (7, files.to_vec()));
    let names = reader.topics(&Filter::new("#").unwrap()).unwrap();
    assert_eq!(
        names.iter().map(|(number, topic)| (*number, topic.as_str())).collect::<Vec<_>>(),
        [(1, "a"), (2, "b"), (3, "c")]
    );
}

fn remove_before(index: &mut Index, time: Timestamp, samples_max: u64) -> Result<Removed, StoreError> {
    index.remove_outdated(&Outdated { cutoff: &|_| (0, Some(time)), days: Some(time), rules: 1, samples_max })
}

#[test]
fn what_is_removed_frees_files() {
    let (_folder, _, mut index) = index();
    numbers(&mut index, &["a", "b"]);
    index.commit(&[chunk(1, 0, 9, 1), chunk(2, 0, 9, 1), chunk(2, 5, 20, 2), chunk(2, 30, 40, 3)], 1, None).unwrap();
    let before = index.bytes().unwrap();
    let removed = remove_before(&mut index, at(10), 10).unwrap();
    assert_eq!((removed.samples, removed.more, removed.files.len()), (10, true, 0));
    let removed = remove_before(&mut index, at(10), 10).unwrap();
    let file = FileRow { number: 1, bytes: 100, day: None };
    assert_eq!((removed.samples, removed.more, &removed.files), (10, false, &vec![file]));
    index.forget(&removed.files).unwrap();
    assert_eq!(index.files().unwrap().len(), 2);
    assert_eq!(before - index.bytes().unwrap(), 200);
    assert_eq!(index.oldest().unwrap(), Some((at(5), at(20))));
}

#[test]
fn each_topic_has_its_own_age_and_rules_count_what_they_removed() {
    let (_folder, path, mut index) = index();
    numbers(&mut index, &["a", "b", "c"]);
    index.commit(&[chunk(1, 0, 9, 1), chunk(2, 0, 9, 1), chunk(2, 5, 20, 1), chunk(3, 0, 9, 1)], 1, None).unwrap();
    let rules = |words: &[(&str, &str)]| {
        words.iter().map(|(of, rule)| ((*of).to_owned(), (*rule).to_owned())).collect::<Vec<_>>()
    };
    index.set_rules(&rules(&[("b", "30"), ("c", "3"), ("", "1")])).unwrap();
    let cutoff = |topic| match topic {
        2 => (0, Some(at(30))),
        3 => (1, None),
        _ => (2, Some(at(5))),
    };
    let outdated = Outdated { cutoff: &cutoff, days: None, rules: 3, samples_max: 1000 };
    assert_eq!(index.remove_outdated(&outdated).unwrap().samples, 20);
    // Another order, and another rule for the same topics.
    index.set_rules(&rules(&[("c", "4"), ("b", "30"), ("", "1")])).unwrap();
    index.set_plan(0, "words").unwrap();
    let reader = IndexReader::open(&path).unwrap();
    let found: Vec<_> =
        reader.rules().unwrap().into_iter().map(|row| (row.topics, row.rule, row.counts.removed)).collect();
    let expect = [("c", "4", 0), ("b", "30", 20), ("", "1", 0)];
    assert_eq!(found, expect.map(|(topics, rule, removed)| (topics.to_owned(), rule.to_owned(), removed)));
    assert_eq!(
        (reader.plans().unwrap()[&0].as_str(), index.plans_before(1).unwrap()),
        ("words", vec![(0, "words".to_owned())])
    );
    assert_eq!(index.topics_after(2).unwrap().len(), 1);
    assert_eq!((index.topics_of_day(0).unwrap().len(), index.topics_of_day(1).unwrap().len()), (2, 0));
    let sums = reader.day_sums(1).unwrap();
    assert_eq!((sums.len(), sums[0].day, sums[0].is_closed, sums[0].samples), (1, 0, false, 10));
    assert_eq!(index.day_bytes(0).unwrap(), (0, 0));
}

#[test]
fn a_day_file_takes_the_place_of_chunks() {
    let (_folder, path, mut index) = index();
    numbers(&mut index, &["a", "b"]);
    let day = DAY_US;
    index.commit(&[chunk(1, 0, 9, 1), chunk(2, 5, 9, 1), chunk(1, day, day, 2)], 1, None).unwrap();
    let open_day = |index: &Index, before| index.open_day(before, at(100)).unwrap();
    assert_eq!((open_day(&index, 0), open_day(&index, 1), open_day(&index, 2)), (None, Some(0), Some(0)));
    let reader = IndexReader::open(&path).unwrap();
    let replaced: Vec<ChunkRow> =
        [1, 2].iter().flat_map(|topic| reader.chunks(*topic, at(0), at(day)).unwrap()).collect();
    // A late chunk, and one that retention removed meanwhile.
    index.commit(&[chunk(2, 7, 8, 2)], 2, None).unwrap();
    assert_eq!(remove_before(&mut index, at(10), 0).unwrap().samples, 0);
    let number = index.new_file().unwrap();
    assert_eq!((number, index.new_file().unwrap()), (1, 2));
    let file = FileRow { number: 3, bytes: 77, day: Some(0) };
    let rows = [ChunkRow { day: Some(0), extent: Extent { file: 3, offset: 0, bytes: 77 }, ..chunk(1, 0, 9, 3) }];
    let before = index.bytes().unwrap();
    let closed = ClosedDay {
        file,
        check: 7,
        rows: &rows,
        replaced: &replaced,
        ready: at(50),
        erases: false,
        plan: None,
        counts: &[],
    };
    let empty = index.commit_day(&closed).unwrap();
    assert_eq!(empty, [FileRow { number: 1, bytes: 100, day: None }]);
    assert_eq!(before - index.bytes().unwrap(), 200 - 77);
    let found = reader.chunks(1, at(0), at(day)).unwrap();
    assert_eq!((found.len(), found[0].day, reader.chunks(2, at(0), at(day)).unwrap().len()), (1, Some(0), 1));
    let of_day = |file: &KnownFile| (file.row, file.check);
    assert_eq!(reader.files().unwrap().iter().map(of_day).next_back(), Some((closed.file, Some(7))));
    assert_eq!(index.to_erase().unwrap(), []);
    // The late one is to be merged, but not at once.
    assert_eq!((index.open_day(1, at(49)).unwrap(), index.open_day(1, at(50)).unwrap()), (None, Some(0)));
    // A file of which all was deleted takes its place: what was there is to be overwritten.
    let replaced = reader.chunks(1, at(0), at(day)).unwrap();
    let file = FileRow { number: 4, bytes: 9, day: Some(0) };
    let closed = ClosedDay {
        file,
        check: 7,
        rows: &[],
        replaced: &replaced,
        ready: at(50),
        erases: true,
        plan: None,
        counts: &[],
    };
    let empty = index.commit_day(&closed).unwrap();
    assert_eq!(empty.iter().map(|file| file.number).collect::<Vec<_>>(), [4, 3]);
    let old = ToErase { name: "1970-01-01-0000000003.parquet".to_owned(), offset: 0, bytes: 77 };
    assert!(index.to_erase().unwrap().contains(&old));
    assert_eq!(index.empty_files().unwrap().len(), 3);
    index.forget_erased().unwrap();
    assert_eq!(index.to_erase().unwrap(), []);
}

#[test]
fn a_full_disk_enters_nothing_and_passes() {
    let (_folder, path, mut index) = index();
    numbers(&mut index, &["a"]);
    let chunks: Vec<ChunkRow> = (0..5000).map(|n| ChunkRow { summary: vec![0; 90], ..chunk(1, n, n, 1) }).collect();
    index.limit_pages(12);
    for _ in 0..3 {
        assert!(matches!(index.commit(&chunks, 2, None), Err(StoreError::Full)));
        let many: Vec<Topic> = (0..5000).map(|n| Topic::new(&format!("topic/{n}")).unwrap()).collect();
        assert!(matches!(index.numbers(many.iter(), &mut Vec::new()), Err(StoreError::Full)));
        assert_eq!(index.position().unwrap(), 0);
    }
    index.limit_pages(1_000_000);
    index.commit(&chunks, 2, None).unwrap();
    assert_eq!(IndexReader::open(&path).unwrap().chunks(1, at(0), at(9999)).unwrap().len(), 5000);
    assert_eq!(numbers(&mut index, &["topic/7", "a"]), [2, 1]);
}

#[test]
fn a_newer_index_is_refused() {
    let (_folder, path, index) = index();
    drop(index);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Index::open(&path), Err(StoreError::Newer(99, 1))));
    assert!(matches!(IndexReader::open(&path), Err(StoreError::Newer(99, 1))));
    std::fs::write(&path, [7; 5000]).unwrap();
    assert!(matches!(Index::open(&path), Err(StoreError::Damaged(_))));
    let nothing = tempfile::tempdir().unwrap();
    assert!(IndexReader::open(&nothing.path().join("index.db")).is_err());
}

#[test]
fn an_older_store_is_read_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
         CREATE TABLE samples (topic_id INTEGER NOT NULL, time_us INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,
             value, quality INTEGER NOT NULL, PRIMARY KEY (topic_id, time_us, seq)) WITHOUT ROWID;
         CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO state VALUES ('journal', 42);
         INSERT INTO topics VALUES (1, 'a'), (2, 'empty'), (3, 'b');
         INSERT INTO samples VALUES (1, -5, 0, 0, 60, 0), (1, 7, 0, 0, 59.98, 0), (1, 7, 1, 0, NULL, 0), (1, 8, 0, 1, 9223372036854775807, 512),
             (3, 1, 0, 2, 1, 0), (3, 2, 0, 3, 'on', 0), (3, 3, 0, 4, x'00ff', 0), (3, 4, 0, 5, NULL, 0), (3, 5, 0, 6, x'7b', 0), (3, 6, 0, 9, 1, 0);",
    )
    .unwrap();
    let store = OlderStore::open(&path).unwrap();
    assert_eq!(store.position().unwrap(), 42);
    let (mut moved, mut found) = (None, Vec::new());
    while let Some(page) = store.page(moved, 2).unwrap() {
        assert!(page.samples.len() <= 2);
        found.extend(page.samples.iter().map(|(time, body)| {
            let shown = match body {
                Body::Point(point) => format!("{:?} {:?}", point.value, point.quality.bits()),
                other => format!("{:?}", other.to_payload()),
            };
            format!("{} {} {shown}", page.topic, time.micros())
        }));
        moved = Some(page.upto);
    }
    assert_eq!(
        found,
        [
            "a -5 Float(60.0) 0",
            "a 7 Float(59.98) 0",
            "a 7 Float(NaN) 0",
            "a 8 Int(9223372036854775807) 512",
            "b 1 Bool(true) 0",
            "b 2 Text(\"on\") 0",
            "b 3 Bytes([0, 255]) 0",
            "b 4 Null 0",
            "b 5 b\"{\"",
        ]
    );
    assert_eq!((store.topics(None), store.topics(Some((3, 0, 0)))), ((3, 0), (3, 2)));
}

#[test]
fn a_place_is_read_as_it_is_written() {
    let place = Place { time_us: -5, number: 3, topic: Topic::new("a.b/c").unwrap() };
    assert_eq!((place.to_string().as_str(), place.to_string().parse()), ("-5.3.a.b/c", Ok(place)));
    assert!(["", "1", "1.2", "x.1.a", "1.-1.a", "1.1."].iter().all(|text| text.parse::<Place>().is_err()));
}
