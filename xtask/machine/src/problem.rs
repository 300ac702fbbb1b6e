//! The sentences about what a machine cannot do, each with its remedy.

use crate::facts::{Facts, Room};

/// The oldest kernel that the programs load on.
const OLDEST: (u32, u32) = (6, 1);

/// The least memory with which a build completes, one process at a time.
const MEMORY: u64 = 1_500_000_000;

/// The disk that a build takes: of the demo and of the tests from nothing, and of what has changed.
const DISK_DEMO: u64 = 6_000_000_000;
const DISK_TESTS: u64 = 12_000_000_000;
const DISK_CHANGES: u64 = 1_000_000_000;

/// The purpose for which the machine is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The demo, which does without IPv6.
    Demo,
    /// Tests and measurements, which have both families.
    Tests,
}

impl Facts {
    /// Returns a sentence for each thing that the machine cannot do; none if it can do all. `is_built`: the
    /// build goes on from one that was there.
    pub fn problems(&self, purpose: Purpose, is_built: bool) -> Vec<String> {
        let Self {
            release,
            namespace,
            mount,
            settings,
            veth,
            ipv6,
            program,
            bpf_loop,
            room,
        } = self;
        let mut problems = Vec::new();
        if version(release).is_some_and(|version| version < OLDEST) {
            let (major, minor) = OLDEST;
            problems.push(format!(
                "Linux is {release}, and the programs need {major}.{minor} or later: boot a newer \
                 kernel{}",
                self.update()
            ));
        }
        let mut steps = vec![(
            namespace,
            "a network namespace cannot be made",
            "CONFIG_NET_NS",
        )];
        // Without a namespace, the later steps have no result.
        if namespace.is_ok() {
            steps.push((
                mount,
                "a network namespace cannot be given a name",
                "CONFIG_NET_NS",
            ));
            steps.push((
                settings,
                "the settings of a network namespace in /proc/sys cannot be written",
                "CONFIG_SYSCTL",
            ));
        }
        steps.push((
            program,
            "BPF programs cannot be loaded",
            "CONFIG_BPF_SYSCALL",
        ));
        for (step, what, option) in steps {
            if let Err(number) = *step {
                problems.push(format!(
                    "{what} ({}): {}",
                    name(number),
                    self.remedy(number, option)
                ));
            }
        }
        if *veth == Some(false) {
            problems.push(format!(
                "no veth devices can be made: type `modprobe veth` on the host, or boot a kernel with \
                 CONFIG_VETH{}",
                self.update()
            ));
        }
        if !bpf_loop {
            problems.push(format!(
                "the kernel's programs have no `bpf_loop`: boot Linux 5.17 or later{}",
                self.update()
            ));
        }
        if !ipv6 && purpose == Purpose::Tests {
            problems.push(
                "IPv6 is off, and half of the tests are of IPv6: boot without `ipv6.disable=1`, and set \
                 net.ipv6.conf.all.disable_ipv6 to 0; `cargo xtask run` does with IPv4 alone"
                    .to_owned(),
            );
        }
        problems.extend(room.problems(purpose, is_built));
        problems
    }

    /// Returns the remedy for a step that failed with this error: rights, or the kernel.
    fn remedy(&self, number: i32, option: &str) -> String {
        match number {
            libc::EPERM | libc::EACCES | libc::EROFS => {
                "root has not all rights here: start the container with `--privileged`, or type the \
                 command on the host itself"
                    .to_owned()
            }
            libc::ENOSPC | libc::EUSERS | libc::EAGAIN => {
                "a limit is reached: see user.max_net_namespaces and user.max_mnt_namespaces in sysctl"
                    .to_owned()
            }
            _ => format!("boot a kernel with {option}{}", self.update()),
        }
    }

    /// Returns the way to another kernel where it is not the distribution's.
    fn update(&self) -> &'static str {
        if self.release.to_ascii_lowercase().contains("microsoft") {
            "; on WSL, type `wsl --update` in Windows (WSL 1 has no Linux kernel: `wsl \
             --set-version DISTRIBUTION 2`)"
        } else {
            ""
        }
    }
}

