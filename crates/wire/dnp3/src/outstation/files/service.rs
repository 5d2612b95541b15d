//! What happens to a file request.

use super::{BoxedFileHandler, FileAnswer, FileClose, FileConfig, FileCounters, FileEntry, FileOpen, FileOpened};
use crate::Iin;
use crate::app::{
    FileAuthentication, FileCommand, FileCommandStatus, FileDescriptor, FileKind, FileMode, FileObject, FileStatus,
    FileTransport, FileTransportStatus, Fragment, Function,
};
use crate::outstation::application::{Digest, Outcome};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Poll;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// How long a command counts as the repetition of the one before: longer than a master waits for an answer.
const REPEAT_WITHIN: Duration = Duration::from_secs(20);
/// Bytes of a size that is not known (IEEE 1815 annex A, group 70 variation 3).
const SIZE_UNKNOWN: u32 = u32::MAX;

/// The files of one outstation.
pub(in crate::outstation) struct Files {
    config: FileConfig,
    handler: BoxedFileHandler,
    open: Vec<Open>,
    /// The handle that is given next; 0 until the first.
    next_handle: u32,
    /// Closed for silence, the last one.
    expired: Option<u32>,
    last: Option<Last>,
    counters: FileCounters,
    /// The request that the handler has not answered.
    pub(in crate::outstation) waiting: Option<Box<[u8]>>,
    pub(in crate::outstation) now: Now,
}

/// An open file.
#[derive(Clone, Copy, Debug)]
struct Open {
    handle: u32,
    mode: FileMode,
    kind: FileKind,
    block_bytes: u16,
    /// Bytes that the master said it would write.
    expected: Option<u32>,
    /// The block that follows, and where it begins: an offset, or a position in a directory.
    next: (u32, u64),
    /// Where the block before it begins.
    previous: (u32, u64),
    /// What the last written block was.
    written: Option<Digest>,
    /// Whether the last block of a written file came.
    complete: bool,
    until: Instant,
}

/// The last command, which its master may repeat.
#[derive(Debug)]
struct Last {
    digest: (Function, Digest),
    until: Instant,
    answer: Vec<u8>,
}

/// What a request is answered with: objects, or bits of IIN2.
type Answered = Poll<Result<Vec<u8>, Iin>>;

/// The longest block data of a fragment: without its header, the object's header, and the transport fields.
const fn data_bytes(objects_max: usize) -> usize {
    objects_max.saturating_sub(crate::app::FILE_HEADER_BYTES + crate::app::TRANSPORT_BYTES)
}

impl Files {
    pub(in crate::outstation) fn new(config: FileConfig, handler: BoxedFileHandler) -> Self {
        Self {
            config,
            handler,
            open: Vec::new(),
            next_handle: 0,
            expired: None,
            last: None,
            counters: FileCounters::default(),
            waiting: None,
            now: Now::default(),
        }
    }

    pub(in crate::outstation) fn counters(&self) -> FileCounters {
        FileCounters { open: u64::try_from(self.open.len()).unwrap_or(u64::MAX), ..self.counters }
    }

