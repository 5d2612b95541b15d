//! The node's HTTP API, blocking.

use crate::tls::Tls;
use base64::Engine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::time::Duration;
use tieline_net::tls::ClientTls;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body, RequestBuilder, Timeout, http::Response};

/// Bytes of the largest JSON answer that is read whole; longer ones fail. Streams have no limit.
const JSON_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of the longest error that is read.
const PROBLEM_BYTES_MAX: u64 = 64 * 1024;

/// The node's HTTP API.
#[derive(Clone, Debug)]
pub struct HttpClient {
    base: String,
    agent: Agent,
    authorization: Option<String>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum HttpError {
    /// The node refused: a problem of RFC 9457.
    Problem {
        /// The HTTP status, 400 to 599.
        status: u16,
        /// What is wrong, for every request of the kind.
        title: String,
        /// What is wrong with this one; often empty.
        detail: String,
    },
    /// The node does not answer.
    Transport {
        /// What was asked.
        url: String,
        /// Why there is no answer.
        error: Box<ureq::Error>,
        /// Whether the request may have reached the node and changed something there.
        maybe_done: bool,
    },
    /// The answer is not the JSON that was expected.
    Json {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem { title, detail, .. } if detail.is_empty() => f.write_str(title),
            Self::Problem { title, detail, .. } => write!(f, "{title}: {detail}"),
            Self::Transport { url, error, maybe_done } => {
                write!(f, "no answer from {url}: {}", Cause(error))?;
                if *maybe_done { f.write_str("; the request was sent and may have been carried out") } else { Ok(()) }
            }
            Self::Json { url, error } => write!(f, "the answer of {url} is not as expected: {error}"),
        }
    }
}

impl std::error::Error for HttpError {}

impl HttpClient {
    /// A client of the node at `address`: `host:port`, or a URL up to where `/v1` begins. Connecting may take 5 s,
    /// the first byte of an answer 60 s.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self::patient(address, Duration::from_secs(60))
    }

    /// A client as of [`HttpClient::new`] that waits for the first byte of an answer as long as `answer`.
    #[must_use]
    pub fn patient(address: &str, answer: Duration) -> Self {
        Self::over(address, answer, None)
    }

    /// The same with what is needed for `https` addresses; without it they are not asked.
    #[must_use]
    pub fn over(address: &str, answer: Duration, tls: Option<ClientTls>) -> Self {
        let base = address.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(answer));
        let tcp = ().chain(TcpConnector::default());
        let agent = match tls {
            Some(tls) => Agent::with_parts(config.build(), tcp.chain(Tls(tls)), DefaultResolver::default()),
            None => Agent::with_parts(config.build(), tcp, DefaultResolver::default()),
        };
        Self { base, agent, authorization: None }
    }

    /// The same for a node that wants to know who asks.
    #[must_use]
    pub fn with_password(self, user: &str, password: &str) -> Self {
        let shown = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Self { authorization: Some(format!("Basic {shown}")), ..self }
    }

    /// The same with a token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), ..self }
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(shown) => request.header("authorization", shown),
            None => request,
        }
    }

    /// The JSON that the node answers to GET of `path`, which begins with `/`.
    ///
    /// # Errors
    /// No answer, a refusal, or other JSON than `T` takes.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, HttpError> {
        let url = self.url(path);
        let answer = self.authorized(self.agent.get(&url)).header("accept", "application/json").call();
        json(&url, checked(&url, answer)?)
    }

    /// The JSON that the node answers to POST of `body` to `path`, which begins with `/`.
    ///
    /// # Errors
    /// No answer, a refusal, or other JSON than `T` takes.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, HttpError> {
        let url = self.url(path);
        let bytes = serde_json::to_vec(body).map_err(|error| HttpError::Json { url: url.clone(), error })?;
        let request = self
            .authorized(self.agent.post(&url))
            .header("accept", "application/json")
            .content_type("application/json");
        changed_json(&url, checked_change(&url, request.send(&bytes))?)
    }

    /// The JSON that the node answers to PUT of `body` to `path`, with these headers besides.
    ///
    /// # Errors
    /// No answer, a refusal, or other JSON than `T` takes.
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Result<T, HttpError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.put(&url)).header("accept", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        changed_json(&url, checked_change(&url, request.send(body))?)
    }

    /// The JSON that the node answers to DELETE of `path`, with these headers besides.
    ///
    /// # Errors
    /// No answer, a refusal, or other JSON than `T` takes.
    pub fn delete<T: DeserializeOwned>(&self, path: &str, headers: &[(&str, &str)]) -> Result<T, HttpError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.delete(&url)).header("accept", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        changed_json(&url, checked_change(&url, request.call())?)
    }

    /// The HTTP status and the JSON that the node answers to POST of `body` to `path`, be it a refusal or not.
    ///
    /// # Errors
    /// No answer, or other JSON than `T` takes.
    pub fn ask<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<(u16, T), HttpError> {
        let url = self.url(path);
        let bytes = serde_json::to_vec(body).map_err(|error| HttpError::Json { url: url.clone(), error })?;
        let request = self
            .authorized(self.agent.post(&url))
            .header("accept", "application/json")
            .content_type("application/json");
        let answer = request.send(&bytes).map_err(|error| no_answer_to_change(&url, error))?;
        let status = answer.status().as_u16();
        if status == MISDIRECTED {
            return Err(problem(&url, answer));
        }
        Ok((status, changed_json(&url, answer)?))
    }

    /// The HTTP status and the JSON that the node answers to GET of `path`, be it a refusal or not.
    ///
    /// # Errors
    /// No answer, or other JSON than `T` takes.
    pub fn get_with_status<T: DeserializeOwned>(&self, path: &str) -> Result<(u16, T), HttpError> {
        let url = self.url(path);
        let answer = self.authorized(self.agent.get(&url)).header("accept", "application/json").call();
        let answer = answer.map_err(|error| no_answer(&url, error))?;
        let status = answer.status().as_u16();
        if status == MISDIRECTED {
            return Err(problem(&url, answer));
        }
        Ok((status, json(&url, answer)?))
    }

    /// The JSON that the node answers to GET of `path`, and the path of the next page (RFC 8288, `next`), where there is one.
    ///
    /// # Errors
    /// No answer, a refusal, or other JSON than `T` takes.
    pub fn get_page<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Option<String>), HttpError> {
        let url = self.url(path);
        let answer = self.authorized(self.agent.get(&url)).header("accept", "application/json").call();
        let answer = checked(&url, answer)?;
        let link = answer.headers().get("link").and_then(|link| link.to_str().ok());
        let next = link.and_then(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\"")).map(str::to_owned);
        Ok((json(&url, answer)?, next))
    }

    /// The answer to GET of `path` as it comes, in the media type asked for.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn stream(&self, path: &str, accept: &str) -> Result<impl Read + use<>, HttpError> {
        let url = self.url(path);
        let answer = self.authorized(self.agent.get(&url)).header("accept", accept).call();
        Ok(checked(&url, answer)?.into_body().into_reader())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// The status of an address that serves something else (RFC 9110 section 15.5.20).
