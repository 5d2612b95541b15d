//! `vectors/dnp3/*.txt`: frames in hex, and what they say. A file is a list of cases parted by empty lines:
//!
//! ```text
//! # what the case shows
//! < 05 64 …          bytes, any number of lines
//! > master 1→10 …    every line that the dissector prints
//! ```
//!
//! Lines are kept in step by hand: a change of wording changes the vectors in the same commit.

use super::{files, root};
use tieline_dnp3::dissect::Dissector;

fn check(name: &str, case: &str) {
    let part = |mark: &'static str| case.lines().filter_map(move |line| line.strip_prefix(mark));
    let hex = part("<").flat_map(str::split_whitespace);
    let bytes: Vec<u8> = hex.map(|pair| u8::from_str_radix(pair, 16).expect(case)).collect();
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    dissector.stream(&bytes, &mut entries);
    dissector.finish(&mut entries);
    let text: Vec<String> = entries.iter().map(ToString::to_string).collect();
    let found = text.join("\n");
    let expect: Vec<&str> = part("> ").collect();
    assert_eq!(found, expect.join("\n"), "in {name}, of the case\n{case}\nfound\n> {}", found.replace('\n', "\n> "));
}

#[test]
fn vectors_say_what_they_say() {
    let paths = files(&root().join("vectors/dnp3"));
    let texts = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let mut cases = 0;
    for path in texts {
        let text = std::fs::read_to_string(path).unwrap();
        for case in text.split("\n\n").filter(|case| case.contains("\n<")) {
            check(&path.display().to_string(), case);
            cases += 1;
        }
    }
    assert!(cases > 0, "no vectors were found");
}
