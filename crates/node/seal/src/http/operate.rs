//! `/v1/seal/pack` and `/v1/seal/unpack`: bytes with parameters in the query, or JSON with base64.

use super::{App, Identified};
use crate::Ispb;
use crate::access::{Action, Client};
use crate::listener::{treatment_of, version_of};
use crate::pool::{Job, Reply};
use crate::public_refusal::PublicRefusal;
use crate::work::{Operation as Work, Output as Worked, Pack, Unpack};
use axum::RequestExt;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json as object};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tieline_rsfn::{ErrorCode, Treatment, Version};
use tieline_service::http::body::{Answer, whole};
use tieline_service::http::openapi::{Authorization, Input, Operation, Output, Schemas};
use tieline_service::http::parameters::{Fault, Parameter, Parameters, Whole, form};
use tieline_service::http::problem::Problem;
use tieline_service::parameters;
use tokio::sync::oneshot;

parameters! {
    /// What is packed.
    pub struct PackAsked {
        /// The domain that sends
        domain: String,
        /// The institution that receives
        to: Ispb,
        /// Version of the envelope
        version: VersionCode = "3",
        /// Special treatment: C04 of the message
        treatment: TreatmentCode = "0",
        /// C03 of the message, to answer a faulty one
        error: ErrorDigits = "00",
        /// The key that signs; 0 is the highest active one
        key_version: Whole<0, KEY_VERSION_MAX> = "0",
        /// With treatment 8 or 10: compress the content; false when it is compressed already
        compress: bool = "true",
    }
}

parameters! {
    /// What is unpacked.
    pub struct UnpackAsked {
        /// The domain that receives
        domain: String,
        /// The institution that the message must come from
        from: Option<Ispb>,
        /// Decompress compressed content
        inflate: bool = "true",
    }
}

const KEY_VERSION_MAX: usize = u32::MAX as usize;

/// An operation by its parameters, and the bytes that it is done to.
pub trait Asks: Parameters {
    /// What the client must be allowed to do.
    const ACTION: Action;
    /// The member of a JSON body that has the bytes, in base64.
    const BYTES: &'static str;

    /// Where.
    fn domain(&self) -> &str;
}

impl Asks for PackAsked {
    const ACTION: Action = Action::Pack;
    const BYTES: &'static str = "content";

    fn domain(&self) -> &str {
        &self.domain
    }
}

impl Asks for UnpackAsked {
    const ACTION: Action = Action::Unpack;
    const BYTES: &'static str = "message";

    fn domain(&self) -> &str {
        &self.domain
    }
}

/// The version of an envelope.
#[derive(Debug)]
pub struct VersionCode(Version);

impl Parameter for VersionCode {
    fn read(text: &str) -> Result<Self, Fault> {
        let version = text.parse().ok().and_then(|code| version_of(code).ok());
        version.map(Self).ok_or_else(|| Fault::Expected("2 or 3".to_owned()))
    }

    fn schema() -> Value {
        object!({ "type": "integer", "enum": [2, 3] })
    }
}

/// How content is treated.
#[derive(Debug)]
pub struct TreatmentCode(Treatment);

impl Parameter for TreatmentCode {
    fn read(text: &str) -> Result<Self, Fault> {
        let treatment = text.parse().ok().and_then(|code| treatment_of(code).ok());
        treatment.map(Self).ok_or_else(|| Fault::Expected("0, 1, 2, 3, 4, 6, 8 or 10".to_owned()))
    }

    fn schema() -> Value {
        object!({ "type": "integer", "enum": Treatment::ALL.map(Treatment::code) })
    }
}

/// The error that a message answers.
#[derive(Debug)]
pub struct ErrorDigits(ErrorCode);

impl Parameter for ErrorDigits {
    fn read(text: &str) -> Result<Self, Fault> {
        let code = u8::from_str_radix(text, 16).ok().filter(|_| text.len() == 2);
        let expected = || Fault::Expected("two hexadecimal digits of C03, as in 0B".to_owned());
        code.map(|code| Self(ErrorCode(code))).ok_or_else(expected)
    }

