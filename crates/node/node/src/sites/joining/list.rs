//! The list of sites, in a file that is replaced as a whole before a change is answered.
//!
//! A site is *invited* until it has a key, then *active*, or *revoked*. A token is given out once, and its hash alone is kept. It brings
//! in one key; shown again with that key it has the same answer, so that a site can ask again after a lost one.
//!
//! A site that changes its key has two for a while: the one before is dropped when the next one connects.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_history::{ReplicaFile, Replication, Withheld};
use tieline_service::replacement::{self, folder_of};
use tokio::sync::watch;

/// What tokens begin with, so that they are recognised where they should not be.
const TOKEN_PREFIX: &str = "tljoin_";
/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;
/// The version of the file's form.
const VERSION: u32 = 1;

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its public key; none until it has joined.
    pub key: Option<String>,
    /// The key that takes its place once it connects.
    pub next_key: Option<String>,
    /// Whether it was thrown out.
    pub revoked: bool,
    /// When it was added, RFC 3339.
    pub created: String,
    /// When it connected last, RFC 3339.
    pub last_seen: Option<String>,
    /// The token that was given out last.
    token: Option<TokenHash>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenHash {
    /// SHA-256, in base64url.
    hash: String,
    /// RFC 3339.
    expires: String,
    /// The key that it brought in.
    used_by: Option<String>,
}

/// How a site stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteState {
    /// It has no key yet.
    Invited,
    /// It may connect.
    Active,
    /// It may not.
    Revoked,
}

impl SiteState {
    /// A stable word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invited => "invited",
            Self::Active => "active",
            Self::Revoked => "revoked",
        }
    }
}

impl Site {
    /// How it stands.
    #[must_use]
    pub const fn state(&self) -> SiteState {
        match (self.revoked, &self.key) {
            (true, _) => SiteState::Revoked,
            (false, Some(_)) => SiteState::Active,
            (false, None) => SiteState::Invited,
        }
    }

    /// Until when its token can be used, where it has one that was not used.
    #[must_use]
    pub fn token_expires(&self) -> Option<&str> {
        self.token.as_ref().filter(|token| token.used_by.is_none()).map(|token| &*token.expires)
    }

    fn has(&self, key: &str) -> bool {
        !self.revoked && [&self.key, &self.next_key].into_iter().flatten().any(|own| own == key)
    }
}

/// A token, which is given out once.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The secret.
    pub text: String,
    /// Until when it can be used.
    pub expires: Timestamp,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(until {})", self.expires)
    }
}

/// A site that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its name.
    pub site: String,
    /// Whether it joined with this call, and not with one before.
    pub is_new: bool,
}

/// Why nothing was changed.
#[derive(Debug)]
pub enum JoinError {
    /// There is no such site.
    Unknown(String),
    /// There is such a site already.
    Exists(String),
    /// It was revoked.
    Revoked(String),
    /// It is not revoked, and has no token that can be used.
    Name(String),
    /// There are as many sites as there may be.
    Full(usize),
    /// The text is no public key of a user.
    Key(String),
    /// The key belongs to another site.
    KeyTaken,
    /// No site has this token.
    Token,
    /// The token was used, with another key.
    Used,
    /// The token's time is over.
    Expired(String),
    /// The token is that of another site than the caller expects.
    OtherSite(String),
    /// The list cannot be written.
    File(PathBuf, io::Error),
    /// The core has another leader; in words.
    Deposed(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no site {name:?}; tieline site add makes one"),
            Self::Exists(name) => write!(f, "the site {name:?} is there already"),
            Self::Revoked(name) => write!(f, "the site {name:?} is revoked; tieline site add takes it up again"),
            Self::Name(name) => write!(
                f,
                "the name is {name:?}, expected 1 to 128 bytes without / + # and control characters, that do not begin with $ \
                 and are not the centre's own name"
            ),
            Self::Full(max) => write!(f, "there are {max} sites, as many as centre.sites_max allows"),
            Self::Key(key) => {
                write!(f, "the key is {key:?}, expected the public key of a user: U and 55 letters or digits")
            }
            Self::KeyTaken => f.write_str("the key belongs to another site, expected one of this site alone"),
            Self::Token => f.write_str("the token is wrong, expected one of tieline site token"),
            Self::Used => f.write_str("the token was used already, with another key: expected a new token"),
            Self::Expired(when) => write!(f, "the token expired at {when}: expected a new token"),
            Self::OtherSite(name) => write!(f, "the token is not for the site {name:?}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Deposed(why) => write!(f, "{why}: nothing was changed here"),
        }
    }
}

