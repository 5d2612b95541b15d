//! Routes that Grafana's data source for Graphite calls.

use super::super::authorization::Protected;
use super::super::graphite;
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Adds what Grafana's data source for Graphite calls.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    const OFF: &str = "History is off or cannot be read, or too much is under way";
    let render = |id| Op::new(id, "Get recorded series as Graphite has them").says(200, "The series").problem(503, OFF);
    let find =
        |id| Op::new(id, "List names below others as Graphite has them").says(200, "The names").problem(503, OFF);
    let expand = |id| Op::new(id, "List names that a pattern selects as Graphite has them").problem(503, OFF);
    routes
        .get("/graphite/render", graphite::render::<false>, render("graphiteRender"))
        .post("/graphite/render", graphite::render::<true>, render("graphiteRenderForm"))
        .get("/graphite/metrics/find", graphite::find::<false>, find("graphiteFind"))
        .post("/graphite/metrics/find", graphite::find::<true>, find("graphiteFindForm"))
        .get("/graphite/metrics/expand", graphite::expand::<false>, expand("graphiteExpand"))
        .post("/graphite/metrics/expand", graphite::expand::<true>, expand("graphiteExpandForm"))
        .get(
            "/graphite/functions",
            graphite::functions,
            Op::new("graphiteFunctions", "List functions of targets").says(200, "The functions by name"),
        )
        .get(
            "/graphite/version",
            graphite::version,
            Op::new("graphiteVersion", "Get the release of Graphite").says(200, "The release"),
        )
        .get(
            "/graphite/tags/autoComplete/tags",
            graphite::tags,
            Op::new("graphiteTags", "List tags: there are none").says(200, "No tags"),
        )
        .get(
            "/graphite/tags/autoComplete/values",
            graphite::tags,
            Op::new("graphiteTagValues", "List values of a tag: there are none").says(200, "No values"),
        )
        .get(
            "/graphite/events/get_data",
            graphite::events,
            Op::new("graphiteEvents", "List annotations of the history as events of Graphite")
                .says(200, "The events")
                .problem(503, OFF),
        )
}
