//! `/v1/join`, by which a site joins with its token, and `/v1/fabric/sites`, by which a centre's sites are administered.

use super::App;
use super::authorization::{Authenticated, Authorized, Public};
use super::body::{Answer, Json};
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use crate::sites::joining::{JoinError, Joining, Site, SiteList};
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::Timestamp;

/// The topic that stands for the list of sites in rules of access.
const SITES: &str = "$access/sites";
/// Bytes of what a site sends.
pub(super) const JOIN_BYTES_MAX: usize = 4096;
/// Bytes of a file of authorities.
const AUTHORITIES_BYTES_MAX: u64 = 256 * 1024;
/// How long tokens can be used, unless the caller says.
const VALID: Duration = Duration::from_secs(3600);
/// How long they can be used at most.
const VALID_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What `POST /v1/join` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JoinRequest")]
pub struct Join {
    /// The token of `POST /v1/fabric/sites/token`
    token: String,
    /// The public key of the site, of a pair that it has made itself
    #[schemars(example = &"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4")]
    key: String,
    /// The name that the site expects to have
    site: Option<String>,
}

/// What a site has joined.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Joined")]
pub struct JoinDone {
    status: Done,
    /// The name of the site
    site: String,
    /// Whether it joined with this call, and not with one before
    is_new: bool,
    /// Addresses of the centre's servers
    servers: Vec<String>,
    /// Certificates in PEM of the authorities of these servers; null where those of the system are meant
    authorities: Option<String>,
}

/// What `POST /v1/fabric/sites` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSite {
    name: String,
    /// The public key of the site, where it is known already: then no token is needed
    key: Option<String>,
}

/// What `POST /v1/fabric/sites/token` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    name: String,
    /// How many seconds the token can be used, 3600 where nothing is said, at most 30 days
    valid_s: Option<u64>,
}

/// What `POST /v1/fabric/sites/revoke` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSite {
    name: String,
}

/// A token of a site
#[derive(JsonSchema, Serialize)]
pub struct SiteToken {
    status: Done,
    name: String,
    /// The token, which is not shown again
    token: String,
    /// Until when it can be used
    #[schemars(extend("format" = "date-time"))]
    expires: String,
}

/// A site
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "FabricSite")]
pub struct ShownSite {
    name: String,
    /// invited: it has no key yet; active: it may connect; revoked: it may not
    #[schemars(extend("enum" = ["invited", "active", "revoked"]))]
    state: &'static str,
    /// Its public key
    key: Option<String>,
    /// The key that takes the place of the other one, once the site connects with it
    next_key: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// When it connected last
    #[schemars(extend("format" = "date-time"))]
    last_seen: Option<String>,
    /// Until when its token can be used, where it has one that was not used
    #[schemars(extend("format" = "date-time"))]
    token_expires: Option<String>,
}

impl ShownSite {
    fn of(name: &str, site: &Site) -> Self {
        Self {
            name: name.to_owned(),
            state: site.state().name(),
            key: site.key.clone(),
            next_key: site.next_key.clone(),
            created: site.created.clone(),
            last_seen: site.last_seen.clone(),
            token_expires: site.token_expires().map(str::to_owned),
        }
    }
}

/// Sites of a centre, sorted by name
#[derive(JsonSchema, Serialize)]
pub struct FabricSites {
    sites: Vec<ShownSite>,
}

/// A change of a site that is stored
#[derive(JsonSchema, Serialize)]
pub struct SiteChanged {
    status: Done,
    site: ShownSite,
}

/// Brings in the key of a site. The token says who calls: nobody has to be logged in.
pub async fn join(
    Public { app, .. }: Public,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(Join { token, key, site }): Json<Join>,
) -> Result<Answer<JoinDone>, Problem> {
    let joining = centre(&app)?;
    let now = app.about.clock.now().utc;
    let servers = joining.about.servers.clone();
    let joined_key = key.clone();
    let joined = on_list(&joining, move |list| list.join(now, &token, &key, site.as_deref())).await?;
    match joined {
        Ok(joined) => {
            if joined.is_new {
                let detail = format!("the site {:?} has joined with the key {joined_key}", joined.site);
                note(&app, format!("http {peer}"), "site_joined", detail).await?;
            }
            let crate::sites::joining::Joined { site, is_new } = joined;
            // A call after what is wrong with the file was mended has this answer too.
            let authorities = authorities(&joining)?;
            Ok(Answer(JoinDone { status: Done::Ok, site, is_new, servers, authorities }))
        }
        Err(error) => {
            let (who, detail) = (format!("http {peer}"), error.to_string());
            let noted = app.bus.call(move |bus, now| {
                let record = denial(now, &who, "join_refused", "", "", "token", detail);
                bus.note_refused(peer.ip(), record);
            });
            noted.await?;
            Err(refused(&error))
        }
    }
}

/// All sites.
pub async fn list(authenticated: Authenticated) -> Result<Answer<FabricSites>, Problem> {
    let authorized = authenticated.must(Verb::Read, SITES).await?;
    let joining = centre(&authorized.app)?;
    let sites = on_list(&joining, |list| Ok(list.sites().map(|(name, site)| ShownSite::of(name, site)).collect()));
    Ok(Answer(FabricSites { sites: sites.await?.map_err(|error| refused(&error))? }))
}

