//! `[access]`: where users and roles are, and what each session may take.

use super::identity::{OidcConfig, ProxyConfig, read_oidc, read_proxy};
use super::parse;
use super::reader::{Document, Section, read_text};
use super::settings::{
    ACCESS_BYTES_PER_S, ACCESS_JWT_LEEWAY, ACCESS_LOGIN_IDLE, ACCESS_LOGIN_MAX, ACCESS_LOOPBACK, ACCESS_MESSAGES_PER_S,
    ACCESS_PASSWORD_LENGTH_MIN, ACCESS_SUBSCRIPTIONS_MAX, ACCESS_USER_SESSIONS_MAX,
};
use super::{Checks, ConfigError, Findings};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_access::Limits;

/// `[access]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// The file of users.
    pub users: Option<PathBuf>,
    /// The file of roles, besides those of IEC 62351-8.
    pub roles: Option<PathBuf>,
    /// Whether peers must show who they are at addresses of this machine alone, too.
    pub loopback_closed: bool,
    /// Characters of a password at least, where `tieline access user` is given one.
    pub password_length_min: usize,
    /// What each session may take.
    pub limits: Limits,
    /// Tokens.
    pub jwt: Option<JwtConfig>,
    /// Certificates that name users.
    pub certificates: Option<CertificateConfig>,
    /// How long a login at the console holds without a request.
    pub login_idle: Duration,
    /// How long it holds at most.
    pub login_max: Duration,
    /// The identity provider.
    pub oidc: Option<OidcConfig>,
    /// Proxies that say who asks.
    pub proxy: Option<ProxyConfig>,
}

/// `[access.jwt]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// Files of keys: JWKS (`.json`), PEM with a public key (`.pem`), or a shared secret (any other).
    pub keys: Vec<PathBuf>,
    /// Who must have issued a token; none takes any.
    pub issuer: Option<String>,
    /// For whom a token must be; none takes any.
    pub audience: Option<String>,
    /// The claim that holds the user's name.
    pub user_claim: String,
    /// The claim that holds roles, as a list or as a text with spaces.
    pub roles_claim: String,
    /// How far clocks may differ.
    pub leeway: Duration,
}

/// `[access.certificates]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateConfig {
    /// What of a certificate is the user's name, where the file of users does not list the certificate.
    pub user: NameKind,
    /// Areas of responsibility in which this node is: roles of IEC 62351-8 in certificates hold for these, `*` is any.
    /// None: roles in certificates mean nothing.
    pub role_areas: Vec<String>,
}

/// What of a certificate names its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameKind {
    /// The subject's common name.
    CommonName,
    /// The alternative name that is a host's.
    Dns,
    /// The alternative name that is an address of mail.
    Email,
    /// The alternative name that is a URI.
    Uri,
    /// Nothing: users are those that the file lists.
    Listed,
}

impl NameKind {
    /// The kinds with their words.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("common_name", Self::CommonName),
        ("dns", Self::Dns),
        ("email", Self::Email),
        ("uri", Self::Uri),
        ("listed", Self::Listed),
    ];
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS.iter().find(|(_, kind)| kind == self).map_or("", |(word, _)| word))
    }
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            users: None,
            roles: None,
            loopback_closed: false,
            password_length_min: ACCESS_PASSWORD_LENGTH_MIN.default_size(),
            limits: Limits { user_sessions_max: ACCESS_USER_SESSIONS_MAX.default, ..Limits::default() },
            jwt: None,
            certificates: None,
            login_idle: ACCESS_LOGIN_IDLE.default,
            login_max: ACCESS_LOGIN_MAX.default,
            oidc: None,
            proxy: None,
        }
    }
}

impl AccessConfig {
    /// Whether there is any way to show who one is.
    #[must_use]
    pub const fn is_configured(&self) -> bool {
        self.users.is_some()
            || self.jwt.is_some()
            || self.certificates.is_some()
            || self.oidc.is_some()
            || self.proxy.is_some()
    }

    /// Whether peers must show who they are at an address.
    #[must_use]
    pub fn guards(&self, listen: SocketAddr) -> bool {
        self.is_configured() && (self.loopback_closed || !listen.ip().is_loopback())
    }

    /// Seconds by which clocks of tokens may differ.
    #[must_use]
    pub fn leeway_s(&self) -> u64 {
        self.jwt.as_ref().map_or(0, |jwt| jwt.leeway.as_secs())
    }

    /// All files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let keys = self.jwt.iter().flat_map(|jwt| &jwt.keys);
        self.users.iter().chain(&self.roles).chain(keys).map(PathBuf::as_path)
    }
}