impl Room {
    fn problems(self, purpose: Purpose, is_built: bool) -> Vec<String> {
        let Self { memory, disk } = self;
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let mut problems = Vec::new();
        if memory < MEMORY {
            problems.push(format!(
                "{:.1} GB of memory are free, and the compiler needs {:.1} GB: end other programs, or \
                 add swap",
                gigabytes(memory),
                gigabytes(MEMORY)
            ));
        }
        let wanted = match (is_built, purpose) {
            (true, _) => DISK_CHANGES,
            (false, Purpose::Demo) => DISK_DEMO,
            (false, Purpose::Tests) => DISK_TESTS,
        };
        if disk < wanted {
            problems.push(format!(
                "{:.1} GB of disk are free, and the build needs {:.1} GB: make room, or name a folder \
                 elsewhere with CARGO_TARGET_DIR",
                gigabytes(disk),
                gigabytes(wanted)
            ));
        }
        problems
    }
}

/// Returns the major and minor number of a release such as `6.1.0-40-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the name of an error, as manuals list it.
fn name(number: i32) -> String {
    let error = nix::errno::Errno::from_raw(number);
    format!("{error:?}: {}", error.desc())
}

#[cfg(test)]
mod tests {
    use std::{env, path::Path, process::Command};

    use nix::unistd::geteuid;
    use shunt_skip::skip;

    use super::*;

    fn able() -> Facts {
        Facts {
            release: "6.1.0-40-amd64".to_owned(),
            namespace: Ok(()),
            mount: Ok(()),
            settings: Ok(()),
            veth: Some(true),
            ipv6: true,
            program: Ok(()),
            bpf_loop: true,
            room: Room {
                memory: 4_000_000_000,
                disk: 20_000_000_000,
            },
        }
    }

    #[test]
    fn a_machine_that_can_do_all_has_no_problem() {
        for purpose in [Purpose::Demo, Purpose::Tests] {
            assert_eq!(able().problems(purpose, false), [""; 0]);
        }
        let unknown = Facts {
            veth: None,
            ..able()
        };
        assert_eq!(unknown.problems(Purpose::Tests, false), [""; 0]);
    }

