//! A client of HTTP that is kept as small as can be: one connection a request.

use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Where requests go.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    node: SocketAddr,
}

impl Client {
    pub const fn new(node: SocketAddr) -> Self {
        Self { node }
    }

    /// The JSON of a path.
    pub fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.ask("GET", path, "")?).unwrap_or_default())
    }

    /// The milliseconds until the answer was there, and its JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<(f64, Value)> {
        let body = body.to_string();
        let began = Instant::now();
        let answer = self.ask("POST", path, &body)?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        Ok((took, serde_json::from_str(&answer).with_context(|| format!("{path}: {answer}"))?))
    }

    /// A metric; none where the node does not say it.
    pub fn metric(&self, name: &str) -> Result<Option<f64>> {
        let text = self.ask("GET", "/metrics", "")?;
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        Ok(text.lines().find_map(value))
    }

    /// The body of an answer, whatever its status.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.node)?;
        stream.set_nodelay(true)?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.node,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
        Ok(body.to_owned())
    }
}
