//! The state of the screen, and the effects of keys on it: values alone, no terminal and no agent.

use shunt_api::view::FlowEvent;

use crate::cli::top::{
    events::Events,
    rates::{BackendRow, CounterRow, ServiceRow, backend_rows, counter_rows, service_rows},
    sample::{Counted, Sample, ServicePort},
};

/// Meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Tab,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Page on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    Services,
    /// The backends of one service port.
    Backends(ServicePort),
    /// The node's tables, and the counters of its programs.
    Node,
    /// Events of connections and packets.
    Events,
}

/// Order of the services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    New,
    Errors,
    Active,
    Name,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::New => Self::Errors,
            Self::Errors => Self::Active,
            Self::Active => Self::Name,
            Self::Name => Self::New,
        }
    }

    /// In words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::New => "new/s",
            Self::Errors => "errors/s",
            Self::Active => "active",
            Self::Name => "name",
        }
    }
}

/// Number of rows of a page, for the keys that go by pages.
const PAGE: usize = 10;

/// All that the screen depends on.
#[derive(Debug)]
pub(super) struct Model {
    before: Option<Sample>,
    now: Option<Sample>,
    /// Reason why the agent does not answer, if it does not.
    pub(super) away: Option<String>,
    pub(super) page: Page,
    pub(super) sort: Sort,
    /// Text that the labels of the services contain that are shown.
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    /// The service that the cursor is on, whatever becomes of its place.
    selected: Option<ServicePort>,
    /// Last place of the cursor.
    place: usize,
    pub(super) events: Events,
    /// The cursor among what is counted, among backends, or among events.
    pub(super) line: usize,
    /// The screen is to be closed.
    pub(super) is_over: bool,
}

impl Model {
    /// Nothing is known yet.
    pub(super) fn new() -> Self {
        Self {
            before: None,
            now: None,
            away: None,
            page: Page::Services,
            sort: Sort::New,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            selected: None,
            place: 0,
            events: Events::default(),
            line: 0,
            is_over: false,
        }
    }

    /// The agent has answered. While it is paused that changes nothing but that it is there.
    pub(super) fn take(&mut self, sample: Sample) {
        self.away = None;
        if self.is_paused {
            return;
        }
        self.before = self.now.replace(sample);
        self.follow_selection();
    }

    /// The agent does not answer. What was known stays on the screen.
    pub(super) fn lose(&mut self, why: String) {
        self.away = Some(why);
    }

    /// Events have come, and so many were lost since the page was opened. While it is paused they are not
    /// shown.
    pub(super) fn take_events(&mut self, events: Vec<FlowEvent>, lost: u64) {
        if !self.is_paused {
            self.events.take(events, lost);
        }
    }

    /// There are no events, or no more of them.
    pub(super) fn lose_events(&mut self, why: String) {
        self.events.problem = Some(why);
    }

    /// Returns N if events are wanted, of one connection in N.
    pub(super) fn watched(&self) -> Option<u32> {
        (self.page == Page::Events).then_some(self.events.one_in)
    }

    /// The last look.
    pub(super) const fn sample(&self) -> Option<&Sample> {
        self.now.as_ref()
    }

