//! Events out of lines.

use std::io::{self, BufRead, Read as _};

use crate::{
    error::{EventError, Fault},
    event::RendererEvent,
    json::{
        decode::decode,
        line_error::{LineError, LineFault},
    },
};

/// Room for a resync of some two million backends.
const LIMIT_BYTES: usize = 256 * 1024 * 1024;

/// An event and the line that it stood on.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1, empty lines included.
    pub number: u64,
    /// The event in the line.
    pub event: RendererEvent,
}

/// Reads events line by line, and blocks until there is one. A faulty line is an error of its own:
/// the next one is read as if it had not been. Empty lines are skipped; the last one may lack its
/// line feed.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    limit: usize,
    number: u64,
    failed: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub const fn new(reader: R) -> Self {
        Self::with_limit(reader, LIMIT_BYTES)
    }

    /// The lines of `reader`, none longer than `limit` bytes.
    const fn with_limit(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            number: 0,
            failed: false,
        }
    }

    /// The next line without its line feed; `None` at the end.
    fn read(&mut self) -> Result<Option<Vec<u8>>, LineFault> {
        let Self { reader, limit, .. } = self;
        // A new buffer for each line: one that was grown by a resync would stay that large.
        let mut line = Vec::new();
        let bound = u64::try_from(*limit).unwrap_or(u64::MAX).saturating_add(1);
        if reader.by_ref().take(bound).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > *limit {
            drop(line);
            skip_line(reader)?;
            return Err(EventError::new(Fault::TooLong { limit: *limit }).into());
        }
        Ok(Some(line))
    }
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    reader.skip_until(b'\n').map(drop)
}

fn event(line: &[u8]) -> Result<RendererEvent, LineFault> {
    let text = str::from_utf8(line).map_err(|error| {
        let column = error.valid_up_to() + 1;
        EventError::new(Fault::Encoding { column })
    })?;
    Ok(decode(text)?)
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let line = self.read();
            if !matches!(line, Ok(None)) {
                self.number += 1;
            }
            let number = self.number;
            let event = match line {
                Ok(None) => return None,
                Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Some(line)) => event(&line),
                Err(fault) => {
                    self.failed = matches!(fault, LineFault::Read(_));
                    Err(fault)
                }
            };
            return Some(match event {
                Ok(event) => Ok(Line { number, event }),
                Err(fault) => Err(LineError {
                    line: number,
                    fault,
                }),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"event":"UpdateLocalFrontendIfs","new":["eth0"]}"#;

    /// The outcome of each line: its number and the event's name, or the error.
    fn outcomes(lines: Lines<impl BufRead>) -> Vec<String> {
        lines
            .map(|line| match line {
                Ok(Line { number, event }) => format!("{number} {}", event.kind().name()),
                Err(error) => error.to_string(),
            })
            .collect()
    }

    #[test]
    fn empty_lines_count_but_are_skipped_and_the_last_line_feed_may_be_missing() {
        let input = format!("\n{EVENT}\r\n   \n\n{EVENT}");
        assert_eq!(
            outcomes(Lines::new(input.as_bytes())),
            ["2 UpdateLocalFrontendIfs", "5 UpdateLocalFrontendIfs"]
        );
        assert_eq!(outcomes(Lines::new(&b""[..])), [""; 0]);
    }

    #[test]
    fn bytes_that_are_not_utf8_spoil_only_their_line() {
        let input = [EVENT.as_bytes(), b"\n{\"a\":\"\xff\"}\n", EVENT.as_bytes()].concat();
        assert_eq!(
            outcomes(Lines::new(input.as_slice())),
            [
                "1 UpdateLocalFrontendIfs",
                "line 2: not valid UTF-8 (column 7)",
                "3 UpdateLocalFrontendIfs"
            ]
        );
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_one_at_the_limit_is_read() {
        let input = format!("{EVENT}\n{EVENT} \n{EVENT}\n{EVENT} {EVENT}");
        assert_eq!(
            outcomes(Lines::with_limit(input.as_bytes(), EVENT.len())),
            [
                "1 UpdateLocalFrontendIfs",
                "line 2: longer than 49 bytes",
                "3 UpdateLocalFrontendIfs",
                "line 4: longer than 49 bytes"
            ]
        );
    }

    #[test]
    fn a_reader_that_fails_ends_the_lines() {
        struct Broken;

        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }

        let input = io::BufReader::new(EVENT.as_bytes().chain(&b"\n"[..]).chain(Broken));
        assert_eq!(
            outcomes(Lines::new(input)),
            ["1 UpdateLocalFrontendIfs", "line 2: cannot read on: broken"]
        );
    }
}
