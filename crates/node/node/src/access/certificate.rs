//! The user of a client certificate, and the roles that the certificate carries.
//!
//! A handshake has shown by then that an authority that is trusted vouches for the certificate, or that it is pinned, and
//! that the peer has its key.

use super::credential_store::CredentialStore;
use crate::config::{AccessConfig, CertificateConfig, NameKind};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use tieline_access::IEC_ROLES;
use tieline_core::Timestamp;
use tieline_net::tls::{Fingerprint, ShownCertificate, UserRole, UserRoles, read_certificates};

/// What the file of users lists of a user's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListedName {
    /// A name in it.
    Name(NameKind, String),
    /// Its key.
    Key(Fingerprint),
}

/// What a text in a list of certificates looks like.
pub const LISTED_EXPECTED: &str = "names in certificates, as in [\"email:anna@example.org\"]: common_name:, dns:, email:, uri: or sha256: and a key's hash";

impl FromStr for ListedName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("sha256:") {
            return text.parse().map(Self::Key);
        }
        let (word, name) = text.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or(LISTED_EXPECTED)?;
        let kind = NameKind::WORDS.iter().find(|(known, kind)| *known == word && *kind != NameKind::Listed);
        kind.map(|(_, kind)| Self::Name(*kind, name.to_owned())).ok_or(LISTED_EXPECTED)
    }
}

impl fmt::Display for ListedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(kind, name) => write!(f, "{kind}:{name}"),
            Self::Key(fingerprint) => fingerprint.fmt(f),
        }
    }
}

/// Who holds a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user.
    pub user: String,
    /// The roles that the certificate brings; none takes those of the file.
    pub roles: Option<Vec<String>>,
    /// The last second in which the certificate is good.
    pub not_after: Timestamp,
}

/// Whose certificate it is.
///
/// # Errors
/// It names no user, or several; its roles cannot be read, or are for other areas.
pub fn holder(shown: &ShownCertificate, store: &CredentialStore, config: &CertificateConfig) -> Result<Holder, String> {
    let user = user_of(shown, store, config)?;
    let roles = match &shown.roles {
        Some(_) | None if config.role_areas.is_empty() => None,
        None => None,
        Some(UserRoles::Malformed) => {
            return Err(format!("a certificate of {user:?} whose roles of IEC 62351-8 cannot be read"));
        }
        Some(UserRoles::Read(all)) => Some(roles_here(&user, all, &config.role_areas)?),
    };
    Ok(Holder { user, roles, not_after: shown.not_after })
}

fn user_of(shown: &ShownCertificate, store: &CredentialStore, config: &CertificateConfig) -> Result<String, String> {
    let kinds = NameKind::WORDS.iter().map(|(_, kind)| *kind);
    let named =
        kinds.flat_map(|kind| names_of(kind, shown).iter().map(move |name| ListedName::Name(kind, name.clone())));
    let mut listed: Vec<&String> =
        named.chain([ListedName::Key(shown.fingerprint)]).filter_map(|name| store.certificates.get(&name)).collect();
    listed.dedup();
    let subject = &shown.subject;
    match (listed.as_slice(), names_of(config.user, shown)) {
        ([user], _) => Ok((*user).clone()),
        ([], [user]) => Ok(user.clone()),
        ([], names) => Err(match config.user {
            NameKind::Listed => format!("the certificate of {subject:?}, which the file of users does not list"),
            NameKind::CommonName | NameKind::Dns | NameKind::Email | NameKind::Uri => {
                format!("the certificate of {subject:?}, which has {} names of the kind {}", names.len(), config.user)
            }
        }),
        (several, _) => {
            let several: Vec<&str> = several.iter().map(|user| user.as_str()).collect();
            Err(format!("the certificate of {subject:?}, which the file of users lists for {}", several.join(" and ")))
        }
    }
}

/// The names of a kind that a certificate has.
fn names_of(kind: NameKind, shown: &ShownCertificate) -> &[String] {
    match kind {
        NameKind::CommonName => &shown.common_names,
        NameKind::Dns => &shown.hosts,
        NameKind::Email => &shown.emails,
        NameKind::Uri => &shown.uris,
        NameKind::Listed => &[],
    }
}

/// The standard's roles that hold here. Numbers that it does not define, and those of private use, mean nothing.
fn roles_here(user: &str, all: &[UserRole], areas: &[String]) -> Result<Vec<String>, String> {
    let is_here = |role: &&UserRole| areas.iter().any(|area| area == "*" || *area == role.area);
    let ids = all.iter().filter(is_here).flat_map(|role| &role.ids);
    let mut roles: Vec<String> = ids
        .filter_map(|id| usize::try_from(*id).ok().and_then(|id| IEC_ROLES.get(id)))
        .map(|(name, _)| (*name).to_owned())
        .collect();
    roles.sort();
    roles.dedup();
    if roles.is_empty() {
        let given: Vec<String> = all.iter().map(|role| format!("{:?} in {:?}", role.ids, role.area)).collect();
        let given = if given.is_empty() { "nothing".to_owned() } else { given.join(", ") };
        return Err(format!("a certificate of {user:?} without a role here: it brings {given}"));
    }
    Ok(roles)
}

