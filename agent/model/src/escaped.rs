//! Foreign text where people read it.

use std::fmt::{self, Write as _};

/// Shows text that others chose so that it stays what it is: part of one line, read in its order.
///
/// A line feed in a name would forge a line of the log, an escape sequence would command the
/// terminal, and a bidirectional control would turn round what follows it (Unicode UAX #9). These
/// and other invisible characters are written as Rust writes them: `\n`, `\u{202e}`. Everything
/// else stays as it is, backslashes too, so that what is escaped already is not escaped again.
///
/// ```
/// # use shunt_model::Escaped;
/// assert_eq!(Escaped("web\nline 7: \u{1b}[2J").to_string(), "web\\nline 7: \\u{1b}[2J");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes what is written to it.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| must_be_escaped(*c)) {
            self.0.write_str(&rest[..at])?;
            // Not `escape_debug`: it leaves some of them as they are.
            match found {
                '\n' | '\r' | '\t' => write!(self.0, "{}", found.escape_default())?,
                _ => write!(self.0, "{}", found.escape_unicode())?,
            }
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Returns whether a character moves the cursor, ends a line, changes the direction of reading, or cannot
/// be seen: controls (C0, DEL, C1), line and paragraph separators, bidirectional controls, and the
/// format characters of Unicode without a shape of their own.
pub const fn must_be_escaped(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_how_a_line_is_read_is_escaped() {
        for (text, shown) in [
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("\0\x07\x1b[31m\x7f", r"\u{0}\u{7}\u{1b}[31m\u{7f}"),
            ("\u{85}\u{9b}2J", r"\u{85}\u{9b}2J"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            (
                "\u{202e}moc\u{2066}\u{2069}",
                r"\u{202e}moc\u{2066}\u{2069}",
            ),
            ("\u{200f}\u{feff}\u{e0041}", r"\u{200f}\u{feff}\u{e0041}"),
        ] {
            assert_eq!(Escaped(text).to_string(), shown);
            assert_eq!(Escaped(shown).to_string(), shown, "once is enough");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["", "default/web", r"C:\n", "Grüße, 世界", "\"`'"] {
            assert_eq!(Escaped(text).to_string(), text);
        }
    }
}