    fn schema() -> Value {
        object!({ "type": "string", "pattern": "^[0-9A-Fa-f]{2}$" })
    }
}

impl Parameter for Ispb {
    fn read(text: &str) -> Result<Self, Fault> {
        Self::from_text(text).ok_or_else(|| Fault::Expected("an institution's eight digits".to_owned()))
    }

    fn schema() -> Value {
        object!({ "type": "string", "pattern": Self::PATTERN })
    }
}

/// A message that was made.
pub struct Packed {
    message: Vec<u8>,
    is_json: bool,
}

/// The message.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct PackedJson {
    #[schemars(extend("contentEncoding" = "base64"))]
    message: String,
}

impl IntoResponse for Packed {
    fn into_response(self) -> Response {
        match self.is_json {
            true => Answer(PackedJson { message: STANDARD.encode(self.message) }).into_response(),
            false => bytes(self.message, &[]),
        }
    }
}

impl Output for Packed {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.content(200, "application/octet-stream", Value::Null);
        Answer::<PackedJson>::describe(operation, schemas);
    }
}

/// Signs and encrypts.
pub async fn pack(asked: Asked<PackAsked>) -> Result<Packed, Problem> {
    let (by, is_json) = (asked.by, asked.is_json);
    let PackAsked { domain, to, version, treatment, error, key_version, compress } = asked.parameters;
    let pack = Pack {
        domain: domain.into(),
        recipient: to,
        key_version: u32::try_from(key_version.0).ok().filter(|version| *version > 0),
        version: version.0,
        treatment: treatment.0,
        error: error.0,
        compress,
        content: asked.bytes,
    };
    match submit(Work::Pack(pack), by).await? {
        Worked::Packed(message) => Ok(Packed { message, is_json }),
        Worked::Unpacked { .. } => Err(PublicRefusal::closing().into()),
    }
}

/// Content, and who signed it.
pub struct Opened {
    content: Vec<u8>,
    told: Told,
    is_json: bool,
}

struct Told {
    from: String,
    treatment: u8,
    error: String,
    sender_serial: String,
}

/// The content, and who signed it.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct OpenedJson {
    #[schemars(extend("contentEncoding" = "base64"))]
    content: String,
    /// The institution that sent it
    from: String,
    treatment: u8,
    /// C03 of the message
    error: String,
    /// Of the certificate that signed it
    sender_serial: String,
}

impl IntoResponse for Opened {
    fn into_response(self) -> Response {
        let Told { from, treatment, error, sender_serial } = self.told;
        if self.is_json {
            let content = STANDARD.encode(self.content);
            return Answer(OpenedJson { content, from, treatment, error, sender_serial }).into_response();
        }
        let treatment = treatment.to_string();
        bytes(self.content, &[(FROM, from), (TREATMENT, treatment), (ERROR, error), (SENDER_SERIAL, sender_serial)])
    }
}

const FROM: &str = "tieline-from";
const TREATMENT: &str = "tieline-treatment";
const ERROR: &str = "tieline-error";
const SENDER_SERIAL: &str = "tieline-sender-serial";

impl Output for Opened {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.content(200, "application/octet-stream", Value::Null);
        Answer::<OpenedJson>::describe(operation, schemas);
        let text = object!({ "type": "string" });
        operation.told(200, FROM, &text, "The institution that sent it");
        operation.told(200, TREATMENT, &object!({ "type": "integer" }), "C04 of the message");
        operation.told(200, ERROR, &text, "C03 of the message");
        operation.told(200, SENDER_SERIAL, &text, "Of the certificate that signed it");
    }
}

