//! How devices and outstations are reached: TCP, TLS, UDP, serial lines, by either side; and the keys by which they
//! authenticate each other.
//!
//! In: tables of the configuration, or flags; key files. Out: settings of `io/net` for connecting and listening, TLS
//! files that are reloaded while sessions continue, the keys of DNP3 secure authentication.
//!
//! Never: a session's events, a point, a topic; those belong to the node and to the outstation server.
//!
//! Read first: this file, then `read.rs`.

pub mod classes;
mod read;
pub mod secure;
mod settings;
mod tls;

pub use read::{read_tls, read_transport};
pub use tieline_service::tls::parse_pin;
pub use tls::{CertificateCache, EXPIRES_SOON, watch};

use settings::UDP_SILENCE;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Machine;
use tieline_dnp3::datagram::{DATAGRAM_BYTES, whole_units};
use tieline_dnp3::lean::{Carrier, Side};
use tieline_net::tls::{TlsError, TlsFiles};
use tieline_net::{
    ClientSide, ConnectOver, Datagrams, ListenConfig, ListenOver, Listener, Marks, Owner, SerialConfig, Session, Shard,
    Target, TlsConnect, TlsListen, UdpConnect, UdpListen, keep_connected,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long a session that is closed may take to end.
pub const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Where the other side is, and what goes between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Who opens the connection.
    pub end: End,
    /// What it is made of.
    pub over: Over,
}

/// Who opens the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// This side connects to `host:port`.
    Connect(String),
    /// The other side connects to this one.
    Listen(SocketAddr),
    /// Both are on a serial line, by its device file.
    Line(String),
}

/// What a connection is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls(TlsOptions),
    /// Datagrams.
    Udp(UdpOptions),
    /// A serial line.
    Serial(SerialConfig),
}

/// Who we are in TLS, and whom we trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The files.
    pub files: TlsFiles,
    /// The name that the certificate of who is connected to must be for; none: the host of the address.
    pub name: Option<String>,
}

/// How datagrams go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// The local address of who connects; none: any free port.
    pub local: Option<SocketAddr>,
    /// Who is heard by who listens; empty for anyone.
    pub remotes: Vec<IpAddr>,
    /// Silence after which the session of a peer ends, for who listens.
    pub silence: Duration,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { local: None, remotes: Vec::new(), silence: UDP_SILENCE.default }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Connect(address) => f.write_str(address)?,
            End::Listen(address) => write!(f, "listening on {address}")?,
            End::Line(path) => f.write_str(path)?,
        }
        match &self.over {
            Over::Tcp | Over::Serial(_) => Ok(()),
            Over::Tls(_) => f.write_str(" (TLS)"),
            Over::Udp(_) => f.write_str(" (UDP)"),
        }
    }
}

/// What a session is run with.
#[derive(Clone, Debug)]
pub enum Route {
    /// Connects, and comes back.
    Connect(Target),
    /// Is connected to.
    Listen(ListenConfig),
}

impl Route {
    /// With marks on its connections.
    #[must_use]
    pub fn marked(mut self, marks: Option<Marks>) -> Self {
        match &mut self {
            Self::Connect(target) => target.marks = marks,
            Self::Listen(config) => config.marks = marks,
        }
        self
    }
}

impl Transport {
    /// TCP to `host:port`.
    #[must_use]
    pub fn connect(address: impl Into<String>) -> Self {
        Self { end: End::Connect(address.into()), over: Over::Tcp }
    }

    /// TCP connections from the other side.
    #[must_use]
    pub const fn listen(address: SocketAddr) -> Self {
        Self { end: End::Listen(address), over: Over::Tcp }
    }

    /// Who offers lean messages: who connects.
    #[must_use]
    pub const fn side(&self) -> Side {
        match self.end {
            End::Connect(_) => Side::Offers,
            End::Listen(_) | End::Line(_) => Side::Accepts,
        }
    }

    /// Whether it takes datagrams of anyone on a network: one that is forged would take the place of the peer.
    #[must_use]
    pub fn hears_strangers(&self) -> bool {
        match (&self.end, &self.over) {
            (End::Listen(address), Over::Udp(udp)) => !address.ip().is_loopback() && udp.remotes.is_empty(),
            (End::Listen(_) | End::Connect(_) | End::Line(_), _) => false,
        }
    }

    /// What carries lean messages; none over a serial line, which needs the checks of link frames.
    #[must_use]
    pub const fn carrier(&self) -> Option<Carrier> {
        match self.over {
            Over::Tcp | Over::Tls(_) => Some(Carrier::Stream),
            Over::Udp(_) => Some(Carrier::Datagrams),
            Over::Serial(_) => None,
        }
    }

