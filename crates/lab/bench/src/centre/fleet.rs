//! A nats-server, a centre and its sites: made as docs/joining.md says, with TLS, tokens, and rights of each site.

use super::process::{Process, ask};
use crate::fanout::Credentials;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_client::{ClientTls, HttpClient};

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long counts must stay the same to be the last ones.
const STILL: Duration = Duration::from_millis(1500);

/// Server and centre.
pub struct Fleet {
    // Dropped in this order: sites before their centre, the centre before its server.
    /// Its sites.
    pub sites: Vec<Site>,
    /// The centre.
    pub centre: Node,
    /// What runs the server.
    pub server: Process,
    program: PathBuf,
    tls: Credentials,
    folder: TempDir,
}

/// A node and how to ask it.
pub struct Node {
    /// Its process.
    pub process: Process,
    http: HttpClient,
}

/// A node that is a site.
pub struct Site {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: Node,
    config: PathBuf,
}

impl Node {
    fn of(process: Process, tls: Option<&Credentials>) -> Result<Self> {
        let (scheme, tls) = match tls {
            Some(tls) => ("https", Some(ClientTls::load(Some(tls.certificate.as_path()), None)?)),
            None => ("http", None),
        };
        let address = format!("{scheme}://{}", process.said("http")?);
        Ok(Self { http: HttpClient::over(&address, PATIENCE, tls), process })
    }

    /// The value of a metric, with its labels; 0 where it is not there yet.
    pub fn metric(&self, name: &str) -> Result<f64> {
        Ok(metric_of(&self.metrics()?, name))
    }

    fn metrics(&self) -> Result<String> {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.http.stream("/metrics", "text/plain")?, &mut text)?;
        Ok(text)
    }
}

