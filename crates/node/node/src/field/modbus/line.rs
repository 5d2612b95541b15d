//! A connection with the devices behind it, which come and go.

use super::QUEUE_OF_DEVICE;
use super::device::ModbusDevice;
use crate::config::SharedChannel;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tieline_core::DeviceId;
use tieline_modbus::Client;
use tieline_net::Session;
use tieline_transport::KeptSession;

/// The bits of a transaction's number that say which device of the connection it is of.
const MEMBER_SHIFT: u32 = 48;

/// A connection with the devices behind it.
pub(super) struct Line {
    pub(super) session: Session<Client>,
    /// The table that it is configured by; none of a device's own.
    pub(super) channel: Option<SharedChannel>,
    next: Cell<u64>,
    /// By their number in transactions; none where one has left.
    members: RefCell<Vec<Option<Rc<ModbusDevice>>>>,
    kept: RefCell<Option<KeptSession>>,
}

impl Line {
    pub(super) fn new(session: Session<Client>, channel: Option<SharedChannel>) -> Self {
        let (next, members, kept) = (Cell::new(0), RefCell::default(), RefCell::default());
        Self { session, channel, next, members, kept }
    }

    /// Which device of the connection a transaction is of.
    pub(super) fn member_of(transaction: u64) -> usize {
        usize::try_from(transaction >> MEMBER_SHIFT).unwrap_or(usize::MAX)
    }

    /// A number for a transaction that no other of the connection has.
    pub(super) fn number(&self, member: u16) -> u64 {
        let next = self.next.get();
        self.next.set(next.wrapping_add(1) & ((1 << MEMBER_SHIFT) - 1));
        u64::from(member) << MEMBER_SHIFT | next
    }

    /// The device that a transaction is of.
    pub(super) fn member(&self, transaction: u64) -> Option<Rc<ModbusDevice>> {
        self.members.borrow().get(Self::member_of(transaction))?.clone()
    }

    /// All devices. They may leave meanwhile.
    pub(super) fn members(&self) -> impl Iterator<Item = Rc<ModbusDevice>> + use<> {
        let members: Vec<_> = self.members.borrow().iter().flatten().cloned().collect();
        members.into_iter()
    }

    /// A device, with its number in transactions.
    pub(super) fn find(&self, id: DeviceId) -> Option<(u16, Rc<ModbusDevice>)> {
        let members = self.members.borrow();
        let mut numbered = (0..).zip(&*members);
        numbered.find_map(|(number, member)| Some((number, member.clone().filter(|member| member.id() == id)?)))
    }

    /// A number that no device has.
    pub(super) fn free(&self) -> u16 {
        let members = self.members.borrow();
        let free = members.iter().position(Option::is_none).unwrap_or(members.len());
        u16::try_from(free).unwrap_or(u16::MAX)
    }

    pub(super) fn put(&self, number: u16, member: Option<Rc<ModbusDevice>>) {
        let (mut members, at) = (self.members.borrow_mut(), usize::from(number));
        if members.len() <= at {
            members.resize(at + 1, None);
        }
        if let Some(place) = members.get_mut(at) {
            *place = member;
        }
    }

    /// A device leaves. What it was asked and has not answered ends.
    pub(super) fn remove(&self, member: &Rc<ModbusDevice>) {
        let Some((number, _)) = self.find(member.id()) else { return };
        let is_its = |id| Self::member_of(id) == usize::from(number);
        let cancelled = self.session.with(|client, _| client.cancel(is_its));
        cancelled.into_iter().for_each(|(id, sent)| member.cancelled(id, sent));
        member.end();
        self.put(number, None);
    }

    /// Each device may have as many transactions that wait.
    pub(super) fn set_room(&self) {
        let count = self.members.borrow().iter().flatten().count();
        self.session.with(|client, _| client.set_queue_max(QUEUE_OF_DEVICE * count.max(1)));
    }

    pub(super) fn keep(&self, kept: KeptSession) {
        *self.kept.borrow_mut() = Some(kept);
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        let kept = self.kept.borrow_mut().take();
        if let Some(kept) = kept {
            kept.close().await;
        }
    }
}
