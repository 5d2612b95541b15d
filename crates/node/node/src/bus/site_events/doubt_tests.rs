use super::*;
use crate::bus::alone::alone;
use crate::bus::sites::JoinedSites;
use crate::sites::{SitesNews, SitesReport};

/// A bus, and what it tells the thread.
struct World {
    bus: Bus,
    inputs: mpsc::Receiver<EventInput>,
    number: u64,
    _rest: Box<dyn std::any::Any>,
}

impl World {
    fn new(of: impl FnOnce(mpsc::Sender<EventInput>) -> SiteEvents) -> Self {
        let (mut bus, rest) = alone();
        let (sender, inputs) = mpsc::channel(64);
        bus.set_sites(JoinedSites::new("sites/".to_owned()));
        bus.set_site_events(of(sender));
        Self { bus, inputs, number: 0, _rest: Box::new(rest) }
    }

    fn wants(&mut self, filter: &str) {
        let filter = Filter::new(filter).unwrap();
        self.bus.site_events.as_deref_mut().unwrap().filter_changed(&filter, true);
    }

    fn news(&mut self, news: Vec<SitesNews>) {
        let now = self.bus.now();
        self.bus.handle_sites(now, SitesReport(news));
    }

    fn work(&mut self) {
        while self.bus.ask_stats().0 > 0 {
            let now = self.bus.now();
            self.bus.run_asks(now);
        }
    }

    /// A last value of a site: a new one, or one from before.
    fn value(&mut self, site: &str, topic: &str, payload: &str, is_state: bool) -> SitesNews {
        self.number += u64::from(!is_state);
        let (source, topic, payload) = (site.into(), Topic::new(topic).unwrap(), payload.to_owned().into());
        let (class, number, properties) = (EventClass::Monitoring, self.number, Bytes::new());
        let event = Event { source, run: 1, number, class, qos: 1, retain: true, is_state, topic, properties, payload };
        SitesNews::Events(vec![event])
    }

    fn shown(&self, topic: &str) -> String {
        let view = self.bus.tree.get(&Topic::new(topic).unwrap()).unwrap();
        String::from_utf8(view.body.to_payload().to_vec()).unwrap()
    }

    fn is_away(&self, topic: &str) -> bool {
        let text = self.shown(topic);
        assert_eq!(text.contains("\"bad\""), text.contains("\"away\""), "{text}");
        text.contains("\"away\"")
    }

    /// What goes to sites.
    fn sent(&mut self) -> Vec<String> {
        let shown = |input| match input {
            EventInput::Send(to, events) => events
                .iter()
                .map(|event: &Event| {
                    let text = String::from_utf8_lossy(&event.payload).into_owned();
                    let away = if text.contains("\"away\"") { "away" } else { "good" };
                    let state = if event.is_state { " state" } else { "" };
                    format!("{} {}/{} {away}{state}", to.as_deref().unwrap(), event.source, &*event.topic)
                })
                .collect(),
            EventInput::Want(..) => Vec::new(),
        };
        std::iter::from_fn(|| self.inputs.try_recv().ok()).flat_map(shown).collect()
    }
}

fn good(value: u32) -> String {
    format!("{{\"v\":{value},\"q\":\"good\"}}")
}

#[test]
fn values_of_a_site_that_is_lost_are_away_until_they_are_sent_again() {
    let mut world = World::new(SiteEvents::of_centre);
    world.wants("$sites/+/a/#");
    for count in 0..600 {
        let news = world.value("north", &format!("a/{count}"), &good(count), false);
        world.news(vec![news]);
    }
    let news = vec![world.value("south", "a/0", &good(1), false), world.value("north", "a/note", "words", false)];
    world.news(news);
    world.news(vec![SitesNews::EventsDoubted(Some("north".into()))]);
    world.work();
    assert!((0..600).all(|count| world.is_away(&format!("$sites/north/a/{count}"))));
    assert_eq!(world.shown("$sites/north/a/note"), "words", "it states no quality");
    assert!(!world.is_away("$sites/south/a/0"), "another site is there");
    // What is sent again as it was has its quality again, and so has another value; the others wait.
    let news = vec![
        world.value("north", "a/0", &good(0), true),
        world.value("north", "a/1", &good(7), true),
        world.value("north", "a/2", &good(8), false),
    ];
    world.news(news);
    assert_eq!((world.shown("$sites/north/a/0"), world.shown("$sites/north/a/1")), (good(0), good(7)));
    assert!(!world.is_away("$sites/north/a/2") && world.is_away("$sites/north/a/3"));
}

#[test]
fn what_comes_after_the_doubt_is_not_marked() {
    let mut world = World::new(SiteEvents::of_centre);
    world.wants("$sites/+/a/#");
    let news = vec![world.value("north", "a/0", &good(0), false), world.value("north", "a/1", &good(1), false)];
    world.news(news);
    // The bus had no turn for the marks when the same values came again.
    let news = vec![SitesNews::EventsDoubted(Some("north".into())), world.value("north", "a/0", &good(0), true)];
    world.news(news);
    world.work();
    assert!(!world.is_away("$sites/north/a/0") && world.is_away("$sites/north/a/1"));
}

#[test]
fn a_centre_tells_the_sites_that_want_the_values() {
    let mut world = World::new(SiteEvents::of_centre);
    let wanted = |site: &str, filter: &str| SitesNews::EventsWanted {
        by: Some(site.into()),
        filters: filters_of(&[filter]),
        is_again: true,
    };
    for site in ["north", "south", "west"] {
        world.news(vec![SitesNews::State { site: site.into(), is_up: true }]);
    }
    world.news(vec![wanted("north", "+/a/#"), wanted("south", "+/a/#"), wanted("west", "+/b")]);
    let news = world.value("north", "a/0", &good(0), false);
    world.news(vec![news]);
    assert_eq!(world.sent(), ["south north/a/0 good"]);
    world.news(vec![SitesNews::EventsDoubted(Some("north".into()))]);
    world.work();
    assert_eq!(world.sent(), ["south north/a/0 away state"]);
    // Who asks later hears the same.
    world.news(vec![wanted("west", "+/a/#")]);
    assert_eq!(world.sent(), ["west north/a/0 away state"]);
    let news = world.value("north", "a/0", &good(0), true);
    world.news(vec![news]);
    assert_eq!(world.sent(), ["south north/a/0 good state", "west north/a/0 good state"]);
}

#[test]
fn a_site_without_its_centre_marks_all() {
    let mut world = World::new(|inputs| SiteEvents::of_site(&[], inputs));
    world.wants("$sites/#");
    let news = vec![world.value("north", "a", &good(0), false), world.value("west", "a", &good(0), false)];
    world.news(news);
    world.news(vec![SitesNews::EventsDoubted(None)]);
    world.work();
    assert!(world.is_away("$sites/north/a") && world.is_away("$sites/west/a"));
    assert_eq!(world.sent(), Vec::<String>::new());
}

fn filters_of(texts: &[&str]) -> Vec<Filter> {
    texts.iter().map(|text| Filter::new(text).unwrap()).collect()
}
