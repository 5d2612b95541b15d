use super::HotPath;
use super::compare::{Committed, compare, report, total};

fn committed(rows: &[(&str, u64)]) -> Committed {
    let instructions = rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Committed { made_with: "rustc 1".to_owned(), instructions }
}

/// The line of the table of each path, without spaces, and whether all is well.
fn check(old: &[(&str, u64)], now: &[(&str, u64)], lines: &[&str], is_well: bool) {
    let now: Vec<_> = now.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let (table, result) = report(&compare(&committed(old), &now));
    let found: Vec<String> =
        table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(found, lines);
    assert_eq!(result.is_ok(), is_well, "{result:?}");
}

#[test]
fn two_percent_are_allowed_up_and_down() {
    check(&[("a", 10_000)], &[("a", 10_000)], &["a 10000 10000 +0.00 %"], true);
    check(&[("a", 10_000)], &[("a", 10_200)], &["a 10000 10200 +2.00 %"], true);
    check(&[("a", 10_000)], &[("a", 9_800)], &["a 10000 9800 -2.00 %"], true);
    check(&[("a", 10_000)], &[("a", 10_201)], &["a 10000 10201 +2.01 % <--"], false);
    check(&[("a", 10_000)], &[("a", 9_799)], &["a 10000 9799 -2.01 % <--"], false);
}

#[test]
fn a_path_without_a_row_and_a_row_without_a_path_fail() {
    check(&[("a", 5)], &[("a", 5), ("b", 7)], &["a 5 5 +0.00 %", "b - 7 new <--"], false);
    check(&[("a", 5), ("b", 7)], &[("b", 7)], &["b 7 7 +0.00 %", "a 5 - gone <--"], false);
}

#[test]
fn a_failure_says_which_and_how_to_accept() {
    let (_, result) =
        report(&compare(&committed(&[("a", 100), ("b", 100)]), &[("a".to_owned(), 90), ("b".to_owned(), 100)]));
    let why = result.unwrap_err();
    for words in ["1 of 2", "within 2 %: a.", "cargo xtask counts --accept", "counts.toml", "target/counts/a.out"] {
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn what_is_written_is_read() {
    let counted = [("a".to_owned(), 12), ("b-2".to_owned(), 34)];
    let text = Committed::text("rustc 1", counted.iter().zip(["one", "two"]));
    assert!(text.contains("# two\nb-2 = 34\n"), "{text}");
    assert_eq!(Committed::parse(&text).unwrap(), committed(&[("a", 12), ("b-2", 34)]));
}

#[test]
fn a_file_that_cannot_be_read_says_how_it_is_made() {
    for text in ["", "made_with = 1", "made_with = ''\n[instructions]\na = -1", "made_with = ''\n[instructions]\na = 0"]
    {
        let why = format!("{:#}", Committed::parse(text).unwrap_err());
        assert!(why.contains("counts.toml") && why.contains("--accept"), "{text:?}: {why}");
    }
}

#[test]
fn totals_of_callgrind() {
    let file = |total: &str| format!("version: 1\nevents: Ir\nsummary: 1\n\nfn=(1) a\n1 2\n\n{total}\n");
    assert_eq!(total(&file("totals: 4711")).unwrap(), 4711);
    for text in [
        String::new(),
        file(""),
        file("totals: many"),
        file("totals:"),
        file("totals: 0"),
        file("totals: 7").replace("Ir", "Dr"),
    ] {
        assert!(total(&text).is_err(), "{text}");
    }
}

#[test]
fn paths_are_listed_with_how_often() {
    let path = HotPath::parse("a-b\t100\ta thing is done").unwrap();
    assert_eq!((path.name.as_str(), path.times, path.what.as_str()), ("a-b", 100, "a thing is done"));
    for line in ["", "a", "a\tx\ty", "a\t0\ty", "a\t1"] {
        assert!(HotPath::parse(line).is_none(), "{line:?}");
    }
}
