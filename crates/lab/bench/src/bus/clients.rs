//! The MQTT clients of the experiment: one publisher, some listeners, a thread for each of the two kinds.

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{
    Binary, ClientConfig, ClientEvent, ClientSession, Message, Qos, RetainHandling, SubscriptionOptions, Text,
};
use tieline_net::{
    Clock, Closed, Connection, Counters, Limits, Owner, Session, Shard, ShardThread, Target, open as dial,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What is published in a round, in order.
pub type Messages = Arc<Vec<(Topic, Bytes)>>;

type Client = Session<ClientSession>;

/// How long a round, or a connection, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How clients reach a node.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is.
    pub target: Target,
    /// The publisher's credentials.
    pub publisher: Option<Login>,
    /// Those of all listeners.
    pub listener: Option<Login>,
}

impl Entry {
    /// Of a node that asks nobody who it is.
    pub const fn new(target: Target) -> Self {
        Self { target, publisher: None, listener: None }
    }
}

/// The credentials of a client.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// One round, done.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// From the first publish until every listener had everything.
    pub took: Duration,
    /// Bytes that one listener got.
    pub bytes: u64,
}

/// What a thread of clients says.
#[derive(Debug)]
enum News {
    /// Connected, and subscribed where it listens; or ready for the next round.
    Ready,
    /// The first message is about to be published.
    Begun(Instant),
    /// Every listener has everything.
    Done(Instant, u64),
    /// A listener got something else, or a connection ended.
    Failed(String),
}

/// The connected clients.
#[derive(Debug)]
pub struct Clients {
    publish: UnboundedSender<Messages>,
    listen: UnboundedSender<Messages>,
    news: Receiver<News>,
    _threads: [ShardThread; 2],
}

impl Clients {
    /// Connects one publisher and some listeners to everything below `bench/`.
    pub fn connect(entry: &Entry, listeners: usize) -> Result<Self> {
        let (tell, news) = channel();
        let (listen, due) = unbounded_channel();
        let (told, reach) = (tell.clone(), (entry.target.clone(), entry.listener.clone()));
        let listener_thread =
            ShardThread::spawn("listeners", Clock::start(), Arc::new(Counters::default()), move |shard| {
                listen_all(shard, reach, listeners, due, told)
            })?;
        let (publish, due) = unbounded_channel();
        let reach = (entry.target.clone(), entry.publisher.clone());
        let publisher_thread =
            ShardThread::spawn("publisher", Clock::start(), Arc::new(Counters::default()), move |shard| {
                publish_all(shard, reach, due, tell)
            })?;
        let clients = Self { publish, listen, news, _threads: [publisher_thread, listener_thread] };
        for _ in 0..=listeners {
            clients.await_ready()?;
        }
        Ok(clients)
    }

    /// Publishes everything once and waits until every listener has it.
    ///
    /// # Errors
    /// Something was lost, late or wrong.
    pub fn round(&mut self, messages: &Messages) -> Result<Round> {
        let gone = |_| anyhow!("a thread of clients has ended");
        self.listen.send(Arc::clone(messages)).map_err(gone)?;
        self.await_ready()?;
        self.publish.send(Arc::clone(messages)).map_err(gone)?;
        let mut begun = None;
        loop {
            match self.next()? {
                News::Begun(at) => begun = Some(at),
                News::Done(at, bytes) => {
                    let begun = begun.context("it was over before it began")?;
                    return Ok(Round { took: at.saturating_duration_since(begun), bytes });
                }
                News::Failed(why) => bail!(why),
                News::Ready => {}
            }
        }
    }

    fn await_ready(&self) -> Result<()> {
        match self.next()? {
            News::Failed(why) => bail!(why),
            News::Ready | News::Begun(_) | News::Done(..) => Ok(()),
        }
    }

    fn next(&self) -> Result<News> {
        self.news.recv_timeout(PATIENCE).map_err(|_| anyhow!("messages were lost: not all had come after {PATIENCE:?}"))
    }
}

/// Where a client connects to, and its credentials.
type Reach = (Target, Option<Login>);

/// Connects a session; tells when that fails.
async fn open(
    shard: &Rc<Shard>,
    (target, login): &Reach,
    name: &str,
    tell: &Sender<News>,
) -> Option<(Client, Connection)> {
    let connection = match dial(target, shard.counters()).await {
        Ok(connection) => connection,
        Err(error) => {
            let _ = tell.send(News::Failed(format!("the node cannot be reached: {error}")));
            return None;
        }
    };
    let config = ClientConfig {
        client_id: Text::truncated(name),
        user_name: login.as_ref().map(|login| Text::truncated(&login.user)),
        password: login.as_ref().and_then(|login| Binary::new(login.password.clone().into_bytes()).ok()),
        // A round is queued at once.
        pending_max: usize::MAX,
        pending_bytes_max: usize::MAX,
        ..ClientConfig::default()
    };
    Some((Session::new(shard, ClientSession::new(config), Limits::default()), connection))
}

