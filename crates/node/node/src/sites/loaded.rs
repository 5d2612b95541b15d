//! What a centre knows at its start: marks of sites, and their last values.

use super::marks::Marks;
use std::path::Path;
use std::time::Duration;
use tieline_core::{Body, Filter, Timestamp, Topic};
use tieline_history::{HistorySource, JournalFeed};
use tieline_journal::{Seq, note_of};
use tokio::sync::mpsc;

/// How soon what cannot be read is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Behind all samples.
const FAR: Timestamp = Timestamp::from_micros(i64::MAX / 4);

/// The marks of the file, and of the records of the journal behind it.
pub async fn load_marks(mut feed: JournalFeed, path: &Path) -> (JournalFeed, Marks) {
    loop {
        match read_marks(&mut feed, path) {
            Ok(marks) => return (feed, marks),
            Err(why) => {
                tracing::warn!(why, "the marks of sites cannot be read: sites wait, and it is tried again");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads the marks once.
///
/// # Errors
/// The file or the journal cannot be read or written; in words.
pub fn read_marks(feed: &mut JournalFeed, path: &Path) -> Result<Marks, String> {
    let mut marks = Marks::load(path).map_err(|error| error.to_string())?;
    let place = feed.place();
    if marks.seq > feed.opened() {
        // Samples that the marks speak of are not there. Sites send again what they have, and what is there twice is shown once.
        tracing::warn!(
            marks = marks.seq.0,
            journal = feed.opened().0,
            "the journal is behind the marks of sites: they are forgotten"
        );
        marks = Marks::default();
    }
    let mut next = marks.seq.next().max(place.first);
    while next <= place.durable {
        let mut last = None;
        let first = feed.read(next, place.durable, |seq, record| {
            if let Some(note) = note_of(record) {
                marks.take(note);
            }
            last = Some(seq);
            true
        });
        let first = first.map_err(|error| error.to_string())?;
        next = last.map_or(first.max(next.next()), Seq::next);
    }
    marks.seq = place.durable;
    feed.want(marks.seq.next());
    marks.save(path).map_err(|error| error.to_string())?;
    Ok(marks)
}

/// The last values of sites that history has, read beside.
pub fn load_values(source: HistorySource, prefix: &str) -> mpsc::Receiver<(Topic, Timestamp, Body)> {
    let (sender, values) = mpsc::channel(256);
    let Ok(filter) = Filter::new(&format!("{prefix}#")) else { return values };
    let body = move || {
        let read = source.reader().and_then(|reader| {
            for found in reader.at(&filter, FAR, |_| true)? {
                let (topic, sample, _) = found?;
                let time = sample.time;
                if sender.blocking_send((topic, time, sample.into_body())).is_err() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::warn!(%error, "last values of sites cannot be read from history");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("centre-values".to_owned()).spawn(body) {
        tracing::warn!(%error, "the system gives no thread: last values of sites come as they change");
    }
    values
}
