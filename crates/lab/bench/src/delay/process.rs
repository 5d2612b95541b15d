//! A part of the scenario as a process of its own, in a namespace.

use super::net::{Net, Quota};
use super::roles::{Role, Signals, Told, play};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a process may take to come as far as it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who goes before whom on the processors that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A device that is measured: it would have a processor of its own.
    Device,
    /// The centre with one process for everything.
    Plain,
    /// The centre's lane for what may wait.
    Bulk,
    /// Devices that are not measured: they would take nobody's processor.
    Others,
}

impl Standing {
    /// What a command of it begins with, of what the system has.
    fn words(self) -> Vec<String> {
        let policy: &[&str] = match self {
            Self::Device => &["chrt", "-f", "20"],
            Self::Others => &["chrt", "-i", "0"],
            Self::Plain | Self::Bulk => &[],
        };
        let policy = policy.iter().map(|word| (*word).to_owned()).collect();
        let processors = self.processors().map(|list| ["taskset".to_owned(), "-c".to_owned(), list]);
        [policy, processors.into_iter().flatten().collect()]
            .into_iter()
            .filter(|words: &Vec<_>| may_have(words))
            .flatten()
            .collect()
    }

    /// The first half of the processors is for devices that are measured, the second for what would take place on others:
    /// the system does the work of the flood's packets where they were sent.
    fn processors(self) -> Option<String> {
        let count = std::thread::available_parallelism().ok().filter(|count| count.get() > 1)?.get();
        match self {
            Self::Device => Some(format!("0-{}", count / 2 - 1)),
            Self::Bulk | Self::Others => Some(format!("{}-{}", count / 2, count - 1)),
            Self::Plain => None,
        }
    }

    /// For those that have no policy.
    const fn nice(self) -> i32 {
        match self {
            Self::Device => -15,
            Self::Plain => 0,
            Self::Bulk => 5,
            Self::Others => 19,
        }
    }
}

/// A process and what it says, line by line. Dropped, it is ended.
pub struct Player {
    name: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Player {
    /// Starts this same program in a namespace, with a role.
    pub fn start(net: &Net, host: &str, role: &Role, standing: Standing, quota: Option<&Quota>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let before = if quota.is_none() { standing.words() } else { Vec::new() };
        let mut words = before.iter().map(String::as_str).chain(["ip"]);
        let mut child = Command::new(words.next().unwrap_or("ip"))
            .args(words)
            .args(["netns", "exec", &net.namespace(host)])
            .arg(program)
            .args(["bench", "delay", "--role", &serde_json::to_string(role)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let process = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::setpriority_process(Some(process), standing.nice());
        if let Some(quota) = quota {
            quota.take(child.id())?;
        }
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (tell, lines) = channel();
        let output = BufReader::new(output.context("standard output")?);
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)).ok();
        });
        Ok(Self { name: host.to_owned(), child, input: input.context("standard input")?, lines })
    }

    /// Waits until it says this word.
    pub fn expect(&self, word: &str) -> Result<()> {
        let line = self.line(PATIENCE)?;
        if line == word { Ok(()) } else { bail!("{} said {line:?}, expected {word:?}", self.name) }
    }

    /// Tells it when the first fault is due.
    pub fn begin(&mut self, start: u64) -> Result<()> {
        writeln!(self.input, "{start}").with_context(|| self.name.clone())
    }

    /// What it has to say in the end, after so long.
    pub fn told(&self, after: Duration) -> Result<Told> {
        let line = self.line(after + PATIENCE)?;
        serde_json::from_str(&line).with_context(|| format!("{} said {line:.200}", self.name))
    }

    fn line(&self, patience: Duration) -> Result<String> {
        self.lines.recv_timeout(patience).with_context(|| format!("{} said nothing", self.name))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a command may be started behind these words.
fn may_have(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let tried = Command::new(program).args(arguments).arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Plays the role that a parent process gave as text.
///
/// # Errors
/// The text is no role, or its part could not be played.
pub fn play_role(text: &str) -> Result<()> {
    let role: Role = serde_json::from_str(text).context("--role")?;
    let (tell, started) = oneshot::channel();
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lines().map_while(Result::ok);
        if let Some(line) = lines.next() {
            let _ = tell.send(line);
        }
        // The parent has gone: nobody wants to know the rest.
        while lines.next().is_some() {}
        std::process::exit(1);
    });
    let told = on_a_runtime(async move { play(&role, &mut Words { started: Some(started) }).await })?;
    say(&serde_json::to_string(&told)?)
}

/// Lets a signal end this process only after its namespaces are gone; its players end with it.
pub fn sweep_on_signals() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [Ok(mut a), Ok(mut b), Ok(mut c)] = kinds.map(signal) else { return };
            tokio::select! { _ = a.recv() => {}, _ = b.recv() => {}, _ = c.recv() => {} }
            super::net::sweep_own();
            std::process::exit(130);
        });
    });
    Ok(())
}

/// Runs a part on a runtime of this thread.
pub fn on_a_runtime<T>(part: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, part)
}

struct Words {
    started: Option<oneshot::Receiver<String>>,
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

impl Signals for Words {
    fn listening(&mut self) -> Result<()> {
        say("listening")
    }

    fn ready(&mut self) -> Result<()> {
        say("ready")
    }

    async fn await_start(&mut self) -> Result<u64> {
        let line = self.started.take().context("started twice")?.await.context("no start")?;
        line.trim().parse().context("start")
    }
}
