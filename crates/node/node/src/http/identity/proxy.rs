//! Proxies that authenticate people, and name them and their groups in headers. From anybody else these headers are
//! refused: a request that has them and is not of a proxy is forged, or the proxy is not configured.

use super::super::access::HttpAuthentication;
use super::super::problem::Problem;
use crate::config::ProxyConfig;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;

/// Groups of a header that are read.
const GROUPS_MAX: usize = 1000;

/// A person, as a trusted proxy names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The user.
    pub user: String,
    /// The groups.
    pub groups: Vec<String>,
}

/// Takes what a trusted proxy says, and refuses the same from others. The address is that of the connection.
pub async fn named(
    State(authentication): State<HttpAuthentication>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let Some(config) = authentication.proxy() else { return next.run(request).await };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let peer = peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    match read(config, peer, request.headers()) {
        Ok(Some(named)) => {
            request.extensions_mut().insert(named);
        }
        Ok(None) => {}
        Err(why) => {
            authentication.note_refused(peer, "proxy", why.to_owned()).await;
            return Problem::new(StatusCode::FORBIDDEN, why).into_response();
        }
    }
    next.run(request).await
}

fn read(config: &ProxyConfig, peer: SocketAddr, headers: &HeaderMap) -> Result<Option<Named>, &'static str> {
    let is_named = headers.contains_key(&config.user) || headers.contains_key(&config.groups);
    if !is_named {
        return Ok(None);
    }
    if !config.from.holds(peer.ip()) {
        return Err("headers that name a user come from an address that is not in access.proxy.from");
    }
    let mut users = headers.get_all(&config.user).iter();
    let user = match (users.next(), users.next()) {
        (Some(user), None) => user.to_str().ok().filter(|user| !user.is_empty()),
        (Some(_), Some(_)) => return Err("the header with the user is there twice"),
        (None, _) => None,
    };
    let user = user.ok_or("the header with the user is missing, empty or not in ASCII")?.to_owned();
    let values = headers.get_all(&config.groups).iter().filter_map(|value| value.to_str().ok());
    let groups = values.flat_map(|value| value.split(',')).map(str::trim).filter(|group| !group.is_empty());
    Ok(Some(Named { user, groups: groups.take(GROUPS_MAX).map(str::to_owned).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;
    use tieline_identity::RoleMap;
    use tieline_net::Trusted;

    #[test]
    fn a_trusted_proxy_names_a_user_and_nobody_else_does() {
        let config = ProxyConfig {
            from: Trusted(vec!["10.0.0.5".parse().unwrap()]),
            user: "x-forwarded-user".to_owned(),
            groups: "x-forwarded-groups".to_owned(),
            roles: RoleMap::default(),
        };
        let check = |peer: &str, lines: &[(&str, &str)], expect: Result<Option<(&str, &[&str])>, &str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            let found = read(&config, peer.parse().unwrap(), &headers);
            match (found, expect) {
                (Ok(found), Ok(expect)) => {
                    let expect = expect.map(|(user, groups)| Named {
                        user: user.to_owned(),
                        groups: groups.iter().map(ToString::to_string).collect(),
                    });
                    assert_eq!(found, expect, "{lines:?}");
                }
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                (found, expect) => panic!("{peer} {lines:?}: {found:?}, expected {expect:?}"),
            }
        };
        let (user, groups) = ("X-Forwarded-User", "X-Forwarded-Groups");
        let (proxy, other) = ("10.0.0.5:99", "10.0.0.6:99");
        check(proxy, &[(user, "anna"), (groups, "a, b,,c d")], Ok(Some(("anna", &["a", "b", "c d"]))));
        check(proxy, &[(user, "anna"), (groups, "a"), (groups, "b")], Ok(Some(("anna", &["a", "b"]))));
        check(proxy, &[(user, "anna")], Ok(Some(("anna", &[]))));
        check(proxy, &[("x-other", "anna")], Ok(None));
        check(other, &[], Ok(None));
        check(other, &[(user, "anna")], Err("not in access.proxy.from"));
        check(other, &[(groups, "a")], Err("not in access.proxy.from"));
        check(other, &[(user, "anna"), ("X-Forwarded-For", "10.0.0.5")], Err("not in access.proxy.from"));
        check(proxy, &[(user, "anna"), (user, "root")], Err("twice"));
        check(proxy, &[(user, "")], Err("empty"));
        check(proxy, &[(groups, "a")], Err("missing"));
        check("[::ffff:10.0.0.5]:9", &[(user, "anna")], Ok(Some(("anna", &[]))));
    }
}