/// Whose certificate is in a file, the first one of a chain.
///
/// # Errors
/// The file cannot be read, or [`holder`] says why it is nobody's.
pub fn holder_in_file(file: &Path, store: &CredentialStore, config: &AccessConfig) -> Result<Holder, String> {
    let missing = "certificates name no users here; expected [access.certificates] in the configuration";
    let config = config.certificates.as_ref().ok_or(missing)?;
    let read = read_certificates(file).map_err(|fault| fault.to_string())?;
    let shown = read.first().and_then(|(der, _)| ShownCertificate::read(der));
    holder(&shown.ok_or_else(|| format!("{}: found no certificate that can be read", file.display()))?, store, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> ShownCertificate {
        ShownCertificate {
            subject: "CN=anna,O=Utility".to_owned(),
            common_names: vec!["anna".to_owned()],
            hosts: vec!["a.example".to_owned(), "b.example".to_owned()],
            emails: vec!["anna@example.org".to_owned()],
            uris: Vec::new(),
            fingerprint: Fingerprint([7; 32]),
            not_after: Timestamp::from_micros(1),
            roles: None,
        }
    }

    fn config(user: NameKind, areas: &[&str]) -> CertificateConfig {
        CertificateConfig { user, role_areas: areas.iter().map(ToString::to_string).collect() }
    }

    fn store(listed: &[(&str, &str)]) -> CredentialStore {
        let listed = listed.iter().map(|(name, user)| (name.parse().unwrap(), (*user).to_owned()));
        CredentialStore { certificates: listed.collect(), ..CredentialStore::default() }
    }

    #[test]
    fn a_certificate_names_one_user_or_none() {
        let check = |kind, listed: &[(&str, &str)], expect: Result<&str, &str>| {
            let found = holder(&shown(), &store(listed), &config(kind, &[])).map(|holder| holder.user);
            assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{kind} {listed:?}");
        };
        let key = format!("sha256:{}", "07".repeat(32));
        check(NameKind::CommonName, &[], Ok("anna"));
        check(NameKind::Email, &[], Ok("anna@example.org"));
        let lead = "the certificate of \"CN=anna,O=Utility\", which";
        check(NameKind::Dns, &[], Err(&format!("{lead} has 2 names of the kind dns")));
        check(NameKind::Uri, &[], Err(&format!("{lead} has 0 names of the kind uri")));
        check(NameKind::Listed, &[], Err(&format!("{lead} the file of users does not list")));
        check(NameKind::Listed, &[("dns:b.example", "gate")], Ok("gate"));
        check(NameKind::CommonName, &[(&key, "boss")], Ok("boss"));
        check(NameKind::CommonName, &[("uri:anna", "x"), ("dns:anna", "x")], Ok("anna"));
        let both = [("dns:b.example", "gate"), (key.as_str(), "boss")];
        check(NameKind::CommonName, &both, Err(&format!("{lead} the file of users lists for gate and boss")));
    }

    #[test]
    fn roles_of_a_certificate_hold_in_their_area() {
        let roles = |all: &[(&[i16], &str)]| {
            let all = all.iter().map(|(ids, area)| UserRole { ids: ids.to_vec(), area: (*area).to_owned() });
            Some(UserRoles::Read(all.collect()))
        };
        let check = |areas: &[&str], roles, expect: Result<Option<&[&str]>, &str>| {
            let shown = ShownCertificate { roles, ..shown() };
            let found = holder(&shown, &CredentialStore::default(), &config(NameKind::CommonName, areas));
            let expect = expect.map(|roles| roles.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>()));
            assert_eq!(found.map(|holder| holder.roles), expect.map_err(str::to_owned));
        };
        let two = || roles(&[(&[1, 0, 1], "north"), (&[2], "south")]);
        check(&["north"], two(), Ok(Some(&["OPERATOR", "VIEWER"])));
        check(&["*"], two(), Ok(Some(&["ENGINEER", "OPERATOR", "VIEWER"])));
        check(&["north"], None, Ok(None));
        check(&[], two(), Ok(None));
        check(&[], Some(UserRoles::Malformed), Ok(None));
        let lead = "a certificate of \"anna\"";
        check(&["*"], Some(UserRoles::Malformed), Err(&format!("{lead} whose roles of IEC 62351-8 cannot be read")));
        let elsewhere = format!("{lead} without a role here: it brings [2] in \"south\"");
        check(&["north"], roles(&[(&[2], "south")]), Err(&elsewhere));
        let private = format!("{lead} without a role here: it brings [-102, 7] in \"north\"");
        check(&["north"], roles(&[(&[-102, 7], "north")]), Err(&private));
        check(&["north"], roles(&[]), Err(&format!("{lead} without a role here: it brings nothing")));
    }
}
