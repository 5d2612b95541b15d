//! Our master and our outstation with a file between them, in virtual time, over a line that loses messages.

use super::*;
use crate::master::MasterConfig;
use crate::outstation::{AcceptAll, Database, FileConfig, Memory, Outstation, OutstationConfig};
use crate::{Classes, Flags, Measured, Measurement, PointType};
use alloc::borrow::ToOwned;
use alloc::vec;
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use tieline_core::{Machine, Timestamp};

const TOKEN: u64 = 77;

/// What the line does to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lose,
    Double,
}

struct World {
    now: Now,
    master: Master,
    outstation: Outstation,
    transfer: FileTransfer,
    /// What is written; what was read.
    source: Vec<u8>,
    target: Vec<u8>,
    names: Vec<String>,
    done: Option<Result<(), FileFailure>>,
    /// Messages so far, and what happens to some of them.
    messages: usize,
    fates: Vec<(usize, Fate)>,
    events_given: usize,
}

fn config() -> FileConfig {
    FileConfig { block_bytes_max: 10, ..FileConfig::default() }
}

impl World {
    fn new(memory: &Memory, files: FileConfig, job: FileJob, source: &[u8], fates: &[(usize, Fate)]) -> Self {
        let now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1000) };
        let none = Classes::NONE;
        let master = MasterConfig {
            disable_unsolicited: none,
            integrity: none,
            enable_unsolicited: none,
            request_bytes_max: 2048,
            clear_restart: false,
            ..MasterConfig::default()
        };
        let mut database = Database::new();
        let point = crate::outstation::PointConfig::of(PointType::Analog);
        database.add(PointType::Analog, 0, point).unwrap();
        let unsolicited = crate::outstation::UnsolicitedConfig {
            classes: Classes::EVENTS,
            ..crate::outstation::UnsolicitedConfig::default()
        };
        let outstation = OutstationConfig { unsolicited: Some(unsolicited), ..OutstationConfig::default() };
        let mut outstation = Outstation::new(outstation, database, Box::new(AcceptAll));
        outstation.serve_files(files, Box::new(memory.clone()));
        let transfer = FileTransfer::new(FileTransferConfig::default(), job, TOKEN);
        let (source, fates) = (source.to_vec(), fates.to_vec());
        let mut world = Self {
            now,
            master: Master::new(master),
            outstation,
            transfer,
            source,
            target: Vec::new(),
            names: Vec::new(),
            done: None,
            messages: 0,
            fates,
            events_given: 0,
        };
        world.master.handle_connected(now);
        world.outstation.handle_connected(now);
        world
    }

    /// Runs until the job is done, or a day has passed.
    fn run(mut self) -> Self {
        let end = self.now.mono + Duration::from_secs(86_400);
        while self.now.mono < end {
            while self.step() {}
            if self.done.is_some() {
                return self;
            }
            if self.master.is_closed() {
                self.master.handle_disconnected(self.now);
                self.outstation.handle_disconnected(self.now);
                self.own();
                self.master.handle_connected(self.now);
                self.outstation.handle_connected(self.now);
                continue;
            }
            let timeouts = [self.master.timeout(), self.outstation.timeout(), self.transfer.timeout()];
            let next = timeouts.into_iter().flatten().min().expect("somebody waits");
            self.now = self.now.later(Duration::from_micros(next.since(self.now.mono).as_micros().try_into().unwrap()));
            self.master.handle_timeout(self.now);
            self.outstation.handle_timeout(self.now);
            self.transfer.handle_timeout(self.now);
        }
        panic!("the job does not end: {:?}", self.transfer);
    }

    /// One message, if there is one.
    fn step(&mut self) -> bool {
        self.own();
        let mut bytes = Vec::new();
        if self.master.poll_transmit(self.now, &mut bytes) {
            for _ in 0..self.copies() {
                feed(&mut self.outstation, self.now, &bytes);
                while self.outstation.poll_event().is_some() {}
                let mut answer = Vec::new();
                while self.outstation.poll_transmit(self.now, &mut answer) {
                    self.deliver(&answer);
                    answer.clear();
                }
            }
            return true;
        }
        if self.outstation.poll_transmit(self.now, &mut bytes) {
            self.deliver(&bytes);
            return true;
        }
        false
    }

    fn deliver(&mut self, bytes: &[u8]) {
        for _ in 0..self.copies() {
            let mut rest = bytes;
            while !rest.is_empty() {
                let used = self.master.handle_input(self.now, rest);
                rest = &rest[used..];
                self.own();
            }
        }
    }

    fn copies(&mut self) -> usize {
        let fate = self.fates.iter().find(|(number, _)| *number == self.messages).map(|(_, fate)| *fate);
        self.messages += 1;
        match fate {
            Some(Fate::Lose) => 0,
            Some(Fate::Double) => 2,
            None => 1,
        }
    }

    /// What the owner does: hears events, stores blocks, gives blocks.
    fn own(&mut self) {
        loop {
            let event = self.master.poll_event();
            if let Some(event) = &event {
                if let MasterEvent::Values { values, .. } = event {
                    self.events_given += values.iter().filter(|found| found.is_event()).count();
                }
                self.transfer.handle_event(self.now, event);
            }
            let mut heard = event.is_some();
            while let Some(event) = self.transfer.poll_event() {
                heard = true;
                self.hear(event);
            }
            self.transfer.drive(self.now, &mut self.master);
            if !heard {
                return;
            }
        }
    }

    fn hear(&mut self, event: FileEvent) {
        match event {
            FileEvent::Opened { .. } => {}
            FileEvent::Block { offset, bytes, .. } => {
                self.target.truncate(usize::try_from(offset).unwrap());
                self.target.extend_from_slice(&bytes);
                // Something happens between any two blocks.
                let value = Measured::Analog(f64::from(u32::try_from(self.target.len()).unwrap()));
                let changed =
                    Measurement { point_type: PointType::Analog, index: 0, value, flags: Flags::ONLINE, stamp: None };
                self.outstation.update(self.now, changed).unwrap();
            }
            FileEvent::Entry(entry) => self.names.push(entry.name),
            FileEvent::Described(entry) => self.names.push(format!("{} {}", entry.name, entry.size)),
            FileEvent::Wanted { offset, bytes_max } => {
                let rest = &self.source[usize::try_from(offset).unwrap()..];
                let block = &rest[..rest.len().min(bytes_max.into())];
                let last = block.len() == rest.len();
                self.transfer.write_block(block, last);
            }
            FileEvent::Done(how) => self.done = Some(how),
        }
    }
}

