//! The loop that serves HTTP: one task a connection, time limits, an end that lets answers out.

use super::exchange::{Exchange, Stuck, Traffic};
use super::listen::{Connection, Limited};
use super::places::{End, RESERVE_TIMEOUT};
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tower_service::Service;

/// How long the head of a request may take from the first moment at which it could come; an idle connection ends then.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// With HTTP/2, a peer that says nothing for so long is asked whether it is there, and given up after as long again.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How often it is looked at what a peer does.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Bytes that a connection reads ahead, and writes ahead of its peer.
const BUFFER_BYTES: usize = 64 * 1024;
/// Requests of HTTP/2 that are under way on one connection.
const STREAMS_MAX: u32 = 32;
/// Bytes of all headers of a request.
const HEADERS_BYTES_MAX: u32 = 32 * 1024;

/// Serves until `closed`, then until all requests are answered. Handlers find among a request's extensions the peer's
/// address in [`ConnectInfo`], a certificate that it has shown as `Arc<ShownCertificate>`, and its
/// [`Slot`](super::places::Slot).
pub async fn serve(mut listener: Limited, router: Router, closed: impl Future<Output = ()>) {
    let builder = Arc::new(builder());
    let (closing, closes) = watch::channel(false);
    // Each connection holds one until it ends.
    let (alive, mut all_ended) = mpsc::channel::<()>(1);
    tokio::pin!(closed);
    loop {
        let (connection, peer) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut closed => break,
        };
        let (router, builder, closes, alive) = (router.clone(), Arc::clone(&builder), closes.clone(), alive.clone());
        drop(tokio::spawn(async move {
            converse(connection, peer, router, &builder, closes).await;
            drop(alive);
        }));
    }
    drop((listener, alive));
    closing.send_replace(true);
    let _: Option<()> = all_ended.recv().await;
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_BYTES);
    let window = u32::try_from(BUFFER_BYTES).unwrap_or(u32::MAX);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_EVERY);
    http2.max_concurrent_streams(STREAMS_MAX).max_header_list_size(HEADERS_BYTES_MAX);
    http2.max_send_buf_size(BUFFER_BYTES).initial_stream_window_size(window).initial_connection_window_size(4 * window);
    builder
}

