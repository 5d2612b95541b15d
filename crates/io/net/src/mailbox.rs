//! A queue between two threads whose reader is woken only where it sleeps.
//!
//! A channel of the runtime wakes its reader's thread for each item, by a system call, whatever that thread does. But a
//! thread that is at work looks at its queues by itself before it sleeps, and one that [pauses](pause) looks when its pause
//! is over. So the reader says how it does, and the writer looks at that after it has put something in:
//!
//! ```text
//! reader   ASLEEP   the writer wakes it
//!          PAUSING  the writer ends the pause where the item is urgent
//!          AWAKE    nothing
//! ```

use crate::coalescing::arrived;
use atomic_waker::AtomicWaker;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const PAUSING: u8 = 2;

thread_local! {
    /// The readers of this thread.
    static READ_HERE: RefCell<Vec<Weak<Reader>>> = const { RefCell::new(Vec::new()) };
}

/// What the writers know of the reader.
#[derive(Debug, Default)]
struct Reader {
    state: AtomicU8,
    waker: AtomicWaker,
    thread: OnceLock<Thread>,
}

impl Reader {
    /// There is something new.
    fn notify(&self, is_urgent: bool) {
        // Pairs with the fence of the reader, who first says that it sleeps and then looks once more: one of the two sees
        // what the other has done.
        fence(Ordering::SeqCst);
        match self.state.swap(AWAKE, Ordering::SeqCst) {
            ASLEEP => self.waker.wake(),
            // Another item may have come in the same pause: it does not matter which of the two it was that found it.
            _ if is_urgent => {
                if let Some(thread) = self.thread.get() {
                    thread.unpark();
                }
            }
            _ => {}
        }
    }

    /// Whether the state was the one and is the other.
    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Tells the reader that the writer has gone: dropped after the writer's end of the channel.
#[derive(Debug)]
struct Bell(Arc<Reader>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify(true);
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct MailboxSender<T> {
    items: Sender<T>,
    bell: Bell,
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    items: Receiver<T>,
    reader: Arc<Reader>,
    /// Whether the thread that reads knows of it.
    is_known: Cell<bool>,
}

/// A queue from one thread to another.
pub(crate) fn mailbox<T>() -> (MailboxSender<T>, Mailbox<T>) {
    let (sender, items) = channel();
    let reader = Arc::<Reader>::default();
    let bell = Bell(Arc::clone(&reader));
    (MailboxSender { items: sender, bell }, Mailbox { items, reader, is_known: Cell::new(false) })
}

impl<T> MailboxSender<T> {
    /// Adds an item, and wakes the reader where it sleeps. A reader that has gone needs none.
    pub(crate) fn send(&self, item: T, is_urgent: bool) {
        if self.items.send(item).is_ok() {
            self.bell.0.notify(is_urgent);
        }
    }
}

impl<T> Mailbox<T> {
    /// The next item; None once the writer has gone. To be called on one thread only.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        self.reader.state.store(AWAKE, Ordering::SeqCst);
        if let Some(ready) = self.look() {
            return Poll::Ready(ready);
        }
        if !self.is_known.replace(true) {
            let _ = self.reader.thread.set(std::thread::current());
            READ_HERE.with_borrow_mut(|all| all.push(Arc::downgrade(&self.reader)));
        }
        self.reader.waker.register(cx.waker());
        self.reader.state.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let Some(ready) = self.look() else { return Poll::Pending };
        self.reader.state.store(AWAKE, Ordering::SeqCst);
        Poll::Ready(ready)
    }

    /// An item that is there; the reader is awake from here to the next [`Mailbox::recv`].
    pub(crate) fn try_recv(&self) -> Option<T> {
        self.reader.state.store(AWAKE, Ordering::SeqCst);
        self.look().flatten()
    }

    /// An item, or the end, where there is one.
    fn look(&self) -> Option<Option<T>> {
        match self.items.try_recv() {
            Ok(item) => {
                arrived();
                Some(Some(item))
            }
            Err(TryRecvError::Disconnected) => Some(None),
            Err(TryRecvError::Empty) => None,
        }
    }
}

/// Lets this thread, about to sleep, wait so long first. Items that come meanwhile are found afterwards without a wake; an
/// urgent one ends the wait.
pub(crate) fn pause(wait: Duration) {
    READ_HERE.with_borrow_mut(|all| {
        all.retain(|reader| reader.strong_count() > 0);
        let readers = || all.iter().filter_map(Weak::upgrade);
        readers().for_each(|reader| _ = reader.turn(ASLEEP, PAUSING));
        std::thread::park_timeout(wait);
        for reader in readers() {
            if !reader.turn(PAUSING, ASLEEP) && reader.state.load(Ordering::SeqCst) == AWAKE {
                reader.waker.wake();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};
    use std::time::Instant;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Wakes {
        fn count(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn wakes() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::<Wakes>::default();
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_reader_that_sleeps_is_woken_once() {
        let (sender, mailbox) = mailbox();
        let (wakes, waker) = wakes();
        let cx = Context::from_waker(&waker);
        assert!(mailbox.poll_recv(&cx).is_pending());
        for number in 0..3 {
            sender.send(number, false);
        }
        assert_eq!(wakes.count(), 1);
        assert_eq!(mailbox.poll_recv(&cx), Poll::Ready(Some(0)));
        sender.send(3, false);
        assert_eq!(wakes.count(), 1, "it is awake");
        assert_eq!([1, 2, 3].map(|_| mailbox.try_recv()), [1, 2, 3].map(Some));
        assert!(mailbox.poll_recv(&cx).is_pending());
        drop(sender);
        assert_eq!(wakes.count(), 2, "the end wakes it");
        assert_eq!(mailbox.poll_recv(&cx), Poll::Ready(None));
    }

    /// The thread that pauses finds what came without a wake of the runtime by the writer.
    #[test]
    fn what_comes_in_a_pause_is_found_after_it() {
        let (sender, mailbox) = mailbox();
        let (wakes, waker) = wakes();
        let cx = Context::from_waker(&waker);
        assert!(mailbox.poll_recv(&cx).is_pending());
        pause(Duration::ZERO);
        assert_eq!(wakes.count(), 0, "nothing came");
        std::thread::scope(|scope| {
            let seen = Arc::clone(&wakes);
            let reader = Arc::clone(&mailbox.reader);
            scope.spawn(move || {
                while reader.state.load(Ordering::SeqCst) != PAUSING {
                    std::thread::yield_now();
                }
                sender.send(1, false);
                sender.send(2, false);
                assert_eq!(seen.count(), 0, "it was not woken");
                sender.send(3, true);
            });
            let began = Instant::now();
            pause(LONG);
            assert!(began.elapsed() < LONG, "an urgent item ends the pause");
        });
        assert_eq!(wakes.count(), 1);
        assert_eq!([1, 2, 3].map(|_| mailbox.try_recv()), [1, 2, 3].map(Some));
    }

    #[test]
    fn nothing_is_lost_between_two_threads() {
        const ITEMS: u32 = 100_000;
        let (sender, mut mailbox) = mailbox();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for item in 0..ITEMS {
                    sender.send(item, item % 64 == 0);
                    if item % 97 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.on_thread_park(|| pause(Duration::from_micros(20)));
            builder.build().unwrap().block_on(async {
                for item in 0..ITEMS {
                    assert_eq!(mailbox.recv().await, Some(item));
                }
                assert_eq!(mailbox.recv().await, None);
            });
        });
    }
}
