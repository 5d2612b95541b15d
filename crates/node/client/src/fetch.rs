//! One request to a server that is not a node: bounded in time and in size, and never redirected.

use crate::tls::Tls;
use std::time::Duration;
use tieline_net::tls::ClientTls;
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

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
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(self.within));
        let tcp = ().chain(TcpConnector::default());
        let agent = match tls {
            Some(tls) => Agent::with_parts(config.build(), tcp.chain(Tls(tls)), DefaultResolver::default()),
            None => Agent::with_parts(config.build(), tcp, DefaultResolver::default()),
        };
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
        let mut answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let limit = u64::try_from(self.bytes_max).unwrap_or(u64::MAX);
        let body = answer.body_mut().with_config().limit(limit).read_to_vec();
        Ok((status, body.map_err(|error| error.to_string())?))
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
