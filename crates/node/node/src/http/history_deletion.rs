//! `DELETE /v1/history`: samples are deleted, and their bytes with them.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use crate::config::Moment;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_core::{Filter, Timestamp};
use tieline_history::{Deleted, Deletion};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;

parameters! {
    /// Which samples are to be deleted.
    pub struct DeletionAsked {
        /// Topic or topic filter
        topic: Filter,
        /// Start, inclusive: RFC 3339, or a duration before the end; default the first sample
        from: Option<Moment>,
        /// End, exclusive: RFC 3339; default the present
        to: Option<Moment>,
        /// Why, for the audit log
        why: Option<String>,
    }
}

/// What was deleted.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryDeleted")]
pub struct Gone {
    status: Done,
    /// Samples
    samples: u64,
    /// Chunks, and parts of day files, that are gone or were written again without the samples
    chunks: u64,
    /// Samples that cannot be read, and are left with the file that has them
    damaged: u64,
    /// Edits and annotations of that time that were ended, and their values erased
    edits: u64,
}

/// Deletes samples; the audit log says who did it, and why.
pub async fn delete(authenticated: Authenticated, Query(asked): Query<DeletionAsked>) -> Result<Answer<Gone>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$history").await?;
    let now = authorized.app.about.clock.now().utc;
    let to = asked.to.map_or(now, |to| to.resolve(now, now));
    let given = asked.from.map(|from| from.resolve(to, now));
    let from = given.unwrap_or(Timestamp::from_micros(i64::MIN));
    if to < from {
        return Err(Problem::bad_request(format!("from is {from}, expected a time before to, which is {to}")));
    }
    let (who, topic) = (authorized.who(), asked.topic.to_string());
    let start = given.map_or("the first sample".to_owned(), |from| from.to_string());
    let because = asked.why.map(|why| format!(": {why}")).unwrap_or_default();
    let detail = format!("from {start} to {to}{because}");
    let (name, filter, whole) = (who.clone(), topic.clone(), detail.clone());
    let handle = authorized.app.bus.call(move |bus, now| {
        let handle = bus.recorder().handle();
        if handle.is_some() {
            bus.note_access(denial(now, &name, "history_delete", "", &filter, "", whole));
        }
        handle
    });
    let off = || Problem::unavailable("history is off or cannot be opened");
    let handle = handle.await?.ok_or_else(off)?;
    let answered = handle.delete(Deletion { topics: asked.topic, from, to });
    let bus = authorized.app.bus.clone();
    // It is carried through where the caller has gone.
    let done = tokio::spawn(async move {
        let done = tokio::task::spawn_blocking(move || answered.recv()).await.map_err(|error| error.to_string())?;
        let done = done.map_err(|_| "the node is stopping, or enough deletions wait".to_owned()).flatten();
        let outcome = match &done {
            Ok(Deleted { samples, chunks, .. }) => format!("{samples} samples in {chunks} chunks were deleted"),
            Err(error) => format!("it failed: {error}"),
        };
        let noted = bus.call(move |bus, now| {
            bus.note_access(denial(now, &who, "history_deleted", "", &topic, "", format!("{outcome}; {detail}")));
        });
        noted.await.map_err(|_| "the node is stopping".to_owned()).and(done)
    });
    let done = done.await.map_err(|error| Problem::unavailable(error.to_string()))?;
    let Deleted { samples, chunks, damaged, edits } = done.map_err(Problem::unavailable)?;
    Ok(Answer(Gone { status: Done::Ok, samples, chunks, damaged, edits }))
}
