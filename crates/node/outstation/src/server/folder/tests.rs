use super::*;
use std::path::Path;

fn folder(root: &Path, writable: bool) -> Folder {
    let config = FolderConfig { writable, size_max: 20, ..FolderConfig::new(root.to_owned()) };
    Folder::open(&config).unwrap()
}

fn ready<T>(answer: FileAnswer<T>) -> Result<T, FileStatus> {
    let Poll::Ready(answer) = answer else { panic!("a folder answers at once") };
    answer
}

fn request(name: &str, mode: FileMode) -> FileOpen<'_> {
    let (created, permissions) = (DnpTime::from_millis(0), Permissions::READ_WRITE);
    FileOpen { name, mode, size: None, created, permissions, key: 0 }
}

fn write(folder: &mut Folder, name: &str, mode: FileMode, bytes: &[u8], how: FileClose) -> Result<(), FileStatus> {
    ready(folder.open(1, &request(name, mode)))?;
    let written = ready(folder.write(1, 0, bytes));
    ready(folder.close(1, if written.is_ok() { how } else { FileClose::Aborted }))?;
    written
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    std::fs::write(root.join("plain"), "p").unwrap();
    std::fs::write(root.join(".hidden"), "h").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("relative")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.join("absolute")).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    std::os::unix::fs::symlink("plain", root.join("inside")).unwrap();
    std::os::unix::fs::symlink("/proc/self/root", root.join("magic")).unwrap();
    let mut folder = folder(&root, true);
    let escapes = [
        "../secret",
        "sub/../../secret",
        "relative",
        "absolute",
        "up/secret",
        "magic/etc/passwd",
        ".hidden",
        "./.hidden",
        "./../secret",
        "sub/./../../secret",
        "...",
        "/../secret",
        "a\0b",
        "nothing",
        "plain/x",
    ];
    for name in escapes {
        for mode in [FileMode::READ, FileMode::WRITE, FileMode::APPEND] {
            let opened = ready(folder.open(1, &request(name, mode)));
            let made_new = mode != FileMode::READ && name == "nothing";
            assert_eq!(opened.is_ok(), made_new, "{name:?} {mode}: {opened:?}");
            if opened.is_ok() {
                assert_eq!(ready(folder.close(1, FileClose::Aborted)), Ok(()));
            }
        }
        assert!(ready(folder.info(name)).is_err(), "{name:?}");
    }
    // A link itself may go; what it points to stays.
    assert!(ready(folder.delete("up/secret", 0)).is_err());
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "s");
    for name in ["plain", "/plain", "inside"] {
        assert_eq!(ready(folder.info(name)).map(|entry| entry.size), Ok(1), "{name}");
    }
    // The directory tells what can be read: hidden files and links that lead out are not there.
    assert_eq!(ready(folder.open(2, &request("/", FileMode::READ))).map(|opened| opened.size), Ok(3));
    let told: Vec<_> = (0..4).map_while(|at| ready(folder.list(2, at)).unwrap()).map(|entry| entry.name).collect();
    assert_eq!(told, ["inside", "plain", "sub"]);
}

#[test]
fn a_dot_stands_for_the_folder_it_is_in() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("sub")).unwrap();
    std::fs::write(root.path().join("plain"), "p").unwrap();
    std::fs::write(root.path().join("sub/deep"), "dd").unwrap();
    let mut folder = folder(root.path(), true);
    let check = |folder: &mut Folder, name: &str, expect: FileOpened| {
        assert_eq!(ready(folder.open(1, &request(name, FileMode::READ))), Ok(expect), "{name:?}");
        assert_eq!(ready(folder.close(1, FileClose::Done)), Ok(()));
        let info = ready(folder.info(name)).map(|entry| (entry.name, entry.kind));
        assert_eq!(info, Ok((name.to_owned(), expect.kind)));
    };
    for name in ["", "/", ".", "./", "/.", "./."] {
        check(&mut folder, name, FileOpened { kind: FileKind::DIRECTORY, size: 2 });
    }
    for (name, size) in [("./plain", 1), ("/./plain", 1), ("./sub/deep", 2), ("sub/./deep", 2), ("sub//deep", 2)] {
        check(&mut folder, name, FileOpened { kind: FileKind::SIMPLE, size });
    }
    // It is one file by whatever name: it has one writer, and it is written and deleted.
    ready(folder.open(1, &request("plain", FileMode::WRITE))).unwrap();
    assert_eq!(ready(folder.open(2, &request("./plain", FileMode::WRITE))), Err(FileStatus::Locked));
    assert_eq!(ready(folder.close(1, FileClose::Aborted)), Ok(()));
    assert_eq!(write(&mut folder, "./sub/./deep", FileMode::WRITE, b"new", FileClose::Done), Ok(()));
    assert_eq!(std::fs::read_to_string(root.path().join("sub/deep")).unwrap(), "new");
    assert_eq!(ready(folder.delete("./plain", 0)), Ok(()));
    assert_eq!(names(root.path()), ["sub"]);
}