fn feed(outstation: &mut Outstation, now: Now, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let used = outstation.handle_input(now, rest);
        rest = &rest[used..];
    }
}

fn read(name: &str, offset: u32) -> FileJob {
    FileJob::Read { name: name.to_owned(), offset }
}

fn write(name: &str, append: bool, size: Option<u32>) -> FileJob {
    FileJob::Write {
        name: name.to_owned(),
        append,
        size,
        created: DnpTime::from_millis(5),
        permissions: Permissions::READ_WRITE,
    }
}

fn check_read(bytes: &[u8], fates: &[(usize, Fate)]) -> usize {
    let memory = Memory::with("log", bytes);
    let world = World::new(&memory, config(), read("log", 0), &[], fates).run();
    assert_eq!(world.done, Some(Ok(())), "{fates:?}");
    assert_eq!(world.target, bytes, "{fates:?}");
    assert_eq!(world.outstation.file_counters().open, 0, "{fates:?}");
    world.messages
}

fn check_write(bytes: &[u8], fates: &[(usize, Fate)]) -> usize {
    let memory = Memory::with("new", b"old");
    let size = Some(bytes.len().try_into().unwrap());
    let world = World::new(&memory, config(), write("new", false, size), bytes, fates).run();
    assert_eq!(world.done, Some(Ok(())), "{fates:?}");
    assert_eq!(memory.get("new").as_deref(), Some(bytes), "{fates:?}");
    let blocks = u64::try_from(bytes.len().div_ceil(10).max(1)).unwrap();
    assert_eq!(world.outstation.file_counters().blocks_written, blocks, "{fates:?}");
    world.messages
}

