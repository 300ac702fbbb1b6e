//! One turn of every subject.

/// Figures of a subject in one round, by name.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// A sample of these figures, or of a single one without a name: `sample([("", 1.0)])`.
pub(crate) fn sample(figures: impl IntoIterator<Item = (&'static str, f64)>) -> Sample {
    figures.into_iter().collect()
}

/// The samples of all subjects in one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    samples: Vec<(String, Sample)>,
}

impl Round {
    pub(super) fn put(&mut self, subject: &str, sample: Sample) {
        self.samples.push((subject.to_owned(), sample));
    }

    /// A subject's figure.
    pub(crate) fn get(&self, subject: &str, figure: &str) -> Option<f64> {
        let (_, sample) = self.samples.iter().find(|(name, _)| name == subject)?;
        let (_, value) = sample.iter().find(|(name, _)| *name == figure)?;
        Some(*value)
    }

    /// The names of a subject's figures, in its order.
    pub(super) fn figures(&self, subject: &str) -> impl Iterator<Item = &'static str> {
        let found = self.samples.iter().find(|(name, _)| name == subject);
        found
            .into_iter()
            .flat_map(|(_, sample)| sample.iter().map(|(name, _)| *name))
    }
}
