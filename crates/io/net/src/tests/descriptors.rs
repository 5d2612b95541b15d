//! What happens without file descriptors: the limit belongs to a process, so the test runs in one of its own.

use super::run;
use crate::{ListenConfig, Listener};
use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpStream;

/// Set in the process with few descriptors.
const MARK: &str = "TIELINE_NET_FEW_DESCRIPTORS";

#[test]
fn an_accept_without_descriptors_waits_and_goes_on() {
    if std::env::var_os(MARK).is_some() {
        return run(accept_without_descriptors());
    }
    let name = "tests::descriptors::an_accept_without_descriptors_waits_and_goes_on";
    let script = "ulimit -n 40 && exec \"$0\" --exact \"$1\"";
    let mut child = Command::new("sh");
    child.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name).env(MARK, "1");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

async fn accept_without_descriptors() {
    let counters = Arc::default();
    let listener = Listener::bind(&ListenConfig::new("127.0.0.1:0"), Arc::clone(&counters)).await.unwrap();
    let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
        assert!(files.len() < 100, "the limit does not hold");
    }
    let second = tokio::time::timeout(Duration::from_secs(1), listener.accept()).await;
    assert!(second.is_err(), "accepted without a descriptor");
    let failures = counters.accept_failures.load(Ordering::Relaxed);
    assert!((1..=11).contains(&failures), "{failures} failures in a second");
    drop(files);
    listener.accept().await;
}
