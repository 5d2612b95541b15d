//! `/v1/seal/pack` and `/v1/seal/unpack`: bytes with parameters in the query, or JSON with base64.

use super::{App, json};
use crate::Ispb;
use crate::access::{Action, Client};
use crate::listener::{treatment_of, version_of};
use crate::pool::{Job, Reply};
use crate::public_refusal::PublicRefusal;
use crate::work::{Operation, Output, Pack, Unpack};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json as object};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tieline_rsfn::ErrorCode;
use tieline_service::http::problem::Problem;
use tokio::sync::oneshot;

const PACK: &[&str] = &["domain", "to", "version", "treatment", "error", "key_version", "compress", "content"];
const UNPACK: &[&str] = &["domain", "from", "inflate", "message"];

/// Signs and encrypts.
pub async fn pack(State(app): State<App>, head: Head, body: Bytes) -> Result<Response, Problem> {
    let address = head.address;
    let (asked, domain, client) = head.read(&app, Action::Pack, body)?;
    let key_version = asked.number("key_version", 0)?;
    let pack = Pack {
        domain,
        recipient: asked.ispb("to")?.ok_or_else(|| missing("to"))?,
        key_version: (key_version > 0).then_some(key_version),
        version: version_of(byte(asked.number("version", 3)?))?,
        treatment: treatment_of(byte(asked.number("treatment", 0)?))?,
        error: ErrorCode(asked.error()?),
        compress: asked.flag("compress", true)?,
        content: asked.bytes,
    };
    match submit(&app, Operation::Pack(pack), client, address).await? {
        Output::Packed(message) if asked.is_json => {
            Ok(json(object!({ "message": STANDARD.encode(message) }).to_string()))
        }
        Output::Packed(message) => Ok(bytes(message, &[])),
        Output::Unpacked { .. } => Err(PublicRefusal::closing().into()),
    }
}

/// Decrypts and verifies.
pub async fn unpack(State(app): State<App>, head: Head, body: Bytes) -> Result<Response, Problem> {
    let address = head.address;
    let (asked, domain, client) = head.read(&app, Action::Unpack, body)?;
    let (sender, inflate) = (asked.ispb("from")?, asked.flag("inflate", true)?);
    let unpack = Unpack { domain, sender, inflate, message: asked.bytes };
    match submit(&app, Operation::Unpack(unpack), client, address).await? {
        Output::Unpacked { header, sender, content } if asked.is_json => {
            let answer = object!({
                "content": STANDARD.encode(content),
                "from": sender.to_string(),
                "treatment": header.treatment.code(),
                "error": format!("{:02X}", header.error.0),
                "sender_serial": header.sender.serial.to_string(),
            });
            Ok(json(answer.to_string()))
        }
        Output::Unpacked { header, sender, content } => {
            let told = [
                ("tieline-from", sender.to_string()),
                ("tieline-treatment", header.treatment.code().to_string()),
                ("tieline-error", format!("{:02X}", header.error.0)),
                ("tieline-sender-serial", header.sender.serial.to_string()),
            ];
            Ok(bytes(content, &told))
        }
        Output::Packed(_) => Err(PublicRefusal::closing().into()),
    }
}

/// What stands before the body, and where it came from.
pub struct Head {
    address: SocketAddr,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
}

impl FromRequestParts<App> for Head {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let address = ConnectInfo::from_request_parts(parts, app).await;
        let ConnectInfo(address) = address.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let query = Query::from_request_parts(parts, app).await;
        let Query(query) = query.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        Ok(Self { address, query, headers: parts.headers.clone() })
    }
}

impl Head {
    /// The parameters and bytes of an operation, its domain, and the client that may do it there.
    fn read(self, app: &App, action: Action, body: Bytes) -> Result<(Asked, Arc<str>, Arc<Client>), Problem> {
        let (known, bytes_in) = match action {
            Action::Unpack => (UNPACK, "message"),
            Action::Pack | Action::Admin => (PACK, "content"),
        };
        let asked = Asked::read(self.query, &self.headers, body, known, bytes_in)?;
        let domain = Arc::from(asked.text("domain")?);
        let client = app.client(&self.headers, action, &domain)?;
        Ok((asked, domain, client))
    }
}

async fn submit(app: &App, operation: Operation, client: Arc<Client>, address: SocketAddr) -> Result<Output, Problem> {
    let (sender, answer) = oneshot::channel();
    app.0.submit([Job { operation, client, address, reply: Reply::Once(sender), since: Instant::now() }]);
    Ok(answer.await.unwrap_or_else(|_| Err(PublicRefusal::closing()))?)
}

fn bytes(body: Vec<u8>, told: &[(&'static str, String)]) -> Response {
    let mut response = Body::from(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in told {
        headers.extend(HeaderValue::from_str(value).map(|value| (header::HeaderName::from_static(name), value)));
    }
    response
}

/// A request of either form: parameters by name, and bytes.
struct Asked {
    parameters: BTreeMap<String, String>,
    bytes: Vec<u8>,
    is_json: bool,
}

impl Asked {
    fn read(
        query: BTreeMap<String, String>,
        headers: &HeaderMap,
        body: Bytes,
        known: &[&str],
        bytes_in: &str,
    ) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json = kind.split(';').next().unwrap_or_default().trim() == "application/json";
        let (mut parameters, mut bytes) = (query, None);
        if is_json {
            let object: Map<String, Value> =
                serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
            for (name, value) in object {
                let text = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                if name == bytes_in {
                    let decoded = STANDARD.decode(text);
                    bytes = Some(decoded.map_err(|e| Problem::bad_request(format!("{bytes_in}: base64: {e}")))?);
                } else {
                    parameters.insert(name, text);
                }
            }
        } else {
            bytes = Some(Vec::from(body));
        }
        if let Some(name) = parameters.keys().find(|name| !known.contains(&name.as_str()) || *name == bytes_in) {
            return Err(Problem::bad_request(format!("unknown {name:?}, expected {}", known.join(", "))));
        }
        Ok(Self { parameters, bytes: bytes.ok_or_else(|| missing(bytes_in))?, is_json })
    }

    fn text(&self, name: &str) -> Result<&str, Problem> {
        self.parameters.get(name).map(String::as_str).ok_or_else(|| missing(name))
    }

    fn parsed<T>(&self, name: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(text) = self.parameters.get(name) else { return Ok(None) };
        let wrong = || Problem::bad_request(format!("{name} is {text:?}, expected {expected}"));
        parse(text).map(Some).ok_or_else(wrong)
    }

    fn number(&self, name: &str, default: u32) -> Result<u32, Problem> {
        Ok(self.parsed(name, "a whole number", |text| text.parse().ok())?.unwrap_or(default))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        Ok(self.parsed(name, "true or false", |text| text.parse().ok())?.unwrap_or(default))
    }

    fn ispb(&self, name: &str) -> Result<Option<Ispb>, Problem> {
        self.parsed(name, "an institution's eight digits", Ispb::from_text)
    }

    fn error(&self) -> Result<u8, Problem> {
        let expected = "two hexadecimal digits of C03, as in 0B";
        let parse = |text: &str| u8::from_str_radix(text, 16).ok().filter(|_| text.len() == 2);
        Ok(self.parsed("error", expected, parse)?.unwrap_or(0))
    }
}

/// Numbers that are no byte become one that nothing has.
fn byte(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn missing(name: &str) -> Problem {
    Problem::bad_request(format!("{name} is missing"))
}