impl std::error::Error for JoinError {}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u32,
    sites: BTreeMap<String, Site>,
}

/// All sites of a centre.
#[derive(Debug)]
pub struct SiteList {
    path: PathBuf,
    sites: BTreeMap<String, Site>,
    sites_max: usize,
    /// Names that no site may have.
    reserved: Vec<String>,
    /// Something is known that is not in the file: when sites were seen.
    is_dirty: bool,
    changes: watch::Sender<u64>,
    /// Where each change goes first.
    replication: Replication,
}

impl SiteList {
    /// Reads the list; it is empty where there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of this form.
    pub fn open(path: &Path, sites_max: usize, reserved: &[&str]) -> Result<Self, JoinError> {
        let sites = read_file(path)?;
        let reserved = reserved.iter().map(|name| (*name).to_owned()).collect();
        let changes = watch::Sender::new(0);
        let replication = Replication::default();
        Ok(Self { path: path.to_owned(), sites, sites_max, reserved, is_dirty: false, changes, replication })
    }

    /// The list of a leader: all of it goes to the log of its core, and each change does from here on.
    #[must_use]
    pub fn replicated(mut self, replication: Replication) -> Self {
        self.replication = replication;
        if let Err(error) = self.replicate(&self.sites, true) {
            // The node is about to stop.
            tracing::warn!(%error, "the list of sites is not in the log of the core");
        }
        self
    }

    /// Takes what a leader has replicated into the file of a standby.
    ///
    /// # Errors
    /// It is none of this form, or the file cannot be read or written.
    pub fn take_replicated(path: &Path, record: &[u8], replaces: bool) -> Result<(), JoinError> {
        let taken = sites_of(path, record)?;
        let mut sites = if replaces { BTreeMap::new() } else { read_file(path)? };
        sites.extend(taken);
        write_file(path, &sites)
    }

    /// All sites, by name.
    pub fn sites(&self) -> impl Iterator<Item = (&str, &Site)> {
        self.sites.iter().map(|(name, site)| (name.as_str(), site))
    }

    /// Told after each change of keys.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Adds a site, or takes up one that was revoked. With a key it can connect at once.
    ///
    /// # Errors
    /// The name or the key cannot be used, or the site is there, or there are too many; nothing has changed.
    pub fn add(&mut self, now: Timestamp, name: &str, key: Option<&str>) -> Result<(), JoinError> {
        if !is_name(name) || self.reserved.iter().any(|reserved| reserved == name) {
            return Err(JoinError::Name(name.to_owned()));
        }
        match self.sites.get(name) {
            Some(site) if !site.revoked => return Err(JoinError::Exists(name.to_owned())),
            Some(_) => {}
            None if self.sites.len() >= self.sites_max => return Err(JoinError::Full(self.sites_max)),
            None => {}
        }
        key.map_or(Ok(()), |key| self.check_key(name, key))?;
        let site = Site {
            key: key.map(str::to_owned),
            next_key: None,
            revoked: false,
            created: now.to_string(),
            last_seen: None,
            token: None,
        };
        self.change(name, site)
    }