    /// When an open file is left alone for too long.
    pub(in crate::outstation) fn timeout(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.until).min()
    }

    pub(in crate::outstation) fn handle_timeout(&mut self, now: Now) {
        self.now = now;
        while let Some(at) = self.open.iter().position(|open| open.until <= now.mono) {
            let open = self.open.swap_remove(at);
            self.expired = Some(open.handle);
            self.counters.expired += 1;
            // Nobody is left to tell of a failure.
            let _ = self.handler.close(open.handle, FileClose::Expired);
        }
    }

    /// Forgets everything: the outstation restarts.
    pub(in crate::outstation) fn restart(&mut self) {
        for open in core::mem::take(&mut self.open) {
            let _ = self.handler.close(open.handle, FileClose::Aborted);
        }
        (self.last, self.expired, self.waiting) = (None, None, None);
    }

    /// Forgets the last command, and what the handler has not answered.
    pub(in crate::outstation) fn forget(&mut self) {
        (self.last, self.waiting) = (None, None);
    }

    /// Serves one of the functions 25 to 30, or a block that is read or written. `objects_max` bounds the answer.
    pub(in crate::outstation) fn perform(&mut self, fragment: &Fragment<'_>, objects_max: usize) -> Poll<Outcome> {
        let mut headers = fragment.headers();
        let (object, more) = match headers.next() {
            Some(Ok(header)) => {
                let mut objects = FileObject::all(&header);
                (objects.next(), objects.next().is_some() || headers.next().is_some())
            }
            Some(Err(error)) => return Poll::Ready(Outcome::only(error.iin())),
            None => (None, false),
        };
        // One file a request: what a second object's failure would mean, the standard does not say.
        let Some(Ok(object)) = object.filter(|_| !more) else {
            return Poll::Ready(Outcome::only(Iin::PARAMETER_ERROR));
        };
        self.serve(fragment, &object, objects_max).map(|served| match served {
            Ok(objects) => Outcome { iin: Iin::NONE, objects },
            Err(iin) => Outcome::only(iin),
        })
    }

    fn serve(&mut self, fragment: &Fragment<'_>, object: &FileObject<'_>, objects_max: usize) -> Answered {
        match (fragment.function, object) {
            (Function::AuthenticateFile, FileObject::Authentication(x)) => self.authenticate(x),
            (Function::FileInfo, FileObject::Descriptor(x)) => self.info(x),
            (Function::Read, FileObject::Transport(x)) => self.read(x, objects_max),
            (Function::Write, FileObject::Transport(x)) => self.write(x, Digest::of(fragment.objects)),
            (Function::OpenFile, FileObject::Command(_))
            | (Function::DeleteFile, FileObject::Command(_))
            | (Function::CloseFile | Function::AbortFile, FileObject::CommandStatus(_)) => {
                self.command_once(fragment, object, objects_max)
            }
            _ => Poll::Ready(Err(Iin::OBJECT_UNKNOWN)),
        }
    }

    /// A command is done once, however often its master repeats it.
    fn command_once(&mut self, fragment: &Fragment<'_>, object: &FileObject<'_>, objects_max: usize) -> Answered {
        let digest = (fragment.function, Digest::of(fragment.objects));
        if let Some(last) = self.last.as_ref().filter(|last| last.digest == digest && last.until > self.now.mono) {
            self.counters.repeated += 1;
            return Poll::Ready(Ok(last.answer.clone()));
        }
        let answered = match (fragment.function, object) {
            (Function::OpenFile, FileObject::Command(command)) => self.open(command, objects_max),
            (Function::DeleteFile, FileObject::Command(command)) => self.delete(command),
            (function, FileObject::CommandStatus(status)) => self.close(status, function == Function::AbortFile),
            _ => Poll::Ready(Err(Iin::OBJECT_UNKNOWN)),
        };
        if let Poll::Ready(Ok(answer)) = &answered {
            let until = self.now.mono + REPEAT_WITHIN;
            self.last = Some(Last { digest, until, answer: answer.clone() });
        }
        answered
    }

    fn authenticate(&mut self, asked: &FileAuthentication<'_>) -> Answered {
        let names = (core::str::from_utf8(asked.user), core::str::from_utf8(asked.password));
        let key = match names {
            (Ok(user), Ok(password)) => match self.handler.authenticate(user, password) {
                Poll::Ready(key) => key.unwrap_or(0),
                Poll::Pending => return Poll::Pending,
            },
            (Err(_), _) | (_, Err(_)) => 0,
        };
        self.counters.refused += u64::from(key == 0);
        answer(&FileObject::Authentication(FileAuthentication { key, ..FileAuthentication::default() }))
    }

    fn open(&mut self, command: &FileCommand<'_>, objects_max: usize) -> Answered {
        let refused = |status| (FileCommandStatus { request_id: command.request_id, ..refusal(status) }, None);
        let (status, open) = match self.try_open(command, objects_max) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(status)) => refused(status),
            Poll::Ready(Ok((opened, open))) => {
                let status = FileCommandStatus {
                    handle: open.handle,
                    size: opened.size,
                    block_bytes: open.block_bytes,
                    request_id: command.request_id,
                    ..refusal(FileStatus::Success)
                };
                (status, Some(open))
            }
        };
        self.counters.refused += u64::from(open.is_none());
        self.counters.opened += u64::from(open.is_some());
        self.open.extend(open);
        answer(&FileObject::CommandStatus(status))
    }

    fn try_open(&mut self, command: &FileCommand<'_>, objects_max: usize) -> FileAnswer<(FileOpened, Open)> {
        let Ok(name) = core::str::from_utf8(command.name) else { return Poll::Ready(Err(FileStatus::NotFound)) };
        if !matches!(command.mode, FileMode::READ | FileMode::WRITE | FileMode::APPEND) {
            return Poll::Ready(Err(FileStatus::InvalidMode));
        }
        if self.open.len() >= usize::from(self.config.handles_max) {
            return Poll::Ready(Err(FileStatus::TooManyOpen));
        }
        // Masters say 0 as well for what they do not know; a file that stays empty needs no size.
        let known = !matches!(command.size, 0 | SIZE_UNKNOWN);
        let expected = (command.mode != FileMode::READ && known).then_some(command.size);
        let handle = self.free_handle();
        // Asked again, it has the same number.
        self.next_handle = handle;
        let FileCommand { mode, created, permissions, key, .. } = *command;
        let request = FileOpen { name, mode, size: expected, created, permissions, key };
        self.handler.open(handle, &request).map_ok(|opened| {
            self.next_handle = handle.wrapping_add(1);
            let fits = u16::try_from(data_bytes(objects_max)).unwrap_or(u16::MAX);
            let wanted = if command.block_bytes == 0 { u16::MAX } else { command.block_bytes };
            let open = Open {
                handle,
                mode,
                kind: opened.kind,
                block_bytes: wanted.min(fits).min(self.config.block_bytes_max).max(1),
                expected,
                next: (0, 0),
                previous: (u32::MAX, 0),
                written: None,
                complete: false,
                until: self.now.mono + self.config.idle_timeout,
            };
            (opened, open)
        })
    }

    /// Handles begin at a number of the clock: one from before a restart leads to no other file.
    fn free_handle(&self) -> u32 {
        let seed = u32::try_from(self.now.utc.millis() & 0x7FFF_FFFF).unwrap_or(1);
        let mut handle = if self.next_handle == 0 { seed } else { self.next_handle };
        while handle == 0 || self.open.iter().any(|open| open.handle == handle) {
            handle = handle.wrapping_add(1);
        }
        handle
    }

    /// The place of an open file, which has not been left alone; or why there is none.
    fn find(&mut self, handle: u32) -> Result<usize, FileStatus> {
        let until = self.now.mono + self.config.idle_timeout;
        let missing = if self.expired == Some(handle) { FileStatus::HandleExpired } else { FileStatus::NotOpened };
        let at = self.open.iter().position(|open| open.handle == handle).ok_or(missing)?;
        self.open.iter_mut().filter(|open| open.handle == handle).for_each(|open| open.until = until);
        Ok(at)
    }

    fn read(&mut self, asked: &FileTransport<'_>, objects_max: usize) -> Answered {
        let mut data = Vec::new();
        let last = match self.try_read(asked, data_bytes(objects_max), &mut data) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(last)) => last,
            Poll::Ready(Err(status)) => {
                self.counters.refused += 1;
                return answer(&transport_status(asked, status));
            }
        };
        self.counters.blocks_read += 1;
        answer(&FileObject::Transport(FileTransport { last, data: &data, ..*asked }))
    }

    fn try_read(&mut self, asked: &FileTransport<'_>, fits: usize, data: &mut Vec<u8>) -> FileAnswer<bool> {
        let at = match self.find(asked.handle) {
            Ok(at) => at,
            Err(status) => return Poll::Ready(Err(status)),
        };
        let Self { open, handler, counters, .. } = self;
        let Some(open) = open.get_mut(at) else { return Poll::Ready(Err(FileStatus::NotOpened)) };
        if open.mode != FileMode::READ {
            return Poll::Ready(Err(FileStatus::InvalidMode));
        }
        let bytes_max = usize::from(open.block_bytes).min(fits);
        if open.kind == FileKind::DIRECTORY {
            counters.repeated += u64::from(open.previous.0 == asked.block);
            return list_block(handler, open, asked.block, bytes_max, data);
        }
        let offset = u64::from(asked.block) * u64::from(open.block_bytes);
        let read = handler.read(open.handle, offset, bytes_max, data);
        // Beyond the end there is only the empty block of an empty file.
        if read == Poll::Ready(Ok(true)) && data.is_empty() && asked.block > 0 {
            return Poll::Ready(Err(FileStatus::BlockSequence));
        }
        debug_assert!(data.len() <= bytes_max, "a handler gives no more than it was asked for");
        counters.repeated += u64::from(open.previous.0 == asked.block);
        open.previous = (asked.block, offset);
        read
    }

    fn write(&mut self, block: &FileTransport<'_>, digest: Digest) -> Answered {
        let status = match self.try_write(block, digest) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => FileStatus::Success,
            Poll::Ready(Err(status)) => status,
        };
        self.counters.refused += u64::from(status != FileStatus::Success);
        answer(&transport_status(block, status))
    }

    fn try_write(&mut self, block: &FileTransport<'_>, digest: Digest) -> FileAnswer<()> {
        let at = match self.find(block.handle) {
            Ok(at) => at,
            Err(status) => return Poll::Ready(Err(status)),
        };
        let Self { open, handler, counters, .. } = self;
        let Some(open) = open.get_mut(at) else { return Poll::Ready(Err(FileStatus::NotOpened)) };
        if open.mode == FileMode::READ {
            return Poll::Ready(Err(FileStatus::InvalidMode));
        }
        if open.written == Some(digest) {
            counters.repeated += 1;
            return Poll::Ready(Ok(()));
        }
        if block.data.len() > usize::from(open.block_bytes) {
            return Poll::Ready(Err(FileStatus::WriteBlockSize));
        }
        let (number, offset) = open.next;
        if block.block != number || open.complete {
            return Poll::Ready(Err(FileStatus::BlockSequence));
        }
        handler.write(open.handle, offset, block.data).map_ok(|()| {
            counters.blocks_written += 1;
            open.previous = open.next;
            open.next = (number.wrapping_add(1), offset + u64::try_from(block.data.len()).unwrap_or(0));
            (open.written, open.complete) = (Some(digest), block.last);
        })
    }

    fn close(&mut self, asked: &FileCommandStatus<'_>, abort: bool) -> Answered {
        let status = match self.find(asked.handle).map(|at| (at, self.open.get(at).copied())) {
            Ok((at, Some(open))) => {
                let closed = self.handler.close(open.handle, if abort { FileClose::Aborted } else { open.close() });
                let Poll::Ready(closed) = closed else { return Poll::Pending };
                self.open.swap_remove(at);
                match closed {
                    Ok(()) if abort || open.close() == FileClose::Done => FileStatus::Success,
                    Ok(()) => FileStatus::Fatal,
                    Err(status) => status,
                }
            }
            Ok((_, None)) | Err(FileStatus::NotOpened) => FileStatus::InvalidHandle,
            Err(status) => status,
        };
        self.counters.refused += u64::from(status != FileStatus::Success);
        answer(&FileObject::CommandStatus(FileCommandStatus {
            handle: asked.handle,
            request_id: asked.request_id,
            ..refusal(status)
        }))
    }

    fn delete(&mut self, command: &FileCommand<'_>) -> Answered {
        let deleted = match core::str::from_utf8(command.name) {
            Ok(name) => self.handler.delete(name, command.key),
            Err(_) => Poll::Ready(Err(FileStatus::NotFound)),
        };
        let Poll::Ready(deleted) = deleted else { return Poll::Pending };
        self.counters.refused += u64::from(deleted.is_err());
        let status = refusal(deleted.err().unwrap_or(FileStatus::Success));
        answer(&FileObject::CommandStatus(FileCommandStatus { request_id: command.request_id, ..status }))
    }

    fn info(&mut self, asked: &FileDescriptor<'_>) -> Answered {
        let found = match core::str::from_utf8(asked.name) {
            Ok(name) => self.handler.info(name),
            Err(_) => Poll::Ready(Err(FileStatus::NotFound)),
        };
        let request_id = asked.request_id;
        match found {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(entry)) => {
                answer(&FileObject::Descriptor(FileDescriptor { name: asked.name, request_id, ..entry.descriptor() }))
            }
            Poll::Ready(Err(status)) => {
                self.counters.refused += 1;
                answer(&FileObject::CommandStatus(FileCommandStatus { request_id, ..refusal(status) }))
            }
        }
    }
}

