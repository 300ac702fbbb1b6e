//! Lines for a loop that must not block.

use std::{io, io::BufRead, thread};

use tokio::sync::mpsc;

use super::{Line, LineError, Lines};

/// How many decoded events wait for the renderer before the reader does.
const AHEAD: usize = 16;

/// Reads the events of `reader` in a thread of its own, and decodes them there. The channel closes
/// at the end of the input; the thread ends when the receiver is gone and one more line came.
///
/// A thread, because standard input can be read only by blocking, and an asynchronous runtime
/// would wait for that read when it shuts down; this thread goes with the process.
///
/// # Errors
///
/// The thread could not be started.
pub fn feed(
    reader: impl BufRead + Send + 'static,
) -> io::Result<mpsc::Receiver<Result<Line, LineError>>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::Builder::new()
        .name("events".to_owned())
        .spawn(move || {
            for line in Lines::new(reader) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_gives_every_line_in_order_and_closes_at_the_end() {
        let event = r#"{"event":"UpdateLocalBackendIfs","new":[]}"#;
        let mut lines = feed(io::Cursor::new(format!("{event}\nnonsense\n{event}\n"))).unwrap();
        let mut numbers = Vec::new();
        while let Some(line) = lines.blocking_recv() {
            numbers.push(line.map_or_else(|error| error.line, |line| line.number));
        }
        assert_eq!(numbers, [1, 2, 3]);
    }
}