    /// Makes a token for a site, in the place of the one before.
    ///
    /// # Errors
    /// There is no such site, or it is revoked; nothing has changed.
    pub fn token(&mut self, now: Timestamp, name: &str, valid: Duration) -> Result<Token, JoinError> {
        let site = self.sites.get(name).ok_or_else(|| JoinError::Unknown(name.to_owned()))?;
        if site.revoked {
            return Err(JoinError::Revoked(name.to_owned()));
        }
        let mut secret = [0; TOKEN_BYTES];
        rand::fill(&mut secret).map_err(|_| JoinError::File(self.path.clone(), io::Error::other("no random bytes")))?;
        let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let valid = i64::try_from(valid.as_micros()).unwrap_or(i64::MAX);
        let expires = Timestamp::from_micros(now.micros().saturating_add(valid));
        let token = TokenHash { hash: hash(&text), expires: expires.to_string(), used_by: None };
        self.change(name, Site { token: Some(token), ..site.clone() })?;
        Ok(Token { text, expires })
    }

    /// Brings in a key by a token.
    ///
    /// # Errors
    /// The token or the key cannot be used, or the site is another one than the caller expects; nothing has changed.
    pub fn join(
        &mut self,
        now: Timestamp,
        token: &str,
        key: &str,
        expected: Option<&str>,
    ) -> Result<Joined, JoinError> {
        let (name, site, token) = self.find_token(token).ok_or(JoinError::Token)?;
        if let Some(expected) = expected.filter(|expected| *expected != name) {
            return Err(JoinError::OtherSite(expected.to_owned()));
        }
        let name = name.to_owned();
        if site.revoked {
            return Err(JoinError::Revoked(name));
        }
        match &token.used_by {
            // Asked again, after its answer was lost; it may have another key by now.
            Some(used_by) if used_by == key && site.has(key) => return Ok(Joined { site: name, is_new: false }),
            Some(_) => return Err(JoinError::Used),
            None => {}
        }
        if token.expires.parse::<Timestamp>().is_ok_and(|until| until <= now) {
            return Err(JoinError::Expired(token.expires.clone()));
        }
        let used = TokenHash { used_by: Some(key.to_owned()), ..token.clone() };
        let next = Site { key: Some(key.to_owned()), next_key: None, token: Some(used), ..site.clone() };
        self.check_key(&name, key)?;
        self.change(&name, next)?;
        Ok(Joined { site: name, is_new: true })
    }

    /// Throws a site out: no key and no token of it is taken any more. Its name stays.
    ///
    /// # Errors
    /// There is no such site; nothing has changed.
    pub fn revoke(&mut self, name: &str) -> Result<(), JoinError> {
        let site = self.sites.get(name).ok_or_else(|| JoinError::Unknown(name.to_owned()))?;
        let next = Site { key: None, next_key: None, revoked: true, token: None, ..site.clone() };
        self.change(name, next)
    }

    /// Takes the next key of a site, which has to have been proven. The one before is taken too, until this one connects.
    ///
    /// # Errors
    /// The site is none, or the key cannot be used; nothing has changed.
    pub fn offer_key(&mut self, name: &str, key: &str) -> Result<(), JoinError> {
        let site = self.sites.get(name).ok_or_else(|| JoinError::Unknown(name.to_owned()))?;
        match site.state() {
            SiteState::Revoked => return Err(JoinError::Revoked(name.to_owned())),
            SiteState::Invited => return Err(JoinError::Unknown(name.to_owned())),
            SiteState::Active if site.has(key) => return Ok(()),
            SiteState::Active => {}
        }
        let next = Site { next_key: Some(key.to_owned()), ..site.clone() };
        self.check_key(name, key)?;
        self.change(name, next)
    }

    /// The site that may connect with a key, which has to have been proven. A key that was offered takes the place of the one before.
    /// The second word says whether it did.
    ///
    /// # Errors
    /// No site has the key, or the list cannot be written.
    pub fn admit(&mut self, now: Timestamp, key: &str) -> Result<(String, bool), JoinError> {
        let found = self.sites.iter().find(|(_, site)| site.has(key));
        let (name, site) = found.map(|(name, site)| (name.clone(), site.clone())).ok_or(JoinError::Token)?;
        let is_next = site.next_key.as_deref() == Some(key);
        if is_next {
            self.change(&name, Site { key: site.next_key.clone(), next_key: None, ..site })?;
        }
        if let Some(site) = self.sites.get_mut(&name) {
            (site.last_seen, self.is_dirty) = (Some(now.to_string()), true);
        }
        Ok((name, is_next))
    }