    /// What a session is run with. At most `sessions_max` peers at one time where this side listens.
    ///
    /// # Errors
    /// TLS files that cannot be used.
    pub fn route(&self, certificates: &CertificateCache, sessions_max: usize) -> Result<Route, TlsError> {
        let datagrams = Datagrams { whole: whole_units, bytes_max: DATAGRAM_BYTES };
        Ok(match &self.end {
            End::Listen(address) => {
                let over = match &self.over {
                    Over::Tcp | Over::Serial(_) => ListenOver::Tcp,
                    Over::Tls(options) => ListenOver::Tls(TlsListen::new(certificates.load(&options.files)?)),
                    Over::Udp(UdpOptions { remotes, silence, .. }) => {
                        ListenOver::Udp(UdpListen { datagrams, remotes: remotes.clone(), silence: *silence })
                    }
                };
                Route::Listen(ListenConfig { sessions_max, over, ..ListenConfig::new(address.to_string()) })
            }
            End::Connect(address) | End::Line(address) => {
                let over = match &self.over {
                    Over::Tcp => ConnectOver::Tcp,
                    Over::Tls(TlsOptions { files, name }) => {
                        let tls = ClientSide::Renewed(certificates.load(files)?);
                        ConnectOver::Tls(TlsConnect { tls, name: name.clone() })
                    }
                    Over::Udp(UdpOptions { local, .. }) => ConnectOver::Udp(UdpConnect { datagrams, local: *local }),
                    Over::Serial(config) => ConnectOver::Serial(*config),
                };
                Route::Connect(Target { over, ..Target::new(address) })
            }
        })
    }
}

impl Route {
    /// Runs a session for each connection until the shard ends: one after the other where this side connects, side by
    /// side where it listens. `start_session` gives a session, and who learns of it. Returns where it listens, if it
    /// does.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start_each<M, O>(
        self,
        shard: &Rc<Shard>,
        seed: u64,
        start_session: impl FnMut() -> (Session<M>, O) + 'static,
    ) -> std::io::Result<Option<SocketAddr>>
    where
        M: Machine + 'static,
        O: Owner<M> + 'static,
    {
        let (address, _task) = self.serve(shard, seed, Rc::default(), start_session).await?;
        Ok(address)
    }

    /// Runs the session until the shard ends or it is closed; a new connection takes the place of an old one. `seed`
    /// spreads the attempts to connect.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start<M, O>(self, session: Session<M>, seed: u64, owner: O) -> std::io::Result<KeptSession>
    where
        M: Machine + 'static,
        O: Owner<M> + Clone + 'static,
    {
        let (shard, stop) = (Rc::clone(session.shard()), Rc::<Notify>::default());
        let (kept, stopped) = (session.clone(), Rc::clone(&stop));
        let (address, task) = self.serve(&shard, seed, stopped, move || (session.clone(), owner.clone())).await?;
        let close = Box::new(move || {
            stop.notify_one();
            kept.close();
        });
        Ok(KeptSession { address, close, task })
    }

    /// Serves connections until `stop` is notified; where this side connects, until its session is closed.
    async fn serve<M, O>(
        self,
        shard: &Rc<Shard>,
        seed: u64,
        stop: Rc<Notify>,
        mut start_session: impl FnMut() -> (Session<M>, O) + 'static,
    ) -> std::io::Result<(Option<SocketAddr>, JoinHandle<()>)>
    where
        M: Machine + 'static,
        O: Owner<M> + 'static,
    {
        let listen = match self {
            Self::Connect(target) => {
                let (session, mut owner) = start_session();
                let kept = async move { keep_connected(&session, &target, seed, &mut owner).await };
                return Ok((None, tokio::task::spawn_local(kept)));
            }
            Self::Listen(listen) => listen,
        };
        let listener = Listener::bind(&listen, shard.counters().clone()).await?;
        let address = listener.local_addr()?;
        let task = tokio::task::spawn_local(async move {
            let mut running: Vec<JoinHandle<()>> = Vec::new();
            loop {
                let accepted = tokio::select! {
                    biased;
                    () = stop.notified() => break,
                    accepted = listener.accept() => accepted,
                };
                let (session, mut owner) = start_session();
                running.retain(|task| !task.is_finished());
                running.push(tokio::task::spawn_local(async move {
                    let _place = accepted.place;
                    session.run(accepted.stream, &mut owner).await;
                }));
            }
            // Its address is free again at once.
            drop(listener);
            for task in running {
                let _ = task.await;
            }
        });
        Ok((Some(address), task))
    }
}

/// A session that is kept going, until the shard ends or [`KeptSession::close`] is called; dropped, it goes on.
pub struct KeptSession {
    address: Option<SocketAddr>,
    close: Box<dyn Fn()>,
    task: JoinHandle<()>,
}

impl fmt::Debug for KeptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptSession").field("address", &self.address).finish_non_exhaustive()
    }
}

impl KeptSession {
    /// Where it listens, if it does.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Ends the connection and makes no other; the address it listened on, or the line, is free then. What does not end in
    /// [`CLOSE_MAX`] is cut off.
    pub async fn close(mut self) {
        (self.close)();
        if tokio::time::timeout(CLOSE_MAX, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}
