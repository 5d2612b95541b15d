//! Routes of single-line diagrams and boards.

use super::super::authorization::Protected;
use super::super::{board_changes, boards, diagrams};
use tieline_drawings::BOARD_BYTES_MAX;
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Adds the routes of diagrams and boards.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/diagrams",
            diagrams::list,
            Op::new("diagrams", "List single-line diagrams of whose topics the user may read some"),
        )
        .get(
            "/v1/diagrams/{name}",
            diagrams::one,
            Op::new("diagram", "Get a single-line diagram as SVG")
                .says(200, "The SVG, with topics in its attributes")
                .problem(404, "There is no such diagram, or the user may read none of its topics"),
        )
        .get("/v1/boards", boards::list, Op::new("boards", "List boards of whose topics the user may read some"))
        .get(
            "/v1/boards/{name}",
            boards::one,
            Op::new("board", "Get a board: its panels, with the topics that they show, or its file")
                .problem(404, "There is no such board, or the user may read none of its topics"),
        )
        .put_at_most(
            BOARD_BYTES_MAX,
            "/v1/boards/{name}",
            board_changes::put,
            Op::new("putBoard", "Make or change a board, or only check its file. The answer is sent when the file is stored")
                .about(BOARD)
                .problem(409, "The board is a file of the configuration, or its file was damaged, or the node may not write to its data folder")
                .problem(422, "The file is wrong; detail has every error with its line")
                .problem(503, "The disk refuses, the node is stopping, or too much is under way")
                .problem(507, "There are as many boards as there may be, or the disk is full"),
        )
        .delete(
            "/v1/boards/{name}",
            board_changes::remove,
            Op::new("removeBoard", "Remove a board. The answer is sent when that is stored")
                .about("Needs admin on $boards, and If-Match. The audit log gets a record.")
                .problem(404, "There is no such board")
                .problem(409, "The board is a file of the configuration, or its file was damaged, or the node may not write to its data folder")
                .problem(503, "The disk refuses, the node is stopping, or too much is under way")
                .problem(507, "The disk is full"),
        )
}

const BOARD: &str = "Needs admin on $boards. If-Match changes the board of a version, If-None-Match: * makes one; with check, neither is needed, and \
    nothing is stored. The audit log gets a record.";