/// Decrypts and verifies.
pub async fn unpack(asked: Asked<UnpackAsked>) -> Result<Opened, Problem> {
    let (by, is_json) = (asked.by, asked.is_json);
    let UnpackAsked { domain, from, inflate } = asked.parameters;
    let unpack = Unpack { domain: domain.into(), sender: from, inflate, message: asked.bytes };
    match submit(Work::Unpack(unpack), by).await? {
        Worked::Unpacked { header, sender, content } => {
            let told = Told {
                from: sender.to_string(),
                treatment: header.treatment.code(),
                error: format!("{:02X}", header.error.0),
                sender_serial: header.sender.serial.to_string(),
            };
            Ok(Opened { content, told, is_json })
        }
        Worked::Packed(_) => Err(PublicRefusal::closing().into()),
    }
}

/// Who asks for an operation that it may do, from where.
pub struct By {
    app: App,
    client: Arc<Client>,
    address: SocketAddr,
}

/// A request of either form, of a client that may do it.
pub struct Asked<P> {
    parameters: P,
    bytes: Vec<u8>,
    is_json: bool,
    by: By,
}

impl<P: Asks> FromRequest<App> for Asked<P> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        let address: Result<ConnectInfo<SocketAddr>, _> = request.extract_parts().await;
        let ConnectInfo(address) = address.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let query = form(request.uri().query().unwrap_or_default()).collect();
        let headers = request.headers().clone();
        let body = whole(request, app).await?;
        let (parameters, bytes, is_json) = read::<P>(query, &headers, body)?;
        let client = app.client(&headers, P::ACTION, parameters.domain())?;
        Ok(Self { parameters, bytes, is_json, by: By { app: app.clone(), client, address } })
    }
}

impl<P: Asks> Authorization for Asked<P> {}

impl<P: Asks> Input for Asked<P> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let base64 = object!({ "type": "string", "contentEncoding": "base64" });
        let mut properties = Map::from_iter([(P::BYTES.to_owned(), base64)]);
        let mut required = vec![Value::from(P::BYTES)];
        for mut parameter in P::describe() {
            let mut schema = parameter["schema"].clone();
            schema["description"] = parameter["description"].clone();
            if parameter["required"] == true {
                required.push(parameter["name"].clone());
                // It may be in the body.
                parameter["required"] = false.into();
                parameter["description"] =
                    format!("{}; required", parameter["description"].as_str().unwrap_or_default()).into();
            }
            properties.insert(parameter["name"].as_str().unwrap_or_default().to_owned(), schema);
            operation.parameter(parameter);
        }
        operation.body("application/octet-stream", object!({ "type": "string", "format": "binary" }));
        let all = object!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        operation.body("application/json", all);
        operation.may_fail(400, "A parameter or the body is wrong");
        operation.may_fail(403, "The client may not do it there; or a foreign page asked");
        operation.may_fail(500, "It failed here; the audit log says how");
        operation.may_fail(503, "Too much is under way, or the server is closing");
        operation.body_may_fail();
        Identified::describe(operation, schemas);
    }
}

async fn submit(operation: Work, by: By) -> Result<Worked, Problem> {
    let By { app, client, address } = by;
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

/// The parameters and the bytes of a request, and whether it is in JSON.
fn read<P: Asks>(
    mut pairs: Vec<(String, String)>,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<(P, Vec<u8>, bool), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind.split(';').next().unwrap_or_default().trim() == "application/json";
    let mut bytes = None;
    if is_json {
        let object: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        for (name, value) in object {
            let text = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            if name == P::BYTES {
                let decoded = STANDARD.decode(text);
                bytes = Some(decoded.map_err(|e| Problem::bad_request(format!("{name}: base64: {e}")))?);
            } else {
                // What the body says counts.
                pairs.insert(0, (name, text));
            }
        }
    } else {
        bytes = Some(Vec::from(body));
    }
    let parameters = P::read("parameter", &pairs).map_err(Problem::bad_request)?;
    let missing = || Problem::bad_request(format!("{} is missing", P::BYTES));
    Ok((parameters, bytes.ok_or_else(missing)?, is_json))
}
