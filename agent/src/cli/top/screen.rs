//! The terminal: drawn on while the command runs, and as it was before afterwards, whatever happens.

use std::{
    io::{self, Write as _},
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use anyhow::{Context as _, Result};
use ratatui::{
    Terminal,
    backend::TermionBackend,
    termion::{
        event::Key as Pressed, input::TermRead as _, raw::IntoRawMode as _,
        screen::IntoAlternateScreen as _,
    },
};

use shunt_api::view::FlowEvent;
use tokio::sync::watch;

use crate::cli::top::{
    model::{Key, Model},
    sample::Sample,
    view::{Colours, draw},
};

/// Inputs of the screen.
#[derive(Debug)]
pub(super) enum Input {
    Key(Key),
    /// The agent has answered.
    Sample(Box<Sample>),
    /// It does not, and why.
    Away(String),
    /// Events have come, and so many were lost since they are watched.
    Events(Vec<FlowEvent>, u64),
    /// There are none, and why.
    NoEvents(String),
    /// The terminal has another size.
    Resize,
    /// A signal is to end the process.
    Stop,
}

/// Shows the model until its user has seen enough. `inputs` are keys and answers; whatever comes at once is
/// drawn once. `watched`: of one connection in how many events are wanted, if they are.
///
/// # Errors
///
/// Standard output is no terminal, or cannot be written.
pub(super) fn run(
    inputs: &mpsc::Receiver<Input>,
    watched: &watch::Sender<Option<u32>>,
    colours: Colours,
) -> Result<()> {
    let panicked = Arc::new(Mutex::new(None));
    let told = Arc::clone(&panicked);
    let before = panic::take_hook();
    // Its text would be lost with the screen that it is written on.
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut told) = told.lock() {
            *told = Some(info.to_string());
        }
    }));
    let shown = panic::catch_unwind(AssertUnwindSafe(|| show(inputs, watched, colours)));
    panic::set_hook(before);
    // Of another thread, too.
    if let Ok(text) = panicked.lock()
        && let Some(text) = text.as_ref()
    {
        eprintln!("{text}");
    }
    shown.unwrap_or_else(|payload| panic::resume_unwind(payload))
}

fn show(
    inputs: &mpsc::Receiver<Input>,
    watched: &watch::Sender<Option<u32>>,
    colours: Colours,
) -> Result<()> {
    let output = io::stdout()
        .into_raw_mode()
        .context("standard output is no terminal")?;
    let output = output
        .into_alternate_screen()
        .context("cannot write to the terminal")?;
    // When this is dropped, on whatever way, the terminal is as it was before.
    let mut terminal = Terminal::new(TermionBackend::new(output))?;
    let mut model = Model::new();
    loop {
        terminal.draw(|frame| draw(&model, colours, frame))?;
        let Ok(first) = inputs.recv() else { break };
        for input in [first].into_iter().chain(inputs.try_iter()) {
            match input {
                Input::Key(key) => model.press(key),
                Input::Sample(sample) => model.take(*sample),
                Input::Away(why) => model.lose(why),
                Input::Events(events, lost) => model.take_events(events, lost),
                Input::NoEvents(why) => model.lose_events(why),
                // The next drawing reads it.
                Input::Resize => {}
                Input::Stop => model.is_over = true,
            }
        }
        if model.is_over {
            break;
        }
        watched.send_if_modified(|known| {
            let wanted = model.watched();
            std::mem::replace(known, wanted) != wanted
        });
    }
    terminal.show_cursor()?;
    io::stdout().flush()?;
    Ok(())
}

/// Hands on what is pressed, for as long as the process runs.
///
/// # Errors
///
/// There is no room for a thread.
pub(super) fn read_keys(screen: mpsc::Sender<Input>) -> Result<()> {
    let reading = thread::Builder::new().name("keys".to_owned());
    let read = move || {
        for key in io::stdin().keys() {
            let Ok(key) = key else { break };
            if let Some(key) = meaning(key)
                && screen.send(Input::Key(key)).is_err()
            {
                return;
            }
        }
        // No key could end it any more.
        drop(screen.send(Input::Stop));
    };
    reading.spawn(read).context("cannot start a thread")?;
    Ok(())
}

/// The key, if it is one that means something.
const fn meaning(key: Pressed) -> Option<Key> {
    Some(match key {
        Pressed::Char('\n' | '\r') => Key::Enter,
        Pressed::Char('\t') => Key::Tab,
        Pressed::Char(c) => Key::Char(c),
        Pressed::Up => Key::Up,
        Pressed::Down => Key::Down,
        Pressed::PageUp => Key::PageUp,
        Pressed::PageDown => Key::PageDown,
        Pressed::Home => Key::Home,
        Pressed::End => Key::End,
        Pressed::Backspace => Key::Backspace,
        Pressed::Esc => Key::Escape,
        Pressed::Ctrl('c') => Key::Interrupt,
        _ => return None,
    })
}