async fn converse(
    connection: Connection,
    peer: SocketAddr,
    router: Router,
    builder: &Builder<TokioExecutor>,
    mut closes: watch::Receiver<bool>,
) {
    let certificate = connection.certificate().map(Arc::new);
    let (slot, traffic) = (connection.slot().clone(), Traffic::default());
    let (of_requests, begun) = ((slot.clone(), traffic.clone()), Instant::now());
    let service = service_fn(move |request: Request<Incoming>| {
        let (slot, traffic) = &of_requests;
        let (slot, exchange) = (slot.clone(), Exchange::begin(traffic, slot.places()));
        let mut request = request.map(|body| exchange.incoming(body));
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(slot.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        let answered = router.clone().call(request);
        async move {
            let response = answered.await?;
            if exchange.is_late() {
                slot.places().count(End::Body);
            }
            let mut response = exchange.answer(response);
            if slot.is_in_reserve() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = builder.serve_connection_with_upgrades(TokioIo::new(connection), service).into_owned();
    tokio::pin!(served);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let end = loop {
        tokio::select! {
            ended = &mut served => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "an HTTP connection ended");
                }
                return;
            }
            Ok(()) = closes.changed() => served.as_mut().graceful_shutdown(),
            // Who makes it give way has counted it.
            () = slot.closing() => return,
            now = looks.tick() => match traffic.stuck(now) {
                Some(Stuck::Idle) => break End::Idle,
                Some(Stuck::Unread) => break End::Unread,
                None if slot.is_in_reserve() && now >= begun + RESERVE_TIMEOUT => break End::Reserve,
                None => {}
            },
        }
    };
    tracing::debug!(%peer, ?end, "an HTTP connection was ended");
    slot.places().count(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::{PIECE_BYTES, PIECE_TIMEOUT};
    use crate::http::places::{Limits, Places, Seen, Slot};
    use axum::body::Bytes;
    use axum::response::{IntoResponse, Response};
    use axum::routing::{get, post};
    use axum::{Extension, Router};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// More than sockets buffer.
    const LONG_BYTES: usize = 32 << 20;

    async fn long() -> Bytes {
        Bytes::from(vec![b'x'; LONG_BYTES])
    }

    async fn users_only(Extension(slot): Extension<Slot>) -> Response {
        match slot.claim(true) {
            Ok(()) => "user".into_response(),
            Err(words) => words.into_response(),
        }
    }

    fn router() -> Router {
        let here = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
            assert!(peer.ip().is_loopback());
            "here"
        };
        let take = |body: Bytes| async move { body.len().to_string() };
        let router = Router::new().route("/", get(here)).route("/take", post(take));
        router.route("/long", get(long)).route("/user", get(users_only))
    }

    /// Serves, and lets clients do something. Time stands still while there is something to do, and goes on to the next
    /// time-out when there is not.
    fn with_server<T>(limits: Limits, clients: impl AsyncFnOnce(SocketAddr, Places) -> T) -> T {
        run(true, limits, clients)
    }

    fn run<T>(paused: bool, limits: Limits, clients: impl AsyncFnOnce(SocketAddr, Places) -> T) -> T {
        let test = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, places) = (listener.local_addr().unwrap(), Places::new(limits));
            let listener = Limited::new(listener, places.clone());
            let serving = tokio::spawn(serve(listener, router(), std::future::pending()));
            let done = clients(address, places).await;
            serving.abort();
            done
        };
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap().block_on(test)
    }

    async fn connect(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(sent).await.unwrap();
        client
    }

    async fn read_all(mut client: TcpStream) -> String {
        let mut read = Vec::new();
        let _ = client.read_to_end(&mut read).await;
        String::from_utf8_lossy(&read).into_owned()
    }

    /// What a client that sends this, and then nothing, reads until its connection ends, how long that takes, and what is
    /// counted.
    fn read_after(sent: &[u8]) -> (String, Duration, Seen) {
        with_server(Limits::default(), async |address, places| {
            let begun = Instant::now();
            let read = read_all(connect(address, sent).await).await;
            let took = begun.elapsed();
            tokio::task::yield_now().await;
            (read, took, places.seen())
        })
    }

    #[test]
    fn a_head_that_does_not_end_ends_the_connection() {
        let (read, took, _) = read_after(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
        assert!(read.is_empty() || read.starts_with("HTTP/1.1 408"), "{read}");
        assert!(took <= HEAD_TIMEOUT + LOOK_EVERY, "{took:?}");
    }

    #[test]
    fn an_idle_connection_is_answered_and_ends() {
        let (read, took, seen) = read_after(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(read.starts_with("HTTP/1.1 200") && read.ends_with("here"), "{read}");
        assert!(took <= HEAD_TIMEOUT + LOOK_EVERY && seen.connections == 0, "{took:?} {seen:?}");
    }

    #[test]
    fn who_says_nothing_at_all_is_ended() {
        let (read, took, seen) = read_after(b"");
        assert_eq!((read.as_str(), seen.ended), ("", [1, 0, 0, 0]));
        assert!(took <= PIECE_TIMEOUT + LOOK_EVERY, "{took:?}");
    }

    #[test]
    fn an_idle_connection_of_http_2_is_ended() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let (_, took, seen) = read_after(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat());
        assert_eq!(seen.ended, [1, 0, 0, 0]);
        assert!(took <= PIECE_TIMEOUT + LOOK_EVERY, "{took:?}");
    }

    #[test]
    fn a_body_that_does_not_come_is_given_up() {
        let head = "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegin";
        let (read, took, seen) = read_after(head.as_bytes());
        assert!(read.starts_with("HTTP/1.1 408") && read.contains("did not come in time"), "{read}");
        assert_eq!((seen.ended, seen.pending_bytes), ([0, 1, 0, 0], 0));
        assert!(took <= PIECE_TIMEOUT + LOOK_EVERY, "{took:?}");
    }

    #[test]
    fn a_slow_body_comes_as_long_as_it_goes_on() {
        let (bytes, pieces) = (PIECE_BYTES, 5);
        let read = with_server(Limits::default(), async |address, _| {
            let length = bytes * pieces;
            let head =
                format!("POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let mut client = connect(address, head.as_bytes()).await;
            for _ in 0..pieces {
                tokio::time::sleep(PIECE_TIMEOUT / 2).await;
                client.write_all(&vec![b'x'; bytes]).await.unwrap();
            }
            read_all(client).await
        });
        assert!(read.starts_with("HTTP/1.1 200") && read.ends_with("163840"), "{read}");
    }

    #[test]
    fn an_answer_that_is_not_taken_is_given_up_and_holds_nothing() {
        let (read, seen, during) = with_server(Limits::default(), async |address, places| {
            let client = connect(address, b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let during = places.seen().pending_bytes;
            tokio::time::sleep(PIECE_TIMEOUT + 2 * LOOK_EVERY).await;
            let seen = places.seen();
            (read_all(client).await.len(), seen, during)
        });
        assert!(read < LONG_BYTES, "{read}");
        assert_eq!((seen.ended, seen.connections, seen.pending_bytes), ([0, 0, 1, 0], 0, 0));
        assert_eq!(during, LONG_BYTES);
    }

    #[test]
    fn a_whole_answer_comes_in_pieces() {
        let request = b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let (read, _, seen) = read_after(request);
        assert!(read.contains(&format!("content-length: {LONG_BYTES}")) && read.len() > LONG_BYTES);
        assert_eq!((seen.pending_bytes, seen.ended), (0, [0; 4]));
    }

    #[test]
    fn an_answer_that_there_is_no_room_for_is_refused() {
        let limits = Limits { pending_bytes_max: LONG_BYTES, ..Limits::default() };
        let second = with_server(limits, async |address, places| {
            let request = b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let _first = connect(address, request).await;
            while places.seen().pending_bytes == 0 {
                tokio::task::yield_now().await;
            }
            let second = read_all(connect(address, request).await).await;
            assert_eq!(places.seen().refused_bytes, 1);
            second
        });
        assert!(second.starts_with("HTTP/1.1 503") && second.contains("too much is pending"), "{second}");
    }

    #[test]
    fn a_crowd_leaves_the_reserve_to_health() {
        let limits = Limits { connections_max: 8, address_connections_max: 8, ..Limits::default() };
        // Time goes on: nothing here waits for a time-out.
        let (health, user, seen) = run(false, limits, async |address, places| {
            let unfinished = b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
            let mut crowd = Vec::new();
            for _ in 0..100 {
                crowd.push(connect(address, unfinished).await);
            }
            let health = read_all(connect(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await).await;
            let user =
                read_all(connect(address, b"GET /user HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await).await;
            (health, user, places.seen())
        });
        // It is answered at once, and does not stay.
        assert!(health.starts_with("HTTP/1.1 200") && health.contains("connection: close"), "{health}");
        // Half of the places are for those who have shown who they are.
        assert!(user.ends_with("user"), "{user}");
        assert!(seen.ended[3] >= 60 && seen.ended[1] == 0, "{seen:?}");
    }
}
