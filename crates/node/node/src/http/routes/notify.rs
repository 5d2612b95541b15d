//! Routes of notifications.

use super::super::authorization::Protected;
use super::super::{notify, on_call};
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Adds the routes of notifications.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/notify", notify::list, Op::new("notify", "List the receivers of notifications and how they are doing"))
        .get(
            "/v1/notify/on-call",
            on_call::show,
            Op::new("onCall", "Show who is on call at a time, who is next, and holes of the week after it"),
        )
        .post(
            "/v1/notify/test",
            notify::test,
            Op::new("testNotify", "Send a test to a receiver of notifications")
                .about("The answer is sent when the receiver has the test, or the attempt has failed. A test is sent once.")
                .problem(400, "The body is no JSON")
                .problem(404, "There is no such receiver")
                .problem(422, "A member is missing, unknown or of the wrong type"),
        )
}
