use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt as _;

const A: &str = "title = 'A'\n";
const B: &str = "title = 'B'\n";
const WRONG: &str = "title = 'A'\npanels = 1\n";

/// A data folder of a node that has a board "plant" in its configuration.
struct Place {
    data: tempfile::TempDir,
    boards: Boards,
}

impl Place {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let (boards, found) = Boards::open(data.path().join("boards"), configured());
        assert_eq!(found, []);
        Self { data, boards }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.data.path().join("boards").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.data.path().join("boards")).unwrap();
        std::fs::write(self.file(name), text).unwrap();
    }

    fn on_disk(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.file(name)).ok()
    }

    /// All files of the folder.
    fn names(&self) -> Vec<String> {
        let Ok(all) = std::fs::read_dir(self.data.path().join("boards")) else { return Vec::new() };
        let mut all: Vec<String> = all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    fn shown(&self) -> Vec<(String, Origin)> {
        self.boards.all().iter().map(|file| (file.name.clone(), file.origin)).collect()
    }
}

fn configured() -> Arc<[Arc<BoardFile>]> {
    let file = BoardFile::check("plant.toml", "plant", A.to_owned(), Origin::Configuration).unwrap();
    [Arc::new(file)].into()
}

fn version(text: &str) -> String {
    crate::folder::version_of(text)
}

/// An error as a word.
fn word(error: &ChangeError) -> &'static str {
    match error {
        ChangeError::Configured(_) => "configured",
        ChangeError::Missing(_) => "missing",
        ChangeError::Other { .. } => "other",
        ChangeError::Wrong(_) => "wrong",
        ChangeError::Damaged(_) => "damaged",
        ChangeError::Full(_) => "full",
        ChangeError::Disk { .. } => "disk",
    }
}

#[test]
fn each_condition_on_each_state_has_one_result() {
    let this = || Condition::Versions(vec![version("x"), version(A)]);
    let old = || Condition::Versions(vec![version("x")]);
    // What is on the disk, the name, the condition, what is put (none: removed), what becomes of it.
    let cases = [
        (None, "new", Condition::Absent, Some(B), "done"),
        (None, "new", Condition::Present, Some(B), "missing"),
        (None, "new", this(), Some(B), "missing"),
        (None, "new", Condition::Absent, Some(WRONG), "wrong"),
        (None, "new", Condition::Present, None, "missing"),
        (None, "new", this(), None, "missing"),
        (Some(A), "old", Condition::Absent, Some(B), "other"),
        (Some(A), "old", Condition::Present, Some(B), "done"),
        (Some(A), "old", this(), Some(B), "done"),
        (Some(A), "old", this(), Some(A), "done"),
        (Some(A), "old", old(), Some(B), "other"),
        (Some(A), "old", this(), Some(WRONG), "wrong"),
        (Some(A), "old", this(), None, "done"),
        (Some(A), "old", old(), None, "other"),
        (Some(A), "old", Condition::Absent, None, "other"),
        (Some(WRONG), "old", Condition::Absent, Some(B), "damaged"),
        (Some(WRONG), "old", Condition::Present, Some(B), "damaged"),
        (Some(WRONG), "old", Condition::Present, None, "damaged"),
        (None, "plant", Condition::Absent, Some(B), "configured"),
        (None, "plant", this(), Some(B), "configured"),
        (None, "plant", this(), None, "configured"),
        // One that was there before the configuration had the name is changed as any other.
        (Some(A), "plant", this(), Some(B), "done"),
        (Some(A), "plant", this(), None, "done"),
    ];
    for (on_disk, name, condition, put, expect) in cases {
        let place = Place::new();
        let file = format!("{name}.toml");
        if let Some(text) = on_disk {
            // The node does not know of it: the file counts.
            place.write(&file, text);
        }
        let case = format!("{on_disk:?} {name} {condition:?} {put:?}");
        let done = match put {
            Some(text) => place.boards.put(name, text.to_owned(), &condition),
            None => place.boards.remove(name, &condition),
        };
        let after = if expect == "done" { put } else { on_disk };
        match done {
            Ok(change) => {
                assert_eq!(expect, "done", "{case}");
                assert_eq!(change.before.as_ref().map(|file| file.text.as_str()), on_disk, "{case}");
                assert_eq!(change.after.as_ref().map(|file| file.text.as_str()), put, "{case}");
            }
            Err(error) => assert_eq!(word(&error), expect, "{case}: {error}"),
        }
        assert_eq!(place.on_disk(&file).as_deref(), after, "{case}");
        let is_board = after.is_some_and(|text| text != WRONG);
        let origin = if is_board { Some(Origin::Data) } else { (name == "plant").then_some(Origin::Configuration) };
        // A text that is no board is refused before the disk is looked at.
        if expect != "wrong" {
            assert_eq!(place.boards.one(name).map(|file| file.origin), origin, "{case}");
        }
        assert!(place.names().iter().all(|name| name.ends_with(".toml")), "{case}: {:?}", place.names());
    }
}

