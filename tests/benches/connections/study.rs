//! Medians and quartiles of values that were measured in turn.

/// Values by name, in the order in which the names came first.
#[derive(Default)]
pub(crate) struct Study {
    columns: Vec<(&'static str, Vec<f64>)>,
}

impl Study {
    /// Adds a round.
    pub(crate) fn add(&mut self, sample: Vec<(&'static str, f64)>) {
        for (name, value) in sample {
            match self.columns.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => self.columns.push((name, vec![value])),
            }
        }
    }

    /// Prints what came out.
    pub(crate) fn print(&self, title: &str) {
        println!("{title}");
        for (name, values) in &self.columns {
            let [low, median, high] = medians(values);
            println!("  {name:<34} {median:>9.2}   ({low:.2} to {high:.2})");
        }
        println!();
    }
}

/// The lower quartile, the median and the upper quartile.
pub(crate) fn medians(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[(((sorted.len() - 1) as f64) * share).round() as usize];
    [at(0.25), at(0.5), at(0.75)]
}
