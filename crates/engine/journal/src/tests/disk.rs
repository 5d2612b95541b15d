//! A disk in memory whose calls fail, write short, and crash as told, and which loses or tears what was not synced.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use tieline_core::{Random, Storage, StorageError, StorageErrorKind};

/// Random numbers as sizes: the same seed, the same run.
#[derive(Clone)]
pub(super) struct Dice(Random);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(super) const fn roll(&mut self) -> u64 {
        self.0.number()
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Whether the name survives a power cut.
    named: bool,
    /// A sync failed: what was not synced by then never reaches the medium, whatever later syncs say.
    sync_failed: bool,
    /// As before, and an earlier process did it: this one cannot know.
    lies: bool,
}

struct Inner {
    files: BTreeMap<String, File>,
    dice: Dice,
    /// One in how many changing calls fails; 0 for none.
    fail_one_in: usize,
    /// Calls left before the machine stops.
    calls_left: usize,
    crashed: bool,
    /// Bytes that fit.
    room: usize,
}

#[derive(Clone)]
pub(super) struct Disk(Rc<RefCell<Inner>>);

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        let inner = Inner {
            files: BTreeMap::new(),
            dice: Dice::new(seed),
            fail_one_in: 0,
            calls_left: usize::MAX,
            crashed: false,
            room: usize::MAX,
        };
        Self(Rc::new(RefCell::new(inner)))
    }

    pub(super) fn fail_one_in(&self, n: usize) {
        self.0.borrow_mut().fail_one_in = n;
    }

    pub(super) fn crash_after(&self, calls: usize) {
        self.0.borrow_mut().calls_left = calls;
    }

    pub(super) fn room(&self, bytes: usize) {
        self.0.borrow_mut().room = bytes;
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.0.borrow().crashed
    }

    /// Power returns: unsynced bytes are gone, or cut anywhere, or partly zero.
    pub(super) fn power_cut(&self) {
        let mut inner = self.0.borrow_mut();
        let mut dice = inner.dice.clone();
        inner.files.retain(|_, file| file.named || dice.one_in(2));
        for file in inner.files.values_mut() {
            let mut kept = file.synced.clone();
            if !file.sync_failed && !file.lies && file.bytes.starts_with(&file.synced) {
                let end = kept.len() + dice.below(file.bytes.len() - kept.len() + 1);
                let lost_from = kept.len() + dice.below(end - kept.len() + 1);
                kept.extend_from_slice(&file.bytes[file.synced.len()..end]);
                if dice.one_in(2) {
                    let lost_to = (lost_from + dice.below(64)).min(end);
                    kept[lost_from..lost_to].fill(0);
                }
            }
            *file = File { bytes: kept.clone(), synced: kept, named: true, sync_failed: false, lies: false };
        }
        inner.dice = dice;
        inner.revive();
    }

    /// The process is started again: what was written is there.
    pub(super) fn restart(&self) {
        let mut inner = self.0.borrow_mut();
        for file in inner.files.values_mut() {
            file.lies |= core::mem::take(&mut file.sync_failed);
        }
        inner.revive();
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.borrow().files.keys().cloned().collect()
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        self.0.borrow().files[name].bytes.clone()
    }

    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.0.borrow_mut().files.get_mut(name).unwrap().bytes);
    }
}

impl Inner {
    fn revive(&mut self) {
        (self.crashed, self.calls_left, self.fail_one_in) = (false, usize::MAX, 0);
    }

    /// Counts a changing call; says whether it fails.
    fn begin(&mut self) -> Result<bool, StorageError> {
        if self.calls_left == 0 {
            self.crashed = true;
        }
        if self.crashed {
            return Err(error(StorageErrorKind::Io));
        }
        self.calls_left -= 1;
        Ok(self.fail_one_in > 0 && self.dice.one_in(self.fail_one_in))
    }
}

fn error(kind: StorageErrorKind) -> StorageError {
    StorageError { kind, message: "simulated".to_string() }
}

impl Storage for Disk {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        Ok(self.names())
    }

    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        let inner = self.0.borrow();
        inner.files.get(name).map(|f| f.bytes.len() as u64).ok_or(error(StorageErrorKind::Missing))
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        let mut inner = self.0.borrow_mut();
        let short = inner.dice.below(40) == 0;
        let file = inner.files.get(name).ok_or(error(StorageErrorKind::Missing))?;
        let rest = file.bytes.get(offset as usize..).unwrap_or_default();
        let mut count = rest.len().min(out.len());
        if short && count > 1 {
            count /= 2;
        }
        out[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let mut inner = self.0.borrow_mut();
        let stops = inner.calls_left == 0 && !inner.crashed;
        let begun = inner.begin();
        let used: usize = inner.files.values().map(|f| f.bytes.len()).sum();
        let free = inner.room.saturating_sub(used);
        if stops || matches!(begun, Ok(true)) || free < bytes.len() {
            let count = inner.dice.below(bytes.len() + 1).min(free);
            if inner.dice.one_in(2) && free > 0 {
                inner.files.entry(name.to_string()).or_default().bytes.extend_from_slice(&bytes[..count]);
            }
            begun?;
            return Err(error(StorageErrorKind::Full));
        }
        begun?;
        inner.files.entry(name.to_string()).or_default().bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        let mut inner = self.0.borrow_mut();
        let fails = inner.begin()?;
        let file = inner.files.get_mut(name).ok_or(error(StorageErrorKind::Missing))?;
        if fails {
            file.sync_failed = true;
            return Err(error(StorageErrorKind::Io));
        }
        assert!(!file.sync_failed, "a failed sync was tried again on {name}");
        if !file.lies {
            file.synced = file.bytes.clone();
            file.named = true;
        }
        Ok(())
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        let mut inner = self.0.borrow_mut();
        let fails = inner.begin()?;
        let file = inner.files.get_mut(name).ok_or(error(StorageErrorKind::Missing))?;
        if fails {
            return Err(error(StorageErrorKind::Io));
        }
        file.bytes.truncate(len as usize);
        file.synced.truncate(len as usize);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        let mut inner = self.0.borrow_mut();
        if inner.begin()? {
            return Err(error(StorageErrorKind::Io));
        }
        inner.files.remove(name).map(drop).ok_or(error(StorageErrorKind::Missing))
    }
}