const MISDIRECTED: u16 = 421;

/// An error of the transport without the words of its layers.
struct Cause<'a>(&'a ureq::Error);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ureq::Error::Io(error) => error.fmt(f),
            ureq::Error::Protocol(error) => write!(f, "it does not speak HTTP at this address ({error})"),
            other => other.fmt(f),
        }
    }
}

fn no_answer(url: &str, error: ureq::Error) -> HttpError {
    HttpError::Transport { url: url.to_owned(), error: Box::new(error), maybe_done: false }
}

fn no_answer_to_change(url: &str, error: ureq::Error) -> HttpError {
    let maybe_done = was_connected(&error);
    HttpError::Transport { url: url.to_owned(), error: Box::new(error), maybe_done }
}

/// Whether there was a connection before it went wrong, so that the request may have gone out.
fn was_connected(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
                | ErrorKind::TimedOut
        ),
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::BadUri(_)
        | ureq::Error::Http(_)
        | ureq::Error::Tls(_) => false,
        _ => true,
    }
}

fn checked(url: &str, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, HttpError> {
    let answer = answer.map_err(|error| no_answer(url, error))?;
    if answer.status().is_success() { Ok(answer) } else { Err(problem(url, answer)) }
}

/// The same of a request that changes something.
fn checked_change(url: &str, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, HttpError> {
    let answer = answer.map_err(|error| no_answer_to_change(url, error))?;
    if answer.status().is_success() { Ok(answer) } else { Err(problem(url, answer)) }
}

/// What the node holds against a request.
fn problem(url: &str, mut answer: Response<Body>) -> HttpError {
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(PROBLEM_BYTES_MAX).read_to_vec().unwrap_or_default();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let member = |name: &str| problem.get(name).and_then(|v| v.as_str()).map(str::to_owned);
    let title = member("title").unwrap_or_else(|| format!("{url} answers {status}"));
    HttpError::Problem { status: status.as_u16(), title, detail: member("detail").unwrap_or_default() }
}

fn json<T: DeserializeOwned>(url: &str, mut answer: Response<Body>) -> Result<T, HttpError> {
    let body = answer.body_mut().with_config().limit(JSON_BYTES_MAX).read_to_vec();
    let body = body.map_err(|error| no_answer(url, error))?;
    serde_json::from_slice(&body).map_err(|error| HttpError::Json { url: url.to_owned(), error })
}

/// The same of a request that changes something: it was answered, whatever the rest of the answer would say.
fn changed_json<T: DeserializeOwned>(url: &str, mut answer: Response<Body>) -> Result<T, HttpError> {
    let body = answer.body_mut().with_config().limit(JSON_BYTES_MAX).read_to_vec();
    let body = body.map_err(|error| no_answer_to_change(url, error))?;
    serde_json::from_slice(&body).map_err(|error| HttpError::Json { url: url.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// Answers one request with these bytes and returns what was asked.
    fn answer_once(answer: &'static str) -> (HttpClient, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut asked, mut line, mut length) = (String::new(), String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap();
                }
                asked.push_str(&line);
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            asked.push_str(&String::from_utf8(body).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
            asked
        });
        (HttpClient::new(&address), server)
    }

    #[test]
    fn json_comes_and_goes() {
        let (client, server) = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{\"a\": 1}");
        assert_eq!(client.get::<Value>("/v1/topics?limit=1").unwrap(), json!({"a": 1}));
        assert!(server.join().unwrap().starts_with("GET /v1/topics?limit=1 HTTP/1.1\r\n"));
        let (client, _server) = answer_once("HTTP/1.1 409 Conflict\r\ncontent-length: 4\r\n\r\nnull");
        assert_eq!(client.ask::<Value>("/v1/command", &json!({"b": 2})).unwrap(), (409, Value::Null));
        let (client, server) = answer_once("HTTP/1.1 202 Accepted\r\ncontent-length: 4\r\n\r\ntrue");
        assert!(client.post::<bool>("/v1/command", &json!({"b": 2})).unwrap());
        assert!(server.join().unwrap().ends_with("{\"b\":2}"));
    }

    #[test]
    fn problems_are_readable() {
        let (client, _server) = answer_once(
            "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n\
             {\"title\":\"unknown topic\",\"detail\":\"a/b holds no value\",\"status\":404}",
        );
        let error = client.get::<Value>("/v1/topics/a/b").unwrap_err();
        assert_eq!(error.to_string(), "unknown topic: a/b holds no value");
        assert!(matches!(error, HttpError::Problem { status: 404, .. }));
        let (client, _server) = answer_once("HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nhm");
        assert!(client.get::<Value>("/x").unwrap_err().to_string().ends_with("/x answers 500 Internal Server Error"));
        let (client, _server) = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhm");
        assert!(matches!(client.get::<Value>("/x"), Err(HttpError::Json { .. })));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(matches!(HttpClient::new(&closed.to_string()).get::<Value>("/"), Err(HttpError::Transport { .. })));
    }

    #[test]
    fn what_changes_something_and_breaks_off_may_have_been_done() {
        let maybe_done = |error: HttpError| match error {
            HttpError::Transport { maybe_done, .. } => Some(maybe_done),
            HttpError::Problem { .. } | HttpError::Json { .. } => None,
        };
        let change = |client: &HttpClient| client.ask::<Value>("/v1/command", &json!({})).unwrap_err();
        // The request was read, and the connection ended without an answer.
        let (client, _server) = answer_once("");
        let told = change(&client);
        assert!(told.to_string().ends_with("; the request was sent and may have been carried out"), "{told}");
        assert_eq!(maybe_done(told), Some(true));
        let (client, _server) = answer_once("");
        assert_eq!(maybe_done(client.get::<Value>("/v1/topics").unwrap_err()), Some(false));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody = HttpClient::new(&closed.to_string());
        assert_eq!(maybe_done(change(&nobody)), Some(false));
        assert_eq!(maybe_done(nobody.put::<Value>("/v1/topics/a", b"1", &[]).unwrap_err()), Some(false));
        assert_eq!(maybe_done(nobody.delete::<Value>("/v1/topics/a", &[]).unwrap_err()), Some(false));
    }

    #[test]
    fn values_are_set_and_removed_on_conditions() {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let (client, server) = answer_once(ok);
        client.put::<Value>("/v1/topics/a", b"70", &[("if-match", "\"41\"")]).unwrap();
        let asked = server.join().unwrap();
        assert!(asked.starts_with("PUT /v1/topics/a HTTP/1.1\r\n") && asked.ends_with("70"), "{asked}");
        assert!(asked.to_lowercase().contains("if-match: \"41\""), "{asked}");
        let (client, server) = answer_once(ok);
        client.delete::<Value>("/v1/topics/a", &[]).unwrap();
        assert!(server.join().unwrap().starts_with("DELETE /v1/topics/a HTTP/1.1\r\n"));
    }

    #[test]
    fn bodies_stream() {
        let (client, _server) = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\na,b\n");
        let mut text = String::new();
        client.stream("/v1/history", "text/csv").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "a,b\n");
    }
}
