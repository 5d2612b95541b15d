//! The thread that serves HTTP.

use super::StartError;
use crate::config::Config;
use crate::http::App;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_net::{Clock, ShardThread};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// How often the thread says that it runs its tasks.
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// The running thread.
#[derive(Debug)]
pub(super) struct HttpThread {
    thread: ShardThread,
    beats: Arc<Notify>,
}

pub(super) fn listen_http(config: &Config) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let listen = || {
        let listener = std::net::TcpListener::bind(config.http.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|why| StartError::Listen { what: "http", address: config.http.listen, why })
}

impl HttpThread {
    pub(super) fn start(
        config: &Config,
        clock: Clock,
        listener: std::net::TcpListener,
        app: App,
    ) -> Result<Self, StartError> {
        let beats = Arc::new(Notify::new());
        let (owned, beaten) = (config.http.clone(), Arc::clone(&beats));
        let certificates = Arc::clone(&app.about.tls);
        let tls = config.http.tls.as_ref().map(|files| certificates.load(files)).transpose();
        let tls = tls.map_err(|error| StartError::Tls(error.to_string()))?;
        let body = move |_shard: Rc<tieline_net::Shard>| async move {
            tokio::task::spawn_local(tieline_transport::watch(certificates, move || clock.now().utc));
            tokio::task::spawn_local(beat(beaten));
            match TcpListener::from_std(listener) {
                Ok(listener) => crate::http::serve(listener, app, &owned, tls).await,
                Err(error) => tracing::error!(%error, "the HTTP server did not start"),
            }
        };
        let thread = ShardThread::spawn("http", clock, Arc::default(), body).map_err(StartError::Thread)?;
        Ok(Self { thread, beats })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the thread runs its tasks once more.
    pub(super) async fn beat(&self) {
        self.beats.notified().await;
    }
}

async fn beat(beats: Arc<Notify>) {
    let mut interval = tokio::time::interval(BEAT_EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        beats.notify_waiters();
    }
}
