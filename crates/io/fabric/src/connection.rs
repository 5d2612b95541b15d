//! A connection to a server, or to one of several.

use crate::FabricError;
use crate::keys::{KeyKind, Keys};
use crate::service::{Service, Subscription};
use async_nats::client::{PublishErrorKind, RequestErrorKind};
use async_nats::jetstream::context::AccountErrorKind;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{
    Auth, AuthError, Client, ConnectErrorKind, ConnectOptions, Event, PublishError, SubscribeError, SubscribeErrorKind,
};
use bytes::Bytes;
use semver::Version;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// The oldest server: older ones lack what a log needs, or answer in other ways.
pub const VERSION_MIN: Version = Version::new(2, 12, 0);

/// Who a client is.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nobody, or whom its certificate names.
    #[default]
    None,
    /// A user with a password.
    Password {
        /// Its name.
        user: String,
        /// Its password.
        password: String,
    },
    /// A token.
    Token(String),
    /// The seed of an nkey.
    Nkey(String),
    /// A file with the seed of an nkey, as [`Keys`] writes it. It is read for each connection, so that another key is used from the
    /// next one on.
    SeedFile(PathBuf),
    /// A JWT with the seed of its nkey, as in a credentials file.
    Jwt(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Password { .. } => "Password",
            Self::Token(_) => "Token",
            Self::Nkey(_) => "Nkey",
            Self::SeedFile(_) => "SeedFile",
            Self::Jwt(_) => "Jwt",
        })
    }
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// Addresses: `nats://host:4222`, or `tls://`.
    pub servers: Vec<String>,
    /// The name that the server shows.
    pub name: String,
    /// Who connects.
    pub credentials: Credentials,
    /// TLS, which is required then; none: TLS only where the server or the address asks for it, with the system's authorities.
    pub tls: Option<rustls::ClientConfig>,
    /// The prefix of the subjects of answers.
    pub inbox: String,
    /// The connection is tried this often; it is given up after three without an answer.
    pub ping_every: Duration,
    /// A connection must be made within this time.
    pub connect_timeout: Duration,
    /// A server must answer requests about logs and leases within this time.
    pub server_timeout: Duration,
    /// The pause before a connection is tried again.
    pub reconnect_every: Duration,
}

impl FabricOptions {
    /// Options for a site with addresses of servers.
    #[must_use]
    pub fn new(site: &str, servers: Vec<String>) -> Self {
        Self {
            servers,
            name: site.to_owned(),
            credentials: Credentials::None,
            tls: None,
            inbox: crate::subject::inbox(site),
            ping_every: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
            server_timeout: Duration::from_secs(2),
            reconnect_every: Duration::from_millis(250),
        }
    }
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Whether it has JetStream, for this client.
    pub keeps_logs: bool,
    /// How long it took to ask it.
    pub round_trip: Duration,
}

/// A connection. It is made again by itself whenever it ends; copies share it.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) server_timeout: Duration,
    is_up: watch::Receiver<bool>,
}

impl Fabric {
    /// Connects.
    ///
    /// # Errors
    /// No server can be reached, or it refuses, or it is too old.
    pub async fn connect(options: FabricOptions) -> Result<Self, FabricError> {
        let (sender, is_up) = watch::channel(true);
        let mut connect = with_credentials(options.credentials)?
            .name(&options.name)
            .custom_inbox_prefix(&options.inbox)
            .ping_interval(options.ping_every)
            .connection_timeout(options.connect_timeout)
            .request_timeout(Some(options.server_timeout))
            .reconnect_delay_callback({
                let pause = options.reconnect_every;
                move |attempts| if attempts <= 1 { Duration::ZERO } else { pause }
            })
            .event_callback(move |event| {
                tell(&event, &sender);
                async {}
            });
        if let Some(tls) = options.tls {
            connect = connect.tls_client_config(tls).require_tls(true);
        }
        let client = connect.connect(options.servers).await.map_err(|error| connect_error(&error))?;
        check_version(&client.server_info().version)?;
        let builder = jetstream::context::ContextBuilder::new().timeout(options.server_timeout);
        let jetstream = builder.ack_timeout(options.server_timeout).build(client.clone());
        Ok(Self { client, jetstream, server_timeout: options.server_timeout, is_up })
    }

