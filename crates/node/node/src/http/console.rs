//! The web console, carried inside the binary.

use super::access::Caller;
use super::authorization::Public;
use super::compress::takes;
use super::problem::Problem;
use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use rust_embed::RustEmbed;
use std::borrow::Cow;
use tieline_service::http::exchange::SharedAnswer;

/// What the login page runs; the policy of the node's pages has no place for a script inside one.
const LOGIN_SCRIPT: &str = include_str!("login.js");

#[derive(RustEmbed)]
#[folder = "../../../console/dist"]
#[allow_missing = true]
struct Dist;

const NOT_BUILT: &str =
    "this binary was built without the console: run `npm ci && npm run build` in console/, then build again";

/// A file of the console; `/` is its page. Files under `/assets/` carry a hash in their name and never change.
pub async fn file(Public { caller, .. }: Public, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.is_empty() && matches!(caller, Caller::Unauthenticated) {
        return Redirect::to("/login").into_response();
    }
    let name = if path.is_empty() { "index.html" } else { path };
    if name == "login.js" {
        return serve(name, Cow::Borrowed(LOGIN_SCRIPT.as_bytes()), None);
    }
    // The build leaves each file as it is and packed, best first.
    let packed = [("br", "br"), ("gzip", "gz")].into_iter().filter(|(coding, _)| takes(&headers, coding));
    let packed = packed.filter_map(|(coding, end)| Some((Dist::get(&format!("{name}.{end}"))?, Some(coding)))).next();
    match packed.or_else(|| Some((Dist::get(name)?, None))) {
        Some((file, coding)) => serve(name, file.data, coding),
        None if name == "index.html" => (StatusCode::OK, NOT_BUILT).into_response(),
        None => {
            Problem::not_found(format!("nothing is at /{path}; the API begins at /v1/openapi.json")).into_response()
        }
    }
}

fn serve(name: &str, bytes: Cow<'static, [u8]>, coding: Option<&'static str>) -> Response {
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
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    let mut response = match bytes {
        Cow::Borrowed(bytes) => (Extension(SharedAnswer), headers, Body::from(bytes)).into_response(),
        Cow::Owned(bytes) => (headers, Body::from(bytes)).into_response(),
    };
    if let Some(coding) = coding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response
}
