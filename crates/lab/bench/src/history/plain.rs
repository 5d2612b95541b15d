//! The floor: a plain file behind the same receipts.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;
use tieline_history::{NotRecorded, Receipt};
use tieline_journal::Seq;

/// A thread that appends and syncs. Every batch is of the same length.
#[derive(Debug)]
pub struct PlainFile {
    batches: Option<Sender<Receipt>>,
    thread: Option<JoinHandle<()>>,
}

impl PlainFile {
    /// Makes the file; a batch is `bytes` long, and a sync takes `delay` longer.
    pub fn create(path: &Path, bytes: usize, delay: Duration) -> io::Result<Self> {
        let file = File::create(path)?;
        let (batches, incoming) = channel();
        let thread =
            std::thread::Builder::new().name("floor-file".into()).spawn(move || keep(file, bytes, delay, &incoming))?;
        Ok(Self { batches: Some(batches), thread: Some(thread) })
    }

    /// Hands over a batch; the receipt is called once it is synced.
    pub fn submit(&self, receipt: Receipt) {
        if let Some(batches) = &self.batches {
            let _ = batches.send(receipt);
        }
    }
}

impl Drop for PlainFile {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(mut file: File, bytes: usize, delay: Duration, incoming: &Receiver<Receipt>) {
    let mut written = 0;
    let mut bytes_of_group = Vec::new();
    while let Ok(first) = incoming.recv() {
        let receipts: Vec<Receipt> = std::iter::once(first).chain(incoming.try_iter()).collect();
        bytes_of_group.resize(bytes * receipts.len(), 0x5a);
        sleep(delay);
        let done = file.write_all(&bytes_of_group).and_then(|()| file.sync_data());
        for receipt in receipts {
            written += 1;
            receipt(match &done {
                Ok(()) => Ok(Seq(written)),
                Err(error) => Err(NotRecorded::Failed(error.to_string())),
            });
        }
    }
}
