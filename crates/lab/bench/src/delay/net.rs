//! A substation's network on one host: a namespace for each device, a bridge between them, ports of 100 Mbit/s.
//!
//! ```text
//!   relay ─┐                     each end of each cable sends at 100 Mbit/s:
//!   CB ────┤                       unmarked: one queue of 125 kB (10 ms)
//!   IEDs ──┼─ bridge ─ centre      marked: hosts by SO_PRIORITY (pfifo_fast), the bridge's ports by DSCP (htb),
//!   IEDs ──┘                               the urgent first
//! ```

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

const RATE: &str = "100mbit";
/// Bytes that a port sends at line speed after a pause: about one frame in a real one.
const BURST: &str = "4kb";
/// Bytes that a port queues: 10 ms.
const QUEUE: &str = "125000";

/// Namespaces of one run; dropped, they are gone.
#[derive(Debug)]
pub struct Net {
    prefix: String,
    hosts: Vec<String>,
}

impl Net {
    /// Hosts by name on a bridge.
    ///
    /// # Errors
    /// The system lacks `ip` or `tc`, or this process may not administer the network.
    pub fn build(hosts: &[String], marked: bool) -> Result<Self> {
        sweep(|process| !std::path::Path::new(&format!("/proc/{process}")).exists());
        let prefix = format!("tieline-{}", std::process::id());
        let mut net = Self { prefix, hosts: Vec::new() };
        let bridge = net.namespace("bridge");
        run(&["ip", "netns", "add", &bridge]).context(
            "bench delay makes network namespaces: it needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and iproute2",
        )?;
        net.hosts.push("bridge".to_owned());
        run(&["ip", "-n", &bridge, "link", "add", "name", "br0", "type", "bridge"])?;
        run(&["ip", "-n", &bridge, "link", "set", "br0", "up"])?;
        for (number, host) in (1_u8..).zip(hosts) {
            net.add(host, number, marked).with_context(|| format!("the namespace of {host}"))?;
        }
        Ok(net)
    }

    fn add(&mut self, host: &str, number: u8, marked: bool) -> Result<()> {
        let (bridge, name, port) = (self.namespace("bridge"), self.namespace(host), format!("p{number}"));
        run(&["ip", "netns", "add", &name])?;
        self.hosts.push(host.to_owned());
        let cable = ["link", "add", "name", &port, "type", "veth", "peer", "name", "eth0", "netns", &name];
        run(&[&["ip", "-n", &bridge], &cable[..]].concat())?;
        run(&["ip", "-n", &bridge, "link", "set", &port, "master", "br0", "up"])?;
        run(&["ip", "-n", &name, "addr", "add", &format!("{}/24", address(number)), "dev", "eth0"])?;
        run(&["ip", "-n", &name, "link", "set", "eth0", "up"])?;
        run(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
        // Frames as they are on a wire: none is larger than it may be there.
        for (namespace, device) in [(&name, "eth0"), (&bridge, port.as_str())] {
            let limits = ["gso_max_size", "1514", "gso_max_segs", "1"];
            run(&[&["ip", "-n", namespace, "link", "set", "dev", device], &limits[..]].concat())?;
        }
        self.shape_host(&name, marked)?;
        if marked { shape_port(&bridge, &port) } else { fifo(&bridge, &port) }
    }

    fn shape_host(&self, name: &str, marked: bool) -> Result<()> {
        fifo(name, "eth0")?;
        if marked {
            let queue = ["parent", "1:1", "handle", "10:", "pfifo_fast"];
            run(&[&["tc", "-n", name, "qdisc", "add", "dev", "eth0"], &queue[..]].concat())?;
        }
        Ok(())
    }

    /// The name of a host's namespace.
    #[must_use]
    pub fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Bytes that the bridge has sent to the host with this number.
    pub fn bytes_to(&self, number: u8) -> Result<u64> {
        let (bridge, port) = (self.namespace("bridge"), format!("p{number}"));
        let out = Command::new("ip").args(["-n", &bridge, "-s", "-j", "link", "show", "dev", &port]).output()?;
        let told: Value = serde_json::from_slice(&out.stdout).context("ip -j")?;
        told.pointer("/0/stats64/tx/bytes").and_then(Value::as_u64).context("bytes of a port")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = run(&["ip", "netns", "del", &self.namespace(host)]);
        }
    }
}

/// The address of the host with this number.
#[must_use]
pub const fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

