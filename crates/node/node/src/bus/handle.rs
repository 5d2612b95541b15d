//! How other threads reach the bus.

use super::asks::{AsksFull, Step};
use super::ledger::News;
use super::receipts::Receipt;
use super::state::Bus;
use crate::control::Tells;
use crate::edge::EdgeReport;
use crate::field::{FieldInput, FieldReport};
use crate::history;
use crate::sites::SitesReport;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tieline_core::Now;
use tieline_poll::Urgency;
use tokio::sync::{mpsc, oneshot};

/// Inputs of each urgency that may wait for the bus; senders wait beyond them.
pub const INPUTS_MAX: usize = 1024;

/// A call that runs on the bus.
pub type Call = Box<dyn FnOnce(&mut Bus, Now) + Send>;

/// What the bus is told.
pub enum BusInput {
    /// A field shard has news.
    Field(FieldReport),
    /// The upstream has news.
    Edge(EdgeReport),
    /// Sites have news.
    Sites(SitesReport),
    /// Somebody wants to look or to act.
    Call(Call),
}

impl From<EdgeReport> for BusInput {
    fn from(report: EdgeReport) -> Self {
        Self::Edge(report)
    }
}

impl From<SitesReport> for BusInput {
    fn from(report: SitesReport) -> Self {
        Self::Sites(report)
    }
}

impl From<FieldReport> for BusInput {
    fn from(report: FieldReport) -> Self {
        Self::Field(report)
    }
}

impl std::fmt::Debug for BusInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(report) => f.debug_tuple("Field").field(report).finish(),
            Self::Edge(EdgeReport { upstream, news }) => write!(f, "Edge({upstream}: {} news)", news.len()),
            Self::Sites(SitesReport(news)) => write!(f, "Sites({} news)", news.len()),
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

/// Why a request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The bus has stopped.
    Stopped,
    /// Too many requests wait.
    Full(AsksFull),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => Stopped.fmt(f),
            Self::Full(full) => full.fmt(f),
        }
    }
}

impl std::error::Error for AskError {}

/// Reaches the bus from any thread.
#[derive(Clone, Debug)]
pub struct BusHandle {
    /// By urgency.
    lanes: [mpsc::Sender<BusInput>; Urgency::ALL.len()],
    /// Bounded by what history has taken: a receipt comes back once.
    stored: mpsc::UnboundedSender<Stored>,
    /// Bounded: a batch is under way at a time.
    ledger: mpsc::UnboundedSender<News>,
}

/// History has stored what these waited for (true), or will not.
pub type Stored = history::Stored<Receipt>;

/// What the bus reads.
#[derive(Debug)]
pub struct Incoming {
    /// Inputs of all kinds.
    pub inputs: Lanes,
    /// News of history.
    pub stored: mpsc::UnboundedReceiver<Stored>,
    /// News of the ledger.
    pub ledger: mpsc::UnboundedReceiver<News>,
}

/// What waits for the bus: the more urgent first, in their order among themselves.
#[derive(Debug)]
pub struct Lanes([mpsc::Receiver<BusInput>; Urgency::ALL.len()]);

