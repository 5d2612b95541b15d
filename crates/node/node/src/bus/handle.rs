//! How other threads reach the bus.

use super::state::Bus;
use crate::field::{FieldInput, FieldReport};
use crate::history::Receipts;
use tieline_core::Now;
use tokio::sync::{mpsc, oneshot};

/// Inputs that may wait for the bus; senders wait beyond them.
pub const INPUTS_MAX: usize = 1024;

/// A call that runs on the bus.
pub type Call = Box<dyn FnOnce(&mut Bus, Now) + Send>;

/// What the bus is told.
pub enum BusInput {
    /// A field shard has news.
    Field(FieldReport),
    /// Somebody wants to look or to act.
    Call(Call),
}

impl std::fmt::Debug for BusInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(report) => f.debug_tuple("Field").field(report).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// The bus has stopped: the node is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the node is stopping")
    }
}

impl std::error::Error for Stopped {}

/// Reaches the bus from any thread.
#[derive(Clone, Debug)]
pub struct BusHandle {
    inputs: mpsc::Sender<BusInput>,
    /// Bounded by what history has taken: a receipt comes back once.
    stored: mpsc::UnboundedSender<Stored>,
}

/// History has stored what these waited for (true), or will not.
pub type Stored = (Receipts, bool);

/// What the bus reads.
#[derive(Debug)]
pub struct Incoming {
    /// Inputs of all kinds.
    pub inputs: mpsc::Receiver<BusInput>,
    /// News of history.
    pub stored: mpsc::UnboundedReceiver<Stored>,
}

impl BusHandle {
    /// A handle, and what the bus reads.
    #[must_use]
    pub fn new() -> (Self, Incoming) {
        let (inputs, incoming) = mpsc::channel(INPUTS_MAX);
        let (stored, news) = mpsc::unbounded_channel();
        (Self { inputs, stored }, Incoming { inputs: incoming, stored: news })
    }

    /// Runs a call on the bus and gives what it returns.
    ///
    /// # Errors
    /// The bus has stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Bus, Now) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, result) = oneshot::channel();
        let call: Call = Box::new(move |bus, now| drop(answer.send(call(bus, now))));
        self.inputs.send(BusInput::Call(call)).await.map_err(|_| Stopped)?;
        result.await.map_err(|_| Stopped)
    }

    /// A place for one input; none once the bus has stopped.
    pub async fn reserve(&self) -> Option<mpsc::Permit<'_, BusInput>> {
        self.inputs.reserve().await.ok()
    }

    /// Tells the bus something from a thread that may wait.
    pub fn tell_blocking(&self, input: BusInput) {
        // A bus that has stopped needs no news.
        let _ = self.inputs.blocking_send(input);
    }

    /// Tells the bus what history has done; never waits.
    pub fn tell_stored(&self, receipts: Receipts, stored: bool) {
        let _ = self.stored.send((receipts, stored));
    }

    /// The shards of devices.
    ///
    /// # Errors
    /// The bus has ended.
    pub async fn field(&self) -> Result<Vec<mpsc::Sender<FieldInput>>, Stopped> {
        self.call(|bus, _| bus.field.clone()).await
    }
}
