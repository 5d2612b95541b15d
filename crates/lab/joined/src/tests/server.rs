//! One nats-server, with a port and a folder of its own.

use super::until;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tieline_fabric::{Fabric, FabricOptions};

/// Where `.ci/nats` puts the server, from the root of the repository.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../.work/bin/nats-server");

pub(super) struct Server {
    binary: PathBuf,
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Server {
    /// None, told in one line, where there is no binary. Continuous integration must have it.
    pub(super) async fn start() -> Option<Self> {
        let runs = |path: &PathBuf| Command::new(path).arg("--version").stdout(Stdio::null()).status().is_ok();
        let Some(binary) = [PathBuf::from(BUILT), PathBuf::from("nats-server")].into_iter().find(runs) else {
            assert!(std::env::var_os("CI").is_none(), "no nats-server: .ci/nats builds it");
            println!("SKIPPED: no nats-server in .work/bin or on the path; .ci/nats builds it");
            return None;
        };
        let folder = TempDir::new().unwrap();
        let (process, port) = run(&binary, &folder, -1).await;
        Some(Self { binary, folder, process, port })
    }

    pub(super) async fn connect(&self, name: &str) -> Fabric {
        let servers = vec![format!("nats://127.0.0.1:{}", self.port)];
        Fabric::connect(FabricOptions::new(name, servers)).await.unwrap()
    }

    /// `kill -9`, and the same server again at the same port.
    pub(super) async fn kill_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        (self.process, _) = run(&self.binary, &self.folder, i32::from(self.port)).await;
    }
}

async fn run(binary: &PathBuf, folder: &TempDir, port: i32) -> (Child, u16) {
    let config = folder.path().join("nats.conf");
    let store = folder.path().display();
    let text = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{store}\", sync_interval: always }}\n");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(binary);
    command.arg("-c").arg(&config).arg("--ports_file_dir").arg(folder.path());
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ports = folder.path().join(format!("nats-server_{}.ports", process.id()));
    let read = || -> Option<u16> {
        let text = fs::read_to_string(&ports).ok()?;
        let (_, rest) = text.split_once("127.0.0.1:")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    until("the server writes its ports", || read().is_some()).await;
    (process, read().unwrap())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