    /// Whether it is connected, as far as it knows, and every change of that.
    #[must_use]
    pub fn is_up(&self) -> watch::Receiver<bool> {
        self.is_up.clone()
    }

    /// The longest message.
    #[must_use]
    pub fn message_bytes_max(&self) -> usize {
        self.client.max_payload()
    }

    /// What the server is, and whether it can keep logs and leases.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn about(&self) -> Result<About, FabricError> {
        let begin = std::time::Instant::now();
        let keeps_logs = match self.jetstream.query_account().await {
            Ok(_) => true,
            Err(error) => match error.kind() {
                AccountErrorKind::JetStreamUnavailable => false,
                AccountErrorKind::JetStream(cause)
                    if cause.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT =>
                {
                    false
                }
                AccountErrorKind::JetStream(cause) => return Err(crate::log::of_jetstream(&cause)),
                AccountErrorKind::TimedOut | AccountErrorKind::Other => {
                    return Err(FabricError::Away(error.to_string()));
                }
            },
        };
        let round_trip = begin.elapsed();
        let info = self.client.server_info();
        let (name, version, message_bytes_max) = (info.server_name, info.version, info.max_payload);
        Ok(About { name, version, message_bytes_max, keeps_logs, round_trip })
    }

    /// Asks who serves a subject.
    ///
    /// # Errors
    /// [`FabricError::Nobody`] at once, where nobody does. [`FabricError::Away`] where no answer came in time: what was asked may be
    /// done yet, even later, where the connection broke meanwhile. What must not be done late says so itself.
    pub async fn call(&self, subject: &str, body: Bytes, timeout: Duration) -> Result<Bytes, FabricError> {
        if !*self.is_up.borrow() {
            return Err(FabricError::Away("not connected".into()));
        }
        let request = async_nats::Request::new().payload(body).timeout(Some(timeout));
        let answer = self.client.send_request(subject.to_owned(), request).await;
        answer.map(|message| message.payload).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => FabricError::Nobody,
            RequestErrorKind::TimedOut | RequestErrorKind::Other => FabricError::Away(error.to_string()),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                FabricError::Misused(error.to_string())
            }
        })
    }

    /// Serves a subject, together with all others of a group.
    ///
    /// # Errors
    /// The subject is none, or the connection is closed.
    pub async fn serve(&self, subject: &str, group: &str) -> Result<Service, FabricError> {
        let subscriber = self.client.queue_subscribe(subject.to_owned(), group.to_owned()).await;
        Ok(Service::new(self.client.clone(), subscriber.map_err(|error| subscribe_error(&error))?))
    }

    /// Sends a message to all that are subscribed.
    ///
    /// # Errors
    /// The subject is none, the message too long, or the connection is closed.
    pub async fn publish(&self, subject: &str, body: Bytes) -> Result<(), FabricError> {
        let published = self.client.publish(subject.to_owned(), body).await;
        published.map_err(|error| publish_error(&error))
    }

    /// Subscribes to a subject, wildcards allowed.
    ///
    /// # Errors
    /// As [`Fabric::serve`].
    pub async fn subscribe(&self, subject: &str) -> Result<Subscription, FabricError> {
        let subscriber = self.client.subscribe(subject.to_owned()).await;
        subscriber.map(Subscription::new).map_err(|error| subscribe_error(&error))
    }

    /// Waits until all that was sent so far is on its way; whether the server has it, an answer tells.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn flush(&self) -> Result<(), FabricError> {
        self.client.flush().await.map_err(|error| FabricError::Away(error.to_string()))
    }
}