/// Adds a site.
pub async fn add(authenticated: Authenticated, Json(new): Json<NewSite>) -> Result<Answer<SiteChanged>, Problem> {
    let authorized = authenticated.must(Verb::Admin, SITES).await?;
    let NewSite { name, key } = new;
    let detail = match &key {
        Some(key) => format!("the site {name:?} was added with the key {key}"),
        None => format!("the site {name:?} was added"),
    };
    let site = name.clone();
    change(&authorized, name, "site_added", detail, move |list, now| list.add(now, &site, key.as_deref())).await
}

/// Makes a token.
pub async fn token(authenticated: Authenticated, Json(new): Json<NewToken>) -> Result<Answer<SiteToken>, Problem> {
    let authorized = authenticated.must(Verb::Admin, SITES).await?;
    let NewToken { name, valid_s } = new;
    let valid = valid_s.map_or(VALID, Duration::from_secs);
    if valid.is_zero() || valid > VALID_MAX {
        let found = valid.as_secs();
        return Err(Problem::bad_request(format!("valid_s is {found}, expected 1 to {}", VALID_MAX.as_secs())));
    }
    let (joining, now, site) = (centre(&authorized.app)?, authorized.app.about.clock.now().utc, name.clone());
    let made = on_list(&joining, move |list| list.token(now, &site, valid)).await?;
    let made = made.map_err(|error| refused(&error))?;
    let expires = made.expires.to_string();
    let detail = format!("a token was made for the site {name:?}, which can be used until {expires}");
    note(&authorized.app, authorized.who(), "site_token", detail).await?;
    Ok(Answer(SiteToken { status: Done::Ok, name, token: made.text, expires }))
}

/// Throws a site out.
pub async fn revoke(authenticated: Authenticated, Json(of): Json<NamedSite>) -> Result<Answer<SiteChanged>, Problem> {
    let authorized = authenticated.must(Verb::Admin, SITES).await?;
    let (name, detail) = (of.name.clone(), format!("the site {:?} was revoked", of.name));
    change(&authorized, of.name, "site_revoked", detail, move |list, _| list.revoke(&name)).await
}

async fn change(
    authorized: &Authorized,
    name: String,
    phase: &'static str,
    detail: String,
    act: impl FnOnce(&mut SiteList, Timestamp) -> Result<(), JoinError> + Send + 'static,
) -> Result<Answer<SiteChanged>, Problem> {
    let (joining, now) = (centre(&authorized.app)?, authorized.app.about.clock.now().utc);
    let changed = on_list(&joining, move |list| {
        act(list, now)?;
        let site = list.sites().find(|(other, _)| *other == name).map(|(name, site)| ShownSite::of(name, site));
        site.ok_or(JoinError::Unknown(name))
    });
    let site = changed.await?.map_err(|error| refused(&error))?;
    note(&authorized.app, authorized.who(), phase, detail).await?;
    Ok(Answer(SiteChanged { status: Done::Ok, site }))
}

/// Works on the list where waiting for the disk keeps nobody.
async fn on_list<T: Send + 'static>(
    joining: &Arc<Joining>,
    act: impl FnOnce(&mut SiteList) -> Result<T, JoinError> + Send + 'static,
) -> Result<Result<T, JoinError>, Problem> {
    let joining = Arc::clone(joining);
    let done = tokio::task::spawn_blocking(move || joining.with(act)).await;
    done.map_err(|error| Problem::unavailable(error.to_string()))
}

fn centre(app: &App) -> Result<Arc<Joining>, Problem> {
    app.joining.clone().ok_or_else(|| {
        let detail = "this node lets no sites in, expected one with [centre] and the keys of tieline fabric config";
        Problem::new(StatusCode::CONFLICT, detail)
    })
}

fn authorities(joining: &Joining) -> Result<Option<String>, Problem> {
    let Some(file) = &joining.about.authorities else { return Ok(None) };
    let unreadable = |why: String| Problem::unavailable(format!("{}: {why}", file.display()));
    let length = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if length > AUTHORITIES_BYTES_MAX {
        return Err(unreadable(format!("found {length} bytes, expected {AUTHORITIES_BYTES_MAX} at most")));
    }
    std::fs::read_to_string(file).map(Some).map_err(|error| unreadable(error.to_string()))
}

async fn note(app: &App, who: String, phase: &'static str, detail: String) -> Result<(), Problem> {
    let noted = app.bus.call(move |bus, now| bus.note_access(denial(now, &who, phase, "admin", SITES, "", detail)));
    Ok(noted.await?)
}

fn refused(error: &JoinError) -> Problem {
    let status = match error {
        JoinError::Unknown(_) => StatusCode::NOT_FOUND,
        JoinError::Name(_) | JoinError::Key(_) => StatusCode::UNPROCESSABLE_ENTITY,
        JoinError::Exists(_) | JoinError::Revoked(_) | JoinError::KeyTaken | JoinError::Full(_) => StatusCode::CONFLICT,
        JoinError::Token | JoinError::Used | JoinError::Expired(_) | JoinError::OtherSite(_) => StatusCode::FORBIDDEN,
        JoinError::File(..) | JoinError::Deposed(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::new(status, error.to_string())
}
