//! `[access.oidc]` and `[access.proxy]`: people that others have authenticated, and their roles by group.

use super::mqtt::proxies;
use super::parse;
use super::reader::{Document, Expected, Section};
use super::settings::{ACCESS_JWT_LEEWAY, ACCESS_OIDC_TIMEOUT};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_identity::{Provider, RoleMap, is_address};
use tieline_net::Trusted;
use toml::de::DeValue;

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

/// What an address has to be.
const ADDRESS: &str = "an https address, as in \"https://id.example/realms/grid\"; http only at this machine";

fn address(value: &DeValue<'_>) -> Result<String, Expected> {
    let text = parse::text(value)?;
    if is_address(&text) { Ok(text) } else { Err(ADDRESS.to_owned()) }
}

/// The name of a header, in lower case.
fn header(value: &DeValue<'_>) -> Result<String, Expected> {
    let text = parse::text(value)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    // What the node itself reads would be somebody's name.
    let is_taken = ["authorization", "cookie", "host", "origin"].contains(&text.to_ascii_lowercase().as_str());
    match !text.is_empty() && text.bytes().all(legal) && !is_taken {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("the name of a header, as in \"X-Forwarded-User\"".to_owned()),
    }
}

/// Reads `[access.oidc]`.
pub(super) fn read_oidc(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<OidcConfig> {
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

#[cfg(test)]
mod tests {
    use super::super::{Config, from_text};
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("[node]\nname='north'\n[access]\n{text}");
        let read = from_text("t.toml", &text, Path::new("/etc/t"));
        read.map_err(|error| error.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    const OIDC: &str = "[access.oidc]\nissuer='https://id.example/g'\nclient_id='t'\naddress='https://n:8443/'\nroles={a=['VIEWER']}\n";
    const PROXY: &str = "[access.proxy]\nfrom=['10.0.0.5']\nroles={a=['VIEWER']}\n";

    #[test]
    fn a_provider_is_read_with_its_defaults() {
        let access = read(&format!("{OIDC}client_secret_file='s'\n{PROXY}")).unwrap().access;
        assert!(access.is_configured());
        let oidc = access.oidc.unwrap();
        assert_eq!((oidc.name.as_str(), oidc.timeout), ("id.example", Duration::from_secs(5)));
        assert_eq!((oidc.secret_file, oidc.break_glass), (Some("/etc/t/s".into()), None));
        let provider = &oidc.provider;
        assert_eq!(provider.redirect(), "https://n:8443/login/callback");
        assert_eq!((provider.user_claim.as_str(), provider.groups_claim.as_str()), ("sub", "groups"));
        assert_eq!(provider.roles.roles("anna", &["a".to_owned()]), Ok(vec!["VIEWER".to_owned()]));
        let proxy = access.proxy.unwrap();
        assert_eq!((proxy.user.as_str(), proxy.groups.as_str()), ("x-forwarded-user", "x-forwarded-groups"));
    }

    #[test]
    fn what_would_not_be_safe_is_refused() {
        let check = |text: &str, from: &str, to: &str, expect: &str| {
            let told = read(&text.replace(from, to)).unwrap_err();
            assert!(told.contains(expect), "{to}: {told}");
        };
        check(OIDC, "https://id.example/g", "http://id.example", "access.oidc.issuer");
        check(OIDC, "https://n:8443/", "http://n:8080", "access.oidc.address");
        check(OIDC, "client_id='t'\n", "", "access.oidc.client_id");
        check(OIDC, "roles={a=['VIEWER']}", "", "access.oidc.roles");
        check(OIDC, "{a=['VIEWER']}", "{a='VIEWER'}", "access.oidc.roles");
        check(OIDC, "roles", "scopes=['profile']\nroles", "access.oidc.scopes");
        check(OIDC, "roles", "secret='x'\nroles", "access.oidc.secret");
        check(PROXY, "from=['10.0.0.5']\n", "", "access.proxy.from");
        check(PROXY, "10.0.0.5", "proxy.example", "access.proxy.from");
        check(PROXY, "roles", "user='Authorization'\nroles", "access.proxy.user");
        check(PROXY, "roles", "user='a: b'\nroles", "access.proxy.user");
    }
}
