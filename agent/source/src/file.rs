//! Events of a file or a stream, one JSON object a line.

use std::{
    convert::Infallible,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    str::FromStr,
};

use shunt_model::{Line, LineError, LineFault};
use shunt_runtime::{Ending, EventQueue, Origin};

use crate::{event_source::EventSource, reader::read_lines};

/// A large resync should not take a system call for every few kilobytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Place to read events from: the value of `--events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input, written `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Input {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for reading.
    pub fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(match self {
            Self::Stdin => Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())),
            Self::File(path) => Box::new(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?)),
        })
    }
}

impl FromStr for Input {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" {
            Self::Stdin
        } else {
            Self::File(text.into())
        })
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The lines of a file or a stream, which is open.
pub struct FileSource {
    input: Input,
    reader: Box<dyn BufRead + Send>,
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

impl FileSource {
    /// Opens `input`.
    ///
    /// # Errors
    ///
    /// It cannot be opened for reading.
    pub fn open(input: Input) -> io::Result<Self> {
        let reader = input.open()?;
        Ok(Self { input, reader })
    }
}

impl fmt::Display for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reading events from {}", self.input)
    }
}

impl EventSource for FileSource {
    type Handle = ();

    fn start(self, queue: EventQueue) -> io::Result<()> {
        // A reading that failed is the last line.
        let mut failed = false;
        read_lines(self.reader, move |line| {
            let delivered = match line {
                Some(line) => deliver(&queue, line, &mut failed),
                None if failed => Ok(()),
                None => queue.end_blocking(Ok(())),
            };
            delivered.is_ok()
        })
    }
}

fn deliver(
    queue: &EventQueue,
    line: Result<Line, LineError>,
    failed: &mut bool,
) -> Result<(), Ending> {
    let origin = |number| Origin {
        unit: "line",
        number,
    };
    match line {
        Ok(Line { number, event }) => queue.deliver_blocking(origin(number), Ok(event)),
        Err(LineError { line, fault }) => match fault {
            LineFault::Event(error) => queue.deliver_blocking(origin(line), Err(error)),
            LineFault::Read(error) => {
                *failed = true;
                queue.end_blocking(Err((origin(line), error)))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use shunt_runtime::queue;

    use super::*;

    const EVENT: &str = r#"{"event":"UpdateLocalBackendIfs","new":[]}"#;

    /// Returns the output of the queue for this input.
    fn delivered(reader: impl BufRead + Send + 'static) -> Vec<String> {
        let source = FileSource {
            input: Input::Stdin,
            reader: Box::new(reader),
        };
        let (queue, mut requests) = queue();
        source.start(queue).unwrap();
        let mut found = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            while let Some(event) = requests.next_event().await {
                found.push(event);
            }
        });
        found
    }

    #[test]
    fn lines_are_delivered_with_their_numbers_and_then_the_end() {
        let input = format!("{EVENT}\n\nnonsense\n{EVENT}\n");
        assert_eq!(
            delivered(io::Cursor::new(input)),
            [
                "line 1: UpdateLocalBackendIfs",
                "line 3: not valid JSON: expected ident (column 2)",
                "line 4: UpdateLocalBackendIfs",
                "the end"
            ]
        );
    }

    #[test]
    fn a_reading_that_fails_is_the_end() {
        struct Broken;

        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }

        assert_eq!(delivered(BufReader::new(Broken)), ["line 1: broken"]);
    }
}
