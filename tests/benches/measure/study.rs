//! A study: subjects that take turns.

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use shunt_tests::interrupt;

use super::{Bound, Results, Role, Round, Row, Sample, Spread};

/// Number of rounds, unless the study sets another one.
const ROUNDS: usize = 9;

/// The direction of better figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    /// Lower ones: times and sizes.
    Lower,
    /// Higher ones: throughput.
    Higher,
}

/// Subjects that take turns. In each round every one runs once, in another order than in the
/// round before, so that what changes about the machine meanwhile meets all of them alike.
///
/// The first of them is the baseline, which runs a second time in each round under another name:
/// the distance between the two is the noise.
pub(crate) struct Study<'a> {
    name: String,
    unit: String,
    better: Better,
    rounds: usize,
    again: bool,
    subjects: Vec<Subject<'a>>,
    bounds: Vec<Bound<'a>>,
}

struct Subject<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Sample> + 'a>,
}

/// A subject's turn, and the name that it counts under.
struct Turn {
    subject: usize,
    name: String,
    role: Role,
}

impl<'a> Study<'a> {
    /// A study without subjects. `name` is the suite's and the study's own, as
    /// `packets/established`; `unit` is the unit of a figure, as `ns a packet`.
    pub(crate) fn new(name: impl Into<String>, unit: impl Into<String>, better: Better) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            better,
            rounds: ROUNDS,
            again: true,
            subjects: Vec::new(),
            bounds: Vec::new(),
        }
    }

    /// The study's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds a subject; the first is the baseline. `run` is called once a round, and once before
    /// the first, to warm up.
    #[must_use]
    pub(crate) fn subject(
        mut self,
        name: impl Into<String>,
        run: impl FnMut() -> Result<Sample> + 'a,
    ) -> Self {
        self.subjects.push(Subject {
            name: name.into(),
            run: Box::new(run),
        });
        self
    }

    /// Adds a bound.
    #[must_use]
    pub(crate) fn bound(mut self, bound: Bound<'a>) -> Self {
        self.bounds.push(bound);
        self
    }

    /// Measures this many rounds.
    #[must_use]
    pub(crate) const fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Runs the baseline only once a round, and nothing before the first round: for what takes
    /// many seconds.
    #[must_use]
    pub(crate) const fn slow(mut self) -> Self {
        self.again = false;
        self
    }

    /// Runs the rounds.
    ///
    /// # Errors
    ///
    /// When a subject fails, gives different figures in different rounds, or a bound asks for a
    /// figure that there is none of; when the user stops it.
    pub(crate) fn run(mut self) -> Result<Results> {
        let turns = self.turns();
        if turns.is_empty() || self.rounds == 0 {
            bail!("study {} has nothing to run", self.name);
        }
        eprintln!("{}: {} rounds", self.name, self.rounds);
        if self.again {
            self.round(&turns, 0)?;
        }
        let rounds = (0..self.rounds)
            .map(|number| self.round(&turns, number))
            .collect::<Result<Vec<_>>>()?;
        self.results(&turns, &rounds)
    }

    /// The turns of all subjects in the first round.
    fn turns(&self) -> Vec<Turn> {
        let mut turns = Vec::new();
        for (subject, Subject { name, run: _ }) in self.subjects.iter().enumerate() {
            let role = if subject == 0 {
                Role::Baseline
            } else {
                Role::Subject
            };
            turns.push(Turn {
                subject,
                name: name.clone(),
                role,
            });
            if subject == 0 && self.again {
                turns.push(Turn {
                    subject,
                    name: format!("{name} (again)"),
                    role: Role::Again,
                });
            }
        }
        turns
    }

    fn round(&mut self, turns: &[Turn], number: usize) -> Result<Round> {
        let mut round = Round::default();
        for place in order(turns.len(), number) {
            interrupt::check()?;
            let Turn {
                subject,
                name,
                role: _,
            } = &turns[place];
            let sample = (self.subjects[*subject].run)()
                .with_context(|| format!("{}: {name}", self.name))?;
            round.put(name, sample);
        }
        Ok(round)
    }

    fn results(&self, turns: &[Turn], rounds: &[Round]) -> Result<Results> {
        let mut rows = Vec::new();
        let baseline = &turns[0].name;
        for Turn {
            subject: _,
            name,
            role,
        } in turns
        {
            for figure in rounds[0].figures(name) {
                let spread = |value: &dyn Fn(&Round) -> Option<f64>| {
                    Spread::of(rounds.iter().map(value).collect::<Option<_>>()?)
                };
                rows.push(Row {
                    subject: name.clone(),
                    figure: figure.to_owned(),
                    role: *role,
                    value: spread(&|round| round.get(name, figure)).with_context(|| {
                        format!("{}: {name} has not the same figures each time", self.name)
                    })?,
                    ratio: spread(&|round| {
                        Some(round.get(name, figure)? / round.get(baseline, figure)?)
                    }),
                });
            }
        }
        let bounds = self.bounds.iter().map(|bound| {
            bound
                .judge(rounds)
                .with_context(|| format!("{}: a bound asks for what is not there", self.name))
        });
        Ok(Results {
            bounds: bounds.collect::<Result<_>>()?,
            study: self.name.clone(),
            unit: self.unit.clone(),
            better: self.better,
            rounds: rounds.len(),
            rows,
        })
    }
}

/// In which order `count` subjects run in a round: begun by another one each time, and backwards
/// in every second round, so that no one always follows the same other.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.rotate_left(round % count);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
