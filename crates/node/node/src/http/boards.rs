//! `/v1/boards`: pages of panels, those of whose topics the caller may read some.

use super::access::Caller;
use super::arguments::{FileAt, KnownTag};
use super::authorization::Authenticated;
use super::body::Answer;
use super::diagrams::{is_known, tagged};
use super::problem::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tieline_access::Reach;
use tieline_core::Words;
use tieline_drawings::{Board, BoardFile, Origin};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Query, Word};
use tieline_service::parameters;

/// The topic that stands for changes of boards in rules.
pub const TOPIC: &str = "$boards";
/// The media type of the file of a board.
pub const TOML: &str = "application/toml";

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
    /// Changes with the file; the ETag without its quotes
    version: String,
    panels: usize,
    origin: Origin,
}

/// A board
#[derive(JsonSchema, Serialize)]
pub struct BoardShown {
    name: String,
    /// Changes with the file; the ETag without its quotes
    version: String,
    origin: Origin,
    #[serde(flatten)]
    board: Board,
}

impl BoardShown {
    pub(super) fn of(file: &BoardFile) -> Self {
        let (name, version, board) = (file.name.clone(), file.version.clone(), file.board.clone());
        Self { name, version, origin: file.origin, board }
    }
}

/// As what a board is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardFormat {
    /// What it shows.
    Json,
    /// Its file.
    Toml,
}

impl Words for BoardFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("json", Self::Json), ("toml", Self::Toml)];
}

parameters! {
    /// How a board is asked for.
    pub struct BoardAsked {
        /// json: what it shows; toml: its file
        format: Word<BoardFormat> = "json",
    }
}

/// All boards that the caller may see, by their names.
pub async fn list(authenticated: Authenticated) -> Answer<BoardList> {
    let authorized = authenticated.each();
    let all = authorized.app.reloader.shown().boards().all();
    let seen = all.iter().filter(|file| may_see(&authorized.caller, file)).map(|file| BoardListed {
        name: file.name.clone(),
        title: file.board.title.clone(),
        version: file.version.clone(),
        panels: file.board.panels(),
        origin: file.origin,
    });
    Answer(BoardList { boards: seen.collect() })
}

/// Whether a caller may read something of a board. One without topics shows nothing of the node.
pub(super) fn may_see(caller: &Caller, file: &BoardFile) -> bool {
    let mut reads = file.board.reads().peekable();
    reads.peek().is_none() || reads.any(|filter| caller.reach(&filter) != Reach::Nothing)
}

/// A board in one of its forms, or that the caller has it.
pub struct OneBoard {
    version: String,
    form: Form,
}

enum Form {
    Known,
    Shown(Box<BoardShown>),
    Toml(String),
}

impl IntoResponse for OneBoard {
    fn into_response(self) -> Response {
        let response = match self.form {
            Form::Known => StatusCode::NOT_MODIFIED.into_response(),
            Form::Shown(board) => Answer(board).into_response(),
            Form::Toml(text) => ([(header::CONTENT_TYPE, HeaderValue::from_static(TOML))], text).into_response(),
        };
        tagged(&self.version, response)
    }
}

impl Output for OneBoard {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Answer::<BoardShown>::describe(operation, schemas);
        operation.content(200, TOML, json!({ "type": "string" }));
        operation.told(200, "ETag", &json!({ "type": "string" }), "The version in quotes");
    }
}

/// One board.
pub async fn one(
    authenticated: Authenticated,
    FileAt(name): FileAt,
    Query(BoardAsked { format: Word(format) }): Query<BoardAsked>,
    KnownTag(known): KnownTag,
) -> Result<OneBoard, Problem> {
    let authorized = authenticated.each();
    // One that the caller may not see is as one that there is not: its name says something of the node.
    let file = authorized.app.reloader.shown().boards().one(&name).filter(|file| may_see(&authorized.caller, file));
    let file = file.ok_or_else(|| Problem::not_found(format!("there is no board {name:?}")))?;
    let form = match format {
        _ if is_known(known.as_deref(), &file.version) => Form::Known,
        BoardFormat::Json => Form::Shown(Box::new(BoardShown::of(&file))),
        BoardFormat::Toml => Form::Toml(file.text.clone()),
    };
    Ok(OneBoard { version: file.version.clone(), form })
}