#[test]
fn a_file_survives_the_loss_and_the_repetition_of_every_message() {
    for bytes in [&b""[..], b"0123456789", b"0123456789abcdefghijklmno"] {
        for fate in [Fate::Lose, Fate::Double] {
            for number in 0..check_read(bytes, &[]) {
                check_read(bytes, &[(number, fate)]);
                check_read(bytes, &[(number, fate), (number + 2, Fate::Lose)]);
            }
        }
    }
    for bytes in [&b"x"[..], b"0123456789", b"0123456789abcdefghijklmno"] {
        for fate in [Fate::Lose, Fate::Double] {
            for number in 0..check_write(bytes, &[]) {
                check_write(bytes, &[(number, fate)]);
                check_write(bytes, &[(number, fate), (number + 2, Fate::Lose)]);
            }
        }
    }
}

#[test]
fn megabytes_arrive_block_by_block() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[usize::from(n % 7 == 0)]).collect();
    let memory = Memory::with("big", &bytes);
    let world = World::new(&memory, FileConfig::default(), read("big", 0), &[], &[]).run();
    assert_eq!(world.done, Some(Ok(())));
    assert!(world.target == bytes);
    // No event waited for a file: one happened with every block but the last.
    assert_eq!(world.events_given, bytes.len().div_ceil(1024));
    let world = World::new(&memory, FileConfig::default(), write("copy", false, None), &bytes, &[]).run();
    assert_eq!(world.done, Some(Ok(())));
    assert!(memory.get("copy") == Some(bytes));
}

#[test]
fn a_read_is_resumed_where_it_was() {
    let bytes = b"0123456789abcdefghijklmno";
    let memory = Memory::with("log", bytes);
    for offset in [0, 9, 10, 19, 24] {
        let mut world = World::new(&memory, config(), read("log", offset), &[], &[]);
        world.target = bytes[..usize::try_from(offset).unwrap()].to_vec();
        let world = world.run();
        assert_eq!((world.done, world.target.as_slice()), (Some(Ok(())), &bytes[..]), "{offset}");
        let blocks = 3 - u64::from(offset) / 10;
        assert_eq!(world.outstation.file_counters().blocks_read, blocks, "{offset}");
    }
    // Beyond the end the outstation does not go: it is read from its beginning.
    let mut world = World::new(&memory, config(), read("log", 90), &[], &[]);
    world.target = vec![0; 90];
    let world = world.run();
    assert_eq!((world.done, world.target.as_slice()), (Some(Ok(())), &bytes[..]));
}

#[test]
fn a_directory_longer_than_a_fragment_is_listed() {
    let memory = Memory::default();
    let names: Vec<String> = (0..500).map(|number| format!("event-record-{number:05}.cfg")).collect();
    for name in &names {
        memory.0.lock().unwrap().files.insert(name.clone(), Vec::new());
    }
    let list = || FileJob::List { name: "/".to_owned() };
    let mut messages = 1;
    for number in 0..5 {
        let fates = [(number * messages / 5, Fate::Lose)];
        let world = World::new(&memory, FileConfig::default(), list(), &[], &fates).run();
        assert_eq!((world.done, &world.names), (Some(Ok(())), &names), "{fates:?}");
        messages = world.messages;
    }
    let mut world = World::new(&memory, FileConfig::default(), list(), &[], &[]);
    world.transfer.config.entries_max = 499;
    let world = world.run();
    assert_eq!(world.done, Some(Err(FileFailure::TooManyEntries)));
    assert_eq!(world.outstation.file_counters().open, 0);
}

#[test]
fn jobs_end_with_a_clear_error() {
    let check = |job: FileJob, fates: &[(usize, Fate)], expect: &str, names: &[&str]| {
        let memory = Memory::with("log", b"0123456789abc");
        let world = World::new(&memory, config(), job.clone(), b"xyz", fates).run();
        let found = match world.done {
            Some(Err(why)) => why.name().to_string(),
            Some(Ok(())) => "done".to_owned(),
            None => "nothing".to_owned(),
        };
        assert_eq!((found.as_str(), world.names), (expect, names.iter().map(ToString::to_string).collect()), "{job:?}");
    };
    let gone: Vec<_> = (3..90).map(|number| (number, Fate::Lose)).collect();
    check(read("nil", 0), &[], "file_not_found", &[]);
    check(FileJob::Delete { name: "log".to_owned() }, &[], "permission_denied", &[]);
    check(FileJob::Info { name: "log".to_owned() }, &[], "done", &["log 13"]);
    check(FileJob::Info { name: "nil".to_owned() }, &[], "file_not_found", &[]);
    check(read("log", 0), &gone, "connection_lost", &[]);
    // Fewer bytes than announced: what is there stays.
    check(write("log", false, Some(5)), &[], "fatal_error", &[]);
    check(write("log", true, Some(3)), &[], "done", &[]);
}

