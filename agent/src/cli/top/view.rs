//! The screen: a picture of the [model](Model), at whatever size there is.

use humantime::format_rfc3339_seconds;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row, Table, TableState},
};
use shunt_api::view::{FlowEvent, FlowKind, TableUse};
use shunt_print::elapsed::duration;

use crate::cli::top::{
    events::service,
    model::{Model, Page},
    numbers::{bar, count, percent, rate},
    rates::{BackendRow, CounterRow, ServiceRow},
};

/// Use of a table from which on it is emphasised, in percent.
const CROWDED: u64 = 80;

/// Colours on or off; without them bold and reversed text mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    On,
    Off,
}

impl Colours {
    fn style(self, colour: Color) -> Style {
        match self {
            Self::On => Style::new().fg(colour),
            Self::Off => Style::new(),
        }
    }

    fn alarm(self) -> Style {
        self.style(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Draws all of it.
pub(super) fn draw(model: &Model, colours: Colours, frame: &mut Frame<'_>) {
    let area = frame.area();
    let troubles = troubles(model, colours);
    // On a small screen the list counts for more than a second sentence.
    let shown = if area.height >= 16 { troubles.len() } else { 1 };
    let shown = troubles.len().min(shown).min(4) as u16;
    let [head, connections, sentences, list, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(shown),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(self::head(model, head.width), head);
    frame.render_widget(
        self::connections(model, colours, connections.width),
        connections,
    );
    frame.render_widget(Paragraph::new(troubles), sentences);
    match &model.page {
        Page::Services => services(model, colours, frame, list),
        Page::Backends(_) => backends(model, colours, frame, list),
        Page::Node => node(model, colours, frame, list),
        Page::Events => events(model, colours, frame, list),
    }
    frame.render_widget(self::keys(model), keys);
}

/// Returns the first line: the rates of all services together, and facts of the agent.
fn head(model: &Model, width: u16) -> Paragraph<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut spans = vec![Span::styled("shunt", bold)];
    if let Some(sample) = model.sample() {
        let (new, errors) = model.totals();
        let mut facts = vec![
            format!("{} new/s", rate(new)),
            format!("{} errors/s", rate(errors)),
        ];
        if width >= 60 {
            facts.push(format!("{} service ports", sample.services.len()));
            facts.push(format!("up {}", duration(sample.uptime_seconds)));
        }
        if width >= 100 {
            facts.push(format!("version {}", sample.version));
        }
        spans.push(Span::raw(format!("  {}", facts.join(", "))));
    }
    if model.is_paused {
        let paused = bold.add_modifier(Modifier::REVERSED);
        spans.extend([Span::raw(" "), Span::styled(" paused ", paused)]);
    }
    Paragraph::new(Line::from(spans))
}

/// Returns the use of the connection table.
fn connections(model: &Model, colours: Colours, width: u16) -> Paragraph<'static> {
    let Some(sample) = model.sample() else {
        return Paragraph::new(if model.away.is_some() {
            ""
        } else {
            "asking the agent ..."
        });
    };
    let (used, capacity) = sample.connections();
    let full = percent(used, capacity);
    let style = if full >= CROWDED {
        colours.alarm()
    } else {
        colours.style(Color::Green)
    };
    let text = format!(" {full}%, {} of {}", count(used), count(capacity));
    let before = "connections ";
    let room = usize::from(width).saturating_sub(before.len() + text.len());
    Paragraph::new(Line::from(vec![
        Span::raw(before),
        Span::styled(bar(used, capacity, room.min(50)), style),
        Span::raw(text),
    ]))
}

/// Returns the problems, a line each, the worst first.
fn troubles(model: &Model, colours: Colours) -> Vec<Line<'static>> {
    let away = model.away.iter();
    let away = away.map(|why| Line::styled(format!("! {why}; asking again"), colours.alarm()));
    let sample = model.sample().into_iter();
    let known = sample.flat_map(|sample| sample.troubles.iter());
    let warning = colours.style(Color::Yellow);
    let known = known.map(|text| Line::styled(format!("! {text}"), warning));
    away.chain(known).collect()
}

/// A column of a table: its heading, its width, and what a row has there.
struct Column<'a, R> {
    heading: String,
    width: Constraint,
    cell: Box<dyn Fn(&R) -> Span<'static> + 'a>,
}

