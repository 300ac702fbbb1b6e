//! Lines, read in a thread of their own.

use std::{io, io::BufRead, thread};

use shunt_model::{Line, LineError, Lines};

/// Reads the events of `reader` in a thread of its own, decodes them there, and has each one delivered; `None`
/// at the end of the input. The thread ends there, or when `deliver` returns `false`.
///
/// A thread, because standard input can be read only by blocking, and an asynchronous runtime
/// would wait for that read when it shuts down; this thread goes with the process.
///
/// # Errors
///
/// The thread could not be started.
pub fn read_lines(
    reader: impl BufRead + Send + 'static,
    mut deliver: impl FnMut(Option<Result<Line, LineError>>) -> bool + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new()
        .name("events".to_owned())
        .spawn(move || {
            for line in Lines::new(reader) {
                if !deliver(Some(line)) {
                    return;
                }
            }
            deliver(None);
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_line_is_delivered_in_order_and_then_the_end() {
        let event = r#"{"event":"UpdateLocalBackendIfs","new":[]}"#;
        let input = io::Cursor::new(format!("{event}\nnonsense\n{event}\n"));
        let (sender, lines) = mpsc::channel();
        read_lines(input, move |line| sender.send(line).is_ok()).unwrap();
        let numbers: Vec<_> = lines
            .iter()
            .map(|line| line.map(|line| line.map_or_else(|error| error.line, |line| line.number)))
            .collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
    }
}
