//! What a site knows at its start: its numbers, and what the journal has.

use super::files;
use super::numbers::Numbers;
use std::path::Path;
use std::time::Duration;
use tieline_core::Now;
use tieline_history::{JournalFeed, JournalPlace, RESTORED_SITE};
use tokio::sync::watch;

/// The numbers of the file, or others where the journal is another one.
///
/// # Errors
/// The folder cannot be read or written.
pub fn load(path: &Path, folder: &Path, feed: &JournalFeed, now: Now) -> std::io::Result<Numbers> {
    let known = files::read(path)?.and_then(|text| Numbers::of_text(&text));
    let (place, restored) = (feed.place(), folder.join(RESTORED_SITE));
    let time = u64::try_from(now.utc.micros()).unwrap_or(1).max(1);
    let numbers = match known {
        // A journal that is behind its numbers is another one: it gives the same places to other records.
        Some(known) if known.reach_beyond(feed.opened()) => {
            tracing::warn!("the journal is not the one that the numbers of the site belong to: they begin again");
            Numbers::begin(time.max(known.epoch() + 1), place.first)
        }
        Some(known) if restored.exists() => known.begin_again(time.max(known.epoch() + 1)),
        Some(known) => return Ok(known),
        None => Numbers::begin(time, place.first),
    };
    files::replace(path, &numbers.to_text())?;
    match std::fs::remove_file(restored) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(numbers),
    }
}

/// A thread that waits for records, for a runtime that cannot.
pub fn watch_journal(feed: &JournalFeed) -> watch::Receiver<JournalPlace> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let (journal, place) = (feed.watch(), feed.place());
    let (sender, places) = watch::channel(place);
    let body = move || {
        let mut known = place;
        while !sender.is_closed() {
            let place = journal.wait(known.durable.next(), PATIENCE);
            if place != known {
                known = place;
                // Who has gone needs none.
                let _ = sender.send(place);
            }
            if place.is_closed {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("site-journal".to_owned()).spawn(body) {
        tracing::error!(%error, "the system gives no thread: nothing goes to the centre");
    }
    places
}
