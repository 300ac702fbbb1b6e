//! One case: events and packets, which the model and the kernel both get.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    ops::AddAssign,
    time::{Duration, Instant},
};

use super::{
    addresses::{NODE, OTHER_NODE, all_nodes},
    cluster::{Event, Protocol},
    describe::{describe, hexadecimal},
    envelope::Envelope,
    flow::{Ends, Side},
    kernel::{Door, Kernel, LONG, Size},
    model::{Chosen, ForbiddenChoice, Hook, Model, Observed, Verdict},
    mutation::mutate,
    operations::{Crowd, Operation, Progress, Way},
    packet::Shape,
    resolve::{Opened, ends, event},
    wire::{Form, Packet},
};

/// Precision of the model's time.
const PRECISION: Duration = Duration::from_millis(200);

/// A step, for people.
enum Step {
    Event(String, bool),
    Packet(Hook, Vec<u8>, Result<Verdict, String>),
    Pass(u32),
    Reclaim,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(line, true) => write!(f, "{line}"),
            Self::Event(line, false) => write!(f, "refused: {line}"),
            Self::Packet(hook, packet, verdict) => {
                let (packet, outcome) = (describe(packet), outcome(verdict));
                write!(f, "{hook:?} {packet}\n     {outcome}")
            }
            Self::Pass(seconds) => write!(f, "{seconds} s pass"),
            Self::Reclaim => write!(f, "a grace period"),
        }
    }
}

/// Results of a case.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub packets: u64,
    /// Kinds of the packets, by the programs' counters.
    pub counters: BTreeMap<&'static str, u64>,
    /// Numbers of packets of each family, protocol and form that went on as something else.
    pub translated: BTreeMap<String, u64>,
    /// Number of connections that found no room although there was some in the table.
    pub refused_early: u64,
    /// Number of connections that were opened through splits, and refused by them while others were served.
    pub by_splits: u64,
    pub refused_by_splits: u64,
}

/// Model and kernel differ.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Number of packets compared, the one that differs among them.
    pub packets: u64,
    /// The steps and their outcomes.
    pub story: String,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self {
            packets,
            counters,
            translated,
            refused_early,
            by_splits,
            refused_by_splits,
        } = other;
        self.by_splits += by_splits;
        self.refused_by_splits += refused_by_splits;
        self.refused_early += refused_early;
        for (kind, count) in translated {
            *self.translated.entry(kind).or_default() += count;
        }
        self.packets += packets;
        for (counter, count) in counters {
            *self.counters.entry(counter).or_default() += count;
        }
    }
}

/// A case under way.
pub(crate) struct Case<'a> {
    kernel: &'a mut Kernel,
    model: Model,
    opened: Opened,
    steps: Vec<Step>,
    packets: u64,
    translated: BTreeMap<String, u64>,
    /// Time of the model's last note of the time.
    noted: Instant,
}

impl<'a> Case<'a> {
    /// Begins with two nodes and nothing else.
    pub(crate) fn new(kernel: &'a mut Kernel) -> Self {
        let capacity = match kernel.size() {
            Size::Roomy => None,
            Size::Small => Some(Size::Small.entries() as usize / 2),
        };
        let mut model = Model::with(capacity, kernel.has_dsr_sources(), kernel.is_at_port());
        let empty = Event::Resync(
            [NODE.both(), OTHER_NODE.both()].concat(),
            all_nodes(),
            Vec::new(),
        );
        model.apply(&empty);
        kernel.clear(&empty.line());
        Self {
            kernel,
            model,
            opened: Opened::default(),
            steps: Vec::new(),
            packets: 0,
            translated: BTreeMap::new(),
            noted: Instant::now(),
        }
    }

    /// Takes note of the real time that has passed.
    fn note_time(&mut self) {
        let passed = self.noted.elapsed();
        if passed < PRECISION {
            return;
        }
        self.noted += passed;
        self.model.flows.pass(passed.as_millis() as u64);
        if self.model.is_at_a_turn(0) {
            self.pass(1);
        }
    }

    fn pass(&mut self, seconds: u32) {
        let seconds = self.model.pass(seconds);
        self.kernel.pass(seconds);
        self.steps.push(Step::Pass(seconds));
    }

    /// Does all operations, up to the first difference.
    pub(crate) fn run(mut self, operations: &[Operation]) -> Result<Compared, Difference> {
        let result = operations
            .iter()
            .try_for_each(|operation| self.step(operation))
            .and_then(|()| self.compare_counters());
        match result {
            Ok(()) => Ok(Compared {
                packets: self.packets,
                counters: self.model.counters().clone(),
                translated: self.translated,
                refused_early: self.model.refused_early,
                by_splits: self.model.by_splits,
                refused_by_splits: self.model.refused_by_splits,
            }),
            Err(difference) => Err(Difference {
                packets: self.packets,
                story: self.story(&difference),
            }),
        }
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        self.note_time();
        match operation {
            Operation::Packet(way, shape, mutations) => {
                let protocol = shape.protocol;
                let (hook, ends) = ends(&self.model.cluster, &self.opened, way, protocol);
                let mut frame = shape.frame(ends);
                mutate(&mut frame, mutations);
                self.send(hook, frame)
            }
            Operation::Datagram(way, shape, order) => {
                let protocol = shape.protocol;
                let (hook, ends) = ends(&self.model.cluster, &self.opened, way, protocol);
                let pieces = shape.fragments(ends);
                order.iter().try_for_each(|(piece, mutations)| {
                    let mut frame = pieces[piece % pieces.len()].clone();
                    mutate(&mut frame, mutations);
                    self.send(hook, frame)
                })
            }
            Operation::Crowd(crowd) => self.crowd(crowd),
            Operation::Bytes(hook, bytes) => {
                let mut frame = bytes.clone();
                mutate(&mut frame, &[]);
                self.send(*hook, frame)
            }
            Operation::Event(change) => {
                let Some(event) = event(&self.model.cluster, change) else {
                    return Ok(());
                };
                // In a Resync, who gets a frontend gets the backends that are found there, and
                // the flows with them. Their selection is not modelled.
                while matches!(event, Event::Resync(..))
                    && let Some(loser) = self.model.cluster.loser(&event)
                {
                    self.tell(&Event::Delete(loser))?;
                }
                self.tell(&event)
            }
            Operation::Pass(seconds) => {
                self.pass(*seconds);
                Ok(())
            }
            Operation::Reclaim => {
                self.kernel.reclaim();
                self.steps.push(Step::Reclaim);
                Ok(())
            }
        }
    }

