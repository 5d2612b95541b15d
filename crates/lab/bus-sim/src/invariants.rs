//! What must be true at the end.

use crate::publisher::Publisher;
use crate::speech;
use crate::subscriber::{Heard, Kind, Subscriber, THROTTLE_MS};
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_mqtt::Qos;
use tieline_node::InProcessBroker;

/// Which values of a topic the bus took, in its order.
type History = BTreeMap<String, Vec<u32>>;

/// What a publisher publishes.
pub struct Published<'a> {
    pub publisher: &'a Publisher,
    /// Its topics, and how.
    pub topics: &'a [(String, Qos)],
}

/// Looks at everything.
///
/// # Errors
/// What was wrong.
pub fn check(
    broker: &InProcessBroker,
    published: &[Published<'_>],
    subscribers: &[(String, &Subscriber)],
) -> Result<(), String> {
    let witness = subscribers.iter().find(|(_, subscriber)| subscriber.kind == Kind::Witness);
    let history = witness.map(|(_, witness)| live(witness)).unwrap_or_default();
    for Published { publisher, topics } in published {
        if let Some(wrong) = &publisher.wrong {
            return Err(format!("a publisher: {wrong}"));
        }
        for (topic, qos) in *topics {
            let last = publisher.said.get(topic).copied().unwrap_or_default();
            let taken = history.get(topic).map(Vec::as_slice).unwrap_or_default();
            if broker.value(topic) != (last > 0).then(|| speech(topic, last)) {
                return Err(format!("{topic} holds {:?}, and the last published was {last}", broker.value(topic)));
            }
            check_taken(topic, *qos, publisher.has_deltas, last, taken)?;
        }
    }
    let all = published.iter().flat_map(|published| published.topics.iter().cloned());
    let qos_of: BTreeMap<String, Qos> = all.collect();
    for (name, subscriber) in subscribers {
        check_one(broker, &history, &qos_of, subscriber)
            .map_err(|why| format!("{name}, {:?}: {why}", subscriber.kind))?;
    }
    Ok(())
}

fn check_taken(topic: &str, qos: Qos, has_deltas: bool, last: u32, taken: &[u32]) -> Result<(), String> {
    let told = || format!("of {topic} the bus took {taken:?}, and 1 to {last} were published with {qos:?}");
    if qos == Qos::ExactlyOnce && !taken.iter().copied().eq(1..=last) {
        return Err(told());
    }
    // A delta that is refused after a newer one went out is not sent again.
    if qos == Qos::AtLeastOnce && !has_deltas && !first_times(taken).into_iter().eq(1..=last) {
        return Err(told());
    }
    Ok(())
}

fn check_one(
    broker: &InProcessBroker,
    history: &History,
    qos_of: &BTreeMap<String, Qos>,
    subscriber: &Subscriber,
) -> Result<(), String> {
    if let Some(wrong) = &subscriber.wrong {
        return Err(wrong.clone());
    }
    for (topic, taken) in history {
        if !topic.starts_with(subscriber.kind.filter().trim_end_matches('#')) {
            continue;
        }
        // A session whose client is away gets nothing of QoS 0, and one is away that was ended for its queue.
        let misses = subscriber.kind == Kind::Persistent && qos_of.get(topic) == Some(&Qos::AtMostOnce);
        if !misses && subscriber.last.get(topic) != broker.value(topic).as_ref() {
            return Err(format!(
                "{topic} is held as {:?}, and is {:?}",
                subscriber.last.get(topic),
                broker.value(topic)
            ));
        }
        let heard = subscriber.heard.get(topic).map(Vec::as_slice).unwrap_or_default();
        let qos = qos_of.get(topic).copied().unwrap_or_default();
        // A client that is away hears nothing of QoS 0.
        let kind =
            if qos == Qos::AtMostOnce && subscriber.kind == Kind::Persistent { Kind::Newest } else { subscriber.kind };
        check_heard(kind, qos, heard, taken).map_err(|why| format!("{why} of {topic}: {heard:?}, of {taken:?}"))?;
    }
    Ok(())
}

fn check_heard(kind: Kind, qos: Qos, heard: &[Heard], taken: &[u32]) -> Result<(), String> {
    let live = || heard.iter().filter(|heard| !heard.retain);
    if kind != Kind::Persistent && kind != Kind::Witness {
        check_once(heard, taken)?;
    }
    let numbers: Vec<u32> = live().map(|heard| heard.number).collect();
    match kind {
        Kind::Witness => {
            if heard.iter().any(|heard| heard.lost > 0) {
                return Err("messages are lost over a perfect network".to_owned());
            }
        }
        Kind::Persistent => {
            // What was published at QoS 2 is heard once, and all else that was taken at least once.
            let all = first_times(taken);
            let is_doubled = qos == Qos::ExactlyOnce && numbers.len() != all.len();
            if first_times(&numbers) != all || is_doubled {
                return Err("messages are missing or out of order".to_owned());
            }
        }
        Kind::Once | Kind::Newest | Kind::Deltas | Kind::Gathered | Kind::Throttled | Kind::Reader => {
            let connections = heard.iter().map(|heard| heard.connection).max().unwrap_or(0);
            for connection in 0..=connections {
                let mut of = live().filter(|heard| heard.connection == connection).map(|heard| heard.number).peekable();
                for number in taken {
                    let _ = of.next_if_eq(number);
                }
                if of.peek().is_some() {
                    return Err(format!("connection {connection} hears what the bus took in another order"));
                }
            }
        }
        Kind::All => {
            let mut rest = taken.iter();
            for heard in live() {
                // As many as are said to be lost are missing before it, and no others.
                let next = rest.nth(usize::try_from(heard.lost).unwrap_or(usize::MAX));
                if next != Some(&heard.number) {
                    return Err(format!(
                        "{} after {} lost is heard, and {next:?} was its turn",
                        heard.number, heard.lost
                    ));
                }
            }
            if rest.next().is_some() {
                return Err("the last messages are missing".to_owned());
            }
        }
    }
    let soonest = Duration::from_millis(THROTTLE_MS - 10);
    let too_soon = heard.windows(2).any(|pair| matches!(pair, [a, b] if b.at.since(a.at) < soonest));
    if kind == Kind::Throttled && too_soon { Err("values come too soon".to_owned()) } else { Ok(()) }
}

/// Over a connection, each value that the bus took comes once at most, whether as an update or as a last value.
fn check_once(heard: &[Heard], taken: &[u32]) -> Result<(), String> {
    let mut left: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for Heard { number, connection, .. } in heard {
        let times = || taken.iter().filter(|taken| *taken == number).count();
        let left = left.entry((*connection, *number)).or_insert_with(times);
        *left = left.checked_sub(1).ok_or_else(|| format!("{number} comes more often than the bus took it"))?;
    }
    Ok(())
}

/// What was heard of each topic, without last values of before.
fn live(witness: &Subscriber) -> History {
    let of = |heard: &Vec<Heard>| heard.iter().filter(|heard| !heard.retain).map(|heard| heard.number).collect();
    witness.heard.iter().map(|(topic, heard)| (topic.clone(), of(heard))).collect()
}

/// Each number where it comes first.
fn first_times(numbers: &[u32]) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    numbers.iter().copied().filter(|number| seen.insert(*number)).collect()
}