    /// The services that are shown, sorted.
    pub(super) fn services(&self) -> Vec<ServiceRow> {
        let Some(now) = &self.now else {
            return Vec::new();
        };
        let mut rows = service_rows(self.before.as_ref(), now);
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.id.label().to_lowercase().contains(&filter));
        // Equal ones stay in the order of their names.
        match self.sort {
            Sort::New => rows.sort_by(|a, b| descending(a.new, b.new)),
            Sort::Errors => rows.sort_by(|a, b| descending(a.errors, b.errors)),
            Sort::Active => rows.sort_by_key(|row| std::cmp::Reverse(row.active)),
            Sort::Name => {}
        }
        rows
    }

    /// The sums of all services: new connections and errors a second.
    pub(super) fn totals(&self) -> (Option<f64>, Option<f64>) {
        let Some(now) = &self.now else {
            return (None, None);
        };
        let rows = service_rows(self.before.as_ref(), now);
        let sum = |of: fn(&ServiceRow) -> Option<f64>| {
            let known: Vec<f64> = rows.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        (sum(|row| row.new), sum(|row| row.errors))
    }

    /// Returns the counters of the programs.
    pub(super) fn counters(&self) -> Vec<CounterRow> {
        match &self.now {
            Some(now) => counter_rows(self.before.as_ref(), now),
            None => Vec::new(),
        }
    }

    /// The service port whose backends are shown, as it was a look before and is now.
    pub(super) fn opened(&self) -> Option<(&ServicePort, Option<&Counted>)> {
        let Page::Backends(id) = &self.page else {
            return None;
        };
        let counted = self.now.as_ref().and_then(|now| now.services.get(id));
        Some((id, counted))
    }

    /// Its backends.
    pub(super) fn backends(&self) -> Vec<BackendRow> {
        match (self.opened(), &self.now) {
            (Some((id, Some(counted))), Some(now)) => {
                backend_rows(self.before.as_ref(), now, id, counted)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the place of the cursor among the services that are shown.
    pub(super) fn cursor(&self, rows: &[ServiceRow]) -> Option<usize> {
        let selected = self.selected.as_ref();
        let found = rows.iter().position(|row| Some(&row.id) == selected);
        found.or_else(|| (!rows.is_empty()).then(|| self.place.min(rows.len() - 1)))
    }

    /// Does what the key means.
    pub(super) fn press(&mut self, key: Key) {
        if key == Key::Interrupt {
            self.is_over = true;
        } else if self.is_typing {
            self.type_filter(key);
        } else {
            self.command(key);
        }
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter | Key::Tab => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End => {
                self.go(key);
            }
            Key::Interrupt => {}
        }
        self.follow_selection();
    }

    fn command(&mut self, key: Key) {
        match key {
            Key::Char('q') => self.is_over = true,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('s') if self.page == Page::Services => self.sort = self.sort.next(),
            Key::Char('/') => {
                if self.page != Page::Events {
                    self.show(Page::Services);
                }
                self.is_typing = true;
            }
            Key::Enter if self.page == Page::Services => {
                let rows = self.services();
                if let Some(row) = self.cursor(&rows).and_then(|at| rows.get(at)) {
                    self.selected = Some(row.id.clone());
                    self.show(Page::Backends(row.id.clone()));
                }
            }
            Key::Escape | Key::Backspace => match self.page {
                Page::Services if self.filter.is_empty() => self.is_over = key == Key::Escape,
                Page::Services => self.filter.clear(),
                Page::Backends(_) | Page::Node | Page::Events => self.show(Page::Services),
            },
            Key::Tab => self.show(match self.page {
                Page::Services | Page::Backends(_) => Page::Node,
                Page::Node | Page::Events => Page::Services,
            }),
            Key::Char('e') if self.page != Page::Events => {
                self.events = Events::begin(self.totals().0);
                self.show(Page::Events);
            }
            Key::Char('k') => self.go(Key::Up),
            Key::Char('j') => self.go(Key::Down),
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End => {
                self.go(key);
            }
            Key::Char(_) | Key::Enter | Key::Interrupt => {}
        }
        self.follow_selection();
    }

    fn show(&mut self, page: Page) {
        self.page = page;
        self.line = 0;
    }

    /// Moves the cursor.
    fn go(&mut self, key: Key) {
        match &self.page {
            Page::Services => {
                let rows = self.services();
                let Some(at) = self.cursor(&rows) else { return };
                self.place = moved(at, key, rows.len());
                self.selected = rows.get(self.place).map(|row| row.id.clone());
            }
            Page::Backends(_) => {
                let opened = self.opened().and_then(|(_, counted)| counted);
                let length = opened.map_or(0, |counted| counted.backends.len());
                self.line = moved(self.line, key, length);
            }
            Page::Node => self.line = moved(self.line, key, self.counters().len()),
            Page::Events => {
                let length = self.events.of(&self.filter).len();
                self.line = moved(self.line, key, length);
            }
        }
    }

    /// Keeps the cursor where its service is, or where it was if that is gone.
    fn follow_selection(&mut self) {
        let rows = self.services();
        if let Some(at) = self.cursor(&rows) {
            self.place = at;
        }
    }
}

/// The place that a key leads to, of so many.
const fn moved(at: usize, key: Key, length: usize) -> usize {
    let last = length.saturating_sub(1);
    let to = match key {
        Key::Up => at.saturating_sub(1),
        Key::Down => at + 1,
        Key::PageUp => at.saturating_sub(PAGE),
        Key::PageDown => at + PAGE,
        Key::Home => 0,
        Key::End => last,
        _ => at,
    };
    if to > last { last } else { to }
}

/// The most first; what is not known last.
fn descending(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))
}