async fn publish_all(shard: Rc<Shard>, reach: Reach, mut due: UnboundedReceiver<Messages>, tell: Sender<News>) {
    let Some((session, stream)) = open(&shard, &reach, "bench-publisher", &tell).await else { return };
    let (driven, mut owner) = (session.clone(), Publisher { tell: tell.clone() });
    tokio::task::spawn_local(async move { driven.run(stream, &mut owner).await });
    while let Some(messages) = due.recv().await {
        let _ = tell.send(News::Begun(Instant::now()));
        session.with(|client, now| {
            for (topic, payload) in &*messages {
                let message = Message::new(topic.clone(), payload.clone(), now.mono);
                if client.publish(message, Qos::AtMostOnce, false).is_err() {
                    let _ = tell.send(News::Failed("the publisher's queue is full".to_owned()));
                }
            }
        });
    }
}

struct Publisher {
    tell: Sender<News>,
}

impl Owner<ClientSession> for Publisher {
    fn event(&mut self, _session: &Client, _now: Now, event: ClientEvent) {
        if let ClientEvent::Connected(_) = event {
            let _ = self.tell.send(News::Ready);
        }
    }

    fn closed(&mut self, _session: &Client, _now: Now, why: Closed) {
        let _ = self.tell.send(News::Failed(format!("the publisher's connection ended: {why}")));
    }
}

/// What the listeners of the thread share.
struct Board {
    messages: RefCell<Messages>,
    /// Listeners that do not have everything yet.
    left: Cell<usize>,
    tell: Sender<News>,
}

async fn listen_all(
    shard: Rc<Shard>,
    reach: Reach,
    listeners: usize,
    mut due: UnboundedReceiver<Messages>,
    tell: Sender<News>,
) {
    let board = Rc::new(Board { messages: RefCell::default(), left: Cell::new(0), tell: tell.clone() });
    let positions: Vec<Rc<Cell<usize>>> = (0..listeners).map(|_| Rc::default()).collect();
    for (number, position) in positions.iter().enumerate() {
        let name = format!("bench-listener-{number}");
        let Some((session, stream)) = open(&shard, &reach, &name, &tell).await else { return };
        let mut owner = Listener { board: Rc::clone(&board), position: Rc::clone(position), bytes_before: 0 };
        tokio::task::spawn_local(async move { session.run(stream, &mut owner).await });
    }
    while let Some(messages) = due.recv().await {
        positions.iter().for_each(|position| position.set(0));
        board.left.set(listeners);
        *board.messages.borrow_mut() = messages;
        let _ = tell.send(News::Ready);
    }
}

/// Compares what comes with what was published.
struct Listener {
    board: Rc<Board>,
    /// The message that is due.
    position: Rc<Cell<usize>>,
    bytes_before: u64,
}

impl Listener {
    fn take(&mut self, session: &Client, message: &Message) {
        let messages = self.board.messages.borrow();
        let at = self.position.get();
        if messages.get(at).is_none_or(|(topic, payload)| (topic, payload) != (&message.topic, &message.payload)) {
            let why = format!("a listener got {} in place of message {at}", message.topic);
            return drop(self.board.tell.send(News::Failed(why)));
        }
        self.position.set(at + 1);
        if at + 1 < messages.len() {
            return;
        }
        let bytes = session.traffic().bytes_in;
        self.board.left.set(self.board.left.get() - 1);
        if self.board.left.get() == 0 {
            let _ = self.board.tell.send(News::Done(Instant::now(), bytes - self.bytes_before));
        }
        self.bytes_before = bytes;
    }
}

impl Owner<ClientSession> for Listener {
    fn event(&mut self, session: &Client, _now: Now, event: ClientEvent) {
        match event {
            ClientEvent::Connected(_) => {
                let options = SubscriptionOptions {
                    qos: Qos::AtMostOnce,
                    no_local: true,
                    retain_as_published: false,
                    retain_handling: RetainHandling::Never,
                };
                let Ok(filter) = Filter::new("bench/#") else { return };
                let asked = session.with(|client, _| client.subscribe(&[(filter, options)], None));
                if let Err(why) = asked {
                    let _ = self.board.tell.send(News::Failed(why.to_string()));
                }
            }
            ClientEvent::Subscribed { .. } => {
                self.bytes_before = session.traffic().bytes_in;
                let _ = self.board.tell.send(News::Ready);
            }
            ClientEvent::Message(received) => self.take(session, &received.message),
            ClientEvent::Refused { text, .. } => drop(self.board.tell.send(News::Failed(text))),
            ClientEvent::Published { .. } | ClientEvent::Unsubscribed { .. } | ClientEvent::Ended(_) => {}
        }
    }

    fn closed(&mut self, _session: &Client, _now: Now, why: Closed) {
        let _ = self.board.tell.send(News::Failed(format!("a listener's connection ended: {why}")));
    }
}
