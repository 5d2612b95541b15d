//! The connection to the upstream: made, lost, and made again.
//!
//! Addresses are tried in the order of the configuration, one right after the other; when none has answered, the next round
//! waits. A connection that was lost begins with the first again. Password and TLS files are read for each attempt: what is
//! renewed holds from then on.

use super::chain::Chain;
use super::desk::{Desk, Front, Upward};
use super::inbox::Inbox;
use super::way::Way;
use super::{EdgeCounters, EdgeInput, EdgeLink, EdgeReport};
use crate::config::{UpstreamAddress, UpstreamConfig};
use std::cell::RefCell;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_mqtt::{Binary, ClientConfig, ClientSession, Text};
use tieline_net::tls::ClientTls;
use tieline_net::{Backoff, ClientSide, Closed, ConnectOver, Jitter, Limits, Session, Shard, Target, TlsConnect};
use tieline_topics::DeliveryOptions;
use tokio::sync::mpsc;

/// Bytes that the socket may refuse at once: the largest packet, and what was written along with it.
const UNSENT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Inputs that are taken at a time.
const INPUTS_A_TURN: usize = 256;
/// The share of the first wait in the longest.
const FIRST_WAIT: u32 = 8;
/// A connection that lasted so long was no failure.
const STEADY: Duration = Duration::from_secs(10);

/// Keeps the connection until the bus is gone.
pub async fn run<I: From<EdgeReport> + Send + 'static>(
    shard: Rc<Shard>,
    link: EdgeLink,
    (way, counters): (Way, Arc<EdgeCounters>),
    mut asked: mpsc::Receiver<EdgeInput>,
    reports: mpsc::Sender<I>,
) {
    let limits = Limits { unsent_bytes_max: UNSENT_BYTES_MAX, ..Limits::default() };
    let session = Session::new(&shard, ClientSession::new(session_config(&link)), limits);
    let inbox = Rc::new(RefCell::new(Inbox::new(Arc::clone(&counters))));
    let chain = Chain::new(link.node.clone());
    let desk = Rc::new(RefCell::new(Desk::new(&inbox, counters, &link, chain)));
    tokio::task::spawn_local(hand_over(session.clone(), inbox, (link.at, reports)));
    let (of, clerk) = (session.clone(), Rc::clone(&desk));
    tokio::task::spawn_local(async move {
        let mut inputs = Vec::with_capacity(INPUTS_A_TURN);
        while asked.recv_many(&mut inputs, INPUTS_A_TURN).await > 0 {
            clerk.borrow_mut().take(&of, inputs.drain(..));
        }
        of.close();
    });
    keep(&session, &link, &way, &desk).await;
}

/// Hands over what came, as fast as the bus takes it.
async fn hand_over<I: From<EdgeReport>>(
    session: Upward,
    inbox: Rc<RefCell<Inbox>>,
    (upstream, reports): (usize, mpsc::Sender<I>),
) {
    let ready = inbox.borrow().ready();
    loop {
        let news = inbox.borrow_mut().take();
        inbox.borrow_mut().hold(&session);
        if news.is_empty() {
            ready.notified().await;
        } else if reports.send(EdgeReport { upstream, news }.into()).await.is_err() {
            return;
        }
    }
}

async fn keep(session: &Upward, link: &EdgeLink, way: &Way, desk: &Rc<RefCell<Desk>>) {
    let backoff = Backoff { first: link.retry_max / FIRST_WAIT, max: link.retry_max };
    let mut jitter = Jitter::new(way.number(0));
    let mut failures = 0;
    loop {
        for address in &link.upstream.addresses {
            desk.borrow_mut().tries(address.to_string());
            let began = session.shard().now().mono;
            let why = match attempt(session, link, (way, address), desk).await {
                Ok(Closed::Owner) | Err(None) => return,
                Ok(why) => why.to_string(),
                Err(Some(why)) => why,
            };
            if desk.borrow_mut().away(&why) {
                if session.shard().now().mono.since(began) > STEADY {
                    failures = 0;
                }
                break;
            }
        }
        failures += 1;
        let delay = backoff.delay(failures, &mut jitter);
        if session.idle(tokio::time::sleep(delay), &mut Front(Rc::clone(desk))).await.is_err() {
            return;
        }
    }
}

/// One connection, until it ends; why there was none, or nothing where the session is over.
async fn attempt(
    session: &Upward,
    link: &EdgeLink,
    (way, address): (&Way, &UpstreamAddress),
    desk: &Rc<RefCell<Desk>>,
) -> Result<Closed, Option<String>> {
    let mut front = Front(Rc::clone(desk));
    let target = target(link, address).map_err(Some)?;
    let credentials = credentials(&link.upstream).map_err(Some)?;
    session.with(|m, _| m.set_credentials(credentials.0, credentials.1));
    let counters = Arc::clone(session.shard().counters());
    let opened = session.idle(way.open(&target, &counters), &mut front).await.map_err(|_| None)?;
    let connection = opened.map_err(|error| Some(error.to_string()))?;
    Ok(session.run(connection, &mut front).await)
}

fn target(link: &EdgeLink, address: &UpstreamAddress) -> Result<Target, String> {
    let config = &link.upstream;
    let mut target = Target::new(&address.address);
    target.timeout = link.silence;
    (target.send_buffer, target.receive_buffer) = (None, None);
    if address.is_tls {
        let identity = config.identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let tls = ClientTls::load(config.authorities.as_deref(), identity).map_err(|error| error.to_string())?;
        target.over = ConnectOver::Tls(TlsConnect { tls: ClientSide::Once(tls), name: None });
    }
    Ok(target)
}

fn credentials(config: &UpstreamConfig) -> Result<(Option<Text>, Option<Binary>), String> {
    let user = config.user.as_deref().map(Text::new).transpose().map_err(|error| format!("user: {error}"))?;
    let Some(file) = &config.password_file else { return Ok((user, None)) };
    let password = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let password = Binary::new(password.trim_end_matches(['\r', '\n']).as_bytes().to_vec());
    Ok((user, Some(password.map_err(|error| format!("{}: {error}", file.display()))?)))
}

fn session_config(link: &EdgeLink) -> ClientConfig {
    // A question after half of the silence that is allowed, and the other half for its answer.
    let half = link.silence / 2;
    let text = Text::truncated;
    let window = (!link.window.is_zero())
        .then(|| (text(DeliveryOptions::WRITE_WINDOW), text(&(link.window.as_secs_f64() * 1000.0).to_string())));
    ClientConfig {
        client_id: Text::truncated(&link.upstream.client_id),
        keep_alive_s: u16::try_from(half.as_secs().max(1)).unwrap_or(u16::MAX),
        answer_timeout: half,
        topic_alias_max: u16::MAX,
        user_properties: window.into_iter().collect(),
        // What was asked of one session is not asked of the next: a command would come late, and a lock would be nobody's.
        forgets_unsent: true,
        ..ClientConfig::default()
    }
}
