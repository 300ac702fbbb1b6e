//! Processes that make one system call after the other, at a test's request.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout},
};

use shunt_tests::{Cgroup, Namespace};

use crate::host_world::HostWorld;

/// The program.
const SYSCALLS: &str = env!("CARGO_BIN_EXE_syscalls");

/// Such a process. It ends when this is dropped.
pub(crate) struct Caller {
    child: Child,
    // `None` when it is to end.
    calls: Option<ChildStdin>,
    results: BufReader<ChildStdout>,
}

impl Caller {
    /// Starts it in the cgroup and the namespace.
    pub(crate) fn start(cgroup: &Cgroup, namespace: &Namespace) -> Self {
        Self::of(
            cgroup
                .spawn::<&str>(namespace, Path::new(SYSCALLS), &[])
                .unwrap(),
        )
    }

    /// As [`Self::start`], by another program that starts it.
    pub(crate) fn start_by(
        cgroup: &Cgroup,
        namespace: &Namespace,
        program: &Path,
        arguments: &[&str],
    ) -> Self {
        let arguments = [arguments, &[SYSCALLS]].concat();
        Self::of(cgroup.spawn(namespace, program, &arguments).unwrap())
    }

    fn of(mut child: Child) -> Self {
        let (calls, results) = (child.stdin.take(), child.stdout.take().unwrap());
        Self {
            child,
            calls,
            results: BufReader::new(results),
        }
    }

    /// Makes a call. Returns its result.
    pub(crate) fn call(&mut self, call: &str) -> String {
        let calls = self.calls.as_mut().unwrap();
        writeln!(calls, "{call}").unwrap();
        let mut result = String::new();
        self.results.read_line(&mut result).unwrap();
        assert!(result.ends_with('\n'), "{call}: no result");
        result.trim_end().to_owned()
    }

    /// Makes calls, separated by `;`. Of each that has `-> TEXT` after it the result must start with
    /// this text. Returns the calls with their results.
    pub(crate) fn calls(&mut self, calls: &str) -> Vec<String> {
        let mut said = Vec::new();
        for step in calls
            .split(';')
            .map(str::trim)
            .filter(|step| !step.is_empty())
        {
            let (call, expected) = step.split_once(" -> ").unwrap_or((step, ""));
            let result = self.call(call);
            said.push(format!("{call} -> {result}"));
            assert!(
                result.starts_with(expected),
                "it must be {expected:?}, but:\n{}",
                said.join("\n")
            );
        }
        said
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.calls = None;
        drop(self.child.wait());
    }
}

/// A word that calls have for a frontend, the frontend, and the backend that is asked without one.
pub(crate) type Place = (&'static str, SocketAddr, SocketAddr);

/// Makes the calls of each row twice, once with frontends and once with their backends themselves:
/// there must be no difference.
pub(crate) fn same_as_direct(host: &HostWorld, places: &[Place], rows: &[(&str, &str)]) {
    for (behaviour, calls) in rows {
        let run = |address_of: fn(&Place) -> SocketAddr| {
            let calls = places.iter().fold((*calls).to_owned(), |calls, place| {
                calls.replace(place.0, &address_of(place).to_string())
            });
            let said = host.caller().calls(&calls).join("\n");
            places.iter().fold(said, |said, place| {
                said.replace(&address_of(place).to_string(), place.0)
            })
        };
        let direct = run(|(_, _, backend)| *backend);
        let before = host.count("socket_reject");
        let frontend = run(|(_, frontend, _)| *frontend);
        assert_eq!(frontend, direct, "{behaviour}: on the left with a frontend");
        assert_eq!(host.count("socket_reject"), before, "{behaviour}");
    }
}
