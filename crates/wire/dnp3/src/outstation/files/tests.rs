//! File requests in hex against files in memory.

use super::*;
use crate::Classes;
use crate::outstation::tests::station::{Station, bit};
use crate::outstation::{AcceptAll, OutstationConfig, UnsolicitedConfig};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use proptest::prelude::*;
use std::string::ToString;
use std::sync::{Arc, Mutex};

/// Files in memory, which a test can look into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(pub(crate) Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Handle to name and what was written.
    open: BTreeMap<u32, (String, Vec<u8>)>,
    /// How each closed file was closed.
    pub(crate) closed: Vec<FileClose>,
    /// How often to be pending before the next answer.
    pub(crate) pending: u32,
}

impl Memory {
    pub(crate) fn with(name: &str, bytes: &[u8]) -> Self {
        let memory = Self::default();
        memory.0.lock().unwrap().files.insert(name.to_owned(), bytes.to_vec());
        memory
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().files.get(name).cloned()
    }
}

const SECRET: (&str, &str, u32) = ("me", "pass", 7);

impl FileHandler for Memory {
    fn authenticate(&mut self, user: &str, password: &str) -> Poll<Option<u32>> {
        Poll::Ready(((user, password) == (SECRET.0, SECRET.1)).then_some(SECRET.2))
    }

    fn open(&mut self, handle: u32, request: &FileOpen<'_>) -> FileAnswer<FileOpened> {
        let mut inner = self.0.lock().unwrap();
        if request.name == "/" {
            inner.open.insert(handle, ("/".to_owned(), Vec::new()));
            let size = inner.files.len().try_into().unwrap();
            return Poll::Ready(Ok(FileOpened { kind: FileKind::DIRECTORY, size }));
        }
        let found = inner.files.get(request.name).cloned();
        let (size, written) = match (request.mode, found) {
            (FileMode::READ, None) => return Poll::Ready(Err(FileStatus::NotFound)),
            (FileMode::READ, Some(bytes)) => (bytes.len(), Vec::new()),
            (FileMode::APPEND, found) => (found.as_ref().map_or(0, Vec::len), found.unwrap_or_default()),
            _ => (0, Vec::new()),
        };
        inner.open.insert(handle, (request.name.to_owned(), written));
        Poll::Ready(Ok(FileOpened { kind: FileKind::SIMPLE, size: size.try_into().unwrap() }))
    }

    fn read(&mut self, handle: u32, offset: u64, bytes_max: usize, out: &mut Vec<u8>) -> FileAnswer<bool> {
        let mut inner = self.0.lock().unwrap();
        if inner.pending > 0 {
            inner.pending -= 1;
            return Poll::Pending;
        }
        let name = inner.open.get(&handle).unwrap().0.clone();
        let bytes = inner.files.get(&name).unwrap();
        let rest = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        out.extend(rest.iter().take(bytes_max));
        Poll::Ready(Ok(rest.len() <= bytes_max))
    }

    fn list(&mut self, _handle: u32, position: u32) -> FileAnswer<Option<FileEntry>> {
        let inner = self.0.lock().unwrap();
        let found = inner.files.iter().nth(usize::try_from(position).unwrap());
        Poll::Ready(Ok(found.map(|(name, bytes)| entry(name, bytes))))
    }

    fn write(&mut self, handle: u32, _offset: u64, bytes: &[u8]) -> FileAnswer<()> {
        let mut inner = self.0.lock().unwrap();
        inner.open.get_mut(&handle).unwrap().1.extend_from_slice(bytes);
        Poll::Ready(Ok(()))
    }

    fn close(&mut self, handle: u32, how: FileClose) -> FileAnswer<()> {
        let mut inner = self.0.lock().unwrap();
        let (name, written) = inner.open.remove(&handle).unwrap();
        inner.closed.push(how);
        if how == FileClose::Done && !written.is_empty() {
            inner.files.insert(name, written);
        }
        Poll::Ready(Ok(()))
    }

