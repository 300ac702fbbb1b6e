//! Further events on a node: its agent dies, its services change, interfaces come and go.

use std::time::{Duration, Instant};

use anyhow::Result;
use shunt_tests::{Namespace, Random};

use crate::{
    services::{BACKENDS, Service},
    translator::Translator,
};

/// Interval of the changes of a service's backends.
const CHANGE: Duration = Duration::from_millis(500);

/// Interval of the changes of interfaces.
const CHURN: Duration = Duration::from_secs(1);

/// Number of interfaces that come at a time. They go at the next time.
const INTERFACES: usize = 4;

/// Lifetime of an agent, and pauses between two: another one each time.
const LIFE: Duration = Duration::from_secs(5);
const DEATHS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(20),
];

/// Numbers of the events so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Happened {
    pub(crate) deaths: usize,
    pub(crate) changes: usize,
    pub(crate) interfaces: usize,
}

/// The events, by the clock.
pub(crate) struct Disturbance<'a> {
    translator: Translator<'a>,
    node: &'a Namespace,
    random: Random,
    change: Instant,
    churn: Instant,
    /// Time at which the agent dies, or the next one begins.
    fate: Instant,
    alive: bool,
    there: Vec<String>,
    happened: Happened,
}

impl<'a> Disturbance<'a> {
    pub(crate) fn new(translator: Translator<'a>, node: &'a Namespace, seed: u64) -> Self {
        let now = Instant::now();
        Self {
            translator,
            node,
            random: Random::new(seed, 2000),
            change: now + CHANGE,
            churn: now + CHURN,
            // Soon for the first time, so that a short siege has it, too.
            fate: now + LIFE / 3,
            alive: true,
            there: Vec::new(),
            happened: Happened::default(),
        }
    }

    /// Returns the translator.
    pub(crate) const fn translator(&mut self) -> &mut Translator<'a> {
        &mut self.translator
    }

    /// Returns the numbers of the events so far.
    pub(crate) const fn happened(&self) -> Happened {
        self.happened
    }

    /// Does what is due.
    ///
    /// # Errors
    ///
    /// When the translator or the kernel refuses.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        let now = Instant::now();
        if now >= self.fate {
            self.turn_fate()?;
        }
        if now >= self.change {
            self.change = now + CHANGE;
            self.change_service()?;
        }
        if now >= self.churn {
            self.churn = now + CHURN;
            self.exchange_interfaces()?;
        }
        Ok(())
    }

    fn turn_fate(&mut self) -> Result<()> {
        if self.alive {
            let time = DEATHS[self.happened.deaths % DEATHS.len()];
            self.happened.deaths += usize::from(self.translator.die()?);
            self.fate = Instant::now() + time;
        } else {
            self.translator.revive()?;
            self.fate = Instant::now() + LIFE;
        }
        self.alive = !self.alive;
        Ok(())
    }

    fn change_service(&mut self) -> Result<()> {
        // At least one of the backends.
        let set = 1 + self.random.below((1 << BACKENDS.len()) - 1);
        let backends = std::array::from_fn(|place| set >> place & 1 == 1);
        let service = if self.random.below(2) == 0 {
            Service::WEB
        } else {
            Service::DNS
        };
        self.happened.changes += 1;
        self.translator.change(service.with(backends))
    }

    fn exchange_interfaces(&mut self) -> Result<()> {
        let first = self.happened.interfaces;
        let new: Vec<_> = (first..first + INTERFACES)
            .map(|number| format!("veth{number}"))
            .collect();
        let mut commands = String::new();
        for name in &self.there {
            commands += &format!("link delete {name}\n");
        }
        for name in &new {
            commands += &format!(
                "link add {name} type veth peer name p{name}\n\
                 link set {name} up\n\
                 link set p{name} up\n"
            );
        }
        self.node.configure(&commands)?;
        self.there.clone_from(&new);
        self.happened.interfaces += INTERFACES;
        self.translator.interfaces(new)
    }
}
