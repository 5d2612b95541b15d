//! Writes over HTTP: an address, who writes, and what an answer means.

use crate::DatabaseError;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;
use ureq::{Agent, AsSendBody, SendBody};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Characters of an answer that are shown.
const ANSWER_CHARS: usize = 200;

/// Who writes. The file is read at each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name; without one the file has a token.
    pub user: Option<String>,
    /// The file of the password or the token.
    pub file: PathBuf,
}

impl Credentials {
    /// The header `authorization`: a user with a password, or a token after the word `scheme`.
    pub(crate) fn authorization(&self, scheme: &str) -> io::Result<String> {
        let secret = read_secret(&self.file)?;
        Ok(match &self.user {
            Some(user) => {
                use base64::Engine as _;
                let shown = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
                format!("Basic {shown}")
            }
            None => format!("{scheme} {secret}"),
        })
    }
}

/// The first line of a file.
pub(crate) fn read_secret(file: &std::path::Path) -> io::Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
}

/// An address that takes batches.
pub(crate) struct Writes {
    agent: Agent,
    url: String,
}

impl Writes {
    pub(crate) fn new(url: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
        Self { agent: Agent::new_with_config(config), url: url.to_owned() }
    }

    pub(crate) fn send(&self, headers: &[(&str, &str)], body: &[u8], limit: Duration) -> Result<(), DatabaseError> {
        self.post(headers, body, limit)
    }

    /// Sends a body while it is read, in chunks.
    pub(crate) fn stream(
        &self,
        headers: &[(&str, &str)],
        body: &mut dyn Read,
        limit: Duration,
    ) -> Result<(), DatabaseError> {
        self.post(headers, SendBody::from_reader(body), limit)
    }

    fn post(&self, headers: &[(&str, &str)], body: impl AsSendBody, limit: Duration) -> Result<(), DatabaseError> {
        let mut request = self.agent.post(&self.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.config().timeout_global(Some(limit)).build();
        let away = |error: &dyn std::fmt::Display| DatabaseError::Away(format!("no answer: {error}"));
        let mut answer = request.send(body).map_err(|error| away(&error))?;
        let status = answer.status();
        let said = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        if status.is_success() {
            return Ok(());
        }
        let said: String = said.unwrap_or_default().trim().chars().take(ANSWER_CHARS).collect();
        let words = format!("it answers {status}: {said}");
        Err(match status.as_u16() {
            400 | 409 | 422 => DatabaseError::Rejected(words),
            408 | 429 | 500.. => DatabaseError::Away(words),
            _ => DatabaseError::Refused(words),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Write as _};
    use std::net::TcpListener;

    fn body_of(reader: &mut impl BufRead, length: usize, is_chunked: bool) -> Vec<u8> {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut is_last = !is_chunked;
        while !is_last {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk).unwrap();
            body.extend(&chunk[..length]);
            is_last = length == 0;
        }
        body
    }

    /// Answers one request after the other with these statuses, and gives the bodies, of which some come in chunks.
    pub fn serve(statuses: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/write", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let answer = |status: &u16| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(socket.try_clone().unwrap());
                let (mut head, mut length, mut is_chunked) = (String::new(), 0, false);
                while reader.read_line(&mut head).unwrap() > 2 {
                    let lower = head.to_lowercase();
                    if let Some(found) = lower.strip_prefix("content-length:") {
                        length = found.trim().parse().unwrap();
                    }
                    is_chunked |= lower.trim_end() == "transfer-encoding: chunked";
                    head.clear();
                }
                let body = body_of(&mut reader, length, is_chunked);
                let said = "why";
                write!(
                    socket,
                    "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
                    said.len()
                )
                .unwrap();
                body
            };
            statuses.iter().map(answer).collect()
        });
        (url, server)
    }
}
