//! Why a node does not start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a node could not start.
#[derive(Debug)]
pub enum StartError {
    /// The data folder cannot be made, locked or read.
    Data {
        /// Which.
        folder: PathBuf,
        /// Why.
        why: String,
    },
    /// An address cannot be listened on.
    Listen {
        /// Which server.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        why: std::io::Error,
    },
    /// The files of users and roles cannot be used.
    Access(String),
    /// The views cannot live together.
    Views(String),
    /// TLS files cannot be used.
    Tls(String),
    /// A device cannot be started.
    Field(std::io::Error),
    /// Two points that can be commanded contradict each other.
    Control(tieline_control::PointError),
    /// The file of notifications cannot be opened, or they get no thread.
    Notify(std::io::Error),
    /// The system gives no thread.
    Thread(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { folder, why } => write!(f, "the data folder {} cannot be used: {why}", folder.display()),
            Self::Listen { what, address, why } => write!(f, "{what} cannot listen on {address}: {why}"),
            Self::Access(why) => write!(f, "users and roles cannot be read: {why}"),
            Self::Views(why) => f.write_str(why),
            Self::Tls(why) => write!(f, "TLS files cannot be used: {why}"),
            Self::Field(why) => write!(f, "a device cannot be started: {why}"),
            Self::Control(why) => why.fmt(f),
            Self::Notify(why) => write!(f, "notifications cannot be sent: {why}"),
            Self::Thread(why) => write!(f, "a thread cannot be started: {why}"),
        }
    }
}

impl std::error::Error for StartError {}
