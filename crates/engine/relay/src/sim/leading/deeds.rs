//! What happens to nodes, their links and the servers.

extern crate std;
use super::{NODES, Thing, World};
use core::time::Duration;
use std::format;

impl World {
    pub(super) fn step(&mut self) {
        let node = usize::try_from(self.below(NODES as u64)).unwrap();
        match self.below(12) {
            0 => self.kill(node),
            1 if !self.nodes[node].frozen => self.freeze(node),
            2 => {
                self.counters.stalls += 1;
                self.stalled_until = self.now + Duration::from_millis(self.below(6_000));
            }
            3 | 4 => {
                self.counters.cuts += 1;
                let (kind, only_beats) = (self.below(15), self.below(2) == 0);
                let node = &mut self.nodes[node];
                (node.reaches, node.is_reached) = (only_beats || kind & 1 > 0, only_beats || kind & 2 > 0);
                (node.is_heard, node.hears) = (kind & 4 > 0, kind & 8 > 0);
            }
            5 | 6 => self.heal(node),
            7 => self.loses = self.below(20),
            8 => self.delay = Duration::from_millis(1 + self.below(60)),
            _ => {}
        }
        let pause = [5_u64, 200, 2_000][usize::try_from(self.below(3)).unwrap()];
        let pause = Duration::from_millis(1 + self.below(pause));
        self.pass(self.now + pause);
    }

    pub(super) fn kill(&mut self, index: usize) {
        self.say(|| format!("node{index} is killed"));
        self.counters.kills += 1;
        let pause = Duration::from_millis(self.below(3_000));
        let node = &mut self.nodes[index];
        node.life += 1;
        (node.lead, node.writer, node.frozen) = (None, None, false);
        node.held.clear();
        self.agenda.add(self.now + pause, Thing::Start(index, node.life));
    }

    fn freeze(&mut self, index: usize) {
        self.say(|| format!("node{index} is frozen"));
        self.counters.freezes += 1;
        let pause = Duration::from_millis(self.below(5_000));
        let node = &mut self.nodes[index];
        node.frozen = true;
        self.agenda.add(self.now + pause, Thing::Thaw(index, node.life));
    }

    pub(super) fn heal(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        (node.reaches, node.is_reached, node.is_heard, node.hears) = (true, true, true, true);
    }
}
