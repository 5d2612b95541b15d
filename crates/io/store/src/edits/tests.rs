use super::*;

fn new(topic: &str, (from, to): (i64, i64), kind: EditKind, value: Option<Value>) -> NewEdit {
    let at = Timestamp::from_micros;
    NewEdit {
        topic: Topic::new(topic).unwrap(),
        kind,
        from: at(from),
        to: at(to),
        value,
        quality: (kind == EditKind::Quality).then_some(Quality::AWAY.with_validity(tieline_core::Validity::Good)),
        text: (kind == EditKind::Annotation).then(|| "lightning".to_owned()),
        who: "anna".to_owned(),
        made: at(1000),
        why: "the meter was wrong".to_owned(),
    }
}

fn all() -> EditQuery {
    let (from, to) = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
    let topics = Filter::new("#").unwrap();
    EditQuery { topics, from, to, who: None, kind: None, active: None, before: None, limit: 100 }
}

fn ids(file: &EditFile, query: &EditQuery) -> (Vec<u64>, Option<u64>) {
    let (found, next) = file.page(query).unwrap();
    (found.into_iter().map(|record| record.id).collect(), next)
}

#[test]
fn edits_come_back_as_they_were_made_and_none_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(EDITS_FILE);
    let mut file = EditFile::open(&path).unwrap();
    let values = [
        Value::Int(5),
        Value::Float(5.0),
        Value::Float(1e300),
        Value::Bool(true),
        Value::Null,
        Value::Text("öffen".into()),
    ];
    let mut made: Vec<NewEdit> =
        values.iter().zip(0..).map(|(v, n)| new("a/b", (n, n + 1), EditKind::Value, Some(v.clone()))).collect();
    made.push(new("a/c", (10, 20), EditKind::Quality, None));
    made.push(new("a/c", (10, 40), EditKind::Exclude, None));
    made.push(new("d", (-10, 0), EditKind::Annotation, None));
    for (edit, id) in made.iter().zip(1..) {
        assert_eq!(file.make(edit, |_| Ok(())).unwrap(), id);
    }
    let mut active = Vec::new();
    file.each_active(None, |record| active.push(record.edit)).unwrap();
    assert_eq!(active, made);
    // Undone once.
    let end = |why: &str| Ended { who: "ben".into(), time: Timestamp::from_micros(2000), why: why.into() };
    assert!(file.end(7, &end("it was right"), |_| Ok(())).unwrap());
    assert!([7, 99].into_iter().all(|id| !file.end(id, &end("again"), |_| panic!()).unwrap()));
    assert_eq!(file.get(7).unwrap().unwrap().ended, Some(end("it was right")));
    assert_eq!(file.counts().unwrap(), EditCounts { active: 8, all: 9, bytes: file.counts().unwrap().bytes });
    // Questions.
    assert_eq!(ids(&file, &EditQuery { limit: 4, ..all() }), (vec![9, 8, 7, 6], Some(6)));
    assert_eq!(ids(&file, &EditQuery { before: Some(3), ..all() }), (vec![2, 1], None));
    assert_eq!(ids(&file, &EditQuery { topics: Filter::new("a/+").unwrap(), limit: 3, ..all() }).0, [8, 7, 6]);
    assert_eq!(ids(&file, &EditQuery { from: Timestamp::from_micros(20), ..all() }).0, [8]);
    assert_eq!(ids(&file, &EditQuery { to: Timestamp::from_micros(0), ..all() }).0, [9]);
    assert_eq!(ids(&file, &EditQuery { kind: Some(EditKind::Quality), ..all() }).0, [7]);
    assert_eq!(ids(&file, &EditQuery { active: Some(false), ..all() }).0, [7]);
    assert_eq!(ids(&file, &EditQuery { who: Some("ben".into()), ..all() }).0, [0_u64; 0]);
    // A deletion erases what it encloses, active or not.
    let (from, to) = (Timestamp::from_micros(-100), Timestamp::from_micros(30));
    assert_eq!(file.erase(&Filter::new("#").unwrap(), (from, to), &end("deleted")).unwrap(), 7);
    assert_eq!(ids(&file, &EditQuery { active: Some(true), ..all() }).0, [8]);
    let text = file.get(9).unwrap().unwrap();
    assert_eq!((text.is_erased, text.edit.text, text.edit.why.as_str()), (true, None, "the meter was wrong"));
    assert_eq!(file.get(7).unwrap().unwrap().ended, Some(end("it was right")));
    for name in [EDITS_FILE, "edits.db-wal"] {
        let bytes = std::fs::read(folder.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(9).any(|word| word == b"lightning"), "{name}");
    }
    assert_eq!(file.faults().unwrap(), Vec::<String>::new());
    // Retention erases what is past it, topic by topic.
    let latest = Timestamp::from_micros(100);
    assert!(file.has_before(latest).unwrap() && !file.has_before(Timestamp::from_micros(0)).unwrap());
    let cutoff = |micros| move |topic: &str| (topic == "a/c").then_some(Timestamp::from_micros(micros));
    assert_eq!(file.erase_before(latest, |_| None, &end("old")).unwrap(), 0);
    assert_eq!(file.erase_before(latest, cutoff(39), &end("old")).unwrap(), 0);
    assert_eq!(file.erase_before(latest, cutoff(40), &end("old")).unwrap(), 1);
    assert!(!file.has_before(latest).unwrap());
    let old = file.get(8).unwrap().unwrap();
    assert_eq!((old.is_erased, old.ended, old.edit.who.as_str()), (true, Some(end("old")), "anna"));
    // A reader and a copy see the same.
    let copy = folder.path().join("copy.db");
    let reader = EditFile::reading(&path).unwrap();
    reader.copy_to(&copy).unwrap();
    assert_eq!(EditFile::reading(&copy).unwrap().readable(), file.readable());
}

#[test]
fn rows_come_to_another_file_as_they_are_before_they_are_here() {
    let folder = tempfile::tempdir().unwrap();
    let [mut here, mut there] =
        ["here", "there"].map(|name| EditFile::open(&folder.path().join(name).with_extension("db")).unwrap());
    let values =
        [Value::Int(i64::MAX), Value::Float(0.1), Value::Float(5.0), Value::Text("\u{1}\"ö".into()), Value::Null];
    for (value, n) in values.into_iter().zip(0..) {
        let edit = new("a/b", (n, n + 1), EditKind::Value, Some(value));
        here.make(&edit, |row| there.take(row)).unwrap();
    }
    here.make(&new("a/b", (i64::MIN, 7), EditKind::Annotation, None), |row| there.take(row)).unwrap();
    let end = Ended { who: "ben".into(), time: Timestamp::from_micros(2000), why: "'it' was right".into() };
    let mut rows = Vec::new();
    let told = |row: &str| {
        rows.push(row.to_owned());
        Ok(())
    };
    assert!(here.end(2, &end, told).unwrap());
    // A row that comes again changes nothing.
    rows.iter().chain(&rows).for_each(|row| there.take(row).unwrap());
    assert_eq!(there.readable(), here.readable());
    // What the other does not take is not here.
    let refused = |_: &str| Err(StoreError::Full);
    assert!(here.make(&new("a/b", (0, 1), EditKind::Exclude, None), refused).is_err());
    assert!(here.end(1, &end, refused).is_err());
    for row in ["", "[]", "{}", "[1,\"a\",\"none\",0,1,null,null,null,\"anna\",0,\"\",null,null,null,0]"] {
        assert!(there.take(row).is_err(), "{row}");
    }
    assert_eq!(there.readable(), here.readable());
}
