//! Answers in fewer octets: gzip (RFC 1952) for whoever takes it, where the answer is text and all of it is there.
//!
//! Never: a stream, whose compressor would keep 300 kB for each reader; an answer with an entity tag, which is the tag of
//! its octets; the console's files, which are compressed when it is built.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use miniz_oxide::deflate::compress_to_vec;

/// Shorter answers gain nothing; longer ones would hold the processor too long.
const OCTETS: std::ops::RangeInclusive<u64> = 1024..=16 << 20;
/// From here on a thread of its own compresses it.
const LONG_OCTETS: usize = 64 * 1024;
/// Most of the gain for a third of the time of the usual 6.
const LEVEL: u8 = 2;
/// No name, no time, an unknown system (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Compresses what is worth it.
pub async fn compress(request: Request, next: Next) -> Response {
    let is_taken = takes(request.headers(), "gzip");
    let mut response = next.run(request).await;
    if !is_worth(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_taken {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let packed = if whole.len() < LONG_OCTETS {
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

fn is_worth(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = kind.contains("json") || kind.starts_with("text/plain") || kind.starts_with("text/csv");
    let is_free = !headers.contains_key(header::CONTENT_ENCODING) && !headers.contains_key(header::ETAG);
    is_text && is_free && response.body().size_hint().exact().is_some_and(|octets| OCTETS.contains(&octets))
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut packed = GZIP_HEADER.to_vec();
    packed.extend(compress_to_vec(plain, LEVEL));
    packed.extend(crc32fast::hash(plain).to_le_bytes());
    // The length modulo 2^32; `OCTETS` is below it.
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
    fn only_text_that_is_all_there_is_packed() {
        let answer = |kind: &'static str, body: Body| {
            let mut response = Response::new(body);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        };
        let long = || Body::from("x".repeat(5000));
        assert!(is_worth(&answer("application/json", long())));
        assert!(is_worth(&answer("application/problem+json", long())));
        assert!(!is_worth(&answer("application/json", Body::from("short"))));
        assert!(!is_worth(&answer("font/woff2", long())));
        let stream = futures_util::stream::once(async { Ok::<_, std::io::Error>("x".repeat(5000)) });
        assert!(!is_worth(&answer("application/json", Body::from_stream(stream))));
        let mut tagged = answer("application/json", long());
        tagged.headers_mut().insert(header::ETAG, HeaderValue::from_static("\"1\""));
        assert!(!is_worth(&tagged));
    }
}
