//! How file requests reach the files, and their answers the master.

use super::{BoxedFileHandler, FileConfig, FileCounters, Files};
use crate::Iin;
use crate::app::{Fragment, Function};
use crate::outstation::Outstation;
use crate::outstation::application::{Application, Digest};
use alloc::boxed::Box;
use core::task::Poll;
use tieline_core::Now;

/// Group and variation of a block.
const TRANSPORT: [u8; 2] = [70, 5];

/// Whether a request is of file transfer: functions 25 to 30, or a block that is read or written.
pub(in crate::outstation) fn is_file_request(fragment: &Fragment<'_>) -> bool {
    match fragment.function {
        Function::OpenFile
        | Function::CloseFile
        | Function::DeleteFile
        | Function::FileInfo
        | Function::AuthenticateFile
        | Function::AbortFile => true,
        Function::Read | Function::Write => fragment.objects.starts_with(&TRANSPORT),
        _ => false,
    }
}

impl Outstation {
    /// Serves files, as `handler` has them. What was open before is closed.
    pub fn serve_files(&mut self, config: FileConfig, handler: BoxedFileHandler) {
        self.stop_files();
        self.application.files = Some(Box::new(Files::new(config, handler)));
    }

    /// Serves no files: the functions are not known.
    pub fn stop_files(&mut self) {
        if let Some(mut files) = self.application.files.take() {
            files.restart();
        }
    }

    /// Asks the handler again for what it left pending: poll for output after it.
    pub fn poll_files(&mut self, now: Now) {
        let application = &mut self.application;
        let Some(bytes) = application.files.as_mut().and_then(|files| files.waiting.take()) else { return };
        if let Ok(fragment) = Fragment::parse(&bytes) {
            application.answer_file(now, &bytes, &fragment);
        }
    }

    /// What its files have seen; zero without files.
    #[must_use]
    pub fn file_counters(&self) -> FileCounters {
        self.application.files.as_ref().map(|files| files.counters()).unwrap_or_default()
    }
}

impl Application {
    pub(in crate::outstation) fn handle_file(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) {
        self.stats.requests += 1;
        self.begin_request();
        self.selection = None;
        if fragment.function == Function::Read && self.unsolicited.is_awaiting() {
            // IEEE 1815 5.1.1.2: reads wait until the unsolicited response is settled.
            self.last = None;
            self.deferred = Some(bytes.into());
            if let Some(files) = &mut self.files {
                files.now = now;
            }
        } else if self.last == Some(Digest::of(bytes)) {
            self.stats.requests_repeated += 1;
            self.repeat_reply();
        } else {
            self.answer_file(now, bytes, fragment);
        }
    }

    /// A read of a file that waited for an unsolicited response.
    pub(in crate::outstation) fn answer_deferred_file(&mut self, bytes: &[u8], fragment: &Fragment<'_>) {
        let now = self.files.as_ref().map(|files| files.now).unwrap_or_default();
        self.answer_file(now, bytes, fragment);
    }

    pub(in crate::outstation) fn answer_file(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) {
        let objects_max = self.objects_max();
        let Some(files) = &mut self.files else { return };
        files.now = now;
        match files.perform(fragment, objects_max) {
            Poll::Ready(outcome) => {
                debug_assert!(outcome.objects.len() <= objects_max || outcome.iin != Iin::NONE);
                // A block that is read again is read again.
                self.last = (fragment.function != Function::Read).then(|| Digest::of(bytes));
                self.set_reply(fragment.control.sequence, outcome);
            }
            Poll::Pending => {
                // Its repetition asks the handler again.
                files.waiting = Some(bytes.into());
                self.last = None;
            }
        }
    }

    /// Nobody waits for what the handler has not answered.
    pub(in crate::outstation) fn forget_file(&mut self) {
        if let Some(files) = &mut self.files {
            files.waiting = None;
        }
    }

    /// The connection is gone: what comes on the next one repeats nothing.
    pub(in crate::outstation) fn forget_repetitions(&mut self) {
        if let Some(files) = &mut self.files {
            files.forget();
        }
    }

    /// Whether the reply that is to be sent is bulk: events go ahead of it.
    pub(in crate::outstation) fn is_bulk_reply(&self) -> bool {
        self.files.is_some() && self.reply.objects.first() == TRANSPORT.first()
    }
}
