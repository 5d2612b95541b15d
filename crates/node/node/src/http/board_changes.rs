//! Changes of boards: `PUT` and `DELETE` of `/v1/boards/NAME`, each on the condition that the board is what the caller has seen.

use super::arguments::{BoardCondition, FileAt, FileText};
use super::authorization::{Authenticated, Authorized};
use super::boards::{BoardShown, TOPIC, may_see};
use super::body::Answer;
use super::diagrams::tagged;
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use crate::bus::Bus;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::io::ErrorKind;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_drawings::{BoardFile, Boards, Change, ChangeError, Origin};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;
use tieline_service::reader::{ConfigError, Finding};

parameters! {
    /// How a board is put.
    pub struct BoardPut {
        /// Only checks the file, and answers with the board as it would be
        check: bool = "false",
    }
}

/// A board that was checked or changed
#[derive(JsonSchema, Serialize)]
pub struct BoardChanged {
    status: Done,
    /// The board; null if it was removed
    board: Option<BoardShown>,
}

/// The answer to a change.
pub struct Changed(Option<Arc<BoardFile>>);

impl IntoResponse for Changed {
    fn into_response(self) -> Response {
        let board = self.0.as_deref().map(BoardShown::of);
        let answer = Answer(BoardChanged { status: Done::Ok, board }).into_response();
        match self.0 {
            Some(file) => tagged(&file.version, answer),
            None => answer,
        }
    }
}

impl Output for Changed {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Answer::<BoardChanged>::describe(operation, schemas);
        operation.told(
            200,
            "ETag",
            &json!({ "type": "string" }),
            "The version in quotes; absent where the board was removed",
        );
    }
}

/// A change that is refused; with the version that there is, where that is the reason.
pub struct Refused {
    problem: Problem,
    version: Option<String>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, version: None }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let response = self.problem.into_response();
        match self.version {
            Some(version) => tagged(&version, response),
            None => response,
        }
    }
}

impl Output for Refused {}

/// Makes or changes a board, or checks its file.
pub async fn put(
    authenticated: Authenticated,
    FileAt(name): FileAt,
    Query(BoardPut { check }): Query<BoardPut>,
    BoardCondition(condition): BoardCondition,
    FileText(bytes): FileText,
) -> Result<Changed, Refused> {
    let authorized = authenticated.must(Verb::Admin, TOPIC).await?;
    let text = text_of(&name, &bytes)?;
    if check {
        let checked = BoardFile::check(&format!("{name}.toml"), &name, text, Origin::Data);
        let file = checked.map_err(|found| refused(ChangeError::Wrong(found), StatusCode::NOT_FOUND))?;
        return Ok(Changed(Some(Arc::new(file))));
    }
    let condition = condition
        .ok_or_else(|| unconditional("If-None-Match: * for a new board, or If-Match with the ETag of the board"))?;
    let missing = StatusCode::PRECONDITION_FAILED;
    change(authorized, (name, missing), move |boards, name| boards.put(name, text, &condition)).await
}

/// Removes a board.
pub async fn remove(
    authenticated: Authenticated,
    FileAt(name): FileAt,
    BoardCondition(condition): BoardCondition,
) -> Result<Changed, Refused> {
    let authorized = authenticated.must(Verb::Admin, TOPIC).await?;
    let condition = condition.ok_or_else(|| unconditional("If-Match with the ETag of the board, or with *"))?;
    let missing = StatusCode::NOT_FOUND;
    change(authorized, (name, missing), move |boards, name| boards.remove(name, &condition)).await
}

fn unconditional(expected: &str) -> Problem {
    let detail = format!("neither If-Match nor If-None-Match is given, expected {expected}");
    Problem::new(StatusCode::PRECONDITION_REQUIRED, detail)
}

fn text_of(name: &str, bytes: &[u8]) -> Result<String, Problem> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| {
        let legal = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + legal.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + legal
            .rsplit(|byte| *byte == b'\n')
            .next()
            .map_or(0, |rest| String::from_utf8_lossy(rest).chars().count());
        let (found, expected) = ("bytes that are not UTF-8".to_owned(), "a TOML document".to_owned());
        let finding =
            Finding { file: format!("{name}.toml"), line, column, key: "(syntax)".to_owned(), found, expected };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ConfigError(vec![finding]).to_string())
    })
}

/// Carries a change out, and writes it to the audit log: whether the caller waits for it or not. `missing` is answered where there is no
/// board.
async fn change(
    authorized: Authorized,
    (name, missing): (String, StatusCode),
    make: impl FnOnce(&Boards, &str) -> Result<Change, ChangeError> + Send + 'static,
) -> Result<Changed, Refused> {
    let shown = Arc::clone(authorized.app.reloader.shown());
    if shown.boards().one(&name).is_some_and(|file| !may_see(&authorized.caller, &file)) {
        let detail = format!("there is a board {name:?} of whose topics you may read none");
        return Err(Problem::new(StatusCode::FORBIDDEN, detail).into());
    }
    let carried_out = tokio::spawn(async move {
        // The disk takes its time, and nobody else waits for it.
        let of = name.clone();
        let done = tokio::task::spawn_blocking(move || make(shown.boards(), &of)).await;
        let done = done.map_err(|error| Problem::unavailable(error.to_string()))?;
        let change = done.map_err(|error| refused(error, missing))?;
        if let Some((phase, detail)) = record(&name, &change) {
            let who = authorized.who();
            let note = move |bus: &mut Bus, now| bus.note_access(denial(now, &who, phase, "admin", TOPIC, "", detail));
            authorized.app.bus.call(note).await.map_err(Problem::from)?;
        }
        Ok::<_, Refused>(Changed(change.after))
    });
    carried_out.await.map_err(|error| Problem::unavailable(error.to_string()))?
}

