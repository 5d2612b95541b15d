//! `tieline replay`: recorded values are published again, at their pace, below `$replay/` or to another node.
//!
//! ```text
//! node ─ HTTP: state, then rows in order of time ─▶ reader thread ─ bounded ─▶ pace ─ MQTT, QoS 1 ─▶ $replay/NAME/… or another node
//! ```

pub mod args;
pub mod pace;
pub mod recorded;

use crate::api::now;
use crate::{log, signals, who};
use anyhow::{Context, Result, bail};
use args::ReplayArgs;
use pace::Pace;
use recorded::{Recorded, Span};
use serde_json::json;
use std::collections::{HashSet, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::{MqttClient, MqttOptions, Publishing, Qos};
use tieline_core::{Timestamp, Topic};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Messages that are read ahead.
const READ_AHEAD: usize = 4096;
/// Messages that may wait for their acknowledgement.
const UNANSWERED_MAX: usize = 512;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(500);
/// How long the first page may take.
const ANSWER: Duration = Duration::from_secs(300);

/// Plays history until it has ended, or a signal comes.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    log::start("warn", false);
    let span = Span::new(args.topics.clone(), &args.span, now())?;
    let prefix = match is_elsewhere(args) {
        true => String::new(),
        false => prefix(&args.name)?,
    };
    let http = who::http(&args.node, Some(ANSWER))?;
    let options = target(args)?;
    let (out, mut recorded) = mpsc::channel(READ_AHEAD);
    let from = span.from;
    // It ends with the process, or when nobody wants more.
    std::thread::Builder::new().name("history".to_owned()).spawn(move || recorded::read(&http, &span, &out))?;
    let played = signals::until_done(async {
        let client = MqttClient::connect(&options).await.with_context(|| format!("no MQTT at {}", options.address))?;
        let mut paused = pauses()?;
        let mut player = Player::new(&client, prefix, Pace::new(args.speed, from));
        player.play(&mut recorded, &mut paused).await?;
        player.tell_end(args.json)?;
        if args.hold {
            std::future::pending::<()>().await;
        }
        client.close().await;
        Ok(())
    })?;
    played.unwrap_or(Ok(())).map(|()| ExitCode::SUCCESS)
}

const fn is_elsewhere(args: &ReplayArgs) -> bool {
    args.to_node.is_some() || args.to_context.is_some()
}

fn prefix(name: &str) -> Result<String> {
    let is_level = !name.is_empty() && !name.contains('/') && Topic::new(name).is_ok();
    if !is_level {
        bail!("--name is {name:?}, expected one level of a topic");
    }
    Ok(format!("{}{name}/", tieline_node::REPLAY_PREFIX))
}

/// Where values are published.
fn target(args: &ReplayArgs) -> Result<MqttOptions> {
    let who = args.node.who.clone();
    who::mqtt(&match (&args.to_node, &args.to_context) {
        (_, Some(context)) => {
            let who = crate::who::args::WhoArgs { context: Some(context.clone()), ..Default::default() };
            crate::args::MqttArgs { mqtt: None, who }
        }
        (node, None) => crate::args::MqttArgs { mqtt: node.clone().or_else(|| args.mqtt.clone()), who },
    })
}

/// Whether the replay is paused: each SIGUSR1 pauses it or lets it go on.
fn pauses() -> Result<watch::Receiver<bool>> {
    let (pause, paused) = watch::channel(false);
    let mut asked = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            pause.send_modify(|is_paused| *is_paused = !*is_paused);
            eprintln!("{}", if *pause.borrow() { "\npaused; SIGUSR1 goes on" } else { "\ngoing on" });
        }
    });
    Ok(paused)
}

/// Publishes what was recorded.
struct Player<'c> {
    client: &'c MqttClient,
    prefix: String,
    pace: Pace,
    /// Messages whose acknowledgement has not come, the oldest first.
    unanswered: VecDeque<Publishing>,
    topics: HashSet<String>,
    published: u64,
    /// Messages whose topic cannot be published to: its name is too long below the prefix.
    skipped: u64,
    began: Instant,
    told_at: Instant,
}

impl<'c> Player<'c> {
    fn new(client: &'c MqttClient, prefix: String, pace: Pace) -> Self {
        let (unanswered, topics, now) = (VecDeque::new(), HashSet::new(), Instant::now());
        Self { client, prefix, pace, unanswered, topics, published: 0, skipped: 0, began: now, told_at: now }
    }