    fn delete(&mut self, name: &str, key: u32) -> FileAnswer<()> {
        if key != SECRET.2 {
            return Poll::Ready(Err(FileStatus::PermissionDenied));
        }
        let removed = self.0.lock().unwrap().files.remove(name);
        Poll::Ready(removed.map(|_| ()).ok_or(FileStatus::NotFound))
    }

    fn info(&mut self, name: &str) -> FileAnswer<FileEntry> {
        let inner = self.0.lock().unwrap();
        Poll::Ready(inner.files.get(name).map(|bytes| entry(name, bytes)).ok_or(FileStatus::NotFound))
    }
}

fn entry(name: &str, bytes: &[u8]) -> FileEntry {
    FileEntry {
        name: name.to_owned(),
        kind: FileKind::SIMPLE,
        size: bytes.len().try_into().unwrap(),
        created: DnpTime::from_millis(1),
        permissions: Permissions::READ_WRITE,
    }
}

/// The tester's clock starts at 1000 ms: so do the handles.
const HANDLE: &str = "E8 03 00 00";

fn station(memory: &Memory) -> Station {
    let mut station = Station::quiet();
    serve(&mut station, memory);
    station
}

fn serve(station: &mut Station, memory: &Memory) {
    let config = FileConfig { block_bytes_max: 4, handles_max: 2, ..FileConfig::default() };
    station.outstation.serve_files(config, Box::new(memory.clone()));
}

fn open(sequence: u8, name: &str, mode: u8, size: &str, request: u8) -> String {
    let text: String = name.bytes().map(|byte| std::format!("{byte:02X} ")).collect();
    let (bytes, all) = (name.len(), name.len() + 26);
    std::format!(
        "C{sequence:X} 19 46 03 5B 01 {all:02X} 00 1A 00 {bytes:02X} 00 00 00 00 00 00 00 A4 01 00 00 00 00 \
         {size} {mode:02X} 00 00 04 {request:02X} 00 {text}"
    )
}

fn status4(sequence: u8, handle: &str, size: u8, block: u8, request: u8, status: u8) -> String {
    std::format!(
        "C{sequence:X} 81 80 00 46 04 5B 01 0D 00 {handle} {size:02X} 00 00 00 {block:02X} 00 {request:02X} 00 {status:02X}"
    )
}

fn block(function: u8, sequence: u8, number: &str, data: &str) -> String {
    let bytes = 8 + data.split_whitespace().count();
    std::format!("C{sequence:X} {function:02X} 46 05 5B 01 {bytes:02X} 00 {HANDLE} {number} {data}")
}

fn data5(sequence: u8, number: &str, data: &str) -> String {
    let bytes = 8 + data.split_whitespace().count();
    std::format!("C{sequence:X} 81 80 00 46 05 5B 01 {bytes:02X} 00 {HANDLE} {number} {data}")
}

fn status6(sequence: u8, number: &str, status: u8) -> String {
    std::format!("C{sequence:X} 81 80 00 46 06 5B 01 09 00 {HANDLE} {number} {status:02X}")
}

/// Function 26 or 30.
fn close(function: u8, sequence: u8) -> String {
    std::format!("C{sequence:X} {function:02X} 46 04 5B 01 0D 00 {HANDLE} 00 00 00 00 00 00 09 00 00")
}

const NONE: &str = "00 00 00 00";

#[test]
fn a_file_is_read_block_by_block_and_again() {
    let memory = Memory::with("log", b"abcdef");
    let mut station = station(&memory);
    station
        .ask(&open(0, "log", 1, NONE, 1), &status4(0, HANDLE, 6, 4, 1, 0))
        .ask(&block(1, 1, "00 00 00 00", ""), &data5(1, "00 00 00 00", "61 62 63 64"))
        // Asked again, by the same request and by another.
        .ask(&block(1, 1, "00 00 00 00", ""), &data5(1, "00 00 00 00", "61 62 63 64"))
        .ask(&block(1, 2, "01 00 00 00", ""), &data5(2, "01 00 00 80", "65 66"))
        .ask(&block(1, 3, "00 00 00 00", ""), &data5(3, "00 00 00 00", "61 62 63 64"))
        .ask(&block(1, 4, "02 00 00 00", ""), &status6(4, "02 00 00 00", 20))
        .ask(&close(26, 5), &status4(5, HANDLE, 0, 0, 9, 0))
        // The answer was lost: the repetition has another number.
        .ask(&close(26, 6), &status4(6, HANDLE, 0, 0, 9, 0))
        .ask(&block(1, 7, "00 00 00 00", ""), &status6(7, "00 00 00 00", 16));
    assert_eq!(memory.0.lock().unwrap().closed, [FileClose::Done]);
}

