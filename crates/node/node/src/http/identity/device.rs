//! Logins of programs without a browser: a person confirms a code at the provider (RFC 8628), and the program gets a token.

use super::super::access::HttpAuthentication;
use super::super::authorization::Visitor;
use super::super::body::{Answer, Json};
use super::super::problem::Problem;
use super::browser::enter;
use super::{Identities, handle, lock};
use axum::Extension;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Network;
use tieline_identity::{Fault, Goal, Outcome, Polled};

/// Bytes of a request.
pub const DEVICE_BYTES_MAX: usize = 16 * 1024;

/// A login that a person has to confirm.
#[derive(JsonSchema, Serialize)]
pub struct DeviceLogin {
    /// Names the login in requests for its token
    device: String,
    /// What the person types
    user_code: String,
    /// Where
    verification_uri: String,
    /// Where, with the code in it
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_uri_complete: Option<String>,
    /// Seconds for which the code is good
    expires_in: u64,
    /// Seconds between two requests for the token
    interval: u64,
}

/// Names a login.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceAsked {
    device: String,
}

/// The state of a login.
#[derive(JsonSchema, Serialize)]
pub struct DeviceToken {
    /// Whether the person has confirmed the login
    done: bool,
    /// Seconds until the next request; absent when it is done
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<u64>,
    /// The token, for `Authorization: Bearer`; absent until it is done
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The user
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Seconds after which the login ends at the latest
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
}

fn identities(authentication: &HttpAuthentication) -> Result<&Arc<Identities>, Problem> {
    let none = || Problem::new(StatusCode::CONFLICT, "this node has no identity provider: it has no [access.oidc]");
    authentication.identities().ok_or_else(none)
}

async fn problem(authentication: &HttpAuthentication, peer: SocketAddr, fault: &Fault) -> Problem {
    if let Some(identities) = authentication.identities() {
        identities.count(fault);
    }
    authentication.note_refused(peer, fault.word(), fault.to_string()).await;
    let status = match fault {
        Fault::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
        Fault::Answer(_) => StatusCode::BAD_GATEWAY,
        Fault::Refused(_) | Fault::Token(_) | Fault::Login(_) | Fault::NoRole { .. } => StatusCode::FORBIDDEN,
    };
    Problem::new(status, fault.to_string())
}

fn too_many() -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many logins wait to be confirmed")
}

/// Begins a login.
pub async fn begin(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Answer<DeviceLogin>, Problem> {
    let (identities, network) = (identities(&authentication)?, Network::of(peer.ip()));
    if !lock(&identities.devices).has_room(identities.now(), network) {
        return Err(too_many());
    }
    let code = match identities.exchange(Goal::Device).await {
        Ok(Outcome::Device(code)) => code,
        Ok(_) => return Err(Problem::unavailable("no login has begun")),
        Err(fault) => return Err(problem(&authentication, peer, &fault).await),
    };
    let device = handle().ok_or_else(too_many)?;
    if !lock(&identities.devices).keep(identities.now(), network, &device, &code) {
        return Err(too_many());
    }
    Ok(Answer(DeviceLogin {
        device,
        user_code: code.user_code,
        verification_uri: code.verification,
        verification_uri_complete: code.verification_complete,
        expires_in: code.lasts.as_secs(),
        interval: code.interval.as_secs(),
    }))
}

/// Gives the token of a login, once the person has confirmed it.
pub async fn token(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(DeviceAsked { device }): Json<DeviceAsked>,
) -> Result<Answer<DeviceToken>, Problem> {
    let identities = identities(&authentication)?;
    let polled = lock(&identities.devices).poll(identities.now(), &device);
    let device_code = match polled {
        Polled::Gone => return Err(Problem::not_found("this login is over, or was never begun")),
        Polled::Wait(left) => return Ok(Answer(waiting(left))),
        Polled::Ask(device_code) => device_code,
    };
    let person = match identities.exchange(Goal::Poll { device_code }).await {
        Ok(Outcome::Pending { slow_down }) => {
            let now = identities.now();
            let mut devices = lock(&identities.devices);
            let interval = if slow_down { devices.slow_down(now, &device) } else { devices.interval(&device) };
            return Ok(Answer(waiting(interval)));
        }
        Ok(Outcome::Person(person)) => person,
        // The provider may be back for the next request.
        Err(fault @ Fault::Away(_)) => return Err(problem(&authentication, peer, &fault).await),
        Err(fault) => {
            lock(&identities.devices).remove(&device);
            return Err(problem(&authentication, peer, &fault).await);
        }
        Ok(Outcome::Ready | Outcome::Device(_) | Outcome::Ended(_)) => {
            return Err(Problem::unavailable("nobody has logged in"));
        }
    };
    // Two requests at once give one token.
    if !lock(&identities.devices).remove(&device) {
        return Err(Problem::not_found("this login is over"));
    }
    let user = person.user.clone();
    match enter(&authentication, peer, person, "a device code").await {
        Ok(token) => Ok(Answer(DeviceToken {
            done: true,
            interval: None,
            token: Some(token),
            user: Some(user),
            expires_in: Some(authentication.logins().max().as_secs()),
        })),
        Err(fault) => Err(problem(&authentication, peer, &fault).await),
    }
}

fn waiting(left: Duration) -> DeviceToken {
    let interval = Some(left.as_secs().max(1));
    DeviceToken { done: false, interval, token: None, user: None, expires_in: None }
}
