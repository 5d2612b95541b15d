//! Lines of an operator on standard input, each answered by one: `ok`, or `error: …`.

use crate::signals;
use serde_json::json;
use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc as blocking;
use tokio::sync::{mpsc, oneshot};

/// Bytes of the longest line.
const LINE_BYTES_MAX: u64 = 4096;

/// What is done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was obeyed.
    Obeyed,
    /// It was the last.
    Quit,
}

/// What a line may say that sets a point.
const SET_LINES: &str = "set <point> <value>, or quit";

/// A point that an operator sets, and where the answer goes.
pub struct Asked {
    /// Its name.
    pub point: String,
    /// The value as text.
    pub value: String,
    /// Where the answer goes.
    pub answer: blocking::SyncSender<Result<(), String>>,
}

/// Does what a line says to a point of a server, which is named where it has ended.
pub fn obey_set(text: &str, server: &str, lines: &mpsc::Sender<Asked>) -> Result<Done, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (point, value) = match words[..] {
        ["quit"] => return Ok(Done::Quit),
        ["set", point, value] => (point.to_owned(), value.to_owned()),
        _ => return Err(format!("the line is {text:?}, expected {SET_LINES}")),
    };
    let (answer, answered) = blocking::sync_channel(1);
    let gone = || format!("the {server} has ended");
    lines.blocking_send(Asked { point, value, answer }).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?.map(|()| Done::Obeyed)
}

/// Obeys an operator's lines until one quits the server, or SIGINT or SIGTERM come. Without an operator the server goes on.
pub fn obey_until_quit(obey: impl FnMut(&str) -> Result<Done, String> + Send + 'static) -> anyhow::Result<()> {
    let (quit, quitted) = oneshot::channel();
    std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
        if read_lines(&mut io::stdin().lock(), &mut io::stdout(), obey) {
            let _ = quit.send(());
        }
    })?;
    signals::until_done(async {
        if quitted.await.is_err() {
            std::future::pending::<()>().await;
        }
    })?;
    Ok(())
}

/// Says where a server is to be reached.
pub fn tell_listening(json: bool, address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{}", json!({ "listen": address.to_string() }))?,
        false => writeln!(out, "listening on {address}")?,
    }
    out.flush()
}

/// Answers each line by one until the input ends; whether the last was to quit.
pub fn read_lines(
    input: &mut impl BufRead,
    out: &mut impl Write,
    mut obey: impl FnMut(&str) -> Result<Done, String>,
) -> bool {
    loop {
        let mut bytes = Vec::new();
        match input.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let whole = bytes.ends_with(b"\n") || bytes.len() < usize::try_from(LINE_BYTES_MAX).unwrap_or(0);
        if !whole && input.skip_until(b'\n').is_err() {
            return false;
        }
        let text = String::from_utf8_lossy(&bytes);
        let done = match whole {
            true => obey(text.trim()),
            false => Err(format!("the line is longer than {LINE_BYTES_MAX} bytes")),
        };
        let told = match &done {
            Ok(_) => writeln!(out, "ok"),
            Err(error) => writeln!(out, "error: {error}"),
        };
        if told.and_then(|()| out.flush()).is_err() {
            return false;
        }
        if done == Ok(Done::Quit) {
            return true;
        }
    }
}