    #[test]
    fn each_problem_has_its_remedy() {
        let container = Facts {
            namespace: Err(libc::EPERM),
            settings: Err(libc::EROFS),
            program: Err(libc::EPERM),
            ..able()
        };
        let wsl = Facts {
            release: "5.15.167.4-microsoft-standard-WSL2".to_owned(),
            veth: Some(false),
            bpf_loop: false,
            ..able()
        };
        let wsl1 = Facts {
            release: "4.4.0-19041-Microsoft".to_owned(),
            namespace: Err(libc::EINVAL),
            program: Err(libc::ENOSYS),
            ..able()
        };
        let small = Facts {
            room: Room {
                memory: 900_000_000,
                disk: 5_000_000_000,
            },
            ..able()
        };
        let cases: [(&str, &Facts, &[&str]); 6] = [
            (
                "a container without rights",
                &container,
                &[
                    "a network namespace cannot be made (EPERM: Operation not permitted): root has not \
                     all rights here: start the container with `--privileged`",
                    "BPF programs cannot be loaded (EPERM",
                ],
            ),
            (
                "a container whose /proc/sys is read-only",
                &Facts {
                    settings: Err(libc::EROFS),
                    ..able()
                },
                &["the settings of a network namespace in /proc/sys cannot be written (EROFS: "],
            ),
            (
                "WSL 2 with an old kernel",
                &wsl,
                &[
                    "Linux is 5.15.167.4-microsoft-standard-WSL2, and the programs need 6.1 or later: \
                     boot a newer kernel; on WSL, type `wsl --update` in Windows",
                    "no veth devices can be made",
                    "the kernel's programs have no `bpf_loop`",
                ],
            ),
            (
                "WSL 1",
                &wsl1,
                &[
                    "Linux is 4.4.0",
                    "a network namespace cannot be made (EINVAL: Invalid argument): boot a kernel with \
                     CONFIG_NET_NS; on WSL",
                    "BPF programs cannot be loaded (ENOSYS",
                ],
            ),
            (
                "a small machine",
                &small,
                &[
                    "0.9 GB of memory are free, and the compiler needs 1.5 GB",
                    "5.0 GB of disk are free, and the build needs 6.0 GB",
                ],
            ),
            (
                "a limit",
                &Facts {
                    namespace: Err(libc::ENOSPC),
                    ..able()
                },
                &["a network namespace cannot be made (ENOSPC: No space left on device): a limit"],
            ),
        ];
        for (machine, facts, expected) in cases {
            let found = facts.problems(Purpose::Demo, false);
            assert_eq!(found.len(), expected.len(), "{machine}: {found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{machine}: {found}");
            }
        }
        assert_eq!(small.problems(Purpose::Demo, true).len(), 1);
        let tests = small.problems(Purpose::Tests, false);
        assert!(tests[1].contains("needs 12.0 GB"), "{tests:?}");
    }

    #[test]
    fn the_demo_does_without_ipv6_and_the_tests_do_not() {
        let facts = Facts {
            ipv6: false,
            ..able()
        };
        assert_eq!(facts.problems(Purpose::Demo, false), [""; 0]);
        let found = facts.problems(Purpose::Tests, false);
        assert!(found[0].contains("`ipv6.disable=1`"), "{found:?}");
    }

    #[test]
    fn releases_are_read_to_the_second_number() {
        for (release, expected) in [
            ("6.1.0-40-amd64", Some((6, 1))),
            ("6.18.44", Some((6, 18))),
            ("5.15-rc1", Some((5, 15))),
            ("six", None),
            ("6", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }

    /// Not a test: the child that the test below runs with fewer rights.
    #[test]
    #[ignore = "runs as a child of another test"]
    fn show_problems() {
        let facts = Facts::gather(Path::new("/"));
        for problem in facts.problems(Purpose::Tests, true) {
            println!("PROBLEM {problem}");
        }
    }

    /// Returns the problems that a child finds, which `command` starts.
    fn problems_of(command: &[&str]) -> Option<Vec<String>> {
        if !geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let (program, arguments) = command.split_first()?;
        let child = Command::new(program)
            .args(arguments)
            .arg(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("problem::tests::show_problems")
            .output();
        let Ok(child) = child else {
            skip(&format!("needs {program}"));
            return None;
        };
        assert!(child.status.success(), "{child:?}");
        let text = String::from_utf8(child.stdout).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("PROBLEM "));
        Some(lines.map(str::to_owned).collect())
    }

    #[test]
    fn a_root_without_rights_is_told_so() {
        let Some(found) = problems_of(&["setpriv", "--bounding-set", "-all"]) else {
            return;
        };
        assert!(
            found[0].starts_with("a network namespace cannot be made (EPERM"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("BPF programs cannot be loaded (EPERM"),
            "{found:?}"
        );
    }

    #[test]
    fn settings_that_cannot_be_written_are_named() {
        let script = "mount --bind -o ro /proc/sys /proc/sys && exec \"$0\" \"$@\"";
        let Some(found) = problems_of(&["unshare", "--mount", "sh", "-ec", script]) else {
            return;
        };
        assert!(
            found
                .iter()
                .any(|problem| problem.contains("in /proc/sys cannot be written (EROFS")),
            "{found:?}"
        );
    }

    #[test]
    fn a_machine_without_ipv6_is_told_so() {
        let script = "mount -t tmpfs none /proc/sys/net/ipv6 && exec \"$0\" \"$@\"";
        let Some(found) = problems_of(&["unshare", "--mount", "sh", "-ec", script]) else {
            return;
        };
        assert!(
            found
                .iter()
                .any(|problem| problem.starts_with("IPv6 is off")),
            "{found:?}"
        );
    }
}
