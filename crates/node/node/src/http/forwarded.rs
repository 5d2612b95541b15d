//! The client's address where a trusted proxy sends the request: `X-Forwarded-For`, or `Forwarded` (RFC 7239).

use crate::config::ForwardedHeader;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tieline_net::Trusted;

/// Addresses of one request that are looked at.
const HOPS_MAX: usize = 32;

/// The proxies that are believed.
#[derive(Clone, Debug)]
pub struct Proxies {
    /// Their addresses.
    pub trusted: Arc<Trusted>,
    /// What they write.
    pub header: ForwardedHeader,
}

/// Puts the address of the client in the place of that of the proxy, for all that follows.
pub async fn forwarded(State(proxies): State<Proxies>, mut request: Request<Body>, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    if let Some(peer) = peer.filter(|peer| proxies.trusted.holds(peer.ip())) {
        let client = proxies.client(peer, request.headers());
        request.extensions_mut().insert(ConnectInfo(client));
    }
    next.run(request).await
}

impl Proxies {
    /// The last address that no proxy has which is believed; what stands before it anybody may have written.
    fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        let name = match self.header {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        };
        let values: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default()).collect();
        let hops = values.iter().flat_map(|value| value.split(',')).rev().take(HOPS_MAX);
        let mut client = peer;
        for hop in hops {
            let address = match self.header {
                ForwardedHeader::XForwardedFor => address(hop.trim()),
                ForwardedHeader::Forwarded => of_element(hop).and_then(address),
            };
            // What is no address hides who it is: then the proxy that says so is all that is known.
            let Some(address) = address else { return client };
            client = address;
            if !self.trusted.holds(address.ip()) {
                return client;
            }
        }
        client
    }
}

/// The value of `for` in an element of `Forwarded`.
fn of_element(element: &str) -> Option<&str> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let value = pairs.filter(|(name, _)| name.eq_ignore_ascii_case("for")).map(|(_, value)| value.trim()).next()?;
    Some(value.trim_matches('"'))
}

/// An address with or without a port; 0 stands for none.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = |text: &str| text.parse::<IpAddr>().ok();
    let found = bare(text).or_else(|| bare(text.strip_prefix('[')?.strip_suffix(']')?));
    found.map(|address| SocketAddr::new(address, 0)).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn the_client_is_who_comes_before_the_proxies_that_are_believed() {
        let trusted = Arc::new(Trusted(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::1".parse().unwrap()]));
        let check = |header: ForwardedHeader, lines: &[(&str, &str)], expect: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            let proxies = Proxies { trusted: Arc::clone(&trusted), header };
            let peer = "10.0.0.1:5".parse().unwrap();
            assert_eq!(proxies.client(peer, &headers).to_string(), expect, "{lines:?}");
        };
        let (x, standard) = (ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded);
        let name = "x-forwarded-for";
        check(x, &[], "10.0.0.1:5");
        check(x, &[(name, "192.0.2.7")], "192.0.2.7:0");
        check(x, &[(name, "192.0.2.7, 10.1.1.1, [2001:db8::1]:80")], "192.0.2.7:0");
        check(x, &[(name, "192.0.2.7"), (name, "10.1.1.1")], "192.0.2.7:0");
        check(x, &[(name, "192.0.2.7:1234")], "192.0.2.7:1234");
        // A client writes what it likes before what the proxy adds.
        check(x, &[(name, "10.9.9.9, 127.0.0.1, 192.0.2.7")], "192.0.2.7:0");
        check(x, &[(name, "192.0.2.7, nonsense")], "10.0.0.1:5");
        check(x, &[(name, "10.1.1.1, 10.2.2.2")], "10.1.1.1:0");
        check(x, &[("forwarded", "for=192.0.2.7")], "10.0.0.1:5");
        check(standard, &[(name, "192.0.2.7")], "10.0.0.1:5");
        check(standard, &[("forwarded", "for=192.0.2.7;proto=https, For=\"[2001:db8::1]:80\"")], "192.0.2.7:0");
        check(standard, &[("forwarded", "for=unknown, for=10.1.1.1")], "10.1.1.1:0");
        check(standard, &[("forwarded", "proto=https")], "10.0.0.1:5");
    }
}
