//! Charts: a bar for each row's median ratio, with whiskers to the quartiles.

use anyhow::{Result, anyhow};
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::number::ratio;
use crate::measure::{Results, Role, Spread};

const WIDTH: u32 = 900;
const ROW: u32 = 22;
const ABOVE: u32 = 44;
const BELOW: u32 = 12;
/// Where the bars begin and end; text is left and right of that.
const BARS: (i32, i32) = (330, 780);
/// Generic: an SVG takes the fonts of whoever shows it.
const FONT: &str = "sans-serif";

/// What the chart of a study is called.
pub(super) fn file_name(study: &str) -> String {
    format!("{}.svg", study.replace('/', "-"))
}

/// The chart of a study.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn svg(results: &Results) -> Result<String> {
    let mut text = String::new();
    {
        let rows = results.rows.len() as u32;
        let area = SVGBackend::with_string(&mut text, (WIDTH, ABOVE + BELOW + ROW * rows))
            .into_drawing_area();
        // Its errors borrow the text.
        draw(&area, results).map_err(|error| anyhow!("cannot draw {}: {error}", results.study))?;
    }
    Ok(text)
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    results: &Results,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let text = |size: u32, color: &RGBColor, side: HPos| {
        (FONT, size)
            .into_font()
            .color(color)
            .pos(Pos::new(side, VPos::Center))
    };
    let title = format!("{} ({}), over the first row", results.study, results.unit);
    area.draw(&Text::new(title, (10, 20), text(18, &BLACK, HPos::Left)))?;

    let ratios = results.rows.iter().filter_map(|row| row.ratio);
    let most = ratios.map(|ratio| ratio.upper).fold(1.0, f64::max);
    let across = |ratio: f64| {
        let (begin, end) = BARS;
        let share = (ratio / most).clamp(0.0, 1.0);
        begin + (share * f64::from(end - begin)) as i32
    };
    for (place, row) in results.rows.iter().enumerate() {
        let middle = (ABOVE + ROW * place as u32 + ROW / 2) as i32;
        let name = format!("{} {}", row.subject, row.figure);
        let style = text(15, &BLACK, HPos::Right);
        area.draw(&Text::new(name, (BARS.0 - 8, middle), style))?;
        let Some(Spread {
            lower,
            median,
            upper,
        }) = row.ratio
        else {
            continue;
        };
        let color = match row.role {
            Role::Baseline | Role::Again => RGBColor(0xb0, 0xb0, 0xb0),
            Role::Subject => RGBColor(0x3b, 0x7d, 0xb8),
        };
        area.draw(&Rectangle::new(
            [(across(0.0), middle - 7), (across(median), middle + 7)],
            color.filled(),
        ))?;
        area.draw(&PathElement::new(
            [(across(lower), middle), (across(upper), middle)],
            BLACK,
        ))?;
        for end in [lower, upper] {
            let (x, half) = (across(end), 4);
            area.draw(&PathElement::new(
                [(x, middle - half), (x, middle + half)],
                BLACK,
            ))?;
        }
        area.draw(&Text::new(
            ratio(median),
            (BARS.1 + 8, middle),
            text(15, &BLACK, HPos::Left),
        ))?;
    }
    let one = across(1.0);
    area.draw(&PathElement::new(
        [
            (one, ABOVE as i32),
            (one, (ABOVE + ROW * results.rows.len() as u32) as i32),
        ],
        RGBColor(0x80, 0x80, 0x80),
    ))?;
    area.present()
}
