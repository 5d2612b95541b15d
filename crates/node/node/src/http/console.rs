//! The web console, carried inside the binary.

use super::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "../../../console/dist"]
#[allow_missing = true]
struct Dist;

const NOT_BUILT: &str =
    "this binary was built without the console: run `npm ci && npm run build` in console/, then build again";

/// A file of the console; `/` is its page. Files under `/assets/` carry a hash in their name and never change.
pub async fn file(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let name = if path.is_empty() { "index.html" } else { path };
    match Dist::get(name) {
        Some(file) => serve(name, file),
        None if name == "index.html" => (StatusCode::OK, NOT_BUILT).into_response(),
        None => {
            Problem::not_found(format!("nothing is at /{path}; the API begins at /v1/openapi.json")).into_response()
        }
    }
}

fn serve(name: &str, file: EmbeddedFile) -> Response {
    let kind = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "webmanifest" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    };
    let age = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static(age)),
    ];
    (headers, Body::from(file.data.into_owned())).into_response()
}
