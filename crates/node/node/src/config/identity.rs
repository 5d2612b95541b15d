//! `[access.oidc]` and `[access.proxy]`: people that others have authenticated, and their roles by group.

use super::mqtt::proxies;
use super::parse;
use super::reader::{Document, Section};
use super::settings::{ACCESS_JWT_LEEWAY, ACCESS_OIDC_TIMEOUT};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_identity::{Provider, RoleMap, is_address};
use tieline_net::Trusted;

/// `[access.oidc]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The provider, and what this node is there.
    pub provider: Arc<Provider>,
    /// Its name on the login page.
    pub name: String,
    /// The file with the secret of this node; none for a client without one.
    pub secret_file: Option<PathBuf>,
    /// Certificates of authorities to trust at the provider; none trusts those of the system.
    pub authorities: Option<PathBuf>,
    /// How long an answer of the provider may take.
    pub timeout: Duration,
    /// The one local user that may still log in at the console.
    pub break_glass: Option<String>,
}

/// `[access.proxy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// The addresses of the proxies.
    pub from: Trusted,
    /// The header with the user's name, in lower case.
    pub user: String,
    /// The header with the groups, separated by commas, in lower case.
    pub groups: String,
    /// Roles by group.
    pub roles: RoleMap,
}

/// Reads `[access.oidc]`.
pub(super) fn read_oidc(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<OidcConfig> {
    const ADDRESS: &str = "an https address, as in \"https://id.example/realms/grid\"; http only at this machine";
    let address = |value: &_| {
        let text = parse::text(value)?;
        if is_address(&text) { Ok(text) } else { Err(ADDRESS.to_owned()) }
    };
    let issuer = s.required(doc, "issuer", ADDRESS, address);
    let client_id = s.required(doc, "client_id", "the name of this node at the provider", parse::text);
    let own = s.required(doc, "address", "the address of this node in browsers", address);
    let user_claim = s.or(doc, "user_claim", "sub".to_owned(), parse::text);
    let groups_claim = s.or(doc, "groups_claim", "groups".to_owned(), parse::text);
    let scopes = s.or(doc, "scopes", vec!["openid".to_owned(), "profile".to_owned()], |value| {
        let scopes = parse::texts(value)?;
        let is_legal = scopes.iter().any(|scope| scope == "openid")
            && scopes.iter().all(|scope| scope.bytes().all(|byte| byte.is_ascii_graphic()));
        if is_legal { Ok(scopes) } else { Err("a list of scopes with \"openid\"".to_owned()) }
    });
    let host = issuer.as_deref().and_then(|issuer| issuer.split('/').nth(2)).unwrap_or_default().to_owned();
    let name = s.or(doc, "name", host, parse::text);
    let secret_file = s.optional(doc, "client_secret_file", parse::text).map(|text| folder.join(text));
    let authorities = s.optional(doc, "authorities", parse::text).map(|text| folder.join(text));
    let timeout = ACCESS_OIDC_TIMEOUT.read(&mut s, doc);
    let break_glass = s.optional(doc, "break_glass", parse::text);
    let roles = read_roles(&mut s, doc);
    s.finish(doc);
    let provider = Provider {
        issuer: issuer?,
        client_id: client_id?,
        address: own?.trim_end_matches('/').to_owned(),
        scopes,
        user_claim,
        groups_claim,
        roles,
        leeway_s: ACCESS_JWT_LEEWAY.default.as_secs(),
    };
    Some(OidcConfig { provider: Arc::new(provider), name, secret_file, authorities, timeout, break_glass })
}

/// Reads `[access.proxy]`.
pub(super) fn read_proxy(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<ProxyConfig> {
    let at = s.value_at("from");
    let from = proxies(&mut s, doc, "from");
    let header = |value: &_| {
        let text = parse::text(value)?;
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        // What the node itself reads would be somebody's name.
        let is_taken = ["authorization", "cookie", "host", "origin"].contains(&text.to_ascii_lowercase().as_str());
        match !text.is_empty() && text.bytes().all(legal) && !is_taken {
            true => Ok(text.to_ascii_lowercase()),
            false => Err("the name of a header, as in \"X-Forwarded-User\"".to_owned()),
        }
    };
    let user = s.or(doc, "user", "x-forwarded-user".to_owned(), header);
    let groups = s.or(doc, "groups", "x-forwarded-groups".to_owned(), header);
    let roles = read_roles(&mut s, doc);
    if from.0.is_empty() {
        let expected = "addresses of proxies, as in [\"10.0.0.5\"]".to_owned();
        doc.report(at, &s.key("from"), "nothing".to_owned(), expected);
    }
    s.finish(doc);
    Some(ProxyConfig { from, user, groups, roles })
}

/// Reads the table of roles by group.
fn read_roles(s: &mut Section<'_>, doc: &mut Document<'_>) -> RoleMap {
    const EXPECTED: &str = "groups with their roles, as in \"grid-ops\" = [\"OPERATOR\"]";
    let all = s.required(doc, "roles", EXPECTED, |value| {
        let table = value.as_table().ok_or_else(|| EXPECTED.to_owned())?;
        let mut map = BTreeMap::new();
        for (group, roles) in table.iter() {
            let roles = parse::texts(roles.get_ref())?;
            map.insert(group.get_ref().to_string(), roles);
        }
        if map.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(map) }
    });
    RoleMap(all.unwrap_or_default())
}
