//! What the dashboard shows, and what keys do to it. Knows no terminal.

use super::look::{Look, Rates, Wanted};
use super::shown::{COLUMNS, bytes, cells, count, plain, summary};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;

/// Updates a second that are drawn, one for each look.
const DRAWN_MAX: usize = 240;
/// Characters of a filter.
const FILTER_MAX: usize = 128;

/// What is shown.
#[derive(Debug)]
pub struct Dashboard {
    wanted: Wanted,
    look: Option<Look>,
    rates: Rates,
    drawn: VecDeque<u64>,
    /// Why there is no newer look.
    trouble: Option<String>,
    /// The filter while it is written.
    writing: Option<String>,
    paused: bool,
    /// The first session that is shown.
    first: usize,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing besides what is shown.
    Nothing,
    /// A look at once: something else is wanted.
    Look,
    /// The end.
    Quit,
}

impl Dashboard {
    /// Nothing is known yet.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            look: None,
            rates: Rates::default(),
            drawn: VecDeque::new(),
            trouble: None,
            writing: None,
            paused: false,
            first: 0,
        }
    }

    /// What to ask for.
    pub const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// A look was taken, or could not be.
    pub fn take(&mut self, look: Result<Look, String>) {
        if self.paused {
            return;
        }
        match look {
            Ok(look) => {
                if let Some(before) = &self.look {
                    self.rates = look.rates_since(before);
                    self.drawn.push_back(self.rates.updates_per_s.round() as u64);
                    self.drawn.drain(..self.drawn.len().saturating_sub(DRAWN_MAX));
                }
                (self.look, self.trouble) = (Some(look), None);
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Asked {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Asked::Quit;
        }
        match self.writing.take() {
            Some(text) => self.write(text, key.code),
            None => self.command(key.code),
        }
    }

    fn command(&mut self, key: KeyCode) -> Asked {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Asked::Quit,
            KeyCode::Char('s') => {
                (self.wanted.order, self.first) = (self.wanted.order.next(), 0);
                return Asked::Look;
            }
            KeyCode::Char('/') => self.writing = Some(self.wanted.client.clone()),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        let sessions = self.look.as_ref().map_or(0, |look| look.sessions.len());
        self.first = self.first.min(sessions.saturating_sub(1));
        Asked::Nothing
    }

    fn write(&mut self, mut text: String, key: KeyCode) -> Asked {
        match key {
            KeyCode::Enter => {
                (self.wanted.client, self.first) = (text, 0);
                return Asked::Look;
            }
            KeyCode::Esc => return Asked::Nothing,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.chars().count() < FILTER_MAX => text.push(c),
            _ => {}
        }
        self.writing = Some(text);
        Asked::Nothing
    }

    /// Draws all.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        // One more of a member of a core.
        let lines = 4 + u16::from(self.look.as_ref().is_some_and(|look| look.status.cluster.is_some()));
        let [head, middle, below, foot] = Layout::vertical([
            Constraint::Length(lines + 3),
            Constraint::Min(4),
            Constraint::Percentage(35),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.foot(), foot);
        let Some(look) = &self.look else {
            return frame.render_widget(Paragraph::new("looking …"), head);
        };
        self.draw_head(frame, head, (look, lines));
        frame.render_widget(self.sessions(look), middle);
        frame.render_widget(topics(look), below);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect, (look, lines): (&Look, u16)) {
        let [text, drawn] = Layout::vertical([Constraint::Length(lines), Constraint::Length(3)]).areas(area);
        let late = look.status.lag.sessions > 0 || self.rates.dropped_per_s > 0.0;
        let line = |(name, told): (&'static str, String)| {
            let told = if late && name == "sessions" { told.yellow() } else { Span::from(told) };
            Line::from(vec![format!("{name:>8}  ").bold(), told])
        };
        frame.render_widget(Paragraph::new(summary(look, &self.rates).into_iter().map(line).collect::<Vec<_>>()), text);
        // The newest stand at the right edge.
        let fits = usize::from(drawn.width);
        let newest = self.drawn.iter().skip(self.drawn.len().saturating_sub(fits)).copied();
        let spark = Sparkline::default().data(newest.collect::<Vec<u64>>()).style(Style::new().fg(Color::Cyan));
        frame.render_widget(spark, drawn);
    }

    fn sessions(&self, look: &Look) -> Table<'_> {
        let rows = look.sessions.iter().skip(self.first).map(|session| {
            let row = Row::new(cells(session, 200));
            if session.late_ms > 0 || session.blocked { row.yellow() } else { row }
        });
        let head = COLUMNS.map(|(name, _)| name);
        let mut widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
        widths[0] = Constraint::Fill(1);
        let of = if self.wanted.client.is_empty() { String::new() } else { format!(" of {:?}", self.wanted.client) };
        let title = format!(" sessions{of} by {} ", self.wanted.order.word());
        Table::new(rows, widths).header(Row::new(head).bold()).block(Block::bordered().title(title))
    }

    fn foot(&self) -> Line<'_> {
        if let Some(text) = &self.writing {
            return Line::from(vec!["client: ".bold(), Span::from(plain(text, FILTER_MAX)), "▏".into()]);
        }
        if let Some(why) = &self.trouble {
            return Line::from(plain(why, 400).red());
        }
        let paused = if self.paused { "paused · " } else { "" };
        Line::from(format!("{paused}q quit · s sort · / filter clients · p pause · ↑ ↓ scroll")).dim()
    }
}

