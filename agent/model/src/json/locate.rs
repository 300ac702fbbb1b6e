//! The place in an event of an offset in its line.
//!
//! serde_json reports the column of an error but not the field. The path is found afterwards, by
//! walking over the text up to that column: decoding without errors pays nothing for it.

use crate::path::segment;

/// The way from the outermost object to a value.
#[derive(Debug, Default)]
pub(super) struct Place {
    levels: Vec<Level>,
}

/// A container that is open, and which of its values the walk has come to.
#[derive(Debug)]
struct Level {
    step: Step,
    /// Offset of the value's start, if it is a container itself.
    value_start: Option<usize>,
    /// In an object: the next string is a key.
    expects_key: bool,
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an object, no key read yet.
    Inside,
    /// To the value of a key.
    Key(String),
    /// To an element of a list.
    Index(usize),
}

impl Level {
    /// Goes to the next value.
    fn advance(&mut self) {
        self.value_start = None;
        if let Step::Index(index) = &mut self.step {
            *index += 1;
        } else {
            self.step = Step::Inside;
            self.expects_key = true;
        }
    }
}

impl Place {
    /// The place that the first `offset` bytes of `line` lead to.
    pub(super) fn at(line: &str, offset: usize) -> Self {
        let text = &line.as_bytes()[..offset.min(line.len())];
        let mut levels: Vec<Level> = Vec::new();
        let mut position = 0;
        while let Some(&byte) = text.get(position) {
            let innermost = levels.last_mut();
            match byte {
                b'{' | b'[' => {
                    if let Some(level) = innermost {
                        level.value_start = Some(position);
                    }
                    let expects_key = byte == b'{';
                    let step = if expects_key {
                        Step::Inside
                    } else {
                        Step::Index(0)
                    };
                    levels.push(Level {
                        step,
                        value_start: None,
                        expects_key,
                    });
                }
                b'}' | b']' => {
                    levels.pop();
                }
                b',' => {
                    if let Some(level) = innermost {
                        level.advance();
                    }
                }
                b'"' => {
                    let end = string_end(text, position);
                    if let Some(level) = innermost
                        && level.expects_key
                    {
                        level.step = Step::Key(unquote(&text[position..end]));
                        level.expects_key = false;
                    }
                    position = end;
                    continue;
                }
                _ => {}
            }
            position += 1;
        }
        Self { levels }
    }

    /// The steps, from the outermost.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.levels
            .iter()
            .map(|level| &level.step)
            .filter(|step| **step != Step::Inside)
    }

    /// Returns the start of the value that the first `depth` steps lead to, if it is an object or a
    /// list.
    pub(super) fn value_start(&self, depth: usize) -> Option<usize> {
        self.levels.get(depth.checked_sub(1)?)?.value_start
    }

    /// The steps after the first `skipped` as a path: `ports.http.port`.
    pub(super) fn path(&self, skipped: usize) -> String {
        let mut path = String::new();
        for step in self.steps().skip(skipped) {
            match step {
                Step::Inside => {}
                Step::Key(key) if path.is_empty() => path = segment(key),
                Step::Key(key) => path += &format!(".{}", segment(key)),
                Step::Index(index) => path += &format!("[{index}]"),
            }
        }
        path
    }
}

/// The offset behind the string that begins at `start`, or the end of the text.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut position = start + 1;
    loop {
        match text.get(position) {
            None => return text.len(),
            Some(b'"') => return position + 1,
            Some(b'\\') => position += 2,
            Some(_) => position += 1,
        }
    }
}

/// Returns the text of a quoted string.
fn unquote(quoted: &[u8]) -> String {
    serde_json::from_slice(quoted).unwrap_or_else(|_| String::from_utf8_lossy(quoted).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path to where `^` stands in the text.
    fn path_to_mark(text: &str) -> String {
        let offset = text.find('^').expect("the case has a mark");
        Place::at(&text.replace('^', ""), offset).path(0)
    }

    #[test]
    fn path_names_keys_and_indexes() {
        for (text, path) in [
            ("^{}", ""),
            ("{^}", ""),
            (r#"{"a":1^}"#, "a"),
            (r#"{"a":1,^"b":2}"#, ""),
            (r#"{"a":1,"b"^:2}"#, "b"),
            (r#"{"a":[1,2^]}"#, "a[1]"),
            (r#"{"a":[1,2]^}"#, "a"),
            (r#"{"a":{"b":[{"c":[]}^]}}"#, "a.b[0]"),
            (r#"{"a":{"b":[{},{"c":"x"^}]}}"#, "a.b[1].c"),
            (r#"{"a":"],{\"}","b":{"c":0^}}"#, "b.c"),
            (r#"{"a.b":{"":0^}}"#, r#""a.b"."""#),
            (r#"{"\u0061":0^}"#, "a"),
            (r#"}]},,"a":^"#, ""),
            (r#"{"unfinished^"#, r#""\"unfinished""#),
        ] {
            assert_eq!(path_to_mark(text), path, "{text}");
        }
    }
}
