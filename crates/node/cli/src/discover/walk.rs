//! A walk over addresses, some of them at a time: what is found is printed at once.

use super::progress::Counted;
use std::cell::RefCell;
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

    /// Shows how far it is.
    pub fn show(&self) {
        self.progress.borrow().show();
    }
}

/// Has each address looked at by `look`, which says how many `what` it found there; all that were found.
pub async fn each_address<D, F>(
    addresses: Vec<String>,
    (together, json): (u16, bool),
    what: &'static str,
    look: impl Fn(Rc<Walk<D>>, String) -> F,
) -> Vec<D>
where
    D: Discovered + 'static,
    F: Future<Output = usize> + 'static,
{
    let places = Arc::new(Semaphore::new(usize::from(together)));
    let progress = RefCell::new(Counted::new(addresses.len(), what));
    let walk = Rc::new(Walk { progress, found: RefCell::default(), json });
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
    walk.found.take()
}
