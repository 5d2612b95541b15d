//! A nats-server and the members of a core, each a process.

use super::LOOK_EVERY;
use crate::centre::process::{Process, ask};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_client::HttpClient;

/// How long a question to a member may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// What a member logs once the record of its term is in the log.
const BEGUN: &str = "the term has begun in the log";

/// A core.
pub struct Core {
    // Members end before their server.
    members: Vec<Member>,
    _server: Process,
    program: PathBuf,
    _folder: TempDir,
}

struct Member {
    /// None while it is killed.
    process: Option<Process>,
    config: String,
    data: String,
    log: PathBuf,
    /// Where HTTP and MQTT listen.
    http: String,
    mqtt: String,
    /// Terms that it began before its last start.
    terms: usize,
}

#[derive(Deserialize)]
struct Seen {
    role: String,
    lag: u64,
}

impl Core {
    /// Starts the server and the members; the first of them leads.
    pub fn start(program: &Path, members: usize, silence: Duration) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the run")?;
        let (path, text) = (folder.path(), |path: &Path| path.display().to_string());
        let keys = text(&path.join("keys"));
        let (store, any) = (text(&path.join("nats")), "127.0.0.1:0");
        let words = ["--data", &keys, "--store", &store, "--listen", any, "--monitor", any, "--json"];
        let server = Process::start(program, &[&["fabric", "start"], &words[..]].concat(), &path.join("nats.log"))?;
        let address = server.said("listen")?.to_owned();
        let mut core = Self { members: Vec::new(), _server: server, program: program.to_owned(), _folder: folder };
        for number in 0..members {
            let path = core._folder.path().join(format!("m{number}"));
            std::fs::create_dir(&path)?;
            let config = path.join("tieline.toml");
            std::fs::write(
                &config,
                format!(
                    "[node]\nname = \"m{number}\"\n[http]\nlisten = \"{any}\"\n[mqtt]\nlisten = \"{any}\"\n[fabric]\n\
                     servers = [\"nats://{address}\"]\nseed_file = \"{keys}/fabric/centre.nk\"\n[cluster]\nname = \"core\"\n\
                     silence = \"{}ms\"\n",
                    silence.as_millis()
                ),
            )?;
            let log = path.join("log");
            let (config, data) = (text(&config), text(&path.join("data")));
            let (http, mqtt) = (any.to_owned(), any.to_owned());
            core.members.push(Member { process: None, config, data, log, http, mqtt, terms: 0 });
            core.again(number)?;
            if number == 0 {
                core.leader(Instant::now() + ANSWER_MAX * 6)?;
            }
        }
        Ok(core)
    }

    /// Where members listen for HTTP and MQTT.
    pub fn addresses(&self) -> Vec<(String, String)> {
        self.members.iter().map(|member| (member.http.clone(), member.mqtt.clone())).collect()
    }

    /// Waits until a member leads.
    fn leader(&self, until: Instant) -> Result<usize> {
        loop {
            if let Some(leader) =
                self.members.iter().position(|member| member.seen().is_some_and(|seen| seen.role == "leader"))
            {
                return Ok(leader);
            }
            if Instant::now() > until {
                bail!("no member leads");
            }
            std::thread::sleep(LOOK_EVERY * 10);
        }
    }

    /// Waits until a member leads and all others have what it has.
    pub fn wait_ready(&self, patience: Duration) -> Result<usize> {
        let until = Instant::now() + patience;
        loop {
            let leader = self.leader(until)?;
            let has_all = |(number, member): (usize, &Member)| {
                number == leader || member.seen().is_some_and(|seen| seen.role == "standby" && seen.lag <= 2)
            };
            if self.members.iter().enumerate().all(has_all) {
                return Ok(leader);
            }
            if Instant::now() > until {
                bail!("a standby does not catch up");
            }
            std::thread::sleep(LOOK_EVERY * 10);
        }
    }

    /// Terms that each member has begun.
    pub fn terms(&self) -> Vec<usize> {
        self.members.iter().map(Member::terms).collect()
    }

    /// Waits until a member other than one has begun another term; when that was seen.
    pub fn wait_term(&self, known: Vec<usize>, but: usize, until: Instant) -> Result<Instant> {
        loop {
            let others = self.members.iter().zip(&known).enumerate().filter(|(number, _)| *number != but);
            if others.into_iter().any(|(_, (member, known))| member.terms() > *known) {
                return Ok(Instant::now());
            }
            if Instant::now() > until {
                bail!("no member begins a term");
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills a member without a word.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        if let Some(process) = self.member(number)?.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Starts a member at the addresses that it had.
    pub fn again(&mut self, number: usize) -> Result<()> {
        let program = self.program.clone();
        let member = self.member(number)?;
        member.terms = member.terms();
        let at = ["--http", &member.http, "--mqtt", &member.mqtt, "--json"];
        let words = ["run", "--config", &member.config, "--data", &member.data];
        let process = Process::start(&program, &[&words[..], &at[..]].concat(), &member.log)?;
        (member.http, member.mqtt) = (process.said("http")?.to_owned(), process.said("mqtt")?.to_owned());
        member.process = Some(process);
        Ok(())
    }

    /// Stops a member as it is.
    pub fn freeze(&mut self, number: usize) -> Result<()> {
        self.member(number)?.process.as_ref().context("a member that runs")?.freeze(true)
    }

    /// Lets it go on.
    pub fn thaw(&mut self, number: usize) -> Result<()> {
        self.member(number)?.process.as_ref().context("a member that runs")?.freeze(false)
    }

    /// The numbers that the history of a member has of a topic.
    pub fn recorded(&self, number: usize, topic: &str) -> Result<Vec<u64>> {
        let member = self.members.get(number).context("a member")?;
        let words =
            ["history", "query", topic, "--from", "1970-01-01T00:00:00Z", "--format", "json", "--http", &member.http];
        let rows = ask(&self.program, &words)?;
        let rows = rows.as_array().context("no samples in an answer")?;
        Ok(rows.iter().filter_map(|row| row.get("v").and_then(Value::as_u64)).collect())
    }

    fn member(&mut self, number: usize) -> Result<&mut Member> {
        self.members.get_mut(number).context("a member")
    }
}

impl Member {
    fn seen(&self) -> Option<Seen> {
        self.process.as_ref()?;
        HttpClient::patient(&self.http, ANSWER_MAX).get("/v1/cluster").ok()
    }

    fn terms(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        self.terms + log.matches(BEGUN).count()
    }
}
