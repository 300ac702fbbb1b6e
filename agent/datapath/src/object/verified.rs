//! Programs that the kernel verifies at the same time.

use std::{
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread::{self, Builder},
};

use aya::{
    Ebpf,
    programs::{Program, ProgramError, ProgramType},
};

use crate::error::DatapathError;

/// A function that returns the reason for which the kernel does not take a program.
pub(crate) type Explain = fn(&'static str, ProgramType, ProgramError) -> DatapathError;

/// Loads the programs of these names, as many at once as there are processors. The dearest stand first, so
/// that none of these is begun when the others are done. Programs that are loaded already stay as they are.
///
/// Returns the outcome of each, in the order of the names.
pub(crate) fn verify(
    ebpf: &mut Ebpf,
    names: &[&'static str],
    explain: Explain,
) -> Vec<(&'static str, Result<(), DatapathError>)> {
    verify_at(ebpf, names, names, explain)
}

/// As [`verify`], with programs that stand at other places of the object than their own.
pub(crate) fn verify_at(
    ebpf: &mut Ebpf,
    places: &[&'static str],
    names: &[&'static str],
    explain: Explain,
) -> Vec<(&'static str, Result<(), DatapathError>)> {
    let mut found: Vec<(usize, &mut Program)> = ebpf
        .programs_mut()
        .filter_map(|(found, program)| {
            let place = places.iter().position(|place| *place == found)?;
            (place < names.len()).then_some((place, program))
        })
        .collect();
    found.sort_by_key(|(place, _)| *place);
    let waiting = Mutex::new(found.into_iter());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next()
    };
    let work = || {
        let mut outcomes = Vec::new();
        while let Some((place, program)) = next() {
            outcomes.push((place, load(names[place], program, explain)));
        }
        outcomes
    };
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut loaded = thread::scope(|scope| {
        // Without a thread there is a processor less.
        let others: Vec<_> = (1..processors.min(names.len()))
            .filter_map(|_| Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut outcomes = work();
        for other in others {
            outcomes.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        outcomes
    });
    let outcomes = names.iter().enumerate().map(|(place, name)| {
        let outcome = loaded.iter().position(|(of, _)| *of == place);
        let outcome = outcome.map(|outcome| loaded.swap_remove(outcome).1);
        (*name, outcome.unwrap_or(Err(DatapathError::Missing(name))))
    });
    outcomes.collect()
}

fn load(name: &'static str, program: &mut Program, explain: Explain) -> Result<(), DatapathError> {
    if program.fd().is_ok() {
        return Ok(());
    }
    let (kind, loaded) = match program {
        Program::SchedClassifier(program) => (ProgramType::SchedClassifier, program.load()),
        Program::Xdp(program) => (ProgramType::Xdp, program.load()),
        Program::CgroupSockAddr(program) => (ProgramType::CgroupSockAddr, program.load()),
        _ => return Err(DatapathError::Missing(name)),
    };
    loaded.map_err(|source| explain(name, kind, source))
}
