//! The subjects that a centre serves.

use super::board::{CentreSeen, FabricLink, SitesBoard};
use super::calling::SharedFabric;
use super::connect::connect;
use super::events::SUBJECT as EVENTS;
use super::told;
use crate::config::FabricConfig;
use std::sync::Arc;
use std::time::Duration;
use tieline_fabric::{Fabric, FabricError, Request, subject};
use tieline_net::Clock;
use tieline_relay::Stream;
use tokio::sync::mpsc;

/// The group of the centre's receivers. A member of a core has one of its own: each gets all requests, so none goes only to a leader that
/// was replaced, and does not answer or know it yet. What that one stores, the log of the core refuses.
const GROUP: &str = "store";
/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Serves all sites, as long as the connection lasts, and again.
pub async fn serve(
    clock: Clock,
    (config, member): (FabricConfig, Option<String>),
    board: Arc<SitesBoard>,
    (requests, events): (mpsc::Sender<Request>, mpsc::Sender<Request>),
    shared: SharedFabric,
) {
    let group = member.map_or(GROUP.to_owned(), |name| format!("{GROUP}-{}", subject::token(&name)));
    let show = |link: FabricLink| {
        if let Some(seen) = board.centre() {
            let since = if seen.link.name() == link.name() { seen.since } else { clock.now().utc };
            board.set_centre(CentreSeen { link, since, ..seen });
        }
    };
    loop {
        let fabric = connect(&config, "centre", |why| show(FabricLink::Away(why))).await;
        *shared.borrow_mut() = Some(fabric.clone());
        if let Err(error) = serve_over((&fabric, &group), (&requests, &events), &show).await {
            tracing::warn!(%error, "sites cannot be served; it is tried again");
            show(FabricLink::Away(error.to_string()));
        }
        if requests.is_closed() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn serve_over(
    (fabric, group): (&Fabric, &str),
    (requests, events): (&mpsc::Sender<Request>, &mpsc::Sender<Request>),
    show: &impl Fn(FabricLink),
) -> Result<(), FabricError> {
    let [live, backfill, bulk] = Stream::ALL.map(Stream::name);
    let mut services = Vec::new();
    for (stream, to) in [live, backfill, bulk, told::SUBJECT].map(|stream| (stream, requests)) {
        services.push((fabric.serve(&subject::up_of_all(stream), group).await?, to.clone()));
    }
    services.push((fabric.serve(&subject::up_of_all(EVENTS), group).await?, events.clone()));
    fabric.flush().await?;
    show(FabricLink::Up);
    tracing::info!("the centre takes what sites send");
    let mut is_up = fabric.is_up();
    let watched = async move {
        while is_up.changed().await.is_ok() {
            let is_up = *is_up.borrow_and_update();
            show(if is_up {
                FabricLink::Up
            } else {
                FabricLink::Away("the connection to the servers is lost".to_owned())
            });
        }
    };
    let pumps = services.into_iter().map(|(mut service, to)| async move {
        while let Some(request) = service.next().await {
            if to.send(request).await.is_err() {
                return;
            }
        }
    });
    futures_util::future::join(futures_util::future::join_all(pumps), watched).await;
    Ok(())
}