/// The value of a metric in their text.
pub fn metric_of(text: &str, name: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

impl Site {
    /// Samples that it made durable.
    pub fn recorded(&self) -> Result<f64> {
        self.node.metric("tieline_history_journaled_points_total")
    }
}

impl Fleet {
    /// Starts the server and the centre. Sites are told that the server is where `way` makes of its address.
    pub fn start(program: &Path, way: impl FnOnce(&str) -> Result<String>) -> Result<Self> {
        Self::start_below(program, way, None)
    }

    /// The same, of a centre that is a site of this name at another.
    pub fn start_below(
        program: &Path,
        way: impl FnOnce(&str) -> Result<String>,
        above: Option<(&Self, &str)>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the run")?;
        let (path, tls) = (folder.path(), Credentials::make(folder.path())?);
        let text = |path: &Path| path.display().to_string();
        let (data, store) = (text(&path.join("centre")), text(&path.join("nats")));
        let (certificate, key) = (text(&tls.certificate), text(&tls.key));
        let any = "127.0.0.1:0";
        let server = Process::start(
            program,
            &[
                "fabric",
                "start",
                "--data",
                &data,
                "--store",
                &store,
                "--listen",
                any,
                "--monitor",
                any,
                "--tls-cert",
                &certificate,
                "--tls-key",
                &key,
                "--json",
            ],
            &path.join("nats.log"),
        )?;
        let address = server.said("listen")?.to_owned();
        let config = format!(
            "[node]\nname = \"centre\"\n[http]\nlisten = \"{any}\"\ntls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n\
             [mqtt]\nlisten = \"{any}\"\n[fabric]\nservers = [\"tls://{address}\"]\nseed_file = \"{data}/fabric/centre.nk\"\n\
             authorities = \"{certificate}\"\n[centre]\njoin_servers = [\"tls://{}\"]\n",
            way(&address)?
        );
        let file = path.join("centre.toml");
        std::fs::write(&file, config)?;
        if let Some((above, name)) = above {
            let (token, ca) = (text(&above.invite(name, path)?), text(&above.tls.certificate));
            ask(program, &["join", &above.url()?, "--token-file", &token, "--data", &data, "--ca", &ca, "--json"])?;
        }
        let words = ["run", "--config", &text(&file), "--data", &data, "--json"];
        let centre = Node::of(Process::start(program, &words, &path.join("centre.log"))?, Some(&tls))?;
        wait_until("the centre serves sites", || Ok(centre.metric("tieline_centre_up")? > 0.0))?;
        Ok(Self { sites: Vec::new(), centre, server, program: program.to_owned(), tls, folder })
    }

    fn url(&self) -> Result<String> {
        Ok(format!("https://{}", self.centre.process.said("http")?))
    }

    /// Adds a site to the list of the centre; the file in this folder with its token.
    fn invite(&self, name: &str, folder: &Path) -> Result<PathBuf> {
        let (centre, certificate) = (self.url()?, self.tls.certificate.display().to_string());
        let at = ["--http", &centre, "--ca", &certificate, "--json"];
        ask(&self.program, &[&["site", "add", name], &at[..]].concat())?;
        let answer = ask(&self.program, &[&["site", "token", name], &at[..]].concat())?;
        let token = folder.join("token");
        std::fs::write(&token, answer.get("token").and_then(|token| token.as_str()).context("no token")?)?;
        Ok(token)
    }

    /// Adds a site with simulated devices, which joins by a token as it starts.
    pub fn add_site(&mut self, devices: usize, points: usize) -> Result<()> {
        let name = format!("s{}", self.sites.len() + 1);
        let folder = self.folder.path().join(&name);
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("points.csv"), points_file(points))?;
        let config = folder.join("site.toml");
        std::fs::write(&config, site_file(&name, devices))?;
        let (centre, certificate) = (self.url()?, self.tls.certificate.display().to_string());
        let token = self.invite(&name, &folder)?;
        let text = |path: &Path| path.display().to_string();
        let (config_words, data) = (text(&config), text(&folder.join("data")));
        let words = [
            "run",
            "--config",
            &config_words,
            "--data",
            &data,
            "--role",
            "site",
            "--join",
            &centre,
            "--token-file",
            &text(&token),
            "--ca",
            &certificate,
            "--json",
        ];
        let node = Node::of(Process::start(&self.program, &words, &folder.join("log"))?, None)?;
        self.sites.push(Site { name, node, config });
        Ok(())
    }

    /// Waits until the centre has stored samples of every site.
    pub fn wait_for_points(&self) -> Result<()> {
        wait_until("the centre has points of every site", || {
            let text = self.centre.metrics()?;
            Ok(self.sites.iter().all(|site| metric_of(&text, &samples_of(&site.name)) > 0.0))
        })
    }

    /// Whether a site owes the centre nothing of the past, and what is live does not wait longer than this, in seconds.
    pub fn has_caught_up(site: &Site, lag_max_s: f64) -> Result<bool> {
        let text = site.node.metrics()?;
        let [waiting, live, lag_s] =
            ["tieline_site_waiting_records", "tieline_site_waiting_live_records", "tieline_site_lag_seconds"]
                .map(|name| metric_of(&text, name));
        Ok(waiting <= live && lag_s < lag_max_s)
    }

    /// Takes the devices away; once nothing waits and no count changes, samples of all sites that the centre does not have, and that it
    /// has twice.
    pub fn settle(&self) -> Result<(u64, u64)> {
        for site in &self.sites {
            std::fs::write(&site.config, head_of_site(&site.name))?;
            let _: serde_json::Value = site.node.http.post("/v1/reload", &serde_json::Value::Null)?;
        }
        let (mut last, mut since) = (Vec::new(), Instant::now());
        wait_until("all that was recorded is at the centre", || {
            let text = self.centre.metrics()?;
            let mut counts = Vec::new();
            let mut waiting = 0.0;
            for site in &self.sites {
                let own = site.node.metrics()?;
                waiting += metric_of(&own, "tieline_site_waiting_records");
                counts.push((
                    metric_of(&own, "tieline_history_journaled_points_total"),
                    metric_of(&text, &samples_of(&site.name)),
                ));
            }
            if counts != last || waiting > 0.0 {
                (last, since) = (counts, Instant::now());
            }
            Ok(since.elapsed() >= STILL)
        })?;
        let differences = last.iter().map(|(own, stored)| own - stored);
        let sum = |sign: f64| differences.clone().map(|d| (d * sign).max(0.0)).sum::<f64>();
        Ok((whole(sum(1.0)), whole(sum(-1.0))))
    }
}

fn whole(count: f64) -> u64 {
    format!("{count:.0}").parse().unwrap_or(u64::MAX)
}

/// The metric with the samples that the centre stored of a site.
pub fn samples_of(site: &str) -> String {
    format!("tieline_centre_site_samples_total{{site=\"{site}\"}}")
}

fn head_of_site(name: &str) -> String {
    format!("[node]\nname = \"{name}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[mqtt]\nlisten = \"127.0.0.1:0\"\n")
}

/// Devices whose points are read once a second, each value with noise, so that no reading is that of before.
fn site_file(name: &str, devices: usize) -> String {
    let mut text = head_of_site(name);
    text.push_str("[template.d]\nprotocol = \"simulated\"\npoints = \"points.csv\"\npoll = { every = \"1s\" }\n");
    for number in 0..devices {
        let _ = write!(
            text,
            "[device.d{number}]\ntopic = \"d{number}\"\ntemplate = \"d\"\n[device.d{number}.simulated]\nseed = {number}\n"
        );
    }
    text
}

fn points_file(points: usize) -> String {
    let mut text = "name,type,value,curve,noise,decimals\n".to_owned();
    for number in 0..points {
        let _ = writeln!(text, "p{number},float,,sine(20 5 10m),0.5,4");
    }
    text
}

/// Asks until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        if is_so()? {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("not within {} s: {what}", PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
