//! The servers of a standby: MQTT clients are told where the leader is, HTTP says how this member does.

use super::StartError;
use super::http_thread::listen_http;
use crate::cluster::ClusterBoard;
use crate::config::Config;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_mqtt::refuse_connect;
use tieline_net::{Clock, ShardThread};
use tieline_transport::CertificateCache;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Clients that are answered at one time; others wait in the kernel.
const CLIENTS_MAX: usize = 256;
/// How long a client may take to say CONNECT, and to go after the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a CONNECT that say which version it is.
const HEAD_BYTES: usize = 12;

/// The servers of a standby. Dropping it closes their addresses.
#[derive(Debug)]
pub(super) struct Standby {
    addresses: (SocketAddr, SocketAddr),
    _threads: [ShardThread; 2],
}

impl Standby {
    /// Listens at the addresses of HTTP and MQTT, without those of MQTT over TLS and WebSocket.
    pub(super) fn start(config: &Config, board: &Arc<ClusterBoard>, clock: Clock) -> Result<Self, StartError> {
        let (http, http_address) = listen_http(config)?;
        let address = config.mqtt.listen;
        let listen = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (mqtt, mqtt_address) = listen().map_err(|why| StartError::Listen { what: "mqtt", address, why })?;
        let certificates = CertificateCache::default();
        let tls = config.http.tls.as_ref().map(|files| certificates.load(files)).transpose();
        let tls = tls.map_err(|error| StartError::Tls(error.to_string()))?;
        let (owned, shown) = (config.http.clone(), Arc::clone(board));
        let is_open = !config.access.is_configured() || !config.access.guards(config.http.listen);
        let serve_http = move |_: Rc<tieline_net::Shard>| async move {
            match TcpListener::from_std(http) {
                Ok(listener) => crate::http::serve_standby(listener, &owned, tls, (shown, is_open)).await,
                Err(error) => tracing::error!(%error, "the HTTP server did not start"),
            }
        };
        let shown = Arc::clone(board);
        let serve_mqtt = move |_: Rc<tieline_net::Shard>| async move {
            match TcpListener::from_std(mqtt) {
                Ok(listener) => serve(listener, shown).await,
                Err(error) => tracing::error!(%error, "the MQTT server did not start"),
            }
        };
        let http = ShardThread::spawn("standby-http", clock, Arc::default(), serve_http).map_err(StartError::Thread)?;
        let mqtt = ShardThread::spawn("standby-mqtt", clock, Arc::default(), serve_mqtt).map_err(StartError::Thread)?;
        Ok(Self { addresses: (http_address, mqtt_address), _threads: [http, mqtt] })
    }

    /// Where HTTP and MQTT listen.
    pub(super) const fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }
}

async fn serve(listener: TcpListener, board: Arc<ClusterBoard>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let board = Arc::clone(&board);
                tokio::task::spawn_local(async move {
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &board)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, board: &ClusterBoard) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    while head.len() < HEAD_BYTES {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let reference = board.look().leader.and_then(|leader| leader.reference);
    if let Some(answer) = refusal(&head, reference.as_deref()) {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        // A socket that is closed with bytes unread takes the answer away from who has not read it.
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
    }
    Ok(())
}

/// The answer to a CONNECT: where the leader is, or that none is there.
fn refusal(head: &[u8], reference: Option<&str>) -> Option<Vec<u8>> {
    let words = match reference {
        Some(reference) => format!("this node is a standby; the leader is at {reference}"),
        None => "this node is a standby, and no leader is known".to_owned(),
    };
    refuse_connect(head, reference, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_where_the_leader_is() {
        let connect = |length: &[u8], level: u8| [&[0x10], length, b"\0\x04MQTT", &[level, 2, 0, 60]].concat();
        let v5 = refusal(&connect(&[16], 5), Some("core-b.example")).unwrap();
        assert_eq!((v5[0], v5[3]), (0x20, 0x9C));
        assert!(String::from_utf8_lossy(&v5).contains("the leader is at core-b.example"), "{v5:?}");
        let v5 = refusal(&connect(&[16], 5), None).unwrap();
        assert_eq!((v5[0], v5[3]), (0x20, 0x88));
        for reference in [None, Some("core-b.example")] {
            assert_eq!(refusal(&connect(&[0x80, 0x01], 4), reference).unwrap(), [0x20, 2, 0, 3]);
            assert_eq!(refusal(b"GET / HTTP/1.1\r\n", reference), None);
        }
    }
}