#[test]
fn a_file_takes_its_place_when_it_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = folder(root.path(), true);
    std::fs::write(root.path().join("a"), "old").unwrap();
    let content = || std::fs::read_to_string(root.path().join("a")).unwrap();
    for how in [FileClose::Aborted, FileClose::Expired] {
        assert_eq!(write(&mut folder, "a", FileMode::WRITE, b"new", how), Ok(()));
        assert_eq!((content().as_str(), names(root.path())), ("old", vec!["a".to_owned()]));
    }
    assert_eq!(write(&mut folder, "a", FileMode::WRITE, b"new", FileClose::Done), Ok(()));
    assert_eq!(write(&mut folder, "a", FileMode::APPEND, b"er", FileClose::Done), Ok(()));
    assert_eq!(content(), "newer");
    // Limits: of what is announced, of what is written, of what is there already.
    let large = FileOpen { size: Some(21), ..request("a", FileMode::WRITE) };
    assert_eq!(ready(folder.open(1, &large)), Err(FileStatus::BufferOverrun));
    let too_much = write(&mut folder, "a", FileMode::APPEND, &[b'x'; 16], FileClose::Done);
    assert_eq!(too_much, Err(FileStatus::BufferOverrun));
    assert_eq!((content().as_str(), names(root.path())), ("newer", vec!["a".to_owned()]));
    // One writer a file; the station ends while it writes.
    ready(folder.open(1, &request("a", FileMode::WRITE))).unwrap();
    assert_eq!(ready(folder.open(2, &request("/a", FileMode::WRITE))), Err(FileStatus::Locked));
    drop(folder);
    assert_eq!(names(root.path()), ["a"]);
}

#[test]
fn a_folder_that_is_only_read_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "old").unwrap();
    let mut folder = folder(root.path(), false);
    let denied = Err(FileStatus::PermissionDenied);
    assert_eq!(write(&mut folder, "a", FileMode::WRITE, b"new", FileClose::Done), denied);
    assert_eq!(ready(folder.delete("a", 0)), denied);
    assert_eq!(names(root.path()), ["a"]);
}

#[test]
fn only_the_user_with_the_password_gets_a_key() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "old").unwrap();
    std::fs::write(root.path().join("password"), "pass\n").unwrap();
    let user = Some(("me".to_owned(), root.path().join("password")));
    let config = FolderConfig { writable: true, user, ..FolderConfig::new(root.path().to_owned()) };
    let mut folder = Folder::open(&config).unwrap();
    for (user, password) in [("me", "Pass"), ("me", "pas"), ("me", ""), ("you", "pass")] {
        assert_eq!(folder.authenticate(user, password), Poll::Ready(None));
    }
    assert_eq!(ready(folder.open(1, &request("a", FileMode::READ))), Err(FileStatus::PermissionDenied));
    let Poll::Ready(Some(key)) = folder.authenticate("me", "pass") else { panic!("no key") };
    assert!(ready(folder.open(1, &FileOpen { key, ..request("a", FileMode::READ) })).is_ok());
    let mut out = Vec::new();
    assert_eq!((ready(folder.read(1, 0, 2, &mut out)), out.as_slice()), (Ok(false), &b"ol"[..]));
    assert_eq!((ready(folder.read(1, 2, 2, &mut out)), out.as_slice()), (Ok(true), &b"old"[..]));
    assert_eq!(ready(folder.delete("a", key)), Ok(()));
}

