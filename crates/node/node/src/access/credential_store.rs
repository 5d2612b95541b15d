//! The files of users and roles.

use super::certificate::{LISTED_EXPECTED, ListedName};
use super::is_password_hash;
use super::jwt::Tokens;
use super::scram::Verifier;
use crate::config::{AccessConfig, ConfigError, Finding, Findings};
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tieline_access::{Policy, PolicyError, Role, Rule, User};
use tieline_service::parse;
use tieline_service::reader::{Document, Section, read_text};

/// Whether the files of users and roles can be used.
///
/// # Errors
/// All that is wrong in them.
pub fn check_files(config: &AccessConfig) -> Result<(), ConfigError> {
    CredentialStore::load(config).map(drop)
}

/// What users show themselves by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secret {
    /// The hash of a password, `$argon2id$…`.
    pub password: Option<String>,
    /// The same password for SCRAM.
    pub scram: Option<Verifier>,
    /// Certificates that are the user's.
    pub certificates: Vec<ListedName>,
}

/// All that the files say.
#[derive(Debug, Default)]
pub struct CredentialStore {
    /// Who may do what.
    pub policy: Arc<Policy>,
    /// How users show themselves.
    pub secrets: HashMap<String, Secret>,
    /// Whose certificates are listed.
    pub certificates: HashMap<ListedName, String>,
    /// The keys of tokens.
    pub tokens: Option<Tokens>,
}

impl CredentialStore {
    /// Reads the files.
    ///
    /// # Errors
    /// All that is wrong in them.
    pub fn load(config: &AccessConfig) -> Result<Self, ConfigError> {
        Self::load_as(config, None)
    }

    /// Reads the files as they would be with this text in the file of users.
    ///
    /// # Errors
    /// All that would be wrong in them.
    pub fn load_as(config: &AccessConfig, users: Option<&str>) -> Result<Self, ConfigError> {
        let mut findings = Findings::default();
        let text = |path: &Path| users.map_or_else(|| read_text(path), |text| Ok(text.to_owned()));
        let roles = config.roles.as_deref().map(|path| read_file(path, read_text(path), &mut findings, read_roles));
        let users = config.users.as_deref().map(|path| read_file(path, text(path), &mut findings, read_users));
        let (roles, users) = (roles.unwrap_or_default(), users.unwrap_or_default());
        let tokens = config.jwt.as_ref().and_then(|jwt| {
            let whole = |(file, why): (std::path::PathBuf, String)| of_file(&file, why, "a key, a JWKS or a secret");
            Tokens::load(jwt).map_err(|error| findings.push(whole(error))).ok()
        });
        let (users, secrets): (Vec<User>, Vec<(String, Secret)>) =
            users.into_iter().map(|(user, secret)| (user.clone(), (user.name.to_string(), secret))).unzip();
        let mut certificates = HashMap::new();
        for (user, name) in secrets.iter().flat_map(|(user, secret)| secret.certificates.iter().map(move |n| (user, n)))
        {
            if let Some(other) = certificates.insert(name.clone(), user.clone()) {
                findings.push(listed_twice(config, name, &other, user));
            }
        }
        let policy = if findings.is_empty() { Policy::new(roles, users) } else { Ok(Policy::default()) };
        match policy {
            Ok(policy) if findings.is_empty() => {
                let (policy, secrets) = (Arc::new(policy), secrets.into_iter().collect());
                Ok(Self { policy, secrets, certificates, tokens })
            }
            Ok(_) => Err(ConfigError(findings.sorted())),
            Err(error) => Err(ConfigError(vec![misfit(config, &error)])),
        }
    }
}

