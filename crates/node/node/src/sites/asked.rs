//! Calls of the centre, at the site: what comes late is not done, and the others go to the bus.

use super::board::SitesBoard;
use super::calls::{CallOfCentre, CallVerb};
use super::{SitesNews, SitesReport};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Now, Timestamp, Words as _};
use tieline_fabric::{Fabric, Request, subject};
use tieline_net::Clock;
use tieline_relay::{CallAnswer, CallOutcome, SiteCall};
use tokio::sync::{mpsc, oneshot};

/// Those that serve one site share its calls.
const GROUP: &str = "site";
/// Calls that wait for answers.
const CALLS_MAX: usize = 64;
/// How the subject of messages of other sites ends: no name of a service has a point.
const EVENTS_END: &str = ".events";
/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Takes calls of the centre until the node stops.
pub async fn take_calls<I: From<SitesReport> + 'static>(
    clock: Clock,
    fabric: Fabric,
    (site, board, events): (String, Arc<SitesBoard>, mpsc::Sender<Request>),
    reports: mpsc::Sender<I>,
) {
    let open = Rc::new(Cell::new(0));
    while !reports.is_closed() {
        let Ok(all) = subject::calls(&site) else { return };
        match fabric.serve(&all, GROUP).await {
            Ok(mut service) => {
                while let Some(request) = service.next().await {
                    if request.subject.ends_with(EVENTS_END) {
                        // What has no room has no answer, and comes again.
                        let _ = events.try_send(request);
                        continue;
                    }
                    let now = clock.now();
                    let (board, reports, open) = (Arc::clone(&board), reports.clone(), Rc::clone(&open));
                    tokio::task::spawn_local(async move {
                        open.set(open.get() + 1);
                        take(now, request, &board, &reports, open.get() > CALLS_MAX).await;
                        open.set(open.get() - 1);
                    });
                }
            }
            Err(error) => tracing::warn!(%error, "calls of the centre cannot be taken; it is tried again"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn take<I: From<SitesReport>>(
    now: Now,
    request: Request,
    board: &SitesBoard,
    reports: &mpsc::Sender<I>,
    is_busy: bool,
) {
    let answer = match read(now, &request, board) {
        Err(answer) => answer,
        Ok(_) if is_busy => not_done(CallOutcome::Busy, "too many calls of the centre wait at the site"),
        Ok((verb, until, SiteCall { deadline: _, who, requester, body })) => {
            let (answer, hears) = oneshot::channel();
            let call = CallOfCentre { verb, body, who, requester, until, answer };
            if reports.send(SitesReport(vec![SitesNews::Asked(call)]).into()).await.is_err() {
                return;
            }
            match hears.await {
                Ok(Ok(body)) => CallAnswer { outcome: CallOutcome::Answered, body },
                Ok(Err(words)) => not_done(CallOutcome::Refused, &words),
                // The node stops: it is not known what became of it, and the centre says so.
                Err(_) => return,
            }
        }
    };
    // An answer is not too long: the bus sees to it.
    let Some(bytes) = answer.emit() else { return };
    if let Err(error) = request.answer(bytes.into()).await {
        tracing::debug!(%error, "an answer to the centre cannot be sent");
    }
}

/// The call, where it has come in time, and its deadline by the clock of this node.
fn read(now: Now, request: &Request, board: &SitesBoard) -> Result<(CallVerb, Timestamp, SiteCall), CallAnswer> {
    let refused = |words: &str| not_done(CallOutcome::Refused, words);
    let verb = request.subject.rsplit('.').next().and_then(CallVerb::of_word);
    let verb = verb.ok_or_else(|| refused("this release of the site has no such service"))?;
    let call =
        SiteCall::parse(&request.body).map_err(|error| refused(&format!("the site cannot read the call: {error}")))?;
    // Both clocks may be wrong: what counts is that of the centre, as the link shows it.
    let Some((offset, _)) = board.site().and_then(|seen| seen.clock_offset) else {
        return Err(not_done(CallOutcome::Busy, "the site does not know the clock of the centre yet"));
    };
    let late = now.utc.micros().saturating_add(offset).saturating_sub(call.deadline.micros());
    if late > 0 {
        let words = format!("the call came {} ms after its deadline: nothing was done", late / 1000);
        return Err(not_done(CallOutcome::Late, &words));
    }
    let until = Timestamp::from_micros(call.deadline.micros().saturating_sub(offset));
    Ok((verb, until, call))
}

fn not_done(outcome: CallOutcome, words: &str) -> CallAnswer {
    CallAnswer { outcome, body: words.to_owned() }
}