/// Reads `[access]`; files are found beside `folder`, and what `checks` find inside them is told with the rest.
pub fn read_access(s: Section<'_>, doc: &mut Document<'_>, folder: &Path, checks: Checks) -> AccessConfig {
    let config = read_keys(s, doc, folder);
    if let Err(error) = (checks.access)(&config) {
        error.0.into_iter().for_each(|finding| doc.findings().push(finding));
    }
    config
}

/// Reads `[access]` of a configuration file and nothing else: neither its other tables nor the files that it names, which
/// may be about to change.
///
/// # Errors
/// What is wrong in the table.
pub fn load_access(path: &Path) -> Result<AccessConfig, ConfigError> {
    let text = read_text(path)?;
    let mut findings = Findings::default();
    let folder = path.parent().unwrap_or(Path::new("."));
    let read = |doc: &mut Document<'_>, mut root: Section<'_>| read_keys(root.section(doc, "access"), doc, folder);
    let config = Document::read(&path.display().to_string(), &text, &mut findings, read);
    if findings.is_empty() { Ok(config) } else { Err(ConfigError(findings.sorted())) }
}

fn read_keys(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> AccessConfig {
    let mut config = AccessConfig {
        users: s.optional(doc, "users", parse::text).map(|text| folder.join(text)),
        roles: s.optional(doc, "roles", parse::text).map(|text| folder.join(text)),
        loopback_closed: ACCESS_LOOPBACK.read(&mut s, doc, [false, true]),
        password_length_min: ACCESS_PASSWORD_LENGTH_MIN.read_size(&mut s, doc),
        limits: Limits {
            user_sessions_max: ACCESS_USER_SESSIONS_MAX.read(&mut s, doc),
            messages_per_s: ACCESS_MESSAGES_PER_S.read(&mut s, doc),
            bytes_per_s: u32::try_from(ACCESS_BYTES_PER_S.read(&mut s, doc)).unwrap_or(u32::MAX),
            subscriptions_max: ACCESS_SUBSCRIPTIONS_MAX.read(&mut s, doc),
        },
        jwt: None,
        certificates: None,
        login_idle: ACCESS_LOGIN_IDLE.read(&mut s, doc),
        login_max: ACCESS_LOGIN_MAX.read(&mut s, doc),
        oidc: None,
        proxy: None,
    };
    let has_certificates = s.has("certificates");
    let certificates = s.section(doc, "certificates");
    if has_certificates {
        config.certificates = Some(read_certificates(certificates, doc));
    }
    let has_jwt = s.has("jwt");
    let jwt = s.section(doc, "jwt");
    if has_jwt {
        config.jwt = read_jwt(jwt, doc, folder);
    }
    let has_oidc = s.has("oidc");
    let oidc = s.section(doc, "oidc");
    if has_oidc {
        config.oidc = read_oidc(oidc, doc, folder);
    }
    let has_proxy = s.has("proxy");
    let proxy = s.section(doc, "proxy");
    if has_proxy {
        config.proxy = read_proxy(proxy, doc);
    }
    if config.loopback_closed && !config.is_configured() {
        let (found, expected) = (
            "\"closed\", and nobody could come in",
            "users = \"users.toml\", [access.jwt] or [access.certificates] beside it",
        );
        doc.report(s.value_at("loopback"), &s.key("loopback"), found.to_owned(), expected.to_owned());
    }
    s.finish(doc);
    config
}

fn read_certificates(mut s: Section<'_>, doc: &mut Document<'_>) -> CertificateConfig {
    let config = CertificateConfig {
        user: s.or(doc, "user", NameKind::CommonName, parse::word(&NameKind::WORDS)),
        role_areas: s.or(doc, "role_areas", Vec::new(), parse::texts),
    };
    s.finish(doc);
    config
}

fn read_jwt(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<JwtConfig> {
    let keys = s.required(doc, "keys", "a list of files of keys, as in [\"jwks.json\"]", |v| {
        let files = parse::texts(v)?;
        if files.is_empty() { Err("at least one file of keys".to_owned()) } else { Ok(files) }
    });
    let config = JwtConfig {
        keys: keys.iter().flatten().map(|file| folder.join(file)).collect(),
        issuer: s.optional(doc, "issuer", parse::text),
        audience: s.optional(doc, "audience", parse::text),
        user_claim: s.or(doc, "user_claim", "sub".to_owned(), parse::text),
        roles_claim: s.or(doc, "roles_claim", "roles".to_owned(), parse::text),
        leeway: ACCESS_JWT_LEEWAY.read(&mut s, doc),
    };
    s.finish(doc);
    keys.is_some().then_some(config)
}
