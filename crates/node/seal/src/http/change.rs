//! Keys and certificates that come in, and what keys may do: `POST` to `/v1/seal/keys`, `/v1/seal/peers`,
//! `/v1/seal/keys/activate` and `/v1/seal/keys/retire`.
//!
//! As with `tieline seal key` and `peer`, the configuration's file is changed and then read again: what is answered with
//! success is still so after a restart. Each change is a line of the audit log, one that was refused too.

use super::{App, Identified};
use crate::access::{Action, Client};
use crate::audit::{Change, change_line};
use crate::config::{Config, ConfigFile, EditError, NewKey, NewPeer};
use crate::keyring::KeyState;
use crate::pool::{Shared, now};
use crate::{Ispb, keyring::Domain};
use axum::RequestExt;
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tieline_crypto::TokenUri;
use tieline_service::http::body::{Answer, Json};
use tieline_service::http::openapi::{Authorization, Input, Operation, Schemas};
use tieline_service::http::problem::Problem;
use zeroize::Zeroizing;

/// Files of one kind and domain; a number more than anyone imports.
const FILES_MAX: u32 = 10_000;

/// A key of ours.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyImport {
    domain: String,
    /// PKCS#8 as PEM, encrypted or not
    key: String,
    /// PEM
    certificate: String,
    /// Of an encrypted key
    password: Option<String>,
    /// One more than the highest, unless given
    #[schemars(range(min = 1))]
    key_version: Option<u32>,
    /// Whether it signs at once; otherwise it opens only
    #[serde(default)]
    activate: bool,
}

/// Another institution's certificate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerImport {
    domain: String,
    /// PEM
    certificate: String,
    /// The institution, unless the certificate's subject says it
    #[schemars(regex(pattern = Ispb::PATTERN))]
    ispb: Option<String>,
    /// Not activated yet: taken in messages about security only
    #[serde(default)]
    pending: bool,
}

/// A key by its version.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyNamed {
    domain: String,
    #[schemars(range(min = 1))]
    key_version: u32,
}

/// What names the domain that it changes.
pub trait OfDomain {
    /// The domain.
    fn domain(&self) -> &str;
}

impl OfDomain for KeyImport {
    fn domain(&self) -> &str {
        &self.domain
    }
}

impl OfDomain for PeerImport {
    fn domain(&self) -> &str {
        &self.domain
    }
}

impl OfDomain for KeyNamed {
    fn domain(&self) -> &str {
        &self.domain
    }
}

/// What a client that may administer the domain asks for.
pub struct Administered<T> {
    app: App,
    who: Who,
    asked: T,
}

impl<T: DeserializeOwned + OfDomain> FromRequest<App> for Administered<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        let address: Result<ConnectInfo<SocketAddr>, _> = request.extract_parts().await;
        let ConnectInfo(address) = address.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let headers = request.headers().clone();
        let Json(asked) = Json::<T>::from_request(request, app).await?;
        let who = Who { client: app.client(&headers, Action::Admin, asked.domain())?, address };
        Ok(Self { app: app.clone(), who, asked })
    }
}

impl<T: JsonSchema> Authorization for Administered<T> {}

impl<T: JsonSchema> Input for Administered<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.may_fail(400, "The body is no JSON, or the server cannot take what it holds; nothing was changed");
        operation.may_fail(403, "The client may not administer the domain; or a foreign page asked");
        operation.may_fail(404, "No such domain, or no such key");
        operation.may_fail(409, "The file of the configuration cannot be changed so");
        operation.may_fail(500, "A file cannot be written");
        operation.may_fail(503, "Too much is under way, or the server is closing");
        Json::<T>::describe(operation, schemas);
        Identified::describe(operation, schemas);
    }
}

/// What was changed, which the server has taken.
#[derive(JsonSchema, Serialize)]
pub struct Changed {
    domain: String,
    key_version: Option<u32>,
    serial: Option<String>,
    #[schemars(extend("enum" = KeyState::ALL.map(KeyState::word)))]
    state: &'static str,
}

/// Adds a key: pending, unless it is to sign at once.
pub async fn import_key(Administered { app, who, asked }: Administered<KeyImport>) -> Result<Answer<Changed>, Problem> {
    let KeyImport { domain, key, certificate, password, key_version, activate } = asked;
    let (key, password) = (Zeroizing::new(key), password.map(Zeroizing::new));
    if TokenUri::is_one(&key) {
        let expected = "a key as PEM; `tieline seal key import` adds one that lies in a token";
        return Err(Problem::bad_request(format!("the key is a URI, expected {expected}")));
    }
    let state = if activate { KeyState::Active } else { KeyState::Pending };
    let done = apply(app, who, "key_import", domain, move |file, domain| {
        let mut files = Files::beside(file.folder(), domain);
        let new = NewKey {
            file: files.write("key", &key)?,
            certificate: Some(files.write("certificate", &certificate)?),
            password_file: password.map(|password| files.write("password", &password)).transpose()?,
            version: key_version,
            state,
        };
        let version = file.add_key(domain, &new)?;
        let config = file.save()?;
        files.keep();
        let serial = config.domains.get(domain).and_then(|domain| serial_of(domain, version));
        Ok(Done { config, key_version: Some(version), serial, state })
    });
    done.await
}

