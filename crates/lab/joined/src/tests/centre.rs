//! A site and its centre, killed while history goes upward.

use super::server::Server;
use super::{Clock, block_on, until};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_fabric::{Fabric, FabricError, Request, subject};
use tieline_relay::{Mark, Receiver, ReceiverLimits, Reply, Stream, Upward, UpwardEvent, UpwardLimits};

const RECORDS: u64 = 20_000;
/// Longer than a site waits.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What outlives the centre.
#[derive(Default)]
struct Store {
    mark: Mark,
    records: Vec<Vec<u8>>,
}

fn record(number: u64) -> Vec<u8> {
    format!("record {number} of the site").into_bytes()
}

/// Sends what it owes, as it comes to its journal.
async fn site(fabric: Fabric, clock: Clock, acknowledged: Rc<RefCell<u64>>) {
    let mut upward = Upward::new("north", 1, UpwardLimits::default(), 1);
    let subject = subject::up("north", Stream::Live.name()).unwrap();
    let (mut calls, mut is_up) = (FuturesUnordered::new(), fabric.is_up());
    let (mut written, mut beat) = (0, tokio::time::interval(Duration::from_millis(2)));
    upward.handle_link(true);
    loop {
        let now = clock.now();
        while let Some(read) = upward.poll_read() {
            let last = written.min(read.from + read.records_max as u64 - 1);
            let records: Vec<_> = (read.from..=last).map(record).take(1 + read.bytes_max / 25).collect();
            upward.handle_records(now.mono, read, read.from, &records);
        }
        while let Some(out) = upward.poll_transmit(now) {
            let (fabric, subject) = (fabric.clone(), subject.clone());
            calls.push(async move { (out.id, fabric.call(&subject, out.body.into(), CALL_TIMEOUT).await) });
        }
        while let Some(event) = upward.poll_event() {
            let UpwardEvent::Acknowledged { upto, .. } = event else { panic!("{event:?}") };
            *acknowledged.borrow_mut() = upto;
        }
        tokio::select! {
            Some((id, answer)) = calls.next(), if !calls.is_empty() => match answer {
                Ok(body) => upward.handle_answer(clock.now(), id, &body),
                Err(FabricError::Nobody | FabricError::Away(_)) => upward.handle_away(clock.now().mono, id),
                Err(error) => panic!("{error}"),
            },
            _ = beat.tick() => {
                written = RECORDS.min(written + 20);
                upward.handle_durable(Stream::Live, written);
                upward.handle_timeout(clock.now().mono);
            }
            changed = is_up.changed() => {
                changed.unwrap();
                upward.handle_link(*is_up.borrow_and_update());
            }
        }
    }
}

/// Stores what continues, and answers.
async fn centre(fabric: Fabric, clock: Clock, store: Rc<RefCell<Store>>) {
    let mut service = fabric.serve(&subject::up_of_all(Stream::Live.name()), "store").await.unwrap();
    let mut receiver: Receiver<Request> = Receiver::new(ReceiverLimits::default());
    receiver.handle_marks([(Arc::from("north"), Stream::Live, store.borrow().mark)]);
    while let Some(request) = service.next().await {
        let site = subject::site_of(&request.subject).unwrap();
        let body = request.body.clone();
        let reply = receiver.handle_batch(clock.now(), &site, request, &body);
        answer(reply).await;
        while let Some(parts) = receiver.poll_store() {
            for part in parts {
                let mut store = store.borrow_mut();
                assert_eq!(store.mark, part.before);
                store.mark = part.mark;
                store.records.extend(part.records.iter().map(|record| record.to_vec()));
            }
            // Here it can be killed: stored, and not answered.
            tokio::task::yield_now().await;
            answer(receiver.handle_stored(clock.now())).await;
        }
    }
}

async fn answer(replies: impl IntoIterator<Item = Reply<Request>>) {
    for Reply { request, body } in replies {
        request.answer(body.into()).await.unwrap();
    }
}

#[test]
fn each_record_comes_once_whatever_is_killed() {
    block_on(async {
        let Some(mut server) = Server::start().await else { return };
        let (clock, store, acknowledged) = (Clock::new(), Rc::new(RefCell::default()), Rc::new(RefCell::new(0)));
        let start_centre = |fabric| tokio::task::spawn_local(centre(fabric, clock, Rc::clone(&store)));
        let site = site(server.connect("north").await, clock, Rc::clone(&acknowledged));
        let site = tokio::task::spawn_local(site);
        let mut task = start_centre(server.connect("centre").await);
        for kill in 1..=8 {
            let upto = RECORDS / 10 * kill + 37 * kill;
            until("records are acknowledged", || *acknowledged.borrow() >= upto).await;
            if kill == 4 {
                server.kill_and_restart().await;
                continue;
            }
            task.abort();
            task = start_centre(server.connect("centre").await);
        }
        until("all is acknowledged", || *acknowledged.borrow() == RECORDS).await;
        let store: &Store = &store.borrow();
        assert_eq!(store.mark, Mark { epoch: 1, number: RECORDS });
        assert!(store.records.iter().eq(&(1..=RECORDS).map(record).collect::<Vec<_>>()));
        site.abort();
        task.abort();
    });
}