/// Where roles and users do not fit is in the file of users, but for what is wrong with roles alone.
fn misfit(config: &AccessConfig, error: &PolicyError) -> Finding {
    let file = config.users.as_deref().or(config.roles.as_deref()).unwrap_or(Path::new("access"));
    let place = match error {
        PolicyError::Role { user, .. } | PolicyError::Name(user) | PolicyError::Twice(user) => format!("[user.{user}]"),
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().position(|line| line.trim() == place).map_or(1, |at| at + 1);
    let expected = "roles of the file of roles, or of IEC 62351-8".to_owned();
    Finding { line, ..of_file(file, error.to_string(), &expected) }
}

fn listed_twice(config: &AccessConfig, name: &ListedName, one: &str, other: &str) -> Finding {
    let file = config.users.as_deref().unwrap_or(Path::new("access"));
    let found = format!("the certificate {:?} of {one:?} and of {other:?}", name.to_string());
    of_file(file, found, "each certificate with one user")
}

fn of_file(file: &Path, found: String, expected: &str) -> Finding {
    let (file, key) = (file.display().to_string(), "(file)".to_owned());
    Finding { file, line: 1, column: 1, key, found, expected: expected.to_owned() }
}

fn read_file<T>(
    path: &Path,
    text: Result<String, ConfigError>,
    findings: &mut Findings,
    read: impl FnOnce(&mut Document<'_>, Section<'_>) -> Vec<T>,
) -> Vec<T> {
    match text {
        Ok(text) => Document::read(&path.display().to_string(), &text, findings, read),
        Err(ConfigError(found)) => {
            found.into_iter().for_each(|finding| findings.push(finding));
            Vec::new()
        }
    }
}

fn read_roles(doc: &mut Document<'_>, mut root: Section<'_>) -> Vec<Role> {
    let mut roles = Vec::new();
    for (name, mut s) in root.section(doc, "role").sections(doc) {
        s.optional(doc, "description", parse::text);
        let rule = |text: &str| text.parse::<Rule>().map_err(|error| format!("a rule: {error}"));
        let rules = s.each_text(doc, "rules", "rules, as in [\"allow read site/#\"]", rule);
        roles.push(Role { name: name.into(), rules });
        s.finish(doc);
    }
    root.finish(doc);
    roles
}

fn read_users(doc: &mut Document<'_>, mut root: Section<'_>) -> Vec<(User, Secret)> {
    let mut users = Vec::new();
    for (name, mut s) in root.section(doc, "user").sections(doc) {
        s.optional(doc, "description", parse::text);
        let roles = s.each_text(doc, "roles", "roles, as in [\"VIEWER\"]", |role| Ok(role.into()));
        let password = s.optional(doc, "password", |value| {
            let words = || "a hash of argon2id, as `tieline access user password` writes it".to_owned();
            parse::text(value).ok().filter(|text| is_password_hash(text)).ok_or_else(words)
        });
        let scram = s.optional(doc, "scram", |value| {
            let words = || "a verifier, as `tieline access user password` writes it".to_owned();
            parse::text(value).ok().and_then(|text| Verifier::parse(&text)).ok_or_else(words)
        });
        let listed = |text: &str| text.parse::<ListedName>().map_err(str::to_owned);
        let certificates = s.each_text(doc, "certificates", LISTED_EXPECTED, listed);
        let disabled = s.or(doc, "disabled", false, parse::boolean);
        s.finish(doc);
        let secret = Secret { password, scram, certificates };
        users.push((User { name: name.into(), roles, disabled, credential: print_of(&secret) }, secret));
    }
    root.finish(doc);
    users
}

/// A number that changes with the secret, and is never 0. The ledger has it of sessions: it stays what it is from run to run.
fn print_of(secret: &Secret) -> u64 {
    let mut context = Context::new(&SHA256);
    let mut part = |name: &[u8], text: &str| {
        context.update(name);
        context.update(&(text.len() as u64).to_le_bytes());
        context.update(text.as_bytes());
    };
    secret.password.iter().for_each(|hash| part(b"p", hash));
    secret.scram.iter().for_each(|verifier| part(b"s", &verifier.to_string()));
    secret.certificates.iter().for_each(|listed| part(b"c", &listed.to_string()));
    let digest = context.finish();
    let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(first).max(1)
}
