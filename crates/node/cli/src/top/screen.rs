//! The terminal: looks on a thread of their own, keys and drawing here. Whatever ends it, the terminal is as it was.

use super::dashboard::{Asked, Dashboard};
use super::look::{Look, Wanted};
use anyhow::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;
use tieline_client::HttpClient;

/// How long keys are waited for before looks and signals are seen to.
const TURN: Duration = Duration::from_millis(50);

/// How often it is looked whether the terminal is still there.
const TERMINAL_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// The terminal, given back when this is dropped; a panic gives it back, too. The library's own drop is not run: where the
/// terminal has hung up it panics over the error that it cannot print.
struct Screen(ManuallyDrop<DefaultTerminal>);

impl Drop for Screen {
    fn drop(&mut self) {
        // One that has hung up cannot be given back, and nobody would read why.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Shows a node until a key or a signal ends it.
pub fn run(client: HttpClient, wanted: Wanted, interval: Duration, stopped: &AtomicBool) -> Result<()> {
    let (ask, asked) = channel();
    let (tell, told) = sync_channel(1);
    let first = wanted.clone();
    std::thread::Builder::new().name("looks".to_owned()).spawn(move || {
        let send = |look| tell.send(look).is_ok();
        look_again(&client, first, interval, &asked, send);
    })?;
    std::thread::Builder::new().name("terminal".to_owned()).spawn(end_with_terminal)?;
    let mut screen = Screen(ManuallyDrop::new(ratatui::try_init()?));
    let mut dashboard = Dashboard::new(wanted);
    while !stopped.load(Ordering::Relaxed) {
        if let Ok(look) = told.try_recv() {
            dashboard.take(look);
        }
        screen.0.draw(|frame| dashboard.draw(frame))?;
        if event::poll(TURN)? && !handle(event::read()?, &mut dashboard, &ask) {
            break;
        }
    }
    Ok(())
}

/// Ends the process once its terminal has hung up. Where no SIGHUP says so, reading keys finds nothing for ever, inside
/// the library, and never comes back; there is no terminal that could be given back, either.
fn end_with_terminal() {
    let stdout = std::io::stdout();
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    loop {
        let mut terminal = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut terminal, Some(&TERMINAL_EVERY)) {
            Ok(_) if terminal.iter().any(|terminal| terminal.revents().intersects(gone)) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
    // Where standard error is another place than the terminal.
    let _ = writeln!(std::io::stderr(), "tieline: the terminal has hung up");
    std::process::exit(1);
}

/// False when it is to end.
fn handle(event: Event, dashboard: &mut Dashboard, ask: &Sender<Wanted>) -> bool {
    let Event::Key(key) = event else { return true };
    if key.kind != KeyEventKind::Press {
        return true;
    }
    match dashboard.press(key) {
        Asked::Quit => false,
        Asked::Nothing => true,
        // The thread that looks lives as long as this one.
        Asked::Look => ask.send(dashboard.wanted().clone()).is_ok(),
    }
}

/// Looks at every interval, and at once when something else is wanted, until nobody hears it.
fn look_again(
    client: &HttpClient,
    mut wanted: Wanted,
    interval: Duration,
    asked: &Receiver<Wanted>,
    send: impl Fn(Result<Look, String>) -> bool,
) {
    while send(Look::take(client, &wanted).map_err(|error| error.to_string())) {
        match asked.recv_timeout(interval) {
            Ok(other) => wanted = asked.try_iter().last().unwrap_or(other),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