#[test]
fn a_file_is_written_once_and_only_whole() {
    let memory = Memory::default();
    let mut station = station(&memory);
    station
        .ask(&open(0, "new", 2, "06 00 00 00", 1), &status4(0, HANDLE, 0, 4, 1, 0))
        .ask(&open(1, "new", 2, "06 00 00 00", 1), &status4(1, HANDLE, 0, 4, 1, 0))
        .ask(&block(2, 2, "00 00 00 00", "61 62 63 64"), &status6(2, "00 00 00 00", 0))
        .ask(&block(2, 3, "00 00 00 00", "61 62 63 64"), &status6(3, "00 00 00 00", 0))
        .ask(&block(2, 4, "02 00 00 00", "65"), &status6(4, "02 00 00 00", 20))
        .ask(&block(2, 5, "01 00 00 00", "65 66 67 68 69"), &status6(5, "01 00 00 00", 7))
        .ask(&block(1, 6, "00 00 00 00", ""), &status6(6, "00 00 00 00", 2))
        .ask(&block(2, 7, "01 00 00 80", "65 66"), &status6(7, "01 00 00 80", 0))
        .ask(&close(26, 8), &status4(8, HANDLE, 0, 0, 9, 0));
    assert_eq!(memory.get("new").as_deref(), Some(&b"abcdef"[..]));
    // Fewer bytes than were announced do not take the place of the file.
    let mut station = self::station(&memory);
    station
        .ask(&open(0, "new", 2, "06 00 00 00", 1), &status4(0, HANDLE, 0, 4, 1, 0))
        .ask(&block(2, 2, "00 00 00 00", "78"), &status6(2, "00 00 00 00", 0))
        .ask(&close(26, 3), &status4(3, HANDLE, 0, 0, 9, 19));
    assert_eq!(memory.get("new").as_deref(), Some(&b"abcdef"[..]));
    let closed = memory.0.lock().unwrap().closed.clone();
    assert_eq!(closed, [FileClose::Done, FileClose::Aborted]);
}

/// Masters in the field say 0 for a size that they do not know, as well as FFFFFFFF.
#[test]
fn a_file_of_a_size_that_its_master_does_not_know_is_written() {
    for size in ["00 00 00 00", "FF FF FF FF"] {
        let memory = Memory::default();
        let mut station = station(&memory);
        station
            .ask(&open(0, "new", 2, size, 1), &status4(0, HANDLE, 0, 4, 1, 0))
            .ask(&block(2, 1, "00 00 00 00", "61 62 63 64"), &status6(1, "00 00 00 00", 0))
            .ask(&block(2, 2, "01 00 00 80", "65"), &status6(2, "01 00 00 80", 0))
            .ask(&close(26, 3), &status4(3, HANDLE, 0, 0, 9, 0));
        assert_eq!(memory.get("new").as_deref(), Some(&b"abcde"[..]), "{size}");
    }
}

