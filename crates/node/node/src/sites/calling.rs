//! Calls of a centre to its sites, each sent once.

use super::calls::{CallToSite, CallVerb};
use super::{SitesNews, SitesReport};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::{Refusal, Words as _};
use tieline_fabric::{Fabric, FabricError, subject};
use tieline_net::Clock;
use tieline_relay::{CallAnswer, CallOutcome, SiteCall};
use tokio::sync::mpsc;

/// The connection, while there is one.
pub type SharedFabric = Rc<RefCell<Option<Fabric>>>;

/// Sends calls until the node stops, and reports what became of each.
pub async fn send_calls<I: From<SitesReport> + 'static>(
    clock: Clock,
    fabric: SharedFabric,
    mut calls: mpsc::Receiver<CallToSite>,
    reports: mpsc::Sender<I>,
) {
    while let Some(call) = calls.recv().await {
        let (clock, fabric, reports) = (clock, fabric.borrow().clone(), reports.clone());
        tokio::task::spawn_local(async move {
            let ticket = call.ticket;
            let end = send(clock, fabric, call).await;
            // A bus that has ended waits for nothing.
            let _ = reports.send(SitesReport(vec![SitesNews::CallEnded { ticket, end }]).into()).await;
        });
    }
}

async fn send(clock: Clock, fabric: Option<Fabric>, call: CallToSite) -> Result<String, Refusal> {
    let refused = |reason, detail: &str| Err(Refusal::new(reason, detail.to_owned()));
    let CallToSite { ticket: _, site, verb, body, by: (who, requester), deadline, patience, is_recorded } = call;
    if !is_recorded {
        return refused("no_audit", "the audit log cannot be written, or this node leads no longer: nothing was sent");
    }
    let Some(fabric) = fabric.filter(|fabric| *fabric.is_up().borrow()) else {
        return refused("away", "the servers of the fabric are away: nothing was sent");
    };
    if clock.now().utc > deadline {
        return refused("busy", "the call waited for too long here: nothing was sent");
    }
    let (who, requester) = (who.to_string(), requester.to_string());
    let Some(bytes) = (SiteCall { deadline, who, requester, body }).emit() else {
        return refused("malformed", "the request is too long for a call to a site");
    };
    let subject = match subject::call(&site, verb.word()) {
        Ok(subject) => subject,
        Err(error) => return Err(Refusal::new("malformed", error.to_string())),
    };
    match fabric.call(&subject, bytes.into(), patience).await {
        Ok(answer) => read(&answer, verb),
        Err(FabricError::Nobody) => refused("away", "the site is away: nothing was sent"),
        Err(FabricError::Misused(why)) => Err(Refusal::new("malformed", why)),
        Err(error) => {
            let detail = format!("no answer of the site ({error}): what was asked for may have been carried out");
            Err(Refusal::unknown("timeout", detail))
        }
    }
}

fn read(answer: &[u8], verb: CallVerb) -> Result<String, Refusal> {
    let CallAnswer { outcome, body } = CallAnswer::parse(answer).map_err(|error| {
        let detail = format!("the answer of the site to {} cannot be read: {error}", verb.word());
        Refusal::unknown("unreadable", detail)
    })?;
    match outcome {
        CallOutcome::Answered => Ok(body),
        CallOutcome::Late => Err(Refusal::new("late", body)),
        CallOutcome::Refused => Err(Refusal::new("site_refuses", body)),
        CallOutcome::Busy => Err(Refusal::new("busy", body)),
    }
}