fn serial_of(domain: &Domain, version: u32) -> Option<String> {
    domain.keys.iter().find(|key| key.version == version).map(|key| key.known.party.serial.to_string())
}

/// Adds another institution's certificate.
pub async fn import_peer(
    Administered { app, who, asked }: Administered<PeerImport>,
) -> Result<Answer<Changed>, Problem> {
    let PeerImport { domain, certificate, ispb, pending } = asked;
    let wrong =
        |text: &String| Problem::bad_request(format!("ispb is {text:?}, expected an institution's eight digits"));
    let ispb = ispb.map(|text| Ispb::from_text(&text).ok_or_else(|| wrong(&text))).transpose()?;
    let state = if pending { KeyState::Pending } else { KeyState::Active };
    let done = apply(app, who, "peer_import", domain, move |file, domain| {
        let mut files = Files::beside(file.folder(), domain);
        file.add_peer(domain, &NewPeer { certificate: files.write("peer", &certificate)?, ispb, state })?;
        let config = file.save()?;
        files.keep();
        Ok(Done { config, key_version: None, serial: None, state })
    });
    done.await
}

/// Lets a key sign.
pub async fn activate(asked: Administered<KeyNamed>) -> Result<Answer<Changed>, Problem> {
    set_state(asked, "key_activate", KeyState::Active).await
}

/// Lets a key neither sign nor open.
pub async fn retire(asked: Administered<KeyNamed>) -> Result<Answer<Changed>, Problem> {
    set_state(asked, "key_retire", KeyState::Retired).await
}

async fn set_state(
    Administered { app, who, asked }: Administered<KeyNamed>,
    verb: &'static str,
    state: KeyState,
) -> Result<Answer<Changed>, Problem> {
    let version = asked.key_version;
    let done = apply(app, who, verb, asked.domain, move |file, domain| {
        file.set_key_state(domain, version, state)?;
        let config = file.save()?;
        let serial = config.domains.get(domain).and_then(|domain| serial_of(domain, version));
        Ok(Done { config, key_version: Some(version), serial, state })
    });
    done.await
}

/// Who asks, from where.
struct Who {
    client: Arc<Client>,
    address: SocketAddr,
}

/// What was changed.
struct Done {
    config: Config,
    key_version: Option<u32>,
    serial: Option<String>,
    state: KeyState,
}

/// Changes the configuration's file, one change at a time, and takes it.
async fn apply(
    app: App,
    who: Who,
    verb: &'static str,
    domain: String,
    change: impl FnOnce(&mut ConfigFile, &str) -> Result<Done, EditError> + Send + 'static,
) -> Result<Answer<Changed>, Problem> {
    let applied = tokio::task::spawn_blocking(move || {
        let shared = &app.0;
        let _one_at_a_time = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change_file(shared, &domain, change);
        let (key_version, serial, refused) = match &done {
            Ok(done) => (done.key_version, done.serial.as_deref(), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let refused = refused.as_deref();
        let record = Change { verb, domain: &domain, key_version, serial, refused };
        shared.audit.write(&change_line(&now(), &who.client, who.address, &record));
        let Done { config, key_version, serial, state } = done.map_err(problem)?;
        shared.set_config(Arc::new(config));
        Ok(Answer(Changed { domain, key_version, serial, state: state.word() }))
    });
    applied.await.unwrap_or_else(|_| Err(Problem::unavailable("the change ended early")))
}

fn change_file(
    shared: &Shared,
    domain: &str,
    change: impl FnOnce(&mut ConfigFile, &str) -> Result<Done, EditError>,
) -> Result<Done, EditError> {
    let config = shared.config();
    let path =
        config.path.as_deref().ok_or_else(|| EditError::Written("the server has no configuration file".into()))?;
    let mut file = ConfigFile::open(path)?;
    change(&mut file, domain)
}

fn problem(error: EditError) -> Problem {
    let status = match error {
        EditError::NoDomain(_) | EditError::NoKey { .. } => StatusCode::NOT_FOUND,
        EditError::Config(_) => StatusCode::BAD_REQUEST,
        EditError::Written(_) => StatusCode::CONFLICT,
        EditError::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::new(status, error.to_string())
}

/// Files that are written beside the configuration, and removed unless they are kept.
struct Files {
    folder: PathBuf,
    stem: String,
    written: Vec<PathBuf>,
}

impl Files {
    fn beside(folder: &Path, domain: &str) -> Self {
        // A domain may have any name, a file may not.
        let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        Self { folder: folder.to_owned(), stem: domain.chars().take(64).map(letter).collect(), written: Vec::new() }
    }

    /// Writes a file for its owner alone; its name.
    fn write(&mut self, kind: &str, text: &str) -> Result<String, EditError> {
        for number in 1..FILES_MAX {
            let name = format!("{}-{kind}-{number}.pem", self.stem);
            let path = self.folder.join(&name);
            let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error.into()),
            };
            self.written.push(path);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            return Ok(name);
        }
        Err(EditError::Written(format!("there are {FILES_MAX} files of this kind")))
    }

    fn keep(mut self) {
        self.written.clear();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.written {
            // What could not be removed is named by nothing.
            let _ = std::fs::remove_file(path);
        }
    }
}