#[test]
fn commands_are_refused_by_name() {
    let memory = Memory::with("log", b"abcdef");
    let mut station = station(&memory);
    let second = "E9 03 00 00";
    station
        .ask(&open(0, "nil", 1, NONE, 1), &status4(0, NONE, 0, 0, 1, 3))
        .ask(&open(1, "log", 9, NONE, 2), &status4(1, NONE, 0, 0, 2, 2))
        .ask(&open(2, "log", 1, NONE, 3), &status4(2, HANDLE, 6, 4, 3, 0))
        .ask(&open(3, "log", 1, NONE, 4), &status4(3, second, 6, 4, 4, 0))
        .ask(&open(4, "log", 1, NONE, 5), &status4(4, NONE, 0, 0, 5, 5))
        .ask(&close(30, 5), &status4(5, HANDLE, 0, 0, 9, 0))
        // Authentication: a wrong password, the right one; a delete without and with the key.
        .ask(
            "C6 1D 46 02 5B 01 12 00 0C 00 02 00 0E 00 04 00 00 00 00 00 6D 65 70 61 73 78",
            "C6 81 80 00 46 02 5B 01 0C 00 0C 00 00 00 0C 00 00 00 00 00 00 00",
        )
        .ask(
            "C7 1D 46 02 5B 01 12 00 0C 00 02 00 0E 00 04 00 00 00 00 00 6D 65 70 61 73 73",
            "C7 81 80 00 46 02 5B 01 0C 00 0C 00 00 00 0C 00 00 00 07 00 00 00",
        )
        .ask(
            "C8 1B 46 03 5B 01 1D 00 1A 00 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 6C 6F 67",
            &status4(8, NONE, 0, 0, 1, 1),
        )
        .ask(
            "C9 1B 46 03 5B 01 1D 00 1A 00 03 00 00 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 00 00 00 00 02 00 6C 6F 67",
            &status4(9, NONE, 0, 0, 2, 0),
        )
        // Again: the answer was lost.
        .ask(
            "CA 1B 46 03 5B 01 1D 00 1A 00 03 00 00 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 00 00 00 00 02 00 6C 6F 67",
            &status4(10, NONE, 0, 0, 2, 0),
        )
        // Information of what is gone; objects that are none; two objects.
        .ask(
            "CB 1C 46 07 5B 01 17 00 14 00 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 03 00 6C 6F 67",
            &status4(11, NONE, 0, 0, 3, 3),
        )
        .ask("CC 19 46 04 5B 01 02 00 01 02", "CC 81 80 04")
        .ask("CD 19 3C 01 06", "CD 81 80 04")
        .ask("CE 1C", "CE 81 80 04");
    assert_eq!(station.outstation.file_counters().open, 1);
    // On another connection nothing is a repetition.
    let delete = "C0 1B 46 03 5B 01 1D 00 1A 00 03 00 00 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 00 00 00 00 02 00 6C 6F 67";
    station.reconnect().ask(delete, &status4(0, NONE, 0, 0, 2, 3));
    memory.0.lock().unwrap().files.insert("log".to_owned(), Vec::new());
    station.reconnect().ask(delete, &status4(0, NONE, 0, 0, 2, 0));
    assert_eq!(memory.get("log"), None);
}

#[test]
fn a_file_that_is_left_alone_is_closed() {
    let memory = Memory::with("log", b"abcdef");
    let mut station = station(&memory);
    station.ask(&open(0, "log", 1, NONE, 1), &status4(0, HANDLE, 6, 4, 1, 0)).wait(59_000);
    station.ask(&block(1, 1, "00 00 00 00", ""), &data5(1, "00 00 00 00", "61 62 63 64")).wait(60_000).tick();
    station.ask(&block(1, 2, "01 00 00 00", ""), &status6(2, "01 00 00 00", 17));
    assert_eq!(memory.0.lock().unwrap().closed, [FileClose::Expired]);
    assert_eq!(station.outstation.file_counters().expired, 1);
    station.ask(&open(3, "log", 1, NONE, 1), &status4(3, "E9 03 00 00", 6, 4, 1, 0));
    station.outstation.stop_files();
    assert_eq!(memory.0.lock().unwrap().closed, [FileClose::Expired, FileClose::Aborted]);
    station.ask(&open(4, "log", 1, NONE, 1), "C4 81 80 01");
}

#[test]
fn a_handler_may_answer_later() {
    let memory = Memory::with("log", b"abcdef");
    let mut station = station(&memory);
    station.ask(&open(0, "log", 1, NONE, 1), &status4(0, HANDLE, 6, 4, 1, 0));
    memory.0.lock().unwrap().pending = 2;
    station.ask(&block(1, 1, "00 00 00 00", ""), "");
    station.outstation.poll_files(station.now);
    station.hear("");
    station.outstation.poll_files(station.now);
    station.hear(&data5(1, "00 00 00 00", "61 62 63 64"));
    // Another request takes its place: nobody waits for the block.
    memory.0.lock().unwrap().pending = 1;
    station.ask(&block(1, 2, "01 00 00 00", ""), "").ask("C3 17", "C3 81 80 00 34 02 07 01 00 00");
    station.outstation.poll_files(station.now);
    station.hear("");
}

