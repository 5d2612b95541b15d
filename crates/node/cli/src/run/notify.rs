//! What a node tells its service manager: sd_notify(3), a datagram with lines `KEY=value` to the socket in `NOTIFY_SOCKET`.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, where there is one that wants to know.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the node works; zero: never.
    watchdog: Duration,
    told: String,
}

impl ServiceManager {
    /// The one in the environment. What is wrong with it is logged: the node runs all the same.
    #[must_use]
    pub fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let Some(address) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let watchdog = watchdog_of(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        match connect(&address) {
            Ok(socket) => Self { socket: Some(socket), watchdog, told: String::new() },
            Err(error) => {
                tracing::warn!(%error, address, "the service manager in NOTIFY_SOCKET cannot be told anything");
                Self::default()
            }
        }
    }

    /// Whether it is to be told that the node works, and how much time may pass between two times; half of what it waits.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        (self.socket.is_some() && !self.watchdog.is_zero()).then_some(self.watchdog / 2)
    }

    /// Whether there is one.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// All addresses of the node take connections.
    pub fn ready(&mut self, status: &str) {
        status.clone_into(&mut self.told);
        self.tell(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// How the node does, in a line; said again only where it changes.
    pub fn status(&mut self, status: &str) {
        if self.told != status {
            status.clone_into(&mut self.told);
            self.tell(&format!("STATUS={}", line(status)));
        }
    }

    /// The node works, where the manager wants to hear it.
    pub fn alive(&self) {
        if self.watchdog().is_some() {
            self.tell("WATCHDOG=1");
        }
    }

    /// The node ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    fn tell(&self, text: &str) {
        // A manager that takes nothing is no reason to wait.
        self.socket.iter().for_each(|socket| drop(socket.send(text.as_bytes())));
    }
}

/// A line of its own: what follows a line feed would be another key.
fn line(text: &str) -> String {
    text.replace('\n', " ")
}

/// `@` stands for the zero byte that begins an abstract name.
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match address.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(address)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Zero where the watchdog is off, or is another process's.
fn watchdog_of(micros: Option<String>, process: Option<String>, own: u32) -> Duration {
    let is_own = process.is_none_or(|process| process.parse() == Ok(own));
    let micros = micros.filter(|_| is_own).and_then(|micros| micros.parse().ok());
    Duration::from_micros(micros.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(bytes.get(..count).unwrap()).into_owned()
    }

    fn check(listening: &UnixDatagram, address: &str) {
        let socket = connect(address).unwrap();
        let mut manager =
            ServiceManager { socket: Some(socket), watchdog: Duration::from_secs(30), told: String::new() };
        assert_eq!(manager.watchdog(), Some(Duration::from_secs(15)));
        manager.ready("one\nREADY=0");
        manager.status("one\nREADY=0");
        manager.status("two");
        manager.alive();
        manager.stopping();
        let heard: Vec<String> = (0..4).map(|_| heard(listening)).collect();
        assert_eq!(heard, ["READY=1\nSTATUS=one READY=0", "STATUS=two", "WATCHDOG=1", "STOPPING=1\nSTATUS=stopping"]);
    }

    #[test]
    fn what_is_told_arrives_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        check(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
        let name = path.to_str().unwrap();
        let listening = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        check(&listening, &format!("@{name}"));
    }

    #[test]
    fn without_a_manager_nothing_is_told() {
        let mut manager = ServiceManager::default();
        manager.ready("one");
        assert!(!manager.is_there() && manager.watchdog().is_none());
        let folder = tempfile::tempdir().unwrap();
        assert!(connect(folder.path().join("nobody").to_str().unwrap()).is_err());
    }

    #[test]
    fn a_watchdog_is_of_its_process() {
        let check = |micros: &str, process: Option<&str>, expect| {
            let found = watchdog_of(Some(micros.to_owned()), process.map(str::to_owned), 7);
            assert_eq!(found, Duration::from_secs(expect), "{micros} {process:?}");
        };
        check("30000000", None, 30);
        check("30000000", Some("7"), 30);
        check("30000000", Some("8"), 0);
        check("30000000", Some("x"), 0);
        check("x", None, 0);
    }
}