    /// Opens many connections at once.
    fn crowd(&mut self, crowd: &Crowd) -> Result<(), String> {
        let (frontend, client) = (crowd.frontend, crowd.client);
        let way = Way::ToFrontend { frontend, client };
        let (_, first) = ends(&self.model.cluster, &self.opened, &way, Protocol::UDP);
        let all: Vec<Ends> = (0..crowd.count)
            .map(|number| {
                let mut one = first;
                one.source.port = crowd.port.wrapping_add(number).max(1);
                one
            })
            .collect();
        let shapes = Shape::opening(first.protocol);
        let steps = match crowd.progress {
            Progress::Begun => 1,
            Progress::Answered => 2,
            Progress::Assured => shapes.len(),
        };
        for (step, (side, shape)) in shapes.iter().take(steps).enumerate() {
            // From now on packets make flows ones that last.
            if step == 2 && first.protocol == Protocol::UDP {
                self.pass(3);
            }
            for request in &all {
                self.note_time();
                match side {
                    Side::Client => self.send(Hook::Ingress, shape.frame(*request))?,
                    Side::Backend => self.reply(shape, *request)?,
                }
            }
        }
        Ok(())
    }

    /// Sends a reply of the flow with these requests, if there is one.
    fn reply(&mut self, shape: &Shape, request: Ends) -> Result<(), String> {
        let Some(flow) = self.model.flows.with_request(request) else {
            return Ok(());
        };
        let hook = if flow.keeps_address() {
            Hook::Egress
        } else {
            Hook::Ingress
        };
        let reply = flow.reply_ends();
        self.send(hook, shape.frame(reply))
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

    fn send(&mut self, hook: Hook, frame: Vec<u8>) -> Result<(), String> {
        let ran = self.kernel.run(hook, &frame);
        self.packets += 1;
        let observed = ran.as_ref().ok().map(|(verdict, door)| {
            let chosen = chosen(verdict);
            let counters = if chosen.is_none() {
                self.kernel.counters()
            } else {
                BTreeMap::new()
            };
            let count = |counter| counters.get(counter).copied().unwrap_or_default();
            Observed {
                verdict,
                by_driver: *door == Door::Driver,
                chosen,
                not_rewritten: count("drop_rewrite"),
                no_room: count("drop_conntrack_full"),
                rejected: count("reject_no_backend"),
            }
        });
        let expected = self.model.handle(hook, &frame, observed);
        let verdict = ran.map(|(verdict, _)| verdict);
        let lost = self.model.take_lost();
        let table = match self.kernel.size() {
            Size::Small => self
                .kernel
                .contents()
                .and_then(|contents| self.model.reconcile(&contents, lost)),
            Size::Roomy => Ok(()),
        };
        if lost {
            self.pass(LONG);
        }
        let inner = Envelope::read(&frame).map(|envelope| envelope.inner);
        if let Ok(packet) = Packet::read(inner.as_ref().unwrap_or(&frame)) {
            if hook == Hook::Ingress
                && let Some(flow) = self.model.flows.with_request(packet.ends)
            {
                self.opened.note(flow);
            }
            if let Ok(Verdict::Pass(after) | Verdict::Redirect(after)) = &verdict
                && *after != frame
            {
                let family = if packet.is_ipv4() { "IPv4" } else { "IPv6" };
                let mut kind = format!("{family} {:?} {:?}", packet.ends.protocol, packet.form);
                if inner.is_some() {
                    kind += " unwrapped";
                } else if Envelope::read(after).is_some() {
                    kind += " wrapped";
                }
                *self.translated.entry(kind).or_default() += 1;
            }
        }
        let result = match expected {
            Ok(expected) if verdict.as_ref() == Ok(&expected) => Ok(()),
            Ok(expected) => Err(format!(
                "{}\nexpected\n     {}\n{}\n{}",
                hexadecimal(&frame),
                outcome(&Ok(expected.clone())),
                compare(&expected, &verdict),
                self.compare_counters().err().unwrap_or_default()
            )),
            Err(ForbiddenChoice { chosen, allowed }) => Err(match chosen {
                Some(chosen) => format!("{chosen:?} may not be chosen, only {allowed:?}"),
                None => format!("one of {allowed:?} must be chosen"),
            }),
        };
        self.steps.push(Step::Packet(hook, frame, verdict));
        result.and(table)
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

/// Returns the source and the backend of the flow that a packet opens, if it goes on.
fn chosen(verdict: &Verdict) -> Option<Chosen> {
    let (Verdict::Pass(frame) | Verdict::Redirect(frame)) = verdict else {
        return None;
    };
    let packet = Packet::read(frame).ok()?;
    let is_own = matches!(packet.form, Form::Whole | Form::First);
    is_own.then_some(Chosen {
        source: packet.ends.source,
        backend: packet.ends.destination,
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