#[test]
fn what_a_crash_left_goes_at_the_start() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("sub")).unwrap();
    for name in [".a.7.part", "sub/.b.c.4294967295.part", ".a.x.part", ".part", "a.7.part", ".7.part", "sub/b"] {
        std::fs::write(root.path().join(name), "x").unwrap();
    }
    std::os::unix::fs::symlink("a.7.part", root.path().join(".l.7.part")).unwrap();
    let kept = [".7.part", ".a.x.part", ".l.7.part", ".part", "a.7.part", "sub"];
    drop(folder(root.path(), false));
    assert_eq!(names(root.path()).len(), kept.len() + 1);
    let first = folder(root.path(), true);
    assert_eq!(
        (names(root.path()), names(&root.path().join("sub"))),
        (kept.map(str::to_owned).to_vec(), vec!["b".to_owned()])
    );
    // It is this station's alone as long as it writes there.
    let config = FolderConfig { writable: true, ..FolderConfig::new(root.path().to_owned()) };
    assert_eq!(Folder::open(&config).unwrap_err().to_string(), "another outstation writes its files there");
    drop(first);
    assert!(Folder::open(&config).is_ok());
}

/// Asks until there is an answer, as an outstation does each time that it is notified.
fn wait<T>(
    thread: &mut FolderThread,
    notify: &tokio::sync::Notify,
    ask: impl Fn(&mut FolderThread) -> FileAnswer<T>,
) -> Result<T, FileStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    loop {
        match ask(thread) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => runtime.block_on(notify.notified()),
        }
    }
}

#[test]
fn a_thread_does_what_the_folder_does() {
    let root = tempfile::tempdir().unwrap();
    let notify = std::sync::Arc::new(tokio::sync::Notify::new());
    let folder = folder(root.path(), true);
    let mut thread = FolderThread::start(folder, std::sync::Arc::clone(&notify)).unwrap();
    let write = request("a", FileMode::WRITE);
    assert!(thread.open(1, &write).is_pending());
    assert!(wait(&mut thread, &notify, |thread| thread.open(1, &write)).is_ok());
    assert_eq!(wait(&mut thread, &notify, |thread| thread.write(1, 0, b"abc")), Ok(()));
    assert_eq!(wait(&mut thread, &notify, |thread| thread.close(1, FileClose::Done)), Ok(()));
    assert_eq!(wait(&mut thread, &notify, |thread| thread.info("a")).map(|entry| entry.size), Ok(3));
    let (read, list) = (request("a", FileMode::READ), request("/", FileMode::READ));
    wait(&mut thread, &notify, |thread| thread.open(2, &read)).unwrap();
    let bytes = std::cell::RefCell::new(Vec::new());
    let end = wait(&mut thread, &notify, |thread| thread.read(2, 1, 9, &mut bytes.borrow_mut()));
    assert_eq!((end, bytes.into_inner()), (Ok(true), b"bc".to_vec()));
    assert_eq!(wait(&mut thread, &notify, |thread| thread.open(3, &list)).map(|opened| opened.size), Ok(1));
    let told = |thread: &mut FolderThread, at| ready(thread.list(3, at)).map(|entry| entry.map(|entry| entry.name));
    assert_eq!((told(&mut thread, 0), told(&mut thread, 1)), (Ok(Some("a".to_owned())), Ok(None)));
    assert_eq!(wait(&mut thread, &notify, |thread| thread.delete("a", 0)), Ok(()));
    assert_eq!(wait(&mut thread, &notify, |thread| thread.delete("a", 0)), Err(FileStatus::NotFound));
}

#[test]
fn what_nobody_asks_for_again_leaves_nothing_open() {
    let root = tempfile::tempdir().unwrap();
    let notify = std::sync::Arc::new(tokio::sync::Notify::new());
    let folder = folder(root.path(), true);
    let mut thread = FolderThread::start(folder, std::sync::Arc::clone(&notify)).unwrap();
    // The master gives the open up: its handle, and the place of its file, are free for another.
    assert!(thread.open(1, &request("a", FileMode::WRITE)).is_pending());
    assert_eq!(
        wait(&mut thread, &notify, |thread| thread.info("a")).map(|entry| entry.size),
        Err(FileStatus::NotFound)
    );
    assert!(wait(&mut thread, &notify, |thread| thread.open(1, &request("a", FileMode::WRITE))).is_ok());
    assert_eq!(wait(&mut thread, &notify, |thread| thread.write(1, 0, b"abc")), Ok(()));
    // The station ends while it writes: the part goes with it.
    drop(thread);
    assert_eq!(names(root.path()), Vec::<String>::new());
}
