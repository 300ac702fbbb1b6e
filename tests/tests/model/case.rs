//! One case: events and packets, which the model and the kernel both get.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    ops::AddAssign,
};

use super::{
    addresses::{NODE, OTHER_NODE},
    cluster::{Endpoint, Event},
    kernel::Kernel,
    model::{Chosen, ForbiddenChoice, Hook, Model, Verdict},
    operations::Operation,
    packet::{Packet, describe, hexadecimal},
    resolve::{Opened, event, packet},
};

/// What was done, for people.
enum Step {
    Event(String, bool),
    Packet(Hook, Packet, Result<Verdict, String>),
    Pass(u32),
    Reclaim,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(line, true) => write!(f, "{line}"),
            Self::Event(line, false) => write!(f, "refused: {line}"),
            Self::Packet(hook, packet, verdict) => {
                write!(f, "{hook:?} {packet:?}\n     {}", outcome(verdict))
            }
            Self::Pass(seconds) => write!(f, "{seconds} s pass"),
            Self::Reclaim => write!(f, "a grace period"),
        }
    }
}

/// What a case has come to.
#[derive(Debug, Default)]
pub struct Compared {
    pub packets: u64,
    /// What the packets were, by the programs' counters.
    pub counters: BTreeMap<&'static str, u64>,
}

/// Model and kernel differ.
#[derive(Debug)]
pub struct Difference {
    /// How many packets had been compared, the one that differs among them.
    pub packets: u64,
    /// What was done, and what came of it.
    pub story: String,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self { packets, counters } = other;
        self.packets += packets;
        for (counter, count) in counters {
            *self.counters.entry(counter).or_default() += count;
        }
    }
}

/// A case under way.
pub struct Case<'a> {
    kernel: &'a mut Kernel,
    model: Model,
    opened: Opened,
    steps: Vec<Step>,
    packets: u64,
}

impl<'a> Case<'a> {
    /// Begins with two nodes and nothing else.
    pub fn new(kernel: &'a mut Kernel) -> Self {
        let mut model = Model::default();
        let empty = Event::Resync(vec![NODE, OTHER_NODE], Vec::new());
        model.apply(&empty);
        kernel.clear(&empty.line());
        Self {
            kernel,
            model,
            opened: Opened::default(),
            steps: Vec::new(),
            packets: 0,
        }
    }

    /// Does all operations, up to the first difference.
    pub fn run(mut self, operations: &[Operation]) -> Result<Compared, Difference> {
        let result = operations
            .iter()
            .try_for_each(|operation| self.step(operation))
            .and_then(|()| self.compare_counters());
        match result {
            Ok(()) => Ok(Compared {
                packets: self.packets,
                counters: self.model.counters().clone(),
            }),
            Err(difference) => Err(Difference {
                packets: self.packets,
                story: self.story(&difference),
            }),
        }
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Packet(way, shape) => {
                let (hook, packet) = packet(&self.model.cluster, &self.opened, way, shape);
                self.send(hook, packet)
            }
            Operation::Event(change) => {
                let Some(event) = event(&self.model.cluster, change) else {
                    return Ok(());
                };
                // In a Resync, who gets a frontend gets the backends that are found there, and
                // the flows with them. Which ones those are is not modelled.
                while matches!(event, Event::Resync(..))
                    && let Some(loser) = self.model.cluster.loser(&event)
                {
                    self.tell(&Event::Delete(loser))?;
                }
                self.tell(&event)
            }
            Operation::Pass(seconds) => {
                self.model.flows.pass(*seconds);
                self.kernel.pass(*seconds);
                self.steps.push(Step::Pass(*seconds));
                Ok(())
            }
            Operation::Reclaim => {
                self.kernel.reclaim();
                self.steps.push(Step::Reclaim);
                Ok(())
            }
        }
    }

    fn tell(&mut self, event: &Event) -> Result<(), String> {
        let line = event.line();
        let (expected, applied) = (self.model.apply(event), self.kernel.apply(&line));
        self.steps.push(Step::Event(line, applied));
        if expected == applied {
            return Ok(());
        }
        Err(format!("the agent must apply the event: {expected}"))
    }

    fn send(&mut self, hook: Hook, packet: Packet) -> Result<(), String> {
        let verdict = self.kernel.run(hook, &packet.frame());
        self.packets += 1;
        let chosen = match &verdict {
            Ok(Verdict::Pass(frame) | Verdict::Redirect(frame)) => ends(frame),
            _ => None,
        };
        let expected = self.model.handle(hook, &packet, chosen);
        if hook == Hook::Ingress
            && let Some(flow) = self.model.flows.of_request(&packet)
        {
            self.opened.note(flow);
        }
        let result = match expected {
            Ok(expected) if verdict.as_ref() == Ok(&expected) => Ok(()),
            Ok(expected) => Err(format!(
                "expected\n     {}\n{}",
                outcome(&Ok(expected.clone())),
                compare(&expected, &verdict)
            )),
            Err(ForbiddenChoice { chosen, allowed }) => Err(match chosen {
                Some(chosen) => format!("{chosen:?} may not be chosen, only {allowed:?}"),
                None => format!("one of {allowed:?} must be chosen"),
            }),
        };
        self.steps.push(Step::Packet(hook, packet, verdict));
        result
    }

    fn compare_counters(&self) -> Result<(), String> {
        let (expected, counted) = (self.model.counters(), self.kernel.counters());
        if *expected == counted {
            return Ok(());
        }
        Err(format!("counted {counted:?},\nexpected {expected:?}"))
    }

    fn story(&self, difference: &str) -> String {
        let mut story = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(story, "{:3}. {step}", number + 1);
        }
        let packets = self.packets;
        story + &format!("after {packets} packets: {difference}")
    }
}

/// Source and destination of an IPv4 frame with ports.
fn ends(frame: &[u8]) -> Option<Chosen> {
    let endpoint = |ip: usize, port: usize| {
        let ip: [u8; 4] = frame.get(ip..ip + 4)?.try_into().ok()?;
        let port = 14 + 4 * usize::from(frame[14] & 15) + port;
        let port = frame.get(port..port + 2)?.try_into().ok()?;
        Some(Endpoint::new(ip, u16::from_be_bytes(port)))
    };
    Some(Chosen {
        source: endpoint(26, 0)?,
        backend: endpoint(30, 2)?,
    })
}

/// Both frames, byte by byte.
fn compare(expected: &Verdict, found: &Result<Verdict, String>) -> String {
    let bytes = |verdict: Option<&Verdict>| match verdict {
        Some(Verdict::Pass(frame) | Verdict::Redirect(frame)) => frame.clone(),
        _ => Vec::new(),
    };
    let (expected, found) = (bytes(Some(expected)), bytes(found.as_ref().ok()));
    let differing = expected.iter().zip(&found).enumerate();
    let differing: Vec<usize> = differing
        .filter(|(_, (expected, found))| expected != found)
        .map(|(offset, _)| offset)
        .collect();
    let [expected, found] = [expected, found].map(|frame| hexadecimal(&frame));
    format!("     {expected}, but it is\n     {found}\n     differing at {differing:?}")
}

fn outcome(verdict: &Result<Verdict, String>) -> String {
    match verdict {
        Ok(Verdict::Pass(frame)) => format!("passed: {}", describe(frame)),
        Ok(Verdict::Drop) => "dropped".to_owned(),
        Ok(Verdict::Redirect(frame)) => format!("redirected: {}", describe(frame)),
        Err(error) => error.clone(),
    }
}
