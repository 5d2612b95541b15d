//! A folder on a thread of its own: the thread that serves the outstation waits for no disk.
//!
//! ```text
//! outstation ── asks ──▶ pending          ask ──▶ thread: Folder ── answer ──▶ notify
//!      └── asks the same again, once notified ◀───────────────────────────────────┘
//! ```
//!
//! One request of the outstation is wanted at a time. One that it does not ask for again, because its master asked for
//! something else, is done all the same, in order; a file that was opened by it is closed again.

use super::Folder;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread::JoinHandle;
use tieline_dnp3::DnpTime;
use tieline_dnp3::app::{FileMode, FileStatus, Permissions};
use tieline_dnp3::outstation::{FileAnswer, FileClose, FileEntry, FileHandler, FileOpen, FileOpened};
use tokio::sync::Notify;

/// Requests that may be under way: one that is wanted, and those given up, which a slow disk holds. One more is refused
/// with `locked`; what closes a file is always taken.
const UNDER_WAY_MAX: usize = 8;

/// Serves a folder by a thread of its own, which ends with it.
#[derive(Debug)]
pub struct FolderThread {
    asks: Option<Sender<Ask>>,
    answers: Receiver<Answer>,
    /// In the order of the answers; whether each is wanted.
    under_way: VecDeque<(Ask, bool)>,
    /// What was wanted last, answered.
    ready: Option<(Ask, Answer)>,
    /// Of the directories that are open.
    listings: HashMap<u32, Vec<FileEntry>>,
    thread: Option<JoinHandle<()>>,
}

/// A request, so that it is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    Authenticate {
        user: String,
        password: String,
    },
    Open {
        handle: u32,
        name: String,
        mode: FileMode,
        size: Option<u32>,
        created: DnpTime,
        permissions: Permissions,
        key: u32,
    },
    Read {
        handle: u32,
        offset: u64,
        bytes_max: usize,
    },
    Write {
        handle: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Close {
        handle: u32,
        how: FileClose,
    },
    Delete {
        name: String,
        key: u32,
    },
    Info {
        name: String,
    },
}

#[derive(Debug)]
enum Answer {
    Key(Option<u32>),
    Opened(Result<(FileOpened, Vec<FileEntry>), FileStatus>),
    Block(Result<(Vec<u8>, bool), FileStatus>),
    Done(Result<(), FileStatus>),
    Entry(Result<FileEntry, FileStatus>),
}

impl FolderThread {
    /// Gives the folder a thread. `notify` is told of each answer: ask the outstation to poll its files then.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(mut folder: Folder, notify: Arc<Notify>) -> io::Result<Self> {
        let (asks, asked) = channel::<Ask>();
        let (answer, answers) = channel();
        let thread = std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            while let Ok(ask) = asked.recv() {
                if answer.send(ask.done_by(&mut folder)).is_err() {
                    return;
                }
                notify.notify_one();
            }
        })?;
        Ok(Self {
            asks: Some(asks),
            answers,
            under_way: VecDeque::new(),
            ready: None,
            listings: HashMap::new(),
            thread: Some(thread),
        })
    }

    /// Asks, or takes the answer where it is there.
    fn ask(&mut self, ask: Ask) -> Poll<Answer> {
        self.collect();
        if let Some((known, answer)) = self.ready.take() {
            if known == ask {
                return Poll::Ready(answer);
            }
            self.give_up(&known, &answer);
        }
        if self.under_way.iter().any(|(known, wanted)| *wanted && *known == ask) {
            return Poll::Pending;
        }
        if self.under_way.len() >= UNDER_WAY_MAX && !matches!(ask, Ask::Close { .. }) {
            return Poll::Ready(ask.refused());
        }
        self.under_way.iter_mut().for_each(|(_, wanted)| *wanted = false);
        self.send(ask, true);
        Poll::Pending
    }

    fn send(&mut self, ask: Ask, wanted: bool) {
        let sent = self.asks.as_ref().is_some_and(|asks| asks.send(ask.clone()).is_ok());
        match sent {
            true => self.under_way.push_back((ask, wanted)),
            // The thread is gone: it cannot have ended well.
            false => self.ready = wanted.then(|| (ask.clone(), ask.refused())),
        }
    }

    /// Takes the answers that are there.
    fn collect(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            match self.under_way.pop_front() {
                Some((ask, true)) => self.ready = Some((ask, answer)),
                Some((ask, false)) => self.give_up(&ask, &answer),
                None => {}
            }
        }
    }

    /// Nobody takes the answer: a file that it opened is closed.
    fn give_up(&mut self, ask: &Ask, answer: &Answer) {
        if let (Ask::Open { handle, .. }, Answer::Opened(Ok(_))) = (ask, answer) {
            self.send(Ask::Close { handle: *handle, how: FileClose::Aborted }, false);
        }
    }
}

