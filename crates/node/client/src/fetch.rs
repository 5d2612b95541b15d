//! Requests to servers that are not nodes: bounded in time and in size, and never redirected.

use crate::tls::Tls;
use std::net::IpAddr;
use std::time::Duration;
use std::{fmt, io};
use tieline_net::tls::ClientTls;
use ureq::config::Config;
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Connector, NextTimeout, TcpConnector};
use ureq::{Agent, Body, Error, Proxy};

/// A request: GET, or POST of a form.
#[derive(Clone, Copy, Debug)]
pub struct Fetch<'a> {
    /// Where.
    pub url: &'a str,
    /// The header `authorization`.
    pub authorization: Option<&'a str>,
    /// The form of a POST.
    pub form: Option<&'a str>,
    /// How long all of it may take, from the name of the host to the last byte.
    pub within: Duration,
    /// Bytes of the answer; more are an error.
    pub bytes_max: usize,
}

impl Fetch<'_> {
    /// The status and the body of the answer, whatever the status is. Without `tls`, an `https` address is an error.
    ///
    /// # Errors
    /// No answer, or too long a one.
    pub fn send(&self, tls: Option<ClientTls>) -> Result<(u16, Vec<u8>), String> {
        let agent = agent(self.within, tls, DefaultResolver::default(), Proxy::try_from_env());
        let answer = match self.form {
            Some(form) => {
                let request = agent.post(self.url).content_type("application/x-www-form-urlencoded");
                let request = request.header("accept", "application/json");
                match self.authorization {
                    Some(shown) => request.header("authorization", shown).send(form),
                    None => request.send(form),
                }
            }
            None => {
                let request = agent.get(self.url).header("accept", "application/json");
                match self.authorization {
                    Some(shown) => request.header("authorization", shown).call(),
                    None => request.call(),
                }
            }
        };
        read(answer, self.bytes_max)
    }
}

/// A POST of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// Where.
    pub url: &'a str,
    /// Its headers, `content-type` among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// What is posted.
    pub body: &'a [u8],
    /// How long all of it may take, from the name of the host to the last byte.
    pub within: Duration,
    /// Bytes of the answer; more are an error.
    pub bytes_max: usize,
    /// The addresses that nothing is sent to, whatever name stands for them.
    pub refuses: fn(IpAddr) -> bool,
}

impl Post<'_> {
    /// The status and the body of the answer, whatever the status is. Without `tls`, an `https` address is an error.
    ///
    /// # Errors
    /// No answer, too long a one, or a refused address.
    pub fn send(&self, tls: Option<ClientTls>) -> Result<(u16, Vec<u8>), String> {
        let resolver = Guarded { inner: DefaultResolver::default(), refuses: self.refuses };
        let mut request = agent(self.within, tls, resolver, None).post(self.url);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        read(request.send(self.body), self.bytes_max)
    }
}

fn agent(within: Duration, tls: Option<ClientTls>, resolver: impl Resolver, proxy: Option<Proxy>) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy)
        .timeout_global(Some(within));
    let tcp = ().chain(TcpConnector::default());
    match tls {
        Some(tls) => Agent::with_parts(config.build(), tcp.chain(Tls(tls)), resolver),
        None => Agent::with_parts(config.build(), tcp, resolver),
    }
}

fn read(answer: Result<Response<Body>, Error>, bytes_max: usize) -> Result<(u16, Vec<u8>), String> {
    let mut answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let body = answer.body_mut().with_config().limit(limit).read_to_vec();
    Ok((status, body.map_err(|error| error.to_string())?))
}

/// Names and addresses, without those that are refused.
struct Guarded {
    inner: DefaultResolver,
    refuses: fn(IpAddr) -> bool,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

impl Resolver for Guarded {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        match found.iter().find(|address| (self.refuses)(address.ip())) {
            Some(address) => {
                let words = format!("{} is an address that messages are not sent to", address.ip());
                Err(Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, words)))
            }
            None => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn check(answer: &'static str, within: Duration, expect: Result<(u16, &str), &str>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            // It ends when the client has had enough.
            let _ = stream.read(&mut head);
        });
        let fetch = Fetch { url: &url, authorization: Some("Bearer x"), form: None, within, bytes_max: 10 };
        match (fetch.send(None), expect) {
            (Ok((status, body)), Ok((expect, text))) => assert_eq!((status, &*body), (expect, text.as_bytes())),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (found, expect) => panic!("{found:?}, expected {expect:?}"),
        }
        server.join().unwrap();
    }

    #[test]
    fn nothing_is_posted_to_a_refused_address_whatever_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            let url = format!("http://{host}:{port}/x");
            let (headers, within) = ([("content-type", "text/plain")], Duration::from_secs(60));
            let post = Post { url: &url, headers: &headers, body: b"x", within, bytes_max: 10, refuses: |_| true };
            let error = post.send(None).unwrap_err();
            assert!(error.contains("is an address that messages are not sent to"), "{error}");
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
    }

    #[test]
    fn an_answer_is_bounded_in_time_and_size_and_leads_nowhere() {
        let patient = Duration::from_secs(60);
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", patient, Ok((200, "ok")));
        let led = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        check(led, patient, Ok((302, "")));
        check("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n01234567890123456789", patient, Err("limit"));
        check("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n01234567890123456789", patient, Err("limit"));
        check("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n0", Duration::from_millis(20), Err("timeout"));
    }
}