impl Open {
    /// What closing it means: a file of which not all was written must not take the place of another.
    fn close(&self) -> FileClose {
        let (blocks, bytes) = self.next;
        let whole = match self.expected {
            _ if self.mode == FileMode::READ => true,
            Some(expected) => u64::from(expected) == bytes,
            None => blocks == 0 || self.complete,
        };
        if whole { FileClose::Done } else { FileClose::Aborted }
    }
}

/// The descriptors of one block of a directory: as many whole ones as fit.
fn list_block(
    handler: &mut BoxedFileHandler,
    open: &mut Open,
    block: u32,
    bytes_max: usize,
    data: &mut Vec<u8>,
) -> FileAnswer<bool> {
    let Some((_, start)) = [open.next, open.previous].into_iter().find(|(number, _)| *number == block) else {
        return Poll::Ready(Err(FileStatus::BlockSequence));
    };
    let mut position = u32::try_from(start).unwrap_or(u32::MAX);
    let last = loop {
        let entry = match handler.list(open.handle, position) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(status)) => return Poll::Ready(Err(status)),
            Poll::Ready(Ok(None)) => break true,
            Poll::Ready(Ok(Some(entry))) => entry,
        };
        let descriptor = FileObject::Descriptor(entry.descriptor());
        let fits = data.len() + descriptor.bytes() <= bytes_max;
        if !fits && !data.is_empty() {
            break false;
        }
        // One that no block can hold is left out.
        if fits {
            descriptor.emit_object(data);
        }
        position = position.saturating_add(1);
    };
    if block == open.next.0 {
        open.previous = open.next;
        open.next = (block.wrapping_add(1), position.into());
    }
    Poll::Ready(Ok(last))
}

impl FileEntry {
    fn descriptor(&self) -> FileDescriptor<'_> {
        let Self { name, kind, size, created, permissions } = self;
        let (kind, size, created, permissions) = (*kind, *size, *created, *permissions);
        FileDescriptor { name: name.as_bytes(), kind, size, created, permissions, request_id: 0 }
    }
}

fn answer(object: &FileObject<'_>) -> Answered {
    let mut objects = Vec::with_capacity(object.bytes() + crate::app::FILE_HEADER_BYTES);
    object.emit(&mut objects);
    Poll::Ready(Ok(objects))
}

const fn refusal(status: FileStatus) -> FileCommandStatus<'static> {
    FileCommandStatus { handle: 0, size: 0, block_bytes: 0, request_id: 0, status, text: &[] }
}

const fn transport_status<'a>(block: &FileTransport<'_>, status: FileStatus) -> FileObject<'a> {
    let FileTransport { handle, block, last, .. } = *block;
    FileObject::TransportStatus(FileTransportStatus { handle, block, last, status, text: &[] })
}