impl Ask {
    fn done_by(&self, folder: &mut Folder) -> Answer {
        match self {
            Self::Authenticate { user, password } => match folder.authenticate(user, password) {
                Poll::Ready(key) => Answer::Key(key),
                Poll::Pending => Answer::Key(None),
            },
            Self::Open { handle, name, mode, size, created, permissions, key } => {
                let request = FileOpen {
                    name,
                    mode: *mode,
                    size: *size,
                    created: *created,
                    permissions: *permissions,
                    key: *key,
                };
                let opened = at_once(folder.open(*handle, &request));
                Answer::Opened(opened.map(|opened| (opened, folder.take_listing(*handle))))
            }
            Self::Read { handle, offset, bytes_max } => {
                let mut bytes = Vec::new();
                let read = at_once(folder.read(*handle, *offset, *bytes_max, &mut bytes));
                Answer::Block(read.map(|last| (bytes, last)))
            }
            Self::Write { handle, offset, bytes } => Answer::Done(at_once(folder.write(*handle, *offset, bytes))),
            Self::Close { handle, how } => Answer::Done(at_once(folder.close(*handle, *how))),
            Self::Delete { name, key } => Answer::Done(at_once(folder.delete(name, *key))),
            Self::Info { name } => Answer::Entry(at_once(folder.info(name))),
        }
    }

    /// The answer when too much is under way.
    const fn refused(&self) -> Answer {
        match self {
            Self::Authenticate { .. } => Answer::Key(None),
            Self::Open { .. } => Answer::Opened(Err(FileStatus::Locked)),
            Self::Read { .. } => Answer::Block(Err(FileStatus::Locked)),
            Self::Write { .. } | Self::Close { .. } | Self::Delete { .. } => Answer::Done(Err(FileStatus::Locked)),
            Self::Info { .. } => Answer::Entry(Err(FileStatus::Locked)),
        }
    }
}

/// A folder answers at once.
fn at_once<T>(answer: FileAnswer<T>) -> Result<T, FileStatus> {
    match answer {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(FileStatus::Fatal),
    }
}

impl FileHandler for FolderThread {
    fn authenticate(&mut self, user: &str, password: &str) -> Poll<Option<u32>> {
        self.ask(Ask::Authenticate { user: user.to_owned(), password: password.to_owned() }).map(
            |answer| match answer {
                Answer::Key(key) => key,
                _ => None,
            },
        )
    }

    fn open(&mut self, handle: u32, request: &FileOpen<'_>) -> FileAnswer<FileOpened> {
        let FileOpen { name, mode, size, created, permissions, key } = *request;
        let ask = Ask::Open { handle, name: name.to_owned(), mode, size, created, permissions, key };
        self.ask(ask).map(|answer| match answer {
            Answer::Opened(Ok((opened, entries))) => {
                if !entries.is_empty() {
                    self.listings.insert(handle, entries);
                }
                Ok(opened)
            }
            Answer::Opened(Err(status)) => Err(status),
            _ => Err(FileStatus::Fatal),
        })
    }

    fn read(&mut self, handle: u32, offset: u64, bytes_max: usize, out: &mut Vec<u8>) -> FileAnswer<bool> {
        self.ask(Ask::Read { handle, offset, bytes_max }).map(|answer| match answer {
            Answer::Block(Ok((bytes, last))) => {
                out.extend(bytes);
                Ok(last)
            }
            Answer::Block(Err(status)) => Err(status),
            _ => Err(FileStatus::Fatal),
        })
    }

    fn list(&mut self, handle: u32, position: u32) -> FileAnswer<Option<FileEntry>> {
        let entries = self.listings.get(&handle);
        let at = usize::try_from(position).ok();
        Poll::Ready(Ok(entries.zip(at).and_then(|(entries, at)| entries.get(at)).cloned()))
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> FileAnswer<()> {
        self.ask(Ask::Write { handle, offset, bytes: bytes.to_vec() }).map(done)
    }

    fn close(&mut self, handle: u32, how: FileClose) -> FileAnswer<()> {
        self.listings.remove(&handle);
        self.ask(Ask::Close { handle, how }).map(done)
    }

    fn delete(&mut self, name: &str, key: u32) -> FileAnswer<()> {
        self.ask(Ask::Delete { name: name.to_owned(), key }).map(done)
    }

    fn info(&mut self, name: &str) -> FileAnswer<FileEntry> {
        self.ask(Ask::Info { name: name.to_owned() }).map(|answer| match answer {
            Answer::Entry(entry) => entry,
            _ => Err(FileStatus::Fatal),
        })
    }
}

fn done(answer: Answer) -> Result<(), FileStatus> {
    match answer {
        Answer::Done(done) => done,
        _ => Err(FileStatus::Fatal),
    }
}

impl Drop for FolderThread {
    /// What is under way ends; parts of files go.
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
