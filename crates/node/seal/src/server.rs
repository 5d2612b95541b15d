//! A running server.
//!
//! | thread | does |
//! |---|---|
//! | `seal-0` … | operations, one thread a core; the sockets of the binary protocol, on a current-thread runtime that whichever of them is free runs; the audit log |
//! | `seal-door` | the sockets of HTTP, on a runtime of its own |

use crate::audit::AuditLog;
use crate::config::Config;
use crate::pool::{self, Shared, unix_seconds};
use crate::{http, listener};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// How long connections may take to be answered when the server stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked for certificates that end soon.
const EXPIRY_EVERY: Duration = Duration::from_secs(86_400);

/// Serves until it is dropped: then what was asked is answered, and nothing new is read.
pub struct Server {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    sockets_thread: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    http: SocketAddr,
    protocol: SocketAddr,
}

impl Server {
    /// Starts listening and the threads.
    ///
    /// # Errors
    /// An address cannot be listened on, the audit log cannot be opened, or there is no thread.
    pub fn start(config: Config) -> std::io::Result<Self> {
        let config = Arc::new(config);
        let audit = AuditLog::open(config.audit.as_deref(), config.audit_limits)?;
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, sockets) = (runtime()?, Arc::new(runtime()?));
        let bind = |runtime: &Runtime, address: SocketAddr| {
            let named = move |error: std::io::Error| std::io::Error::new(error.kind(), format!("{address}: {error}"));
            runtime.block_on(TcpListener::bind(address)).map_err(named)
        };
        let (http_listener, protocol_listener) = (bind(&runtime, config.http)?, bind(&sockets, config.protocol)?);
        let (http, protocol) = (http_listener.local_addr()?, protocol_listener.local_addr()?);
        let shared = Arc::new(Shared::new(Arc::clone(&config), audit));
        let (closing, closed) = watch::channel(false);
        let links = sockets.spawn(listener::serve(protocol_listener, Arc::clone(&shared), closed.clone()));
        let workers = pool::start(&shared, &sockets)?;
        let listeners = {
            let (shared, hosts) = (Arc::clone(&shared), config.hosts.clone());
            async move {
                let pages = http::serve(http_listener, Arc::clone(&shared), hosts, closed.clone());
                let both = async { tokio::join!(links, pages) };
                let late = async {
                    let mut closed = closed.clone();
                    // The sender lives as long as the server; without it, it is time to end too.
                    let _ = closed.wait_for(|closing| *closing).await;
                    tokio::time::sleep(CLOSE_TIMEOUT).await;
                };
                tokio::select! {
                    _ = both => {}
                    () = watch_expiry(&shared) => {}
                    () = late => tracing::warn!("connections were cut that were not answered in time"),
                }
            }
        };
        let sockets_thread = std::thread::Builder::new().name("seal-door".to_owned());
        let sockets_thread = sockets_thread.spawn(move || runtime.block_on(listeners))?;
        Ok(Self { shared, closing, sockets_thread: Some(sockets_thread), workers, http, protocol })
    }

    /// Where HTTP listens.
    #[must_use]
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// Where the binary protocol listens.
    #[must_use]
    pub const fn protocol(&self) -> SocketAddr {
        self.protocol
    }

    /// Reads a configuration and puts its domains, keys, peers, clients and `exact_errors` in use. Addresses, threads, the
    /// audit log and limits of size stay until the next start. Meanwhile nobody changes the file: what was read before a
    /// change is never put in use behind it.
    ///
    /// # Errors
    /// Those of `read`; the configuration in use stays then.
    pub fn reload<E>(&self, read: impl FnOnce() -> Result<Config, E>) -> Result<(), E> {
        let _alone = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let config = read()?;
        warn_of_expiry(&config);
        self.shared.set_config(Arc::new(config));
        Ok(())
    }

    /// Whether a thread ended unasked.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.workers.iter().chain(&self.sockets_thread).any(JoinHandle::is_finished)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        if let Some(sockets_thread) = self.sockets_thread.take() {
            let _ = sockets_thread.join();
        }
        self.shared.close();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Warns at the start and every day.
async fn watch_expiry(shared: &Shared) {
    let mut days = tokio::time::interval(EXPIRY_EVERY);
    loop {
        days.tick().await;
        warn_of_expiry(&shared.config());
    }
}

/// Says which certificates end soon.
fn warn_of_expiry(config: &Config) {
    let (seconds, soon) = (unix_seconds(), config.expiry_warning.as_secs());
    for domain in config.domains.values() {
        let own = domain.keys.iter().map(|key| (&key.known, "key"));
        for (known, kind) in own.chain(domain.peers.iter().map(|peer| (&**peer, "peer"))) {
            let left = known.certificate.not_after.saturating_sub(seconds);
            if left < soon {
                let (serial, days) = (known.party.serial.to_string(), left / 86_400);
                tracing::warn!(domain = domain.name, kind, %serial, days, "a certificate ends soon or has ended");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Server;
    use crate::config::from_text;
    use crate::testkit::{Folder, pair};
    use std::sync::atomic::Ordering;

    #[test]
    fn nobody_changes_the_file_while_it_is_read_to_be_put_in_use() {
        let folder = Folder::with_keys(&["alice"]);
        let text = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[protocol]\nlisten = \"127.0.0.1:0\"\n\
             [client.test]\ntoken_sha256 = \"{}\"\nrights = [\"pack:alice\"]\n\
             [domain.alice]\nispb = \"{}\"\n[[domain.alice.key]]\nversion = 1\nfile = \"alice.key.pem\"\n\
             certificate = \"alice.cert.pem\"\n",
            "0".repeat(64),
            pair("alice").ispb,
        );
        let read = || from_text("seal.toml", &text, folder.path());
        let server = Server::start(read().unwrap()).unwrap();
        let shared = &server.shared;
        let alone = || {
            assert!(shared.changing.try_lock().is_err(), "a change would be undone");
            read()
        };
        server.reload(alone).unwrap();
        assert_eq!(server.reload(|| Err("unreadable")), Err("unreadable"));
        assert_eq!(shared.reloads.load(Ordering::Relaxed), 1);
        assert!(shared.changing.try_lock().is_ok());
    }
}