#[test]
fn events_go_ahead_of_blocks() {
    let unsolicited = UnsolicitedConfig { classes: Classes::EVENTS, ..UnsolicitedConfig::default() };
    let config = OutstationConfig { unsolicited: Some(unsolicited), ..OutstationConfig::default() };
    let mut station = Station::new(config, Box::new(AcceptAll));
    let memory = Memory::with("log", b"abcdef");
    serve(&mut station, &memory);
    station.hear("F0 82 80 00").ask("D0 00", "");
    station.ask(&open(0, "log", 1, NONE, 1), &status4(0, HANDLE, 6, 4, 1, 0));
    // The event happens while the block is being read: it goes out first.
    memory.0.lock().unwrap().pending = 1;
    station.ask(&block(1, 1, "00 00 00 00", ""), "");
    station.outstation.poll_files(station.now);
    station.outstation.update(station.now, bit(0, true)).unwrap();
    station.hear("F1 82 80 00 02 01 17 01 00 81").hear(&data5(1, "00 00 00 00", "61 62 63 64"));
    // A read waits until the event is confirmed.
    station.ask(&block(1, 2, "01 00 00 00", ""), "").ask("D1 00", &data5(2, "01 00 00 80", "65 66"));
}

#[test]
fn a_directory_fills_blocks_with_whole_entries() {
    let memory = Memory::default();
    for number in 0..5 {
        memory.0.lock().unwrap().files.insert(number.to_string(), Vec::new());
    }
    let mut station = Station::quiet();
    let config = FileConfig { block_bytes_max: 45, ..FileConfig::default() };
    station.outstation.serve_files(config, Box::new(memory.clone()));
    let entry = |n: u8| std::format!("14 00 01 00 01 00 00 00 00 00 01 00 00 00 00 00 A4 01 00 00 {:02X} ", b'0' + n);
    station
        .ask(&open(0, "/", 1, NONE, 1), &status4(0, HANDLE, 5, 45, 1, 0))
        .ask(&block(1, 1, "00 00 00 00", ""), &data5(1, "00 00 00 00", &(entry(0) + &entry(1))))
        .ask(&block(1, 2, "02 00 00 00", ""), &status6(2, "02 00 00 00", 20))
        .ask(&block(1, 3, "00 00 00 00", ""), &data5(3, "00 00 00 00", &(entry(0) + &entry(1))))
        .ask(&block(1, 4, "01 00 00 00", ""), &data5(4, "01 00 00 00", &(entry(2) + &entry(3))))
        .ask(&block(1, 5, "02 00 00 00", ""), &data5(5, "02 00 00 80", &entry(4)))
        .ask(&block(1, 6, "02 00 00 00", ""), &data5(6, "02 00 00 80", &entry(4)))
        .ask(&block(1, 7, "01 00 00 00", ""), &status6(7, "01 00 00 00", 20));
}

proptest! {
    #[test]
    fn any_request_is_answered_within_limits(
        requests in prop::collection::vec(
            (prop_oneof![25..31_u8, Just(1), Just(2)], 1..9_u8, prop::collection::vec(prop_oneof![any::<u8>(), 0..30_u8], 0..60)),
            0..30,
        ),
    ) {
        let memory = Memory::with("log", b"abcdef");
        let mut station = station(&memory);
        for (function, variation, bytes) in requests {
            let size = u8::try_from(bytes.len()).unwrap();
            let head = [0xC0, function, 70, variation, 0x5B, 1, size, 0];
            station.send_to(crate::outstation::tests::station::OUTSTATION, &[&head[..], &bytes].concat());
            prop_assert!(station.outstation.file_counters().open <= 2);
            station.wait(100);
        }
    }
}