fn column<'a, R>(
    heading: &str,
    width: Constraint,
    cell: impl Fn(&R) -> Span<'static> + 'a,
) -> Column<'a, R> {
    Column {
        heading: heading.to_owned(),
        width,
        cell: Box::new(cell),
    }
}

/// Draws rows, of which those are on the screen that the cursor is among.
fn table<R>(
    rows: &[R],
    columns: &[Column<'_, R>],
    cursor: Option<usize>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let heading = columns.iter().map(|column| column.heading.clone());
    let heading = Row::new(heading).style(bold.add_modifier(Modifier::UNDERLINED));
    // Only what is on the screen is made.
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let first = cursor.map_or(0, |cursor| (cursor + 1).saturating_sub(height));
    let shown = rows.iter().skip(first).take(height);
    let shown = shown.map(|row| Row::new(columns.iter().map(|column| (column.cell)(row))));
    let table = Table::new(shown, columns.iter().map(|column| column.width))
        .header(heading)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(cursor.map(|cursor| cursor - first));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A number, at the right of its column.
fn number(text: &str, width: usize) -> Span<'static> {
    Span::raw(format!("{text:>width$}"))
}

fn services(model: &Model, colours: Colours, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.services();
    if rows.is_empty() {
        let text = match (model.sample(), model.filter.is_empty()) {
            (None, _) => "",
            (Some(_), true) => "no service is translated",
            (Some(_), false) => "no service is called so",
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let errors = move |row: &ServiceRow| {
        let text = format!("{:>8}", rate(row.errors));
        if row.errors.is_some_and(|errors| errors > 0.0) {
            Span::styled(text, colours.alarm())
        } else {
            Span::raw(text)
        }
    };
    let usable = move |row: &ServiceRow| {
        let (usable, all) = row.backends;
        let text = if usable == all {
            usable.to_string()
        } else {
            format!("{usable} of {all}")
        };
        let text = format!("{text:>8}");
        if usable == 0 {
            Span::styled(text, colours.alarm())
        } else {
            Span::raw(text)
        }
    };
    let name = |row: &ServiceRow| {
        let label = row.id.label();
        Span::raw(if row.differs {
            format!("{label} (differs)")
        } else {
            label
        })
    };
    let active = |row: &ServiceRow| number(&row.active.map_or_else(|| "-".to_owned(), count), 7);
    let total = |row: &ServiceRow| number(&count(row.total), 10);
    let mut columns = vec![
        column("SERVICE", Constraint::Min(12), name),
        column("   NEW/S", Constraint::Length(8), |row: &ServiceRow| {
            number(&rate(row.new), 8)
        }),
        column("ERRORS/S", Constraint::Length(8), errors),
    ];
    if area.width >= 60 {
        columns.push(column(" ACTIVE", Constraint::Length(7), active));
        columns.push(column("BACKENDS", Constraint::Length(8), usable));
    }
    if area.width >= 100 {
        columns.push(column("     TOTAL", Constraint::Length(10), total));
        columns.push(column(
            "FRONTEND",
            Constraint::Max(36),
            |row: &ServiceRow| Span::raw(row.frontend.clone()),
        ));
    }
    table(&rows, &columns, model.cursor(&rows), frame, area);
}

fn backends(model: &Model, colours: Colours, frame: &mut Frame<'_>, area: Rect) {
    let Some((id, counted)) = model.opened() else {
        return;
    };
    let [title, list] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let Some(counted) = counted else {
        let text = format!("{} is not there any more", id.label());
        frame.render_widget(Paragraph::new(text), title);
        return;
    };
    let row = model.services().into_iter().find(|row| row.id == *id);
    let new = row.as_ref().and_then(|row| row.new);
    let text = format!(
        "{}: {} new/s, {} in all, {} frontends",
        id.label(),
        rate(new),
        count(counted.connections),
        counted.frontends.len()
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(text).style(bold), title);
    if counted.backends.is_empty() {
        let text = "it has no backend: new connections are refused or dropped";
        frame.render_widget(Paragraph::new(text).style(colours.alarm()), list);
        return;
    }
    let rows = model.backends();
    let [v4, v6] = [false, true].map(|is_ipv6| counted.weights(is_ipv6));
    let weights = move |row: &BackendRow| if row.address.is_ipv6() { v6 } else { v4 };
    let share = move |row: &BackendRow| {
        let share = percent(row.usage.weight.into(), weights(row));
        number(&format!("{share}%"), 5)
    };
    let active =
        |row: &BackendRow| number(&row.usage.active.map_or_else(|| "-".to_owned(), count), 7);
    let new = |row: &BackendRow| number(&rate(row.new), 7);
    let address = |row: &BackendRow| Span::raw(row.address.to_string());
    let lengths = rows.iter().map(|row| row.address.to_string().len() as u16);
    // The other columns, with the gaps between them.
    let others = match area.width {
        100.. => 62,
        60.. => 46,
        _ => 15,
    };
    let most = area.width.saturating_sub(others).max(18);
    let longest = lengths.max().unwrap_or_default().clamp(18, most);
    let mut columns = vec![
        column("BACKEND", Constraint::Min(longest), address),
        column("  NEW/S", Constraint::Length(7), new),
        column("SHARE", Constraint::Length(5), share),
    ];
    if area.width >= 60 {
        let weight = |row: &BackendRow| number(&row.usage.weight.to_string(), 10);
        let place = |row: &BackendRow| {
            Span::raw(if row.usage.local {
                "this node"
            } else {
                "elsewhere"
            })
        };
        let part = move |row: &BackendRow| {
            let style = colours.style(Color::Cyan);
            Span::styled(bar(row.usage.weight.into(), weights(row), 20), style)
        };
        columns.push(column(" ACTIVE", Constraint::Length(7), active));
        columns.push(column("    WEIGHT", Constraint::Length(10), weight));
        columns.push(column("WHERE", Constraint::Length(9), place));
        if area.width >= 100 {
            let total = |row: &BackendRow| number(&count(row.usage.connections), 10);
            columns.push(column("     TOTAL", Constraint::Length(10), total));
        }
        columns.push(column("", Constraint::Max(22), part));
    }
    let cursor = model.line.min(rows.len() - 1);
    table(&rows, &columns, Some(cursor), frame, list);
}

/// The tables, and what the programs counted.
fn node(model: &Model, colours: Colours, frame: &mut Frame<'_>, area: Rect) {
    let Some(sample) = model.sample() else { return };
    let used = sample.tables.iter().filter(|table| table.used > 0);
    let used: Vec<TableUse> = used.cloned().collect();
    let room = (area.height / 2).min(used.len() as u16 + 1);
    let [tables, counters] =
        Layout::vertical([Constraint::Length(room), Constraint::Min(1)]).areas(area);
    let bar_width = usize::from(area.width.saturating_sub(48)).min(30);
    let name = |row: &TableUse| Span::raw(row.name.clone());
    let taken = |row: &TableUse| number(&count(row.used), 10);
    let capacity = |row: &TableUse| number(&count(row.capacity), 10);
    let part = move |row: &TableUse| {
        let style = if percent(row.used, row.capacity) >= CROWDED {
            colours.alarm()
        } else {
            colours.style(Color::Green)
        };
        Span::styled(bar(row.used, row.capacity, bar_width), style)
    };
    let columns = [
        column("TABLE", Constraint::Min(16), name),
        column("      USED", Constraint::Length(10), taken),
        column("      ROOM", Constraint::Length(10), capacity),
        column("", Constraint::Length(bar_width as u16), part),
    ];
    table(&used, &columns, None, frame, tables);
    let counted = model.counters();
    let name = |row: &CounterRow| Span::raw(row.name.clone());
    let often = |row: &CounterRow| number(&rate(row.rate), 7);
    let total = |row: &CounterRow| number(&count(row.total), 11);
    let columns = [
        column("COUNTED", Constraint::Min(16), name),
        column("     /S", Constraint::Length(7), often),
        column("      TOTAL", Constraint::Length(11), total),
    ];
    let cursor = (!counted.is_empty()).then(|| model.line.min(counted.len() - 1));
    table(&counted, &columns, cursor, frame, counters);
}

/// Draws the events of connections and packets, the newest first.
fn events(model: &Model, colours: Colours, frame: &mut Frame<'_>, area: Rect) {
    let [title, list] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let events = &model.events;
    let rows = events.of(&model.filter);
    let style = Style::new().add_modifier(Modifier::BOLD);
    let (text, style) = match &events.problem {
        Some(problem) => (format!("! {problem}"), colours.alarm()),
        None if rows.is_empty() => ("no event yet".to_owned(), style),
        None => {
            let mut text = "events, the newest first, in UTC".to_owned();
            if events.one_in > 1 {
                text += &format!("; of one connection in {}", events.one_in);
            }
            if events.lost > 0 {
                text += &format!("; {} were lost", count(events.lost));
            }
            (text, style)
        }
    };
    frame.render_widget(Paragraph::new(text).style(style), title);
    let optional = |text: Option<String>| Span::raw(text.unwrap_or_default());
    let kind = move |event: &&FlowEvent| {
        let style = match event.kind {
            FlowKind::Opened => colours.style(Color::Green),
            FlowKind::Ended => Style::new(),
            FlowKind::Refused | FlowKind::Dropped => colours.alarm(),
        };
        Span::styled(event.kind.name(), style)
    };
    let client = move |event: &&FlowEvent| optional(event.client.map(|end| end.to_string()));
    let backend = move |event: &&FlowEvent| optional(event.backend.map(|end| end.to_string()));
    let reason = |event: &&FlowEvent| Span::raw(event.reason.clone());
    // Of one that begins it is where it leads to that counts, of all others how they end.
    let outcome = move |event: &&FlowEvent| match event.kind {
        FlowKind::Opened => backend(event),
        FlowKind::Ended | FlowKind::Refused | FlowKind::Dropped => reason(event),
    };
    let time = |event: &&FlowEvent| {
        let text = format_rfc3339_seconds(event.time).to_string();
        // `2026-01-31T12:34:56Z`: the day is known.
        Span::raw(text.get(11..19).unwrap_or_default().to_owned())
    };
    let lasted = move |event: &&FlowEvent| {
        optional(
            event
                .duration
                .map(|time| format!("{:.1}s", time.as_secs_f64())),
        )
    };
    let mut columns = vec![
        column("TIME", Constraint::Length(8), time),
        column("KIND", Constraint::Length(7), kind),
    ];
    if area.width >= 60 {
        columns.push(column("CLIENT", Constraint::Min(21), client));
    }
    columns.push(column(
        "SERVICE",
        Constraint::Min(16),
        |event: &&FlowEvent| Span::raw(service(event)),
    ));
    if area.width >= 100 {
        columns.push(column("BACKEND", Constraint::Min(21), backend));
        columns.push(column("REASON", Constraint::Max(22), reason));
        columns.push(column("AFTER", Constraint::Length(8), lasted));
    } else {
        columns.push(column("TO, OR WHY", Constraint::Min(16), outcome));
    }
    let cursor = (!rows.is_empty()).then(|| model.line.min(rows.len() - 1));
    table(&rows, &columns, cursor, frame, list);
}

/// Returns the line with the keys.
fn keys(model: &Model) -> Paragraph<'static> {
    if model.is_typing {
        return Paragraph::new(format!("/{}_  enter keeps it, esc ends it", model.filter));
    }
    let (page, sort) = match &model.page {
        Page::Services => ("↵ open", format!("s sort:{}  ", model.sort.name())),
        Page::Backends(_) | Page::Node | Page::Events => ("esc back", String::new()),
    };
    let filter = if model.filter.is_empty() {
        "/ filter".to_owned()
    } else {
        format!("/{} esc all", model.filter)
    };
    Paragraph::new(format!(
        "q quit  {page}  {sort}e events  tab node  {filter}  p pause  ↑↓ go"
    ))
}