/// The phase of the record of a change in the audit log, and the record in words; none where nothing has changed.
fn record(name: &str, change: &Change) -> Option<(&'static str, String)> {
    let words = |file: &BoardFile| format!("version {}, {} bytes", file.version, file.text.len());
    match (change.before.as_deref(), change.after.as_deref()) {
        (Some(before), Some(after)) if before.version == after.version => None,
        (Some(before), Some(after)) => {
            let detail = format!("the board {name:?} has {} in place of {}", words(after), words(before));
            Some(("board_changed", detail))
        }
        (None, Some(after)) => Some(("board_added", format!("the board {name:?} was added with {}", words(after)))),
        (Some(before), None) => {
            Some(("board_removed", format!("the board {name:?} was removed, which had {}", words(before))))
        }
        (None, None) => None,
    }
}

fn refused(error: ChangeError, missing: StatusCode) -> Refused {
    let detail = error.to_string();
    let (status, version) = match error {
        ChangeError::Configured(_) | ChangeError::Damaged(_) => (StatusCode::CONFLICT, None),
        ChangeError::Missing(_) => (missing, None),
        ChangeError::Other { version, .. } => (StatusCode::PRECONDITION_FAILED, Some(version)),
        ChangeError::Wrong(_) => (StatusCode::UNPROCESSABLE_ENTITY, None),
        ChangeError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, None),
        ChangeError::Disk { path, error, .. } => {
            tracing::warn!(path = %path.display(), %error, "a board cannot be stored");
            (of_disk(error.kind()), None)
        }
    };
    Refused { problem: Problem::new(status, detail), version }
}

fn of_disk(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => StatusCode::CONFLICT,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Arc<BoardFile> {
        Arc::new(BoardFile::check("x.toml", "x", text.to_owned(), Origin::Data).unwrap())
    }

    #[test]
    fn each_refusal_of_the_disk_has_its_status() {
        let cases = [
            (ErrorKind::ReadOnlyFilesystem, 409),
            (ErrorKind::PermissionDenied, 409),
            (ErrorKind::StorageFull, 507),
            (ErrorKind::QuotaExceeded, 507),
            (ErrorKind::NotADirectory, 503),
            (ErrorKind::Other, 503),
        ];
        for (kind, status) in cases {
            let error = ChangeError::Disk { path: "/data/boards/x.toml".into(), error: kind.into(), is_done: false };
            let said = error.to_string();
            assert!(said.starts_with("/data/boards/x.toml: ") && said.contains("nothing has changed"), "{said}");
            assert_eq!(said.contains("expected one that the node may write to"), status == 409, "{said}");
            assert_eq!(refused(error, StatusCode::NOT_FOUND).into_response().status().as_u16(), status, "{kind:?}");
        }
    }

    #[test]
    fn a_record_has_both_versions_and_nothing_changed_has_none() {
        let (a, b) = (file("title = 'a'\n"), file("title = 'bb'\n"));
        let check =
            |before: Option<&Arc<BoardFile>>, after: Option<&Arc<BoardFile>>, expect: Option<(&str, &[&str])>| {
                let found = record("x", &Change { before: before.cloned(), after: after.cloned() });
                assert_eq!(found.as_ref().map(|(phase, _)| *phase), expect.map(|(phase, _)| phase));
                for words in expect.iter().flat_map(|(_, words)| words.iter()) {
                    let detail = &found.as_ref().unwrap().1;
                    assert!(detail.contains(words), "{words} is not in {detail}");
                }
            };
        check(None, Some(&a), Some(("board_added", &[&a.version, "12 bytes"])));
        check(Some(&a), Some(&b), Some(("board_changed", &[&a.version, &b.version, "13 bytes in place of"])));
        check(Some(&a), None, Some(("board_removed", &[&a.version])));
        check(Some(&a), Some(&a), None);
    }

    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let check = |bytes: &[u8], place: &str| {
            let Err(problem) = text_of("x", bytes) else { panic!("{place} is text") };
            assert!(format!("{problem:?}").contains(place), "{problem:?}, expected {place}");
        };
        check(b"\xff", "x.toml:1:1:");
        check(b"a = 1\nb = '\xc3\xa4\xff'", "x.toml:2:7:");
        check(b"a\n\n\xc3", "x.toml:3:1:");
        assert_eq!(text_of("x", b"title = 'a'").unwrap(), "title = 'a'");
    }
}
