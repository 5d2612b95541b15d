//! A walk over addresses, some of them at a time: what is found is printed at once.

use super::progress::Counted;
use crate::exit::Unanswered;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Something that a discovery finds.
pub trait Discovered {
    /// Prints it, in a line.
    ///
    /// # Errors
    /// Nobody reads any more.
    fn print(&self, json: bool) -> io::Result<()>;
}

/// What was found so far.
pub struct Walk<D> {
    progress: RefCell<Counted>,
    found: RefCell<Vec<D>>,
    /// Addresses that took a connection.
    connected: Cell<usize>,
    json: bool,
}

impl<D: Discovered> Walk<D> {
    /// Prints what was found, and keeps it.
    pub fn found(&self, device: D) {
        self.progress.borrow().line.clear();
        // A reader that has gone ends the process with its next write.
        let _ = device.print(self.json);
        self.found.borrow_mut().push(device);
    }

    /// An address takes a connection.
    pub fn connected(&self) {
        self.connected.set(self.connected.get() + 1);
    }

    /// Shows how far it is.
    pub fn show(&self) {
        self.progress.borrow().show();
    }
}

/// Has each address looked at by `look`, which says how many `what` it found there; all that were found.
///
/// # Errors
/// No address has one.
pub async fn each_address<D, F>(
    addresses: Vec<String>,
    (together, json): (u16, bool),
    what: &'static str,
    look: impl Fn(Rc<Walk<D>>, String) -> F,
) -> Result<Vec<D>, Unanswered>
where
    D: Discovered + 'static,
    F: Future<Output = usize> + 'static,
{
    let places = Arc::new(Semaphore::new(usize::from(together)));
    let asked = addresses.len();
    let progress = RefCell::new(Counted::new(asked, what));
    let walk = Rc::new(Walk { progress, found: RefCell::default(), connected: Cell::default(), json });
    let mut tasks = Vec::new();
    for address in addresses {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let (walk, looked) = (Rc::clone(&walk), look(Rc::clone(&walk), address));
        tasks.push(tokio::task::spawn_local(async move {
            let count = looked.await;
            walk.progress.borrow_mut().count(count);
            walk.show();
            drop(place);
        }));
    }
    for task in tasks {
        let _ = task.await;
    }
    walk.progress.borrow().line.clear();
    let (found, connected) = (walk.found.take(), walk.connected.get());
    if found.is_empty() {
        return Err(nobody(asked, connected, what));
    }
    Ok(found)
}

/// So many addresses, in words.
pub fn addresses(count: usize) -> String {
    if count == 1 { "1 address".to_owned() } else { format!("{count} addresses") }
}

/// What is said where nothing was found.
fn nobody(asked: usize, connected: usize, what: &str) -> Unanswered {
    let addresses = addresses(asked);
    Unanswered(match connected {
        0 => format!("no {what} found: {addresses} asked, and none of them takes a connection"),
        1 => format!("no {what} found: {addresses} asked; 1 takes a connection, and nothing answers there"),
        some => format!("no {what} found: {addresses} asked; {some} take a connection, and nothing answers there"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_found_says_what_was_asked() {
        let check = |asked, connected, expect: &str| assert_eq!(nobody(asked, connected, "devices").0, expect);
        check(1, 0, "no devices found: 1 address asked, and none of them takes a connection");
        check(254, 1, "no devices found: 254 addresses asked; 1 takes a connection, and nothing answers there");
        check(254, 3, "no devices found: 254 addresses asked; 3 take a connection, and nothing answers there");
    }
}