    async fn play(
        &mut self,
        recorded: &mut mpsc::Receiver<Result<Recorded>>,
        paused: &mut watch::Receiver<bool>,
    ) -> Result<()> {
        while let Some(next) = recorded.recv().await {
            let Recorded { topic, payload, time } = next?;
            if let Some(time) = time {
                self.pace.wait(time, paused).await;
                self.tell_progress(time);
            }
            self.publish(topic, payload).await?;
        }
        while let Some(oldest) = self.unanswered.pop_front() {
            self.answered(oldest).await?;
        }
        Ok(())
    }

    async fn publish(&mut self, topic: String, payload: Vec<u8>) -> Result<()> {
        let Ok(name) = Topic::new(&format!("{}{topic}", self.prefix)) else {
            self.skipped += 1;
            return Ok(());
        };
        if self.unanswered.len() >= UNANSWERED_MAX
            && let Some(oldest) = self.unanswered.pop_front()
        {
            self.answered(oldest).await?;
        }
        self.unanswered.push_back(self.client.begin_publish(&name, payload, Qos::AtLeastOnce, true).await?);
        self.published += 1;
        self.topics.insert(topic);
        Ok(())
    }

    async fn answered(&self, publishing: Publishing) -> Result<()> {
        let topic = publishing.topic().clone();
        publishing.answered().await.map(drop).with_context(|| format!("cannot publish to {topic:?}"))
    }

    fn tell_progress(&mut self, time: Timestamp) {
        if self.told_at.elapsed() >= PROGRESS && io::stderr().is_terminal() {
            eprint!("\r{time}  {} values ", self.published);
            self.told_at = Instant::now();
        }
    }

    fn tell_end(&self, json: bool) -> io::Result<()> {
        let (seconds, late) = (self.began.elapsed().as_secs_f64(), self.pace.late().as_secs_f64());
        let (published, topics, skipped) = (self.published, self.topics.len(), self.skipped);
        let mut out = io::stdout().lock();
        if json {
            let told = json!({ "status": "ok", "published": published, "topics": topics, "skipped": skipped, "seconds": seconds, "late_s": late });
            return writeln!(out, "{told}");
        }
        if io::stderr().is_terminal() {
            eprint!("\r");
        }
        writeln!(out, "{published} values of {topics} topics in {seconds:.1} s")?;
        if late > 0.0 {
            writeln!(out, "{late:.1} s late: the node took values more slowly, or this process was stopped")?;
        }
        if skipped > 0 {
            writeln!(out, "{skipped} values were left out: their topics are too long below {}", self.prefix)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;
    use tieline_node::config::Moment;

    fn args(words: &[&str]) -> ReplayArgs {
        let cli = Cli::try_parse_from([&["tieline", "replay", "a/#"], words].concat()).unwrap();
        let Verb::Replay(args) = cli.verb else { panic!("{words:?}") };
        args
    }

    #[test]
    fn spans_and_names_are_read_or_say_what_is_wrong() {
        let now = "2026-11-20T12:00:00Z".parse().unwrap();
        let check = |words: &[&str], expect: Result<(&str, &str), &str>| {
            let ReplayArgs { topics, span, .. } = args(words);
            let span = Span::new(topics, &span, now);
            let found = span.map(|span| (span.from.to_string(), span.to.to_string()));
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expect.map(|(a, b)| (a.to_owned(), b.to_owned())).map_err(str::to_owned));
        };
        check(&["--from", "1h"], Ok(("2026-11-20T11:00:00.000Z", "2026-11-20T12:00:00.000Z")));
        check(&["--from", "1h", "--to", "2026-11-17"], Ok(("2026-11-16T23:00:00.000Z", "2026-11-17T00:00:00.000Z")));
        let expected =
            "--from is 2026-11-20T12:00:00.000Z, expected a time before --to, which is 2026-11-20T11:00:00.000Z";
        check(&["--from", "now", "--to", "1h"], Err(expected));
        check(&["--from", "x"], Err(&format!("--from is \"x\", expected {}", Moment::EXPECTED)));
        assert_eq!(prefix("fault").unwrap(), "$replay/fault/");
        for name in ["", "a/b", "+", "#"] {
            assert!(prefix(name).is_err(), "{name}");
        }
    }
}
