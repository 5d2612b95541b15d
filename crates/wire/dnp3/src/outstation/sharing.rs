//! What one master does to the device and the associations of the other masters must know.

use super::application::Application;
use super::select::output_of;
use crate::app::{AppControl, CommandStatus, Fragment, Function, Sequence};
use crate::{Control, DnpTime, GroupVar, Iin, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::{Instant, Now};

/// An association's part in a [`Group`](super::Group).
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// What its master did, until the group has carried it on. One request at most: no other is taken before.
    pub(super) acts: Vec<Act>,
    /// What its master has selected, as long as the selection holds.
    selected: Vec<(PointType, u16)>,
    /// What other masters have selected.
    reserved: Vec<Reservation>,
}

/// One thing that a master did.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A write or a freeze.
    Request { function: Function, objects: Box<[u8]> },
    /// It set the clock.
    Clock(DnpTime),
    /// It operated an output, or tried to.
    Command { index: u16, control: Control, status: CommandStatus },
}

/// Outputs that another master may operate, and nobody else.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    /// The association of that master.
    by: usize,
    until: Instant,
    points: Vec<(PointType, u16)>,
}

impl Application {
    fn sharing(&mut self) -> Option<&mut Sharing> {
        self.extras.as_mut()?.sharing.as_mut()
    }

    /// Whether the group must carry something on before the next request.
    pub(super) fn has_acts(&self) -> bool {
        self.extras.as_ref().and_then(|extras| extras.sharing.as_ref()).is_some_and(|sharing| !sharing.acts.is_empty())
    }

    pub(super) fn take_acts(&mut self) -> Vec<Act> {
        self.sharing().map(|sharing| core::mem::take(&mut sharing.acts)).unwrap_or_default()
    }

    /// Notes a request that changes what every master sees.
    pub(super) fn share_request(&mut self, fragment: &Fragment<'_>) {
        let Some(sharing) = self.sharing() else { return };
        let shared = matches!(
            fragment.function,
            Function::Write
                | Function::ImmediateFreeze
                | Function::ImmediateFreezeNoResponse
                | Function::FreezeClear
                | Function::FreezeClearNoResponse
                | Function::FreezeAtTime
                | Function::FreezeAtTimeNoResponse
        );
        if shared {
            sharing.acts.push(Act::Request { function: fragment.function, objects: fragment.objects.into() });
        }
    }

    pub(super) fn share(&mut self, act: Act) {
        if let Some(sharing) = self.sharing() {
            sharing.acts.push(act);
        }
    }

    /// Does what another master did, silently: its own association has told the owner.
    pub(super) fn follow(&mut self, now: Now, act: &Act) {
        let told = self.outbox.len();
        match act {
            Act::Request { function, objects } => {
                let control = AppControl::single(Sequence::default());
                self.repeat(now, &Fragment { control, function: *function, iin: None, objects });
            }
            Act::Clock(time) => self.set_clock(now, *time),
            Act::Command { index, control, status } => self.note_command(now, *index, control, *status),
        }
        self.outbox.truncate(told);
        self.take_acts();
    }

    fn repeat(&mut self, now: Now, fragment: &Fragment<'_>) {
        match fragment.function {
            Function::Write => drop(self.for_each_header(fragment, |this, header| match header.object() {
                GroupVar { group: 110, .. } => this.write_bytes(now, header),
                GroupVar { group: 34, .. } => this.write_dead_bands(header),
                GroupVar { group: 0, .. } => this.write_attributes(header),
                _ => Iin::NONE,
            })),
            Function::FreezeClear | Function::FreezeClearNoResponse => drop(self.freeze(now, fragment, true)),
            Function::FreezeAtTime | Function::FreezeAtTimeNoResponse => drop(self.freeze_at_time(now, fragment)),
            _ => drop(self.freeze(now, fragment, false)),
        }
    }

    /// Notes the outputs of a selection.
    pub(super) fn share_selection(&mut self, fragment: &Fragment<'_>) {
        let Some(sharing) = self.sharing() else { return };
        let controls = fragment.headers().flatten().flat_map(|header| header.controls());
        sharing.selected = controls.map(|item| (output_of(&item.control), item.index)).collect();
    }

    /// What the master of this association, number `by`, has selected; nothing once that is over.
    pub(super) fn reservation(&self, by: usize) -> Option<Reservation> {
        let sharing = self.extras.as_ref()?.sharing.as_ref()?;
        let until = self.selection.as_ref()?.until();
        Some(Reservation { by, until, points: sharing.selected.clone() })
    }

    /// Knows of the selection of association `by`, or that there is none.
    pub(super) fn reserve(&mut self, by: usize, reservation: Option<Reservation>) {
        let Some(sharing) = self.sharing() else { return };
        sharing.reserved.retain(|known| known.by != by);
        sharing.reserved.extend(reservation);
    }

    /// Whether another master has selected that output.
    pub(super) fn is_reserved(&self, now: Now, point_type: PointType, index: u16) -> bool {
        let sharing = self.extras.as_ref().and_then(|extras| extras.sharing.as_ref());
        let mut reserved = sharing.into_iter().flat_map(|sharing| &sharing.reserved);
        reserved.any(|known| now.mono < known.until && known.points.contains(&(point_type, index)))
    }
}