fn tell(event: &Event, is_up: &watch::Sender<bool>) {
    match event {
        Event::Connected => drop(is_up.send(true)),
        Event::Disconnected | Event::Closed => drop(is_up.send(false)),
        Event::LameDuckMode | Event::Draining => tracing::info!(%event, "the fabric's server closes soon"),
        Event::SlowConsumer(_) => tracing::warn!(%event, "a reader of the fabric is too slow: messages are lost"),
        Event::ServerError(_) | Event::ClientError(_) => tracing::warn!(%event, "the fabric has an error"),
    }
}

fn with_credentials(credentials: Credentials) -> Result<ConnectOptions, FabricError> {
    let options = ConnectOptions::new();
    match credentials {
        Credentials::None => Ok(options),
        Credentials::Password { user, password } => Ok(options.user_and_password(user, password)),
        Credentials::Token(token) => Ok(options.token(token)),
        Credentials::Nkey(seed) => Ok(options.nkey(seed)),
        Credentials::SeedFile(path) => {
            // What is wrong with it is said at once, and not with each attempt.
            Keys::read(&path, KeyKind::User).map_err(|error| FabricError::Misused(error.to_string()))?;
            Ok(ConnectOptions::with_auth_callback(move |nonce| {
                let auth = sign_in(&path, &nonce);
                async move { auth }
            }))
        }
        Credentials::Jwt(text) => options
            .credentials(&text)
            .map_err(|error| FabricError::Misused(format!("these are no credentials: {error}"))),
    }
}

/// Shows the key of a file, and that the other half is there.
fn sign_in(path: &Path, nonce: &[u8]) -> Result<Auth, AuthError> {
    let keys = Keys::read(path, KeyKind::User).map_err(AuthError::new)?;
    let mut auth = Auth::new();
    (auth.nkey, auth.signature) = (Some(keys.public()), Some(keys.sign(nonce)));
    Ok(auth)
}

fn connect_error(error: &async_nats::ConnectError) -> FabricError {
    // The library's own words leave out why.
    let mut words = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        words = format!("{words}: {source}");
    }
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Tls => {
            FabricError::Refused(words)
        }
        ConnectErrorKind::ServerParse => FabricError::Misused(words),
        // The library takes a certificate that does not fit for a socket that fails.
        ConnectErrorKind::Io if is_of_tls(error) => FabricError::Refused(words),
        ConnectErrorKind::Dns | ConnectErrorKind::TimedOut | ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => {
            FabricError::Away(words)
        }
    }
}

fn is_of_tls(error: &async_nats::ConnectError) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if error.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

pub(crate) fn publish_error(error: &PublishError) -> FabricError {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => {
            FabricError::Misused(error.to_string())
        }
        PublishErrorKind::Send => FabricError::Away(error.to_string()),
    }
}

fn subscribe_error(error: &SubscribeError) -> FabricError {
    match error.kind() {
        SubscribeErrorKind::InvalidSubject | SubscribeErrorKind::InvalidQueueName => {
            FabricError::Misused(error.to_string())
        }
        SubscribeErrorKind::Other => FabricError::Away(error.to_string()),
    }
}

/// Whether a server of this version can be used.
///
/// # Errors
/// It is too old, or the text is no version.
pub fn check_version(found: &str) -> Result<(), FabricError> {
    // A pre-release of a newer version is newer; what cannot be read is not known to be.
    let is_new = Version::parse(found).is_ok_and(|version| {
        (version.major, version.minor, version.patch) >= (VERSION_MIN.major, VERSION_MIN.minor, VERSION_MIN.patch)
    });
    if is_new { Ok(()) } else { Err(FabricError::Version { found: found.to_owned() }) }
}

#[cfg(test)]
mod version_tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        for (version, is_taken) in [
            ("2.12.0", true),
            ("2.15.2", true),
            ("3.0.0-preview.1", true),
            ("2.11.9", false),
            ("2.9.10", false),
            ("", false),
            ("soon", false),
        ] {
            assert_eq!(check_version(version).is_ok(), is_taken, "{version}");
        }
        let told = check_version("2.9.10").unwrap_err().to_string();
        assert_eq!(told, "the server is nats-server 2.9.10, expected 2.12.0 or newer");
    }
}
