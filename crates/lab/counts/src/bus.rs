//! A bus with its broker, on one thread whose time stands still.

use crate::meter::Operation;
use crate::room::{Client, DISCONNECT, Ears, connect, connect_as, publish as packet, subscribe, unsubscribe};
use crate::values::{TABLE_BYTES, table};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::{Policy, Role, User};
use tieline_net::{Clock, Counters, Shard};
use tieline_node::{InProcessBroker, config};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// Subscribers of the topic that is published.
const SUBSCRIBERS: usize = 100;
const FILTER: &str = "plant/#";
const TOPIC: &str = "plant/1/unit/2/table";
/// No history; nothing is said of the system, whose figures change; as many threads for sockets as a small machine has, which
/// are tasks here.
const CONFIG: &str = "[history]\nenabled = false\n[mqtt]\nsys_interval = \"0s\"\n[node]\nworkers = ";
/// Two threads have the sockets.
const SHARDS: u8 = 2;
/// The bus has the sockets itself.
const ALONE: u8 = 1;

/// Users, who are roles too.
const PUBLISHER: &str = "publisher";
const LISTENER: &str = "listener";
/// As a site has them: some rules, of which one decides.
const RULES: [(&str, &[&str]); 2] = [
    (PUBLISHER, &["allow publish plant/#", "allow publish notes/{user}/#", "deny publish plant/+/trip"]),
    (LISTENER, &["allow read plant/#", "allow read $SYS/#", "deny read plant/secret/#"]),
];

/// What clients may do.
enum Rights {
    All,
    Rules,
}

struct World {
    runtime: Runtime,
    tasks: LocalSet,
    broker: InProcessBroker,
    ears: Ears,
    connections: u64,
}

/// Counts from the publisher's bytes to those of the last subscriber, over socket shards.
pub fn publish() -> Result<Operation, String> {
    publish_to(World::with_subscribers(SHARDS, &Rights::All)?)
}

/// The same where each subscriber may read some of what it has subscribed to.
pub fn publish_by_rules() -> Result<Operation, String> {
    publish_to(World::with_subscribers(SHARDS, &Rights::Rules)?)
}

/// The same where the bus has the sockets itself.
pub fn publish_alone() -> Result<Operation, String> {
    publish_to(World::with_subscribers(ALONE, &Rights::All)?)
}

fn publish_to(mut world: World) -> Result<Operation, String> {
    let publisher = world.enter();
    publisher.say(&connect_as("publisher", PUBLISHER));
    world.settle();
    let frames = [0, 1].map(|n| packet(TOPIC, &table(n)));
    let before = world.ears.bytes();
    publisher.say(&frames[0]);
    world.settle();
    let sent = world.ears.bytes() - before;
    if !sent.is_multiple_of(SUBSCRIBERS) || sent / SUBSCRIBERS < TABLE_BYTES {
        return Err(format!("{sent} bytes for {SUBSCRIBERS} subscribers"));
    }
    let mut turn = 0;
    Ok(Box::new(move |meter| {
        turn += 1;
        let frame = &frames[turn % frames.len()];
        let World { runtime, tasks, ears, .. } = &world;
        let wanted = ears.bytes() + sent;
        meter.count(|| {
            publisher.say(frame);
            tasks.block_on(runtime, ears.wait(wanted, 0));
        });
        world.settle();
        if world.ears.bytes() == wanted { Ok(()) } else { Err("more was sent than one message each".to_owned()) }
    }))
}

/// Counts from a client's CONNECT to the end of its connection, beside those that stay.
pub fn session() -> Result<Operation, String> {
    let mut world = World::with_subscribers(SHARDS, &Rights::All)?;
    let packets = [connect("passing"), subscribe(FILTER), unsubscribe(FILTER)];
    Ok(Box::new(move |meter| {
        let client = world.enter();
        let World { runtime, tasks, ears, .. } = &world;
        let (before, closed) = (ears.bytes(), ears.closed());
        meter.count(|| {
            for packet in &packets {
                client.say(packet);
                tasks.block_on(runtime, ears.wait(ears.bytes() + 1, closed));
            }
            client.say(DISCONNECT);
            tasks.block_on(runtime, ears.wait(before, closed + 1));
        });
        world.settle();
        Ok(())
    }))
}

impl World {
    fn new(workers: u8, rights: &Rights) -> Result<Self, String> {
        let text = format!("{CONFIG}{workers}\n");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (runtime, tasks) = (runtime.map_err(|error| error.to_string())?, LocalSet::new());
        let broker = tasks.block_on(&runtime, async {
            let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
            let config = config::from_text("counts", &text, Path::new(".")).map_err(|wrong| format!("{wrong:?}"))?;
            // No command is given: nothing is written there.
            let broker = InProcessBroker::open(&shard, &config, Path::new("nowhere"));
            broker.map_err(|error| error.to_string())
        })?;
        let broker = match rights {
            Rights::All => broker,
            Rights::Rules => broker.with_users(policy()?),
        };
        Ok(Self { runtime, tasks, broker, ears: Ears::default(), connections: 0 })
    }

    fn with_subscribers(workers: u8, rights: &Rights) -> Result<Self, String> {
        let mut world = Self::new(workers, rights)?;
        for number in 0..SUBSCRIBERS {
            let client = world.enter();
            client.say(&connect_as(&format!("subscriber-{number:03}"), LISTENER));
            world.settle();
            client.say(&subscribe(FILTER));
        }
        world.settle();
        Ok(world)
    }

    fn enter(&mut self) -> Client {
        let (client, end) = Client::new(&self.ears);
        self.connections += 1;
        let (listener, number) = (self.broker.listener(), self.connections);
        self.tasks.block_on(&self.runtime, async move { listener.enter(end.into(), number) });
        client
    }

    /// Lets everything happen that is due within a second.
    fn settle(&self) {
        self.tasks.block_on(&self.runtime, async { tokio::time::sleep(Duration::from_secs(1)).await });
    }
}

fn policy() -> Result<Arc<Policy>, String> {
    let roles = RULES.map(|(name, rules)| Role::parse(name, rules.iter().copied()));
    let roles: Vec<Role> = roles.into_iter().collect::<Result<_, _>>().map_err(|why| why.to_string())?;
    let users = RULES.map(|(name, _)| User::new(name, [name]));
    Policy::new(roles, users).map(Arc::new).map_err(|why| why.to_string())
}
