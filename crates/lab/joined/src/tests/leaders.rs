//! Nodes of a centre that append to one log, the leader killed again and again.

use super::server::Server;
use super::{Clock, block_on, until};
use futures_util::StreamExt as _;
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tieline_fabric::{self as fabric, Fabric, Leases, Log, LogOptions};
use tieline_relay::{
    AppendError, Last, Lead, LeadAction, LeadEvent, LeadLimits, Lease, LeaseError, Writer, WriterAction, WriterEvent,
    WriterLimits, message_records,
};

const KILLS: usize = 4;
const BEAT: &str = "tl.centre.lead";
const APPEND_TIMEOUT: Duration = Duration::from_secs(1);

/// What the test sees: records that each term's writer took, how many were acknowledged, and who leads.
#[derive(Default)]
struct Seen {
    given: BTreeMap<u64, Vec<Vec<u8>>>,
    acknowledged: BTreeMap<u64, usize>,
    leader: Option<(usize, u64)>,
}

/// What a server answered.
enum Done {
    Lease(u64, Result<Option<Lease>, LeaseError>),
    LeaseWritten(u64, Result<u64, LeaseError>),
    Last(u64, u64, Result<Last, AppendError>),
    Appended(u64, u64, Result<u64, AppendError>),
}

struct Node {
    /// Its place, and ten times how often it was killed.
    number: usize,
    fabric: Fabric,
    log: Log,
    leases: Leases,
    clock: Clock,
    lead: Lead,
    writer: Option<Writer>,
    asked: FuturesUnordered<LocalBoxFuture<'static, Done>>,
    seen: Rc<RefCell<Seen>>,
}

impl Node {
    async fn run(mut self) {
        let mut beats = self.fabric.subscribe(BEAT).await.unwrap();
        let mut beat = tokio::time::interval(Duration::from_millis(5));
        loop {
            self.drain().await;
            tokio::select! {
                Some(done) = self.asked.next(), if !self.asked.is_empty() => self.hear(done),
                Some(message) = beats.next() => {
                    let text = String::from_utf8(message.body.to_vec()).unwrap();
                    let (name, term) = text.split_once(' ').unwrap();
                    if name != self.lead.name() {
                        self.lead.handle_heartbeat(self.clock.now().mono, term.parse().unwrap());
                    }
                }
                _ = beat.tick() => {
                    let now = self.clock.now().mono;
                    self.lead.handle_timeout(now);
                    self.writer.iter_mut().for_each(|writer| writer.handle_timeout(now));
                    self.write();
                }
            }
        }
    }

    /// A client's record, taken where the node leads.
    fn write(&mut self) {
        let (Some(term), Some(writer)) = (self.lead.leads(self.clock.now().mono), &mut self.writer) else { return };
        let mut seen = self.seen.borrow_mut();
        let given = seen.given.entry(term).or_default();
        let record = format!("{term} {}", given.len()).into_bytes();
        if writer.handle_record(record.clone().into()).is_ok() {
            given.push(record);
        }
    }

    async fn drain(&mut self) {
        loop {
            let now = self.clock.now().mono;
            if let Some(event) = self.writer.as_mut().and_then(Writer::poll_event) {
                self.handle_written(event);
            } else if let Some(event) = self.lead.poll_event() {
                self.handle_lead(event);
            } else if let Some(action) = self.lead.poll_action() {
                self.act(action).await;
            } else if let Some(action) = self.writer.as_mut().and_then(|writer| writer.poll_action(now)) {
                self.append(action);
            } else {
                return;
            }
        }
    }

    fn handle_written(&mut self, event: WriterEvent) {
        let (now, Some(writer)) = (self.clock.now().mono, &self.writer) else { return };
        let term = writer.term();
        match event {
            WriterEvent::Begun { .. } => self.lead.handle_begun(now, term),
            WriterEvent::Acknowledged { count, .. } => {
                self.lead.handle_acknowledged(now);
                self.seen.borrow_mut().acknowledged.insert(term, usize::try_from(count).unwrap());
            }
            WriterEvent::Fenced { term } => self.lead.handle_fenced(now, term),
            WriterEvent::WentBack => panic!("the log lost nothing"),
        }
    }

    fn handle_lead(&mut self, event: LeadEvent) {
        match event {
            LeadEvent::Claim { term } => self.writer = Some(Writer::new(term, b"term", WriterLimits::default())),
            LeadEvent::Lead { term } => self.seen.borrow_mut().leader = Some((self.number, term)),
            LeadEvent::StepDown { .. } => self.writer = None,
        }
    }

    async fn act(&mut self, action: LeadAction) {
        let (leases, name) = (self.leases.clone(), self.lead.name().to_owned());
        match action {
            LeadAction::Heartbeat { term } => {
                self.fabric.publish(BEAT, format!("{name} {term}").into()).await.unwrap();
            }
            LeadAction::ReadLease { request } => self.asked.push(
                async move {
                    let lease = leases.read("core").await;
                    let holder = |lease: &fabric::Lease| String::from_utf8_lossy(&lease.value).as_ref().into();
                    let lease = lease.map(|lease| lease.map(|l| Lease { revision: l.revision, holder: holder(&l) }));
                    Done::Lease(request, lease.map_err(|_| LeaseError::Unknown))
                }
                .boxed_local(),
            ),
            LeadAction::WriteLease { request, expected } => self.asked.push(
                async move {
                    let written = leases.write("core", name.into(), expected).await;
                    let written = written.map_err(|error| match error {
                        fabric::LeaseError::Changed => LeaseError::Changed,
                        fabric::LeaseError::Unknown(_) => LeaseError::Unknown,
                        fabric::LeaseError::Misused(words) => panic!("{words}"),
                    });
                    Done::LeaseWritten(request, written)
                }
                .boxed_local(),
            ),
        }
    }