    /// Whether a connection with a key may stay.
    #[must_use]
    pub fn may_stay(&self, key: &str) -> bool {
        self.sites.values().any(|site| site.has(key))
    }

    /// Writes when sites were seen, if that is not in the file yet.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn save(&mut self) -> Result<(), JoinError> {
        if self.is_dirty {
            self.write(&self.sites)?;
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Every token is compared, each in constant time: an answer takes as long for one that is nearly right.
    fn find_token(&self, token: &str) -> Option<(&str, &Site, &TokenHash)> {
        let shown = hash(token);
        let mut found = None;
        for (name, site) in &self.sites {
            if let Some(token) = &site.token
                && verify_slices_are_equal(token.hash.as_bytes(), shown.as_bytes()).is_ok()
            {
                found = Some((name.as_str(), site, token));
            }
        }
        found
    }

    fn check_key(&self, name: &str, key: &str) -> Result<(), JoinError> {
        if !super::is_site_key(key) {
            return Err(JoinError::Key(key.to_owned()));
        }
        let is_taken = self.sites.iter().any(|(other, site)| other != name && site.has(key));
        if is_taken { Err(JoinError::KeyTaken) } else { Ok(()) }
    }

    /// The log of the core first, then the file: what is answered is on the disk, and is at the next leader.
    fn change(&mut self, name: &str, site: Site) -> Result<(), JoinError> {
        let held = self.replicate(&BTreeMap::from([(name.to_owned(), site.clone())]), false)?;
        let mut sites = self.sites.clone();
        sites.insert(name.to_owned(), site);
        self.write(&sites)?;
        drop(held);
        (self.sites, self.is_dirty) = (sites, false);
        self.changes.send_modify(|number| *number += 1);
        Ok(())
    }

    fn replicate(&self, sites: &BTreeMap<String, Site>, replaces: bool) -> Result<Withheld, JoinError> {
        let Some(log) = &self.replication.log else { return Ok(Withheld::default()) };
        let form = Form { version: VERSION, sites: sites.clone() };
        let record = serde_json::to_vec(&form).map_err(|error| JoinError::Deposed(error.to_string()))?;
        log.replicate_file(ReplicaFile::Sites, replaces, &record).map_err(JoinError::Deposed)
    }

    fn write(&self, sites: &BTreeMap<String, Site>) -> Result<(), JoinError> {
        write_file(&self.path, sites)
    }
}

/// The sites of a file; none where there is no file.
fn read_file(path: &Path) -> Result<BTreeMap<String, Site>, JoinError> {
    match std::fs::read(path) {
        Ok(bytes) => sites_of(path, &bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(JoinError::File(path.to_owned(), error)),
    }
}

fn sites_of(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Site>, JoinError> {
    let wrong = |why: String| JoinError::File(path.to_owned(), io::Error::new(ErrorKind::InvalidData, why));
    let form: Form = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if form.version != VERSION {
        return Err(wrong(format!("found the version {}, expected {VERSION}", form.version)));
    }
    Ok(form.sites)
}

fn write_file(path: &Path, sites: &BTreeMap<String, Site>) -> Result<(), JoinError> {
    let form = Form { version: VERSION, sites: sites.clone() };
    let bytes = serde_json::to_vec_pretty(&form).map_err(io::Error::other);
    bytes.and_then(|bytes| replace(path, &bytes)).map_err(|error| JoinError::File(path.to_owned(), error))
}

/// A level of topics, for topics of a site are below its name.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !"/+#".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('$')
}

fn hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()))
}

/// Its owner alone may read it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder_of(path))?;
    replacement::replace(path, bytes, 0o600)
}

#[cfg(all(test, feature = "fabric"))]
mod tests;