fn topics(look: &Look) -> Table<'_> {
    let rows = look
        .topics
        .iter()
        .map(|topic| Row::new([plain(&topic.topic, 400), count(topic.updates_per_s), bytes(topic.bytes_per_s)]));
    let widths = [Constraint::Fill(1), Constraint::Length(10), Constraint::Length(12)];
    let head = Row::new(["topic", "updates/s", "bytes/s"]).bold();
    Table::new(rows, widths).header(head).block(Block::bordered().title(" busiest topics "))
}

#[cfg(test)]
mod tests {
    use super::super::look::sample;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Instant;
    use tieline_node::SessionOrder;

    fn dashboard() -> Dashboard {
        Dashboard::new(Wanted { order: SessionOrder::Lag, client: String::new(), limit: 10 })
    }

    fn shown(dashboard: &Dashboard, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| dashboard.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(dashboard: &mut Dashboard, keys: &str) -> Vec<Asked> {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '<' => KeyCode::Backspace,
            '^' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        keys.chars().map(|c| dashboard.press(KeyEvent::from(code(c)))).collect()
    }

    #[test]
    fn all_of_a_look_is_drawn() {
        let (mut dashboard, first) = (dashboard(), Instant::now());
        assert!(shown(&dashboard, 120, 30).contains("looking …"));
        dashboard.take(Ok(sample(first, 0, 1000)));
        dashboard.take(Ok(sample(first, 2, 1500)));
        let text = shown(&dashboard, 120, 30);
        for expect in ["west leads in term 12", "east standby 3 behind, 0.2 s", "north unknown lag unknown"] {
            assert!(text.contains(expect), "{expect}\n{text}");
        }
        for expect in ["west 0.1.0", "250 updates/s", "sessions by lag", "scada/1", "1.5 s", "site/a/amps", "q quit"] {
            assert!(text.contains(expect), "{expect}\n{text}");
        }
        // The smallest of terminals is no reason to fail.
        for size in [1, 3, 9] {
            shown(&dashboard, size, size);
        }
    }

    #[test]
    fn keys_sort_filter_pause_and_quit() {
        let mut d = dashboard();
        let first = Instant::now();
        d.take(Ok(sample(first, 0, 0)));
        assert_eq!(press(&mut d, "s"), [Asked::Look]);
        assert_eq!(d.wanted().order, SessionOrder::Waiting);
        assert_eq!(press(&mut d, "ssss"), [Asked::Look; 4]);
        assert_eq!(press(&mut d, "s").len(), 1);
        assert_eq!(d.wanted().order, SessionOrder::Lag);
        // While a filter is written, letters are letters.
        assert_eq!(press(&mut d, "/scq<"), [Asked::Nothing; 5]);
        assert!(shown(&d, 80, 20).contains("client: sc"));
        assert_eq!((press(&mut d, "\n"), d.wanted().client.as_str()), (vec![Asked::Look], "sc"));
        assert_eq!((press(&mut d, "/x^"), d.wanted().client.as_str()), (vec![Asked::Nothing; 3], "sc"));
        press(&mut d, "p");
        d.take(Ok(sample(first, 2, 1500)));
        assert!(shown(&d, 100, 20).contains("paused") && !shown(&d, 100, 20).contains("750 updates/s"));
        press(&mut d, "jjjj");
        assert_eq!(d.first, 1);
        assert_eq!(press(&mut d, "pq"), [Asked::Nothing, Asked::Quit]);
        assert_eq!(press(&mut d, "^"), [Asked::Quit]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut d, "/");
        assert_eq!(d.press(interrupt), Asked::Quit);
    }

    #[test]
    fn trouble_is_shown_beside_the_last_look() {
        let mut d = dashboard();
        d.take(Ok(sample(Instant::now(), 0, 0)));
        d.take(Err("no answer from http://x/v1/status".to_owned()));
        let text = shown(&d, 100, 20);
        assert!(text.contains("no answer from") && text.contains("scada/1"), "{text}");
    }
}
