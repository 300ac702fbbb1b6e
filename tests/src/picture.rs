//! Pictures of a terminal, for documents: the output of `tmux capture-pane -e`, as SVG.

use std::fmt::Write as _;

/// The size of a character, and the room around all of them, in pixels.
const CELL: (u32, u32) = (8, 17);
const MARGIN: u32 = 8;

/// A dark terminal, and the colours that programs ask for by number: black, red, green, yellow, blue, magenta,
/// cyan, white.
const BACKGROUND: &str = "#1c1f24";
const TEXT: &str = "#d8dee4";
const COLOURS: [&str; 8] = [
    "#4a515b", "#ff7b72", "#56d364", "#e3b341", "#79b8ff", "#d2a8ff", "#4fd1d9", "#f0f3f6",
];

/// Look of characters, by the escape sequences before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Look {
    bold: bool,
    underlined: bool,
    reversed: bool,
    colour: Option<usize>,
}

impl Look {
    /// Takes the numbers of a sequence that ends with `m` (ECMA-48, SGR).
    fn obey(&mut self, numbers: &str) {
        let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                4 => self.underlined = true,
                7 => self.reversed = true,
                22 => self.bold = false,
                24 => self.underlined = false,
                27 => self.reversed = false,
                colour @ 30..=37 => self.colour = Some(colour - 30),
                // One of the palette: 38, 5 and its number, of which only the first sixteen are drawn.
                38 if numbers.next() == Some(5) => {
                    self.colour = numbers
                        .next()
                        .filter(|colour| *colour < 16)
                        .map(|colour| colour % 8);
                }
                // As paper it is not drawn.
                48 if numbers.next() == Some(5) => _ = numbers.next(),
                39 => self.colour = None,
                colour @ 90..=97 => self.colour = Some(colour - 90),
                _ => {}
            }
        }
    }
}

/// A picture of `text`, at most `columns` wide and `lines` high.
pub fn terminal_svg(text: &str, columns: usize, lines: usize) -> String {
    let (cell_width, cell_height) = CELL;
    let width = columns as u32 * cell_width + 2 * MARGIN;
    let height = lines as u32 * cell_height + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
    let mut look = Look::default();
    for (number, line) in text.lines().take(lines).enumerate() {
        for (begin, length, run) in runs(line, &mut look) {
            draw(&mut svg, number as u32, begin as u32, length as u32, &run);
        }
    }
    svg + "</svg>\n"
}

/// Characters that look alike: where they begin, how many they are, and what they are.
fn runs(line: &str, look: &mut Look) -> Vec<(usize, usize, (Look, String))> {
    let mut runs: Vec<(usize, usize, (Look, String))> = Vec::new();
    let (mut column, mut characters) = (0, line.chars());
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            // Only looks are captured: ESC [ numbers m.
            let sequence: String = characters.by_ref().take_while(|c| *c != 'm').collect();
            look.obey(sequence.trim_start_matches('['));
            continue;
        }
        match runs.last_mut() {
            Some((_, length, (of_run, text))) if of_run == look => {
                *length += 1;
                text.push(character);
            }
            _ => runs.push((column, 1, (*look, character.to_string()))),
        }
        column += 1;
    }
    runs
}

fn draw(svg: &mut String, line: u32, begin: u32, length: u32, (look, text): &(Look, String)) {
    let (cell_width, cell_height) = CELL;
    let (x, y) = (MARGIN + begin * cell_width, MARGIN + line * cell_height);
    let width = length * cell_width;
    let colour = look.colour.map_or(TEXT, |colour| COLOURS[colour]);
    let (ink, paper) = if look.reversed {
        (BACKGROUND, Some(colour))
    } else {
        (colour, None)
    };
    if let Some(paper) = paper {
        let _written = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{cell_height}\" fill=\"{paper}\"/>"
        );
    }
    if look.underlined {
        let below = y + cell_height - 2;
        let _written = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{below}\" width=\"{width}\" height=\"1\" fill=\"{ink}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if look.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let base = y + 13;
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _written = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{base}\" fill=\"{ink}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\"{weight}>{text}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_one_text() {
        let mut look = Look::default();
        let found = runs("a\x1b[1;31mb\x1b[38;5;1mc\x1b[0m d", &mut look);
        let red = Look {
            bold: true,
            colour: Some(1),
            ..Look::default()
        };
        assert_eq!(
            found,
            [
                (0, 1, (Look::default(), "a".to_owned())),
                (1, 2, (red, "bc".to_owned())),
                (3, 2, (Look::default(), " d".to_owned())),
            ]
        );
    }

    #[test]
    fn a_picture_is_as_large_as_the_terminal_and_text_is_no_markup() {
        let svg = terminal_svg("<a&b>\n\x1b[7mx\x1b[27m\nbelow", 10, 2);
        assert!(svg.starts_with("<svg xmlns"), "{svg}");
        assert!(svg.contains("width=\"96\" height=\"50\""), "{svg}");
        assert!(svg.contains(">&lt;a&amp;b></text>"), "{svg}");
        assert!(!svg.contains("below"), "{svg}");
    }
}
