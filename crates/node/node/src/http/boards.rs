//! `/v1/boards`: pages of panels, those of whose topics the caller may read some.

use super::access::Caller;
use super::arguments::FileAt;
use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use crate::config::{Board, BoardFile};
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Reach;

/// Boards
#[derive(JsonSchema, Serialize)]
pub struct BoardList {
    boards: Vec<BoardListed>,
}

/// A board in the list
#[derive(JsonSchema, Serialize)]
struct BoardListed {
    name: String,
    title: String,
    /// Changes with the file
    version: String,
    panels: usize,
}

/// A board
#[derive(JsonSchema, Serialize)]
pub struct BoardShown {
    name: String,
    /// Changes with the file
    version: String,
    #[serde(flatten)]
    board: Board,
}

/// All boards that the caller may see, by their names.
pub async fn list(authenticated: Authenticated) -> Answer<BoardList> {
    let authorized = authenticated.each();
    let all = authorized.app.reloader.shown().all().boards;
    let seen = all.iter().filter(|file| may_see(&authorized.caller, file)).map(|file| BoardListed {
        name: file.name.clone(),
        title: file.board.title.clone(),
        version: file.version.clone(),
        panels: file.board.panels(),
    });
    Answer(BoardList { boards: seen.collect() })
}

/// Whether a caller may read something of a board. One without topics shows nothing of the node.
fn may_see(caller: &Caller, file: &BoardFile) -> bool {
    let mut reads = file.board.reads().peekable();
    reads.peek().is_none() || reads.any(|filter| caller.reach(&filter) != Reach::Nothing)
}

/// One board.
pub async fn one(authenticated: Authenticated, FileAt(name): FileAt) -> Result<Answer<BoardShown>, Problem> {
    let authorized = authenticated.each();
    let all = authorized.app.reloader.shown().all().boards;
    // One that the caller may not see is as one that there is not: its name says something of the node.
    let file = all.iter().find(|file| file.name == name && may_see(&authorized.caller, file));
    let file = file.ok_or_else(|| Problem::not_found(format!("there is no board {name:?}")))?;
    Ok(Answer(BoardShown { name, version: file.version.clone(), board: file.board.clone() }))
}
