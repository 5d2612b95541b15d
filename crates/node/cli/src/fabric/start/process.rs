//! The process of a nats-server: its log, its ports, its signals.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tieline_fabric::{LineLevel, ServerLine};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of a line of its log; the rest is another line.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// Bytes of the answer about its health.
const HEALTH_BYTES_MAX: u64 = 16 * 1024;
/// How long it may take to answer.
const HEALTH_MAX: Duration = Duration::from_secs(2);

/// The ports that it has.
pub struct Ports {
    pub clients: u16,
    pub monitor: u16,
}

/// A server that runs. It is killed where it is dropped.
pub struct Server {
    child: Child,
    ports: PathBuf,
    last_error: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it. Signals of the terminal do not reach it: it ends when it is told to.
    pub fn start(binary: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.arg("-c").arg(config).arg("--ports_file_dir").arg(folder).process_group(0);
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.with_context(|| binary.display().to_string())?;
        let ports = folder.join(format!("{}_{}.ports", program(binary), child.id()));
        let last_error = Arc::default();
        let reader = child.stderr.take().map(|log| {
            let last_error = Arc::clone(&last_error);
            std::thread::spawn(move || pass_on(log, &last_error))
        });
        Ok(Self { child, ports, last_error, reader })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; none while it runs.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some()
            && let Some(reader) = self.reader.take()
        {
            let _ = reader.join();
        }
        Ok(status)
    }

    /// Its ports, from when it listens.
    pub fn ports(&self) -> Option<Ports> {
        #[derive(Deserialize)]
        struct Written {
            nats: Vec<String>,
            monitoring: Vec<String>,
        }
        let Written { nats, monitoring } = serde_json::from_slice(&std::fs::read(&self.ports).ok()?).ok()?;
        let port = |urls: &[String]| urls.first()?.rsplit_once(':')?.1.parse().ok();
        Some(Ports { clients: port(&nats)?, monitor: port(&monitoring)? })
    }

    /// The last error that it told.
    pub fn last_error(&self) -> String {
        let told = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_empty() { "it says nothing".to_owned() } else { told.clone() }
    }

    /// Has it send its clients away, and end.
    pub fn leave(&self) {
        self.signal(Signal::USR2);
    }

    /// Has it end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        // A child that was not waited for keeps its number.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(&self.ports);
    }
}

/// The server names the file by its own name.
fn program(binary: &Path) -> String {
    binary.file_name().map_or_else(|| "nats-server".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Its log becomes ours, line by line.
fn pass_on(log: ChildStderr, last_error: &Mutex<String>) {
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    loop {
        line.clear();
        match log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let Some(ServerLine { level, text }) = ServerLine::read(&text) else { continue };
        match level {
            LineLevel::Error => {
                text.clone_into(&mut last_error.lock().unwrap_or_else(PoisonError::into_inner));
                tracing::error!(target: "nats_server", "{text}");
            }
            LineLevel::Warning => tracing::warn!(target: "nats_server", "{text}"),
            LineLevel::Info => tracing::info!(target: "nats_server", "{text}"),
            LineLevel::Debug => tracing::debug!(target: "nats_server", "{text}"),
        }
    }
}

/// `ok`, or what the server says of its health.
pub async fn health(host: &str, port: u16) -> String {
    let host = match host.trim_matches(['[', ']']) {
        "" | "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    match tokio::time::timeout(HEALTH_MAX, asked(host, port)).await {
        Ok(Ok(answer)) => read_health(&answer),
        Ok(Err(error)) => format!("no answer: {error}"),
        Err(_) => "no answer in time".to_owned(),
    }
}

async fn asked(host: &str, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(format!("GET /healthz HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(HEALTH_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}

fn read_health(answer: &str) -> String {
    #[derive(Deserialize)]
    struct Told {
        status: String,
        error: Option<String>,
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    match serde_json::from_str(body) {
        Ok(Told { status, error }) => error.unwrap_or(status),
        Err(_) => format!("an answer that is not understood: {}", answer.lines().next().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_what_the_server_says() {
        let check = |answer: &str, expect: &str| assert_eq!(read_health(answer), expect);
        check("HTTP/1.0 200 OK\r\n\r\n{\"status\":\"ok\"}", "ok");
        check(
            "HTTP/1.0 503 x\r\nA: b\r\n\r\n{\"status\":\"unavailable\",\"error\":\"no meta leader\"}",
            "no meta leader",
        );
        check("HTTP/1.0 404 Not Found\r\n\r\n", "an answer that is not understood: HTTP/1.0 404 Not Found");
        check("", "an answer that is not understood: ");
    }
}
