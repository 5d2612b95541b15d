//! How connections begin and end, and what goes wrong.

use super::{Due, Side, World, control_centre, device};
use crate::{Carriage, Driven};

impl World {
    pub(super) fn dial(&mut self) {
        if self.master.connection.is_some() {
            return;
        }
        if self.now.mono < self.off_until {
            let again = self.choices.millis(500, 4000);
            return self.schedule(again, Due::Dial);
        }
        self.connections += 1;
        self.connection = self.connections;
        if self.plan.carriage == Carriage::Stream {
            self.to_master.clear();
            self.to_outstation.clear();
        }
        for side in [Side::Outstation, Side::Master] {
            let after = self.choices.millis(0, 50);
            self.schedule(after, Due::Up(side, self.connection));
        }
    }

    pub(super) fn up(&mut self, side: Side, connection: u64) {
        if connection != self.connection {
            return;
        }
        self.model.tell(|| format!("{side:?} is connected: {connection}"));
        if self.plan.carriage != Carriage::Stream {
            // What came while nobody listened is gone.
            let pipe = if side == Side::Master { &mut self.to_master } else { &mut self.to_outstation };
            while pipe.receive(self.now.mono).is_some() {}
        }
        match side {
            Side::Master => self.master.connect(self.now, connection, &mut self.model),
            // Without connections, an outstation never learns of a new master.
            Side::Outstation if self.plan.carriage != Carriage::Stream && self.outstation.connection.is_some() => {
                self.outstation.connection = Some(connection);
            }
            Side::Outstation => {
                self.model.outstation_disconnected();
                self.model.outstation_connected(&self.outstation.machine);
                self.outstation.connect(self.now, connection, &mut self.model);
            }
        }
    }

    pub(super) fn down(&mut self, side: Side, connection: u64) {
        match side {
            Side::Master if self.master.connection == Some(connection) => self.close_master(),
            Side::Outstation if self.outstation.connection == Some(connection) => self.close_outstation(),
            // It fell before it was up: the master's side tries again all the same.
            Side::Master if self.master.connection.is_none() && self.connection == 0 => self.redial(),
            Side::Master | Side::Outstation => {}
        }
    }

    pub(super) fn close_master(&mut self) {
        self.model.tell(|| "master is disconnected".into());
        if self.master.connection == Some(self.connection) {
            self.end_connection();
        }
        self.master.disconnect(self.now, &mut self.model);
        self.redial();
    }

    pub(super) fn redial(&mut self) {
        // A connection drops what was under way. Without one, a process takes longer to start than an answer to the
        // one before, which it would take for its own, takes to arrive.
        let least = if self.plan.carriage == Carriage::Stream { 200 } else { 2500 };
        let again = self.choices.millis(least, 5000);
        self.schedule(again, Due::Dial);
    }

    pub(super) fn close_outstation(&mut self) {
        self.model.tell(|| "outstation is disconnected".into());
        if self.outstation.connection == Some(self.connection) {
            self.end_connection();
        }
        self.model.outstation_disconnected();
        self.outstation.disconnect(self.now, &mut self.model);
    }

    /// The network carries the present connection no further; a side that does not know learns it in time.
    pub(super) fn end_connection(&mut self) {
        if self.plan.carriage != Carriage::Stream {
            return;
        }
        let gone = std::mem::take(&mut self.connection);
        self.to_master.clear();
        self.to_outstation.clear();
        // As a rule the kernel of the other side tells; at the latest its own keep-alive does.
        let soon = self.choices.chance(60);
        for side in [Side::Master, Side::Outstation] {
            let after = if soon { self.choices.millis(0, 1000) } else { self.choices.millis(5000, 90_000) };
            self.schedule(after, Due::Down(side, gone));
        }
    }

    pub(super) fn cut(&mut self) {
        if self.connection != 0 && self.plan.carriage == Carriage::Stream {
            self.end_connection();
        }
    }

    /// One end loses its connection, or neither notices for long.
    pub(super) fn half_open(&mut self) {
        if self.connection == 0 || self.plan.carriage != Carriage::Stream {
            return;
        }
        match self.choices.below(3) {
            0 => self.close_master(),
            1 => self.close_outstation(),
            _ => self.end_connection(),
        }
    }

    pub(super) fn restart_master(&mut self) {
        if self.master.connection.is_some() {
            self.close_master();
        }
        self.to_master.clear();
        self.model.master_dies();
        let messages = self.master.messages;
        self.master = Driven::new(control_centre(&self.plan, &mut self.choices));
        self.master.messages = messages;
    }

    pub(super) fn restart_device(&mut self) {
        self.dropped_before += self.outstation.machine.stats().events_dropped;
        let starting = self.choices.millis(1000, 8000);
        self.off_until = self.now.mono + starting;
        self.close_outstation();
        self.to_outstation.clear();
        self.model.device_restarts();
        if self.choices.chance(50) {
            self.outstation.machine.restart(self.now);
            self.dropped_before -= self.outstation.machine.stats().events_dropped;
        } else {
            let messages = self.outstation.messages;
            self.outstation = Driven::new(device(&self.plan, &self.model, &mut self.choices));
            self.outstation.messages = messages;
        }
        self.outstation.machine.set_local(self.is_local);
        if self.plan.carriage != Carriage::Stream {
            self.schedule(starting, Due::Up(Side::Outstation, self.connection));
        }
    }
}
