//! The web console and the documentation, carried inside the binary.

use super::access::Caller;
use super::authorization::Public;
use super::compress::takes;
use super::problem::Problem;
use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rust_embed::RustEmbed;
use std::borrow::Cow;
use tieline_service::http::exchange::SharedAnswer;

/// What the login page runs; the policy of the node's pages has no place for a script inside one.
const LOGIN_SCRIPT: &str = include_str!("login.js");

#[derive(RustEmbed)]
#[folder = "../../../console/dist"]
#[allow_missing = true]
struct Dist;

/// Of a gzip file that Node.js wrote (RFC 1952): a header without a name, and checksum and length at the end.
const GZIP_ENDS: (usize, usize) = (10, 8);
/// The longest page.
const PAGE_BYTES_MAX: usize = 4 << 20;

const NOT_BUILT: &str =
    "this binary was built without the console: run `npm ci && npm run build` in console/, then build again";

/// A file of the console, or a page of the documentation; `/` and `/docs/` are their first pages. Files under `/assets/` carry a hash in
/// their name and never change. Pages are there in packed form only.
pub async fn file(Public { caller, .. }: Public, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.is_empty() && matches!(caller, Caller::Unauthenticated) {
        return Redirect::to("/login").into_response();
    }
    let name = match path {
        "" => "index.html",
        // The links of its pages begin there.
        "docs" => return Redirect::permanent("/docs/").into_response(),
        "docs/" => "docs/index.html",
        path => path,
    };
    if name == "login.js" {
        return serve(name, Cow::Borrowed(LOGIN_SCRIPT.as_bytes()), None);
    }
    // The build leaves each file as it is and packed, best first.
    let packed = [("br", "br"), ("gzip", "gz")].into_iter().filter(|(coding, _)| takes(&headers, coding));
    let packed = packed.filter_map(|(coding, end)| Some((Dist::get(&format!("{name}.{end}"))?, Some(coding)))).next();
    let packed = packed.map(|(file, coding)| (file.data, coding));
    match packed.or_else(|| Some((plain(name)?, None))) {
        Some((bytes, coding)) => serve(name, bytes, coding),
        None if name == "index.html" => (StatusCode::OK, NOT_BUILT).into_response(),
        None => {
            Problem::not_found(format!("nothing is at /{path}; the API begins at /v1/openapi.json")).into_response()
        }
    }
}

/// A file as it is, for clients that take nothing packed.
fn plain(name: &str) -> Option<Cow<'static, [u8]>> {
    if let Some(file) = Dist::get(name) {
        return Some(file.data);
    }
    let packed = Dist::get(&format!("{name}.gz"))?.data;
    let (header, trailer) = GZIP_ENDS;
    let deflated = packed.get(header..packed.len().checked_sub(trailer)?)?;
    decompress_to_vec_with_limit(deflated, PAGE_BYTES_MAX).ok().map(Cow::Owned)
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