    fn append(&mut self, action: WriterAction) {
        let (log, own) = (self.log.clone(), self.writer.as_ref().map_or(0, Writer::term));
        self.asked.push(match action {
            WriterAction::AskLast { request } => async move {
                let last = log.last().await.map(|last| Last { sequence: last.sequence, term: last.term });
                Done::Last(own, request, last.map_err(|_| AppendError::Unknown))
            }
            .boxed_local(),
            WriterAction::Append { request, expected, term, body } => async move {
                let appended = log.append_if(expected, term, body, APPEND_TIMEOUT).await;
                let appended = appended.map_err(|error| match error {
                    fabric::AppendError::WrongLast => AppendError::WrongLast,
                    fabric::AppendError::Unknown(_) => AppendError::Unknown,
                    fabric::AppendError::Refused(words) => panic!("{words}"),
                });
                Done::Appended(own, request, appended)
            }
            .boxed_local(),
        });
    }

    fn hear(&mut self, done: Done) {
        let now = self.clock.now().mono;
        let writer = |term: u64, writer: &&mut Writer| writer.term() == term;
        match done {
            Done::Lease(request, lease) => self.lead.handle_lease(now, request, lease),
            Done::LeaseWritten(request, written) => self.lead.handle_lease_written(now, request, written),
            Done::Last(term, request, last) => {
                let own = self.writer.as_mut().filter(|own| writer(term, own));
                own.into_iter().for_each(|own| own.handle_last(now, request, last));
            }
            Done::Appended(term, request, appended) => {
                let own = self.writer.as_mut().filter(|own| writer(term, own));
                own.into_iter().for_each(|own| own.handle_appended(now, request, appended));
            }
        }
    }
}

async fn start(server: &Server, number: usize, clock: Clock, seen: &Rc<RefCell<Seen>>) -> tokio::task::JoinHandle<()> {
    let fabric = server.connect("centre").await;
    let options = LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 1, bytes_max: None };
    let (log, leases) = (fabric.log(options).await.unwrap(), fabric.leases("LEADERS", 1).await.unwrap());
    let lead = Lead::new(clock.now().mono, &format!("node{number}"), LeadLimits::default(), number as u64);
    let asked = FuturesUnordered::new();
    let node = Node { number, fabric, log, leases, clock, lead, writer: None, asked, seen: Rc::clone(seen) };
    tokio::task::spawn_local(node.run())
}

/// Records of each term in the log, without the record that begins it.
async fn read_all(log: &Log) -> BTreeMap<u64, Vec<Vec<u8>>> {
    let last = log.last().await.unwrap().sequence;
    let mut reader = log.read_from(1).await.unwrap();
    let (mut found, mut highest): (BTreeMap<u64, Vec<Vec<u8>>>, _) = (BTreeMap::new(), 0);
    loop {
        let entry = reader.next().await.unwrap();
        assert!(entry.term >= highest, "the log goes back to term {}", entry.term);
        let records = message_records(&entry.body).unwrap().into_iter().map(|record| record.to_vec());
        if entry.term > highest {
            assert_eq!(records.collect::<Vec<_>>(), [b"term"]);
        } else {
            found.entry(entry.term).or_default().extend(records);
        }
        highest = entry.term;
        if entry.sequence == last {
            return found;
        }
    }
}

#[test]
fn the_next_leader_goes_on_and_nothing_acknowledged_is_lost() {
    block_on(async {
        let Some(server) = Server::start().await else { return };
        let (clock, seen) = (Clock::new(), Rc::new(RefCell::new(Seen::default())));
        let mut nodes = Vec::new();
        for number in 0..3 {
            nodes.push(start(&server, number, clock, &seen).await);
        }
        let mut term = 0;
        for kill in 0..=KILLS {
            let since = Instant::now();
            let leads = |seen: &Seen| seen.leader.filter(|(_, now)| *now > term);
            until("another leads", || leads(&seen.borrow()).is_some()).await;
            if kill > 0 {
                println!("the next leader writes {:?} after the kill", since.elapsed());
            }
            let (leader, now) = seen.borrow().leader.map(|(number, term)| (number % 10, term)).unwrap();
            term = now;
            let count = |seen: &Seen| seen.acknowledged.get(&term).copied().unwrap_or_default();
            until("records are acknowledged", || count(&seen.borrow()) > 50).await;
            if kill < KILLS {
                nodes[leader].abort();
                nodes[leader] = start(&server, 10 * (kill + 1) + leader, clock, &seen).await;
                seen.borrow_mut().leader = None;
            }
        }
        nodes.iter().for_each(tokio::task::JoinHandle::abort);
        let fabric = server.connect("centre").await;
        let options = LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 1, bytes_max: None };
        let found = read_all(&fabric.log(options).await.unwrap()).await;
        let seen = seen.borrow();
        for (term, count) in &seen.acknowledged {
            let (found, given) = (&found[term], &seen.given[term]);
            assert!(*count <= found.len() && given.starts_with(found), "term {term}: {count} of {}", found.len());
        }
    });
}
