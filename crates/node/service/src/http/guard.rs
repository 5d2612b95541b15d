//! What a browser may be made to do by a foreign page, refused before any handler runs.
//!
//! A page of another site can send requests to this machine's loopback address, and a name that its owner points
//! here (DNS rebinding) makes them look like its own. So the `Host` must be an address or a name of this node, and a
//! request that changes something must not come from a foreign `Origin`.

use super::problem::Problem;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Names under which this node may be reached, besides addresses and `localhost`.
#[derive(Clone, Debug)]
pub struct Guard(pub Arc<[String]>);

impl Guard {
    fn knows(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || ["localhost"]
                .into_iter()
                .chain(self.0.iter().map(String::as_str))
                .any(|known| known.eq_ignore_ascii_case(name))
    }

    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let refused = |detail: String| Problem::new(StatusCode::FORBIDDEN, detail);
        let named = headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default());
        // HTTP/2 has the host in the place of an address.
        let host = named.or(uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
        if !self.knows(host) {
            return Err(refused(format!(
                "the host is {host:?}, expected an address, localhost or a name in http.hosts"
            )));
        }
        let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or("null"));
        match origin {
            Some(origin) if !method.is_safe() && without_scheme(origin) != host => {
                Err(refused(format!("the origin is {origin:?}, expected the node itself")))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

fn without_scheme(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, host)| host)
}

/// Refuses foreign requests, and tells browsers what pages of this node may load.
pub async fn guard(State(guard): State<Guard>, request: Request<Body>, next: Next) -> Response {
    let mut response = match guard.check(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let policy = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, host: &str, origin: Option<&str>, expect: bool) {
        let guard = Guard(Arc::from(["node.example".to_owned()]));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let root = Uri::from_static("/");
        assert_eq!(guard.check(method, &root, &headers).is_ok(), expect, "{method} {host} {origin:?}");
    }

    #[test]
    fn http_2_names_the_host_in_the_address() {
        let guard = Guard(Arc::default());
        let check = |uri: &'static str, expect: bool| {
            let found = guard.check(&Method::GET, &Uri::from_static(uri), &HeaderMap::new());
            assert_eq!(found.is_ok(), expect, "{uri}");
        };
        check("https://127.0.0.1:8443/metrics", true);
        check("https://evil.example/metrics", false);
        check("/metrics", false);
    }

    #[test]
    fn foreign_pages_are_refused() {
        check(&Method::GET, "127.0.0.1:8080", None, true);
        check(&Method::GET, "[::1]:8080", None, true);
        check(&Method::GET, "localhost", None, true);
        check(&Method::GET, "LocalHost:8080", None, true);
        check(&Method::GET, "node.example:8080", None, true);
        check(&Method::GET, "evil.example:8080", None, false);
        check(&Method::POST, "127.0.0.1:8080", Some("http://127.0.0.1:8080"), true);
        check(&Method::POST, "127.0.0.1:8080", Some("http://evil.example"), false);
        check(&Method::POST, "127.0.0.1:8080", Some("null"), false);
        check(&Method::POST, "127.0.0.1:8080", None, true);
    }
}