impl Lanes {
    /// Waits for inputs and moves up to `max` of the most urgent that are here to `taken`. None: every handle is gone.
    /// Dropped before its end, it has taken nothing.
    pub async fn take(&mut self, taken: &mut Vec<BusInput>, max: usize) -> Option<Urgency> {
        poll_fn(|cx| {
            let mut gone = true;
            for (urgency, lane) in Urgency::ALL.into_iter().zip(&mut self.0) {
                match lane.poll_recv_many(cx, taken, max) {
                    Poll::Ready(0) => {}
                    Poll::Ready(_) => return Poll::Ready(Some(urgency)),
                    Poll::Pending => gone = false,
                }
            }
            if gone { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Gives inputs that were taken, each after what is more urgent and has come in the meantime (true), at most as many
    /// as may wait.
    pub fn give(
        &mut self,
        taken: impl Iterator<Item = BusInput>,
        urgency: Urgency,
        mut give: impl FnMut(BusInput, bool),
    ) {
        for input in taken {
            for _ in 0..INPUTS_MAX {
                let Some(overtaking) = self.more_urgent(urgency) else { break };
                give(overtaking, true);
            }
            give(input, false);
        }
    }

    fn more_urgent(&mut self, than: Urgency) -> Option<BusInput> {
        let mut lanes = Urgency::ALL.into_iter().zip(&mut self.0).take_while(|(urgency, _)| *urgency < than);
        lanes.find_map(|(_, lane)| lane.try_recv().ok())
    }
}

impl BusHandle {
    /// A handle, and what the bus reads.
    #[must_use]
    pub fn new() -> (Self, Incoming) {
        let [protection, monitoring, bulk] = Urgency::ALL.map(|_| mpsc::channel(INPUTS_MAX));
        let (stored, news) = mpsc::unbounded_channel();
        let (ledger, written) = mpsc::unbounded_channel();
        let inputs = Lanes([protection.1, monitoring.1, bulk.1]);
        let handle = Self { lanes: [protection.0, monitoring.0, bulk.0], stored, ledger };
        (handle, Incoming { inputs, stored: news, ledger: written })
    }

    const fn lane(&self, urgency: Urgency) -> &mpsc::Sender<BusInput> {
        let [protection, monitoring, bulk] = &self.lanes;
        match urgency {
            Urgency::Protection => protection,
            Urgency::Monitoring => monitoring,
            Urgency::Bulk => bulk,
        }
    }

    /// Runs a call on the bus and gives what it returns.
    ///
    /// # Errors
    /// The bus has stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Bus, Now) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.call_as(Urgency::Monitoring, call).await
    }

    /// Runs a call on the bus in its place among inputs of an urgency.
    ///
    /// # Errors
    /// The bus has stopped.
    pub async fn call_as<R: Send + 'static>(
        &self,
        urgency: Urgency,
        call: impl FnOnce(&mut Bus, Now) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, result) = oneshot::channel();
        let call: Call = Box::new(move |bus, now| drop(answer.send(call(bus, now))));
        self.lane(urgency).send(BusInput::Call(call)).await.map_err(|_| Stopped)?;
        result.await.map_err(|_| Stopped)
    }

    /// Runs a call on the bus, and waits for its end on a thread that may be blocked.
    ///
    /// # Errors
    /// The bus has stopped.
    pub fn call_from_thread<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Bus, Now) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, result) = oneshot::channel();
        let call: Call = Box::new(move |bus, now| drop(answer.send(call(bus, now))));
        self.lane(Urgency::Monitoring).blocking_send(BusInput::Call(call)).map_err(|_| Stopped)?;
        result.blocking_recv().map_err(|_| Stopped)
    }

    /// Asks the bus for what takes time, in the user's turn among others: `step` is called until it gives something, and
    /// is to be short.
    ///
    /// # Errors
    /// The bus has stopped, or too many requests wait.
    pub async fn ask<R: Send + 'static>(
        &self,
        user: &Arc<str>,
        step: impl FnMut(&mut Bus, Now) -> Option<R> + Send + 'static,
    ) -> Result<R, AskError> {
        self.ask_as(user, true, step).await
    }

    /// The same for the next part of a request that was taken before.
    ///
    /// # Errors
    /// The bus has stopped.
    pub async fn ask_on<R: Send + 'static>(
        &self,
        user: &Arc<str>,
        step: impl FnMut(&mut Bus, Now) -> Option<R> + Send + 'static,
    ) -> Result<R, AskError> {
        self.ask_as(user, false, step).await
    }

    async fn ask_as<R: Send + 'static>(
        &self,
        user: &Arc<str>,
        is_new: bool,
        mut step: impl FnMut(&mut Bus, Now) -> Option<R> + Send + 'static,
    ) -> Result<R, AskError> {
        let (answer, result) = oneshot::channel();
        let (user, mut answer) = (Arc::clone(user), Some(answer));
        let asked = self.call(move |bus, _| {
            let ask = Box::new(move |bus: &mut Bus, now| {
                // Who has gone needs no answer.
                if answer.as_ref().is_none_or(oneshot::Sender::is_closed) {
                    return Step::Done;
                }
                let Some(done) = step(bus, now) else { return Step::Again };
                if let Some(answer) = answer.take() {
                    drop(answer.send(done));
                }
                Step::Done
            });
            if is_new {
                return bus.ask(&user, ask);
            }
            bus.ask_on(&user, ask);
            Ok(())
        });
        asked.await.map_err(|_| AskError::Stopped)?.map_err(AskError::Full)?;
        result.await.map_err(|_| AskError::Stopped)
    }

    /// The same for what is done at once.
    ///
    /// # Errors
    /// As with [`BusHandle::ask`].
    pub async fn ask_once<R: Send + 'static>(
        &self,
        user: &Arc<str>,
        look: impl FnOnce(&mut Bus, Now) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let mut look = Some(look);
        self.ask(user, move |bus, now| look.take().map(|look| look(bus, now))).await
    }

    /// What takes inputs, by urgency.
    #[must_use]
    pub fn lanes(&self) -> [mpsc::Sender<BusInput>; Urgency::ALL.len()] {
        self.lanes.clone()
    }

    /// Tells the bus something from a thread that may wait: what is rare, and what commands wait for.
    pub fn tell_blocking(&self, input: BusInput) {
        // A bus that has stopped needs no news.
        let _ = self.lane(Urgency::Protection).blocking_send(input);
    }

    /// What takes receipts that history gives back; never waits.
    #[must_use]
    pub fn stored(&self) -> mpsc::UnboundedSender<Stored> {
        self.stored.clone()
    }

    /// Tells the bus which commands were not sent, and what is on the disk.
    #[must_use]
    pub fn tells(&self) -> Tells {
        let (bus, written) = (self.clone(), self.clone());
        Tells {
            unsent: Arc::new(move |device, command_id, refusal| {
                let tell = move |bus: &mut Bus, now| bus.handle_outcome(now, device, command_id, Err(refusal));
                bus.tell_blocking(BusInput::Call(Box::new(tell)));
            }),
            written: Arc::new(move |number, is_durable| {
                let tell = move |bus: &mut Bus, now| bus.commands.handle_written(now, number, is_durable);
                written.tell_blocking(BusInput::Call(Box::new(tell)));
            }),
            fence: None,
        }
    }

    /// Tells the bus what the ledger has done; never waits.
    pub fn tell_ledger(&self, news: News) {
        let _ = self.ledger.send(news);
    }

    /// The shards of devices.
    ///
    /// # Errors
    /// The bus has ended.
    pub async fn field(&self) -> Result<Vec<mpsc::Sender<FieldInput>>, Stopped> {
        self.call(|bus, _| bus.field.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn report(name: u64) -> BusInput {
        let (shard, device, lane) = (0, tieline_core::DeviceId(0), crate::field::Lane::Main);
        let receipt = crate::field::Receipt { shard, device, lane, fragments: name, is_past: false };
        BusInput::Field(FieldReport { receipts: vec![receipt], ..FieldReport::default() })
    }

    fn name(input: &BusInput) -> u64 {
        match input {
            BusInput::Field(report) => report.receipts.iter().map(|receipt| receipt.fragments).sum(),
            BusInput::Edge(_) | BusInput::Sites(_) | BusInput::Call(_) => 0,
        }
    }

    #[tokio::test]
    async fn the_more_urgent_goes_first_whenever_it_comes() {
        let (handle, mut incoming) = BusHandle::new();
        for (urgency, name) in [(Urgency::Bulk, 30), (Urgency::Monitoring, 20), (Urgency::Bulk, 31)] {
            handle.lane(urgency).send(report(name)).await.unwrap();
        }
        let (order, mut taken) = (RefCell::new(Vec::new()), Vec::new());
        for _ in 0..2 {
            let urgency = incoming.inputs.take(&mut taken, 64).await.unwrap();
            incoming.inputs.give(std::mem::take(&mut taken).into_iter(), urgency, |input, overtakes| {
                order.borrow_mut().push((name(&input), overtakes));
                // While the first bulk report is applied, a fault is reported, and a state.
                if name(&input) == 30 {
                    for (urgency, name) in [(Urgency::Monitoring, 21), (Urgency::Protection, 10)] {
                        handle.lane(urgency).try_send(report(name)).unwrap();
                    }
                }
            });
        }
        assert_eq!(order.take(), [(20, false), (30, false), (10, true), (21, true), (31, false)]);
        drop(handle);
        assert_eq!(incoming.inputs.take(&mut taken, 64).await, None);
    }

    #[test]
    fn a_full_lane_leaves_room_in_the_others() {
        let (handle, _incoming) = BusHandle::new();
        for _ in 0..INPUTS_MAX {
            handle.lane(Urgency::Bulk).try_send(report(1)).unwrap();
        }
        assert!(handle.lane(Urgency::Bulk).try_send(report(1)).is_err());
        assert!(handle.lane(Urgency::Protection).try_send(report(1)).is_ok());
    }
}