#[test]
fn what_was_put_is_there_after_a_start_and_one_of_two_names_is_shown() {
    let place = Place::new();
    place.boards.put("b", B.to_owned(), &Condition::Absent).unwrap();
    place.write("plant.toml", B);
    place.write("broken.toml", WRONG);
    place.write("left.toml.new", "title =");
    place.write("No Name.toml", A);
    let (again, found) = Boards::open(place.data.path().join("boards"), configured());
    let place = Place { boards: again, ..place };
    let said = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for words in ["broken.toml:2:1: panels", "a name of a-z, 0-9"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert_eq!(place.shown(), [("b".to_owned(), Origin::Data), ("plant".to_owned(), Origin::Data)]);
    assert_eq!(place.names(), ["No Name.toml", "b.toml", "broken.toml", "plant.toml"]);
    let removed = place.boards.remove("plant", &Condition::Present).unwrap();
    assert_eq!((removed.before.unwrap().text.as_str(), removed.after), (B, None));
    assert_eq!(place.boards.one("plant").unwrap().origin, Origin::Configuration);
    // The configuration has it no more.
    assert_eq!(place.boards.set([].into()).len(), 2);
    assert_eq!(place.shown(), [("b".to_owned(), Origin::Data)]);
}

#[test]
fn a_process_that_ends_between_write_and_rename_leaves_the_old_board() {
    let place = Place::new();
    place.boards.put("a", A.to_owned(), &Condition::Absent).unwrap();
    for cut in 0..=B.len() {
        place.write("a.toml.new", &B[..cut]);
        let (again, found) = Boards::open(place.data.path().join("boards"), configured());
        assert_eq!((found, again.one("a").unwrap().text.as_str()), (Vec::new(), A));
        assert_eq!(place.names(), ["a.toml"]);
    }
}

#[test]
fn there_are_limits() {
    let place = Place::new();
    let comment = |bytes: usize| format!("title = 'A'\n#{}", "x".repeat(bytes));
    for n in 0..FOLDER.count_max {
        place.boards.put(&format!("n{n}"), A.to_owned(), &Condition::Absent).unwrap();
    }
    let full = place.boards.put("more", A.to_owned(), &Condition::Absent).unwrap_err();
    assert_eq!(full.to_string(), "there are 256 boards, as many as there may be");
    place.boards.put("n0", B.to_owned(), &Condition::Present).unwrap();
    place.boards.remove("n1", &Condition::Present).unwrap();
    place.boards.put("more", A.to_owned(), &Condition::Absent).unwrap();
    // Files that are larger than one of ours may be are those of somebody else.
    let mut left = FOLDER.bytes_max;
    let mut n = 0;
    while left > 0 {
        let done = place.boards.put(&format!("n{}", n + 2), comment(200_000), &Condition::Present);
        match done {
            Ok(_) => left = left.saturating_sub(200_000),
            Err(error) => {
                assert!(error.to_string().contains("expected 8388608 at most"), "{error}");
                break;
            }
        }
        n += 1;
    }
    assert_eq!(n, 41);
    place.write("n0.toml", &comment(300_000));
    let damaged = place.boards.put("n0", A.to_owned(), &Condition::Present).unwrap_err();
    assert!(damaged.to_string().contains("300013 bytes, expected a readable file of at most 262144"), "{damaged}");
}

#[test]
fn a_disk_that_refuses_changes_nothing() {
    let place = Place::new();
    place.boards.put("a", A.to_owned(), &Condition::Absent).unwrap();
    // A folder stands where the new file is written.
    std::fs::create_dir(place.file("a.toml.new")).unwrap();
    let refused = place.boards.put("a", B.to_owned(), &Condition::Present).unwrap_err();
    assert!(matches!(&refused, ChangeError::Disk { is_done: false, .. }), "{refused}");
    assert!(refused.to_string().contains("nothing has changed"), "{refused}");
    assert_eq!((place.on_disk("a.toml").as_deref(), place.boards.one("a").unwrap().text.as_str()), (Some(A), A));
    // The user of the test may be one whom no mode keeps out.
    let read_only = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
    read_only(&place.data.path().join("boards"));
    let probe = File::create(place.file("probe")).is_ok();
    let refused = place.boards.put("b", B.to_owned(), &Condition::Absent);
    match refused {
        Ok(_) => assert!(probe, "the folder takes no file, and a board was put"),
        Err(error) => assert!(error.to_string().contains("tieline run --data"), "{error}"),
    }
    std::fs::set_permissions(place.data.path().join("boards"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_changes_the_file_only_where_it_is_a_board(
        text in prop_oneof![
            "\\PC{0,60}",
            "title = '[a-z]{0,5}'\n(range = '[0-9]{1,2}[mhx]'\n)?(\\[\\[panel\\]\\]\nkind = '(text|value)'\n(text = 'x'\n)?)?",
        ],
    ) {
        let place = Place::new();
        place.boards.put("a", A.to_owned(), &Condition::Absent).unwrap();
        let is_board = BoardFile::check("a", "a", text.clone(), Origin::Data).is_ok();
        let done = place.boards.put("a", text.clone(), &Condition::Present);
        prop_assert_eq!(done.is_ok(), is_board);
        let expect = if is_board { text.as_str() } else { A };
        let found = place.on_disk("a.toml");
        prop_assert_eq!(found.as_deref(), Some(expect));
        let (again, _) = Boards::open(place.data.path().join("boards"), configured());
        let shown = again.one("a").unwrap();
        prop_assert_eq!(shown.text.as_str(), expect);
    }
}
