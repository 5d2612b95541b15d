//! What happens to sites, links, the centre and their disks.

extern crate std;
use super::{FIRST_EPOCH, World};
use crate::Stream;
use core::time::Duration;
use std::format;

impl World {
    pub(super) fn step(&mut self) {
        let site = usize::try_from(self.below(self.sites.len() as u64)).unwrap();
        match self.below(16) {
            0..=6 => self.write(site),
            7 => self.trouble(site),
            8 => self.kill_site(site),
            9 if self.receiver.is_some() => self.kill_centre(),
            10 => self.link(site),
            11 => self.slow_disks(site),
            12 => self.jump(site),
            13 => self.drop_oldest(site),
            14 => self.fails = self.below(6),
            _ => {}
        }
        let pause = [1_u64, 20, 300, 3_000][usize::try_from(self.below(4)).unwrap()];
        let pause = Duration::from_millis(1 + self.below(pause));
        self.pass(self.now + pause);
    }

    fn write(&mut self, index: usize) {
        let (stream, count) = (Stream::ALL[usize::try_from(self.below(3)).unwrap()], 1 + self.below(40));
        let is_synced = self.below(4) > 0;
        let site = &mut self.sites[index];
        let journal = site.journals.get_mut(&stream).unwrap();
        journal.written += count;
        if is_synced {
            journal.durable = journal.written;
            site.upward.handle_durable(stream, journal.durable);
        }
    }

    fn trouble(&mut self, index: usize) {
        let (loses, doubles, jitter) = (self.below(12), self.below(12), self.below(400));
        let site = &mut self.sites[index];
        for line in [&mut site.up, &mut site.down] {
            (line.loses, line.doubles, line.jitter) = (loses, doubles, Duration::from_millis(jitter));
        }
    }

    fn kill_site(&mut self, index: usize) {
        let (loses_power, loses_disk, seed) = (self.below(2) == 0, self.below(3) == 0, self.random.number());
        self.say(|| format!("site{index} is killed, power {loses_power}, disk {loses_disk}"));
        self.counters.site_kills += 1;
        self.counters.silences += self.sites[index].upward.stats().silences;
        let site = &mut self.sites[index];
        if loses_disk {
            // Its clock gives the epoch, and may be wrong: but no epoch is used twice.
            self.epochs += 10;
            let epoch = if seed.is_multiple_of(2) { FIRST_EPOCH * 2 + 5 - self.epochs } else { self.epochs };
            site.begin_epoch(epoch);
            // It has measured a little before the link is up.
            for journal in site.journals.values_mut() {
                (journal.written, journal.durable) = (3, 3);
            }
        }
        site.restart(loses_power, seed);
    }

    fn link(&mut self, index: usize) {
        let kind = self.below(5);
        self.say(|| format!("the link of site{index}: {kind}"));
        let site = &mut self.sites[index];
        match kind {
            0 => {
                self.counters.cuts += 1;
                site.is_up = false;
                (site.up.is_dead, site.down.is_dead) = (true, true);
                site.upward.handle_link(false);
            }
            1 | 2 => {
                self.counters.half_open += 1;
                (site.up.is_dead, site.down.is_dead) = (kind == 1, kind == 2);
            }
            _ => self.heal_link(index),
        }
    }

    pub(super) fn heal_link(&mut self, index: usize) {
        let site = &mut self.sites[index];
        (site.up.is_dead, site.down.is_dead) = (false, false);
        site.is_up = true;
        site.upward.handle_link(true);
    }

    fn slow_disks(&mut self, index: usize) {
        let times = [1_u64, 50, 1_500];
        let (ours, theirs) = (self.below(3), self.below(3));
        self.disk = Duration::from_millis(times[usize::try_from(ours).unwrap()]);
        self.sites[index].disk = Duration::from_millis(times[usize::try_from(theirs).unwrap()]);
    }

    fn jump(&mut self, index: usize) {
        let by = i64::try_from(self.below(7_200_000_000)).unwrap() - 3_600_000_000;
        self.counters.jumps += 1;
        match self.below(2) {
            0 => self.clock += by,
            _ => self.sites[index].clock += by,
        }
    }

    /// The journal is full: its oldest records go, acknowledged or not.
    fn drop_oldest(&mut self, index: usize) {
        let stream = Stream::ALL[usize::try_from(self.below(3)).unwrap()];
        let count = self.below(30);
        let site = &mut self.sites[index];
        let journal = site.journals.get_mut(&stream).unwrap();
        let upto = (journal.oldest + count).min(journal.durable + 1);
        for number in journal.oldest..upto {
            self.gone.insert((index, stream, site.epoch, number));
        }
        journal.oldest = upto.max(journal.oldest);
    }
}
