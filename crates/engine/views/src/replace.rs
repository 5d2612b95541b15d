//! Other views in the place of these, while everything goes on.

use crate::engine::Derived;
use crate::view::check;
use crate::{Output, Stats, View, ViewError, Views};
use alloc::vec::Vec;
use tieline_core::{Body, Instant, Topic};

impl Views {
    /// Takes other views in the place of these. `sources` are the present values of all topics; those that these views
    /// derive are left out of them here. What both derive alike does not change; what only these derive goes, and
    /// what only the others derive comes. Changes that wait are forgotten: their delay begins again.
    ///
    /// # Errors
    /// The others cannot live together; nothing has changed then.
    pub fn replace(
        &mut self,
        now: Instant,
        views: Vec<View>,
        sources: impl IntoIterator<Item = (Topic, Body)>,
    ) -> Result<(), ViewError> {
        check(&views)?;
        let before = core::mem::replace(self, Self::new(views, self.limits)?);
        self.outputs = before.outputs;
        let counted = before.stats;
        self.stats = Stats { derived: 0, contributions: 0, waiting: 0, ..counted };
        // What was shown is shown until it is known what comes in its place.
        let mut adopted = Vec::new();
        for (topic, derived) in &before.derived {
            if let Some(shown) = &derived.shown {
                self.derived.insert(topic.clone(), Derived::adopted(shown.clone()));
                adopted.push(topic.clone());
            }
        }
        for (topic, body) in sources {
            if !before.derived.contains_key(&topic) {
                self.handle_update(now, &topic, Some(&body));
            }
        }
        self.settle_adopted(now, &adopted);
        Ok(())
    }

    /// Lets go what nothing contributes to, and gives the others to the views that take them: they did not change, and
    /// so nobody was told.
    fn settle_adopted(&mut self, now: Instant, adopted: &[Topic]) {
        // A topic that another adopted one contributes to may come before it.
        let mut left: Vec<Topic> = adopted.to_vec();
        loop {
            let before = left.len();
            left.retain(|topic| {
                let Some(found) = self.derived.get(topic) else { return false };
                if found.is_empty() {
                    return true;
                }
                let shown = found.shown.clone();
                self.handle_update(now, topic, shown.as_ref());
                false
            });
            if left.len() == before {
                break;
            }
        }
        for topic in left {
            if self.derived.remove(&topic).is_some() {
                self.stats.changes += 1;
                self.outputs.push_back(Output { topic, body: None });
            }
        }
    }
}