/// A port of the host with this number.
#[must_use]
pub const fn socket(number: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address(number)), port)
}

fn fifo(namespace: &str, device: &str) -> Result<()> {
    let shape = ["root", "handle", "1:", "tbf", "rate", RATE, "burst", BURST, "limit", QUEUE];
    run(&[&["tc", "-n", namespace, "qdisc", "add", "dev", device], &shape[..]].concat())
}

/// Three classes by code point: what the first two leave is the last one's.
fn shape_port(namespace: &str, port: &str) -> Result<()> {
    let tc = |words: &[&str]| run(&[&["tc", "-n", namespace], words].concat());
    tc(&["qdisc", "add", "dev", port, "root", "handle", "1:", "htb", "default", "3"])?;
    let root = ["classid", "1:9", "htb", "rate", RATE, "ceil", RATE, "burst", BURST, "cburst", BURST];
    tc(&[&["class", "add", "dev", port, "parent", "1:"], &root[..]].concat())?;
    for (class, prio, rate) in [("1:1", "0", "40mbit"), ("1:2", "1", "40mbit"), ("1:3", "2", "20mbit")] {
        let shape = ["htb", "rate", rate, "ceil", RATE, "prio", prio, "burst", BURST, "cburst", BURST];
        tc(&[&["class", "add", "dev", port, "parent", "1:9", "classid", class], &shape[..]].concat())?;
        tc(&["qdisc", "add", "dev", port, "parent", class, "bfifo", "limit", QUEUE])?;
    }
    // ARP must not wait behind samples: without it nobody is found.
    let arp = ["protocol", "arp", "prio", "1", "u32", "match", "u32", "0", "0", "flowid", "1:1"];
    tc(&[&["filter", "add", "dev", port, "parent", "1:"], &arp[..]].concat())?;
    for (byte, class) in [("0xb8", "1:1"), ("0x68", "1:2")] {
        let filter = ["protocol", "ip", "prio", "2", "u32", "match", "ip", "tos", byte, "0xfc", "flowid", class];
        tc(&[&["filter", "add", "dev", port, "parent", "1:"], &filter[..]].concat())?;
    }
    Ok(())
}

/// Takes away what this process has made, when it must end at once.
pub fn sweep_own() {
    sweep(|process| process == std::process::id());
    let _ = std::fs::remove_dir(format!("/sys/fs/cgroup/cpu/tieline-{}", std::process::id()));
}

/// Takes away the namespaces of some processes, such as those that were killed.
fn sweep(wanted: impl Fn(u32) -> bool) {
    let Ok(listed) = Command::new("ip").args(["netns", "list"]).output() else { return };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in text.lines().filter_map(|line| line.split_whitespace().next()) {
        let process = name.strip_prefix("tieline-").and_then(|rest| rest.split('-').next()?.parse().ok());
        if process.is_some_and(&wanted) {
            let _ = run(&["ip", "netns", "del", name]);
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let (program, arguments) = words.split_first().context("a command")?;
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("{program} cannot be run; is iproute2 installed?"))?;
    ensure!(done.status.success(), "{}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

/// A group of processes that may use so much of one processor.
#[derive(Debug)]
pub struct Quota {
    folder: std::path::PathBuf,
}

/// How often a quota is given again: shorter than any delay that matters.
const QUOTA_PERIOD_US: u64 = 5_000;

impl Quota {
    /// A group with `percent` of one processor.
    ///
    /// # Errors
    /// The system has no writable control group for processors.
    pub fn new(percent: u32) -> Result<Self> {
        let name = format!("tieline-{}", std::process::id());
        let quota = (QUOTA_PERIOD_US * u64::from(percent) / 100).max(1000);
        for (root, file, text) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota.to_string()),
            ("/sys/fs/cgroup", "cpu.max", format!("{quota} {QUOTA_PERIOD_US}")),
        ] {
            let folder = std::path::Path::new(root).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder };
            let period = group.folder.join("cpu.cfs_period_us");
            if period.exists() {
                std::fs::write(period, QUOTA_PERIOD_US.to_string())?;
            }
            if std::fs::write(group.folder.join(file), text).is_ok() {
                return Ok(group);
            }
        }
        bail!("there is no writable control group for processors: --cpu is not available here")
    }

    /// Takes a process in.
    pub fn take(&self, process: u32) -> Result<()> {
        std::fs::write(self.folder.join("cgroup.procs"), process.to_string()).context("cgroup.procs")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Its processes have ended, or are about to.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
