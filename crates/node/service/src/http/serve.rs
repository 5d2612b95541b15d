//! The loop that serves HTTP: one task a connection, time-outs, an end that lets answers out.

use super::listen::{Connection, Limited};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service;

/// How long the head of a request may take from the first moment at which it could come; an idle connection ends then.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// With HTTP/2, a peer that says nothing for so long is asked whether it is there, and given up after as long again.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Serves until `closed`, then until all requests are answered. Handlers find the peer's address in [`ConnectInfo`],
/// and a certificate that it has shown in an extension, `Arc<ShownCertificate>`.
pub async fn serve(listener: Limited, router: Router, closed: impl Future<Output = ()>) {
    serve_within(HEAD_TIMEOUT, listener, router, closed).await;
}

async fn serve_within(head: Duration, mut listener: Limited, router: Router, closed: impl Future<Output = ()>) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_EVERY);
    let graceful = GracefulShutdown::new();
    tokio::pin!(closed);
    loop {
        let (connection, peer) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut closed => break,
        };
        let (router, builder, watcher) = (router.clone(), builder.clone(), graceful.watcher());
        drop(tokio::spawn(async move { converse(connection, peer, router, &builder, watcher).await }));
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn converse(
    connection: Connection,
    peer: SocketAddr,
    router: Router,
    builder: &Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let certificate = connection.certificate().map(Arc::new);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        router.clone().call(request)
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(connection), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%peer, %error, "an HTTP connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::listen::Places;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// What a client that sends this, and then nothing, reads until its connection ends. Time stands still while there is
    /// something to do, and goes on to the next time-out when there is not.
    fn read_after(sent: &'static str, closed: impl Future<Output = ()> + Send + 'static) -> String {
        let test = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let router = Router::new().route(
                "/",
                get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
                    assert!(peer.ip().is_loopback());
                    "here"
                }),
            );
            let listener = Limited::new(listener, Places::new());
            let serving = tokio::spawn(serve(listener, router, closed));
            client.write_all(sent.as_bytes()).await.unwrap();
            let mut read = String::new();
            client.read_to_string(&mut read).await.unwrap();
            serving.abort();
            read
        };
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test)
    }

    #[test]
    fn a_head_that_does_not_end_ends_the_connection() {
        let read = read_after("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ", std::future::pending());
        assert!(read.is_empty() || read.starts_with("HTTP/1.1 408"), "{read}");
    }

    #[test]
    fn an_idle_connection_is_answered_and_ends() {
        let read = read_after("GET / HTTP/1.1\r\nHost: a\r\n\r\n", std::future::pending());
        assert!(read.starts_with("HTTP/1.1 200") && read.ends_with("here"), "{read}");
    }
}