#[test]
fn a_user_gets_a_key_first() {
    for (password, expect) in [("pass", Ok(())), ("word", Err(FileFailure::NotAuthenticated))] {
        let memory = Memory::with("log", b"0123456789");
        let job = FileJob::Delete { name: "log".to_owned() };
        let mut world = World::new(&memory, config(), job.clone(), &[], &[]);
        let credentials = Some(("me".to_owned(), password.to_owned()));
        world.transfer =
            FileTransfer::new(FileTransferConfig { credentials, ..FileTransferConfig::default() }, job, TOKEN);
        let world = world.run();
        assert_eq!(world.done, Some(expect));
        assert_eq!(memory.get("log").is_none(), expect.is_ok());
    }
}

#[test]
fn an_aborted_write_leaves_what_was_there() {
    let bytes = b"0123456789abcdefghijklmno";
    for steps in 0..9 {
        let memory = Memory::with("log", b"old");
        let mut world = World::new(&memory, config(), write("log", false, None), bytes, &[]);
        for _ in 0..steps {
            world.step();
        }
        world.transfer.abort();
        let world = world.run();
        let expect = if world.done == Some(Ok(())) { &bytes[..] } else { b"old" };
        assert_eq!(memory.get("log").as_deref(), Some(expect), "{steps}");
        assert_eq!(world.outstation.file_counters().open, 0, "{steps}");
    }
}

proptest! {
    #[test]
    fn any_losses_leave_a_whole_file_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 1..60),
        fates in prop::collection::vec((0..40_usize, prop_oneof![Just(Fate::Lose), Just(Fate::Double)]), 0..20),
    ) {
        let memory = Memory::with("log", &bytes);
        let world = World::new(&memory, config(), read("log", 0), &[], &fates).run();
        prop_assert!(world.done != Some(Ok(())) || world.target == bytes);
        let size = Some(bytes.len().try_into().unwrap());
        let world = World::new(&memory, config(), write("copy", false, size), &bytes, &fates).run();
        if world.done == Some(Ok(())) {
            prop_assert_eq!(memory.get("copy"), Some(bytes));
        } else {
            prop_assert!(memory.get("copy").is_none_or(|copy| copy == bytes));
        }
    }

    #[test]
    fn any_answers_end_the_job(
        job in 0..5_u8,
        answers in prop::collection::vec((1..9_u8, prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(20)], 0..50)), 0..30),
    ) {
        let name = "log".to_owned();
        let job = match job {
            0 => read("log", 15),
            1 => write("log", false, None),
            2 => FileJob::List { name },
            3 => FileJob::Info { name },
            _ => FileJob::Delete { name },
        };
        let mut transfer = FileTransfer::new(FileTransferConfig::default(), job, TOKEN);
        let mut master = Master::new(MasterConfig::default());
        let now = Now::default();
        master.handle_connected(now);
        for (variation, bytes) in answers {
            while let Some(event) = transfer.poll_event() {
                if let FileEvent::Wanted { .. } = event {
                    transfer.write_block(b"x", false);
                }
            }
            transfer.drive(now, &mut master);
            let mut objects = vec![70, variation, 0x5B, 1, u8::try_from(bytes.len()).unwrap(), 0];
            objects.extend(bytes);
            let answer = Answer::Objects(objects.into());
            transfer.handle_event(now, &MasterEvent::Answer { token: TOKEN, answer });
            transfer.handle_event(now, &MasterEvent::TaskDone { token: TOKEN, outcome: TaskOutcome::Done });
        }
    }
}
