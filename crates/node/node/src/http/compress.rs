//! Answers in fewer bytes: gzip (RFC 1952) for clients that accept it, where the answer is text. What is all there is
//! compressed as a whole, a stream piece by piece (`compress/stream.rs`).
//!
//! Never: an answer with an entity tag, which is the tag of its bytes; the console's files, which are compressed when
//! it is built.

mod stream;

pub use stream::Readers;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use miniz_oxide::deflate::compress_to_vec;

/// Shorter answers gain nothing; longer ones would hold the processor too long.
const BYTES: std::ops::RangeInclusive<u64> = 1024..=16 << 20;
/// From here on a thread of its own compresses it.
const LONG_BYTES: usize = 64 * 1024;
/// Most of the gain for a third of the time of the usual 6.
const LEVEL: u8 = 2;
/// No name, no time, an unknown system (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Compresses what is worth it.
pub async fn compress(State(readers): State<Readers>, request: Request, next: Next) -> Response {
    let is_taken = takes(request.headers(), "gzip");
    let mut response = next.run(request).await;
    let worth = worth(&response);
    if worth == Worth::Nothing {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let place = match (is_taken, worth) {
        (true, Worth::Live) => readers.enter(),
        (true, Worth::Pages) => Some(None),
        (true, Worth::Whole) | (false, _) | (_, Worth::Nothing) => None,
    };
    if let Some(place) = place {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return response.map(|body| stream::packed(body, place));
    }
    if !is_taken || worth != Worth::Whole {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let packed = if whole.len() < LONG_BYTES {
        Ok(gzip(&whole))
    } else {
        let whole = whole.clone();
        tokio::task::spawn_blocking(move || gzip(&whole)).await
    };
    let Ok(packed) = packed else { return Response::from_parts(parts, Body::from(whole)) };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

/// Whether a coding is taken (RFC 9110 section 12.5.3).
#[must_use]
pub fn takes(headers: &HeaderMap, coding: &str) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut found = None;
    for part in all.flat_map(|text| text.split(',')) {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let is_none = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        if name.trim().eq_ignore_ascii_case(coding) {
            return !is_none;
        }
        if name.trim() == "*" {
            found = Some(!is_none);
        }
    }
    found.unwrap_or(false)
}

/// What there is to be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    Nothing,
    /// All of it is there.
    Whole,
    /// It comes in pieces, and ends.
    Pages,
    /// It comes as things happen.
    Live,
}

fn worth(response: &Response) -> Worth {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_live = kind.starts_with("text/event-stream");
    let is_text = is_live || kind.contains("json") || kind.starts_with("text/plain") || kind.starts_with("text/csv");
    let is_free = !headers.contains_key(header::CONTENT_ENCODING) && !headers.contains_key(header::ETAG);
    match response.body().size_hint().exact() {
        _ if !is_text || !is_free => Worth::Nothing,
        Some(bytes) if BYTES.contains(&bytes) => Worth::Whole,
        Some(_) => Worth::Nothing,
        None if is_live => Worth::Live,
        None => Worth::Pages,
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut packed = GZIP_HEADER.to_vec();
    packed.extend(compress_to_vec(plain, LEVEL));
    packed.extend(crc32fast::hash(plain).to_le_bytes());
    // The length modulo 2^32; `BYTES` is below it.
    packed.extend(u32::try_from(plain.len()).unwrap_or_default().to_le_bytes());
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&str], expect: bool) {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(takes(&headers, "gzip"), expect, "{accept:?}");
    }

    #[test]
    fn what_a_peer_takes_is_read_as_the_rfc_says() {
        check(&[], false);
        check(&["gzip, deflate, br"], true);
        check(&["br", "GZip;q=0.5"], true);
        check(&["gzip;q=0"], false);
        check(&["*;q=0.1"], true);
        check(&["*", "gzip; q=0.0"], false);
        check(&["identity"], false);
    }

    #[test]
    fn what_is_packed_unpacks_to_the_same() {
        let plain = "{\"topic\":\"site/feeder1\",\"v\":1}".repeat(500);
        let packed = gzip(plain.as_bytes());
        assert!(packed.len() * 20 < plain.len(), "{}", packed.len());
        let (body, end) = packed[GZIP_HEADER.len()..].split_at(packed.len() - GZIP_HEADER.len() - 8);
        assert_eq!(miniz_oxide::inflate::decompress_to_vec(body).unwrap(), plain.as_bytes());
        assert_eq!(end[..4], crc32fast::hash(plain.as_bytes()).to_le_bytes());
        assert_eq!(end[4..], u32::try_from(plain.len()).unwrap().to_le_bytes());
    }

    #[test]
    fn only_text_is_packed() {
        let answer = |kind: &'static str, body: Body| {
            let mut response = Response::new(body);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        };
        let long = || Body::from("x".repeat(5000));
        assert_eq!(worth(&answer("application/json", long())), Worth::Whole);
        assert_eq!(worth(&answer("application/problem+json", long())), Worth::Whole);
        assert_eq!(worth(&answer("application/json", Body::from("short"))), Worth::Nothing);
        assert_eq!(worth(&answer("font/woff2", long())), Worth::Nothing);
        let stream = || {
            let piece = async { Ok::<_, std::io::Error>("x".repeat(5000)) };
            Body::from_stream(futures_util::stream::once(piece))
        };
        assert_eq!(worth(&answer("application/json", stream())), Worth::Pages);
        assert_eq!(worth(&answer("text/csv; charset=utf-8", stream())), Worth::Pages);
        assert_eq!(worth(&answer("text/event-stream", stream())), Worth::Live);
        assert_eq!(worth(&answer("application/vnd.apache.parquet", stream())), Worth::Nothing);
        let mut tagged = answer("application/json", long());
        tagged.headers_mut().insert(header::ETAG, HeaderValue::from_static("\"1\""));
        assert_eq!(worth(&tagged), Worth::Nothing);
    }
}
