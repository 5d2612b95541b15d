//! MQTT listeners: TCP, TLS, and WebSocket over either, each at an address of its own.

use crate::access::Entrance;
use crate::config::MqttConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tieline_net::tls::TlsFiles;
use tieline_net::{ListenConfig, ListenOver, Listener, Shard, TlsListen, Together, Trusted};
use tieline_transport::CertificateCache;
use tieline_websocket::Offer;

/// The backlog: connections that wait in the kernel when many clients connect at once, as far as the system allows.
const BACKLOG: u32 = 4096;
/// Connections beyond the limit of an address that are being refused with a reason at one time; others wait in the
/// kernel.
const REFUSALS_MAX: usize = 256;
/// The subprotocol of MQTT ([MQTT-6.0.0-3]).
const SUBPROTOCOL: &str = "mqtt";

/// One address at which MQTT clients connect.
#[derive(Debug)]
pub struct MqttListener {
    /// Accepts connections.
    pub listener: Listener,
    /// What clients are offered, where they speak MQTT over WebSocket.
    pub web: Option<Arc<Offer>>,
    /// Whether clients have to authenticate.
    pub entrance: Entrance,
    /// Proxies that name the client's address with the PROXY protocol.
    pub proxies: Trusted,
}

/// Says whether clients at an address have to authenticate.
pub type Entrances = Box<dyn Fn(SocketAddr) -> Entrance + Send>;

/// The addresses in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// TCP.
    pub tcp: SocketAddr,
    /// TLS.
    pub tls: Option<SocketAddr>,
    /// WebSocket.
    pub websocket: Option<SocketAddr>,
}

/// Listens at every address that is configured.
///
/// # Errors
/// One of them cannot be listened on, or the files of its certificate cannot be read.
pub async fn bind(
    shard: &Shard,
    config: &MqttConfig,
    certificates: &CertificateCache,
    entrances: &Entrances,
) -> io::Result<(Vec<MqttListener>, Addresses)> {
    let (together, proxies) = (Together::new(config.sessions_max), &config.proxy_protocol_from);
    let host = Host { shard, certificates, entrances, proxies, together };
    let tcp = host.open(config.listen, None, None, None).await?;
    let mut addresses = Addresses { tcp: tcp.listener.local_addr()?, tls: None, websocket: None };
    let mut listeners = vec![tcp];
    if let Some(tls) = &config.tls {
        let listener = host.open(tls.listen, tls.sessions_max, Some(&tls.files), None).await?;
        addresses.tls = Some(listener.listener.local_addr()?);
        listeners.push(listener);
    }
    if let Some(web) = &config.websocket {
        let hosts = web.hosts.iter().cloned().chain(own_hosts(web.listen)).collect();
        let offer = Offer { path: web.path.clone(), protocol: SUBPROTOCOL.to_owned(), hosts, texts: false };
        let listener = host.open(web.listen, web.sessions_max, web.tls.as_ref(), Some(Arc::new(offer))).await?;
        addresses.websocket = Some(listener.listener.local_addr()?);
        listeners.push(listener);
    }
    tracing::debug!(tcp = %addresses.tcp, tls = shown(addresses.tls), web = shown(addresses.websocket), "MQTT listens");
    Ok((listeners, addresses))
}

fn shown(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "off".to_owned(), |address| address.to_string())
}

/// Pages of this machine may connect: those of localhost, and of the address that is listened on.
fn own_hosts(listen: SocketAddr) -> impl Iterator<Item = String> {
    let address = listen.ip();
    let own = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter().chain([own])
}

/// What every address has in common.
struct Host<'a> {
    shard: &'a Shard,
    certificates: &'a CertificateCache,
    entrances: &'a Entrances,
    proxies: &'a Trusted,
    /// Clients of all addresses.
    together: Arc<Together>,
}

impl Host<'_> {
    async fn open(
        &self,
        address: SocketAddr,
        sessions_max: Option<usize>,
        files: Option<&TlsFiles>,
        web: Option<Arc<Offer>>,
    ) -> io::Result<MqttListener> {
        let over = match files {
            None => ListenOver::Tcp,
            Some(files) => ListenOver::Tls(TlsListen::new(self.certificates.load(files).map_err(io::Error::other)?)),
        };
        let sessions_max = sessions_max.unwrap_or(usize::MAX);
        let together = Some(Arc::clone(&self.together));
        let listen = ListenConfig {
            sessions_max,
            refusals_max: REFUSALS_MAX,
            together,
            over,
            backlog: BACKLOG,
            ..ListenConfig::new(address.to_string())
        };
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{address}: {e}"));
        let listener = Listener::bind(&listen, self.shard.counters().clone()).await.map_err(named)?;
        Ok(MqttListener { listener, web, entrance: (self.entrances)(address), proxies: self.proxies.clone() })
    }
}
