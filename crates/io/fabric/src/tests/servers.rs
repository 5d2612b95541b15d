//! Real servers, with ports and folders of their own.

use super::until;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Where `.ci/nats` puts the server, from the root of the repository.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../.work/bin/nats-server");

/// The server's binary; none, told in one line, where there is none. Continuous integration must have it.
pub(super) fn binary() -> Option<PathBuf> {
    let has_version = |path: &Path| Command::new(path).arg("--version").stdout(Stdio::null()).status().is_ok();
    let found = [PathBuf::from(BUILT), PathBuf::from("nats-server")].into_iter().find(|path| has_version(path));
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no nats-server: .ci/nats builds it");
        println!("SKIPPED: no nats-server in .work/bin or on the path; .ci/nats builds it");
    }
    found
}

pub(super) struct Server {
    pub(super) name: String,
    folder: PathBuf,
    binary: PathBuf,
    config: String,
    process: Child,
    pub(super) port: u16,
}

impl Server {
    /// A server by itself, with further lines of configuration.
    pub(super) async fn start(folder: &TempDir, more: &str) -> Option<Self> {
        let binary = binary()?;
        Some(Self::start_at(binary, folder.path().to_owned(), "n1", 0, more).await)
    }

    async fn start_at(binary: PathBuf, folder: PathBuf, name: &str, port: u16, more: &str) -> Self {
        let store = folder.join(name);
        fs::create_dir_all(&store).unwrap();
        let listen = if port == 0 { -1 } else { i32::from(port) };
        let path = folder.join(format!("{name}.conf"));
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{listen}\"\nwrite_deadline: \"2s\"\nping_interval: \"2s\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always, max_file: 1G, max_mem: 64M }}\n{more}\n",
            store.display()
        );
        fs::write(&path, text).unwrap();
        Self::run(binary, folder, name, &path, more).await
    }

    async fn run(binary: PathBuf, folder: PathBuf, name: &str, path: &Path, more: &str) -> Self {
        let store = folder.join(name);
        fs::create_dir_all(&store).unwrap();
        let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(&binary);
        command.arg("-c").arg(path).arg("--ports_file_dir").arg(&store);
        let process = command.stdout(Stdio::null()).stderr(Stdio::from(log)).spawn().unwrap();
        let ports = store.join(format!("nats-server_{}.ports", process.id()));
        let port = until("the server writes its ports", || async {
            let text = fs::read_to_string(&ports).ok()?;
            let (_, rest) = text.split_once("\"nats\"")?;
            let (_, rest) = rest.split_once("127.0.0.1:")?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        })
        .await;
        Self { name: name.to_owned(), folder, binary, config: more.to_owned(), process, port }
    }

    /// A server by itself with a configuration of its own, which listens on any port.
    pub(super) async fn start_as(folder: &TempDir, config: &str) -> Option<Self> {
        let (binary, folder) = (binary()?, folder.path().to_owned());
        let path = folder.join("n1.conf");
        fs::write(&path, config).unwrap();
        Some(Self::run(binary, folder, "n1", &path, config).await)
    }

    /// Three servers that keep streams together.
    pub(super) async fn start_three(folder: &TempDir) -> Option<[Self; 3]> {
        let binary = binary()?;
        // Servers must know the ports of each other before they have them.
        let held: Vec<_> = (0..3).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(held);
        let routes: Vec<String> = ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let routes = routes.join(", ");
        let start = |name: &'static str, port: u16| {
            let more = format!("cluster {{ name: C, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}");
            let (binary, folder) = (binary.clone(), folder.path().to_owned());
            async move { Self::start_at(binary, folder, name, 0, &more).await }
        };
        Some([start("n1", ports[0]).await, start("n2", ports[1]).await, start("n3", ports[2]).await])
    }

    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The same server again, at the same port.
    pub(super) async fn restart(&mut self) {
        self.kill();
        let (binary, folder) = (self.binary.clone(), self.folder.clone());
        *self = Self::start_at(binary, folder, &self.name.clone(), self.port, &self.config.clone()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
