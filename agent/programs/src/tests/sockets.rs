//! Calls of `connect` that are not permitted.

use shunt_common::{TCP, UDP, V4, socket::EVERY_TASK};

use crate::{
    Deed,
    socket::kernel_thread::deny,
    tests::{
        kernel::Kernel,
        sample::{frame, tuple},
    },
};

/// `-ECONNREFUSED`.
const REFUSED: i32 = -111;

/// Returns the error that the program sets; `None`: the call fails with `EPERM`.
fn error(task_flags: u32, protocol: u8) -> Option<i32> {
    let mut kernel = Kernel::new();
    kernel.set("TASK_FLAGS", &task_flags);
    let frame = frame(&tuple::<V4>((1, 40_000), (2, 80)), protocol);
    let (result, deeds) = kernel.at(1, &frame, |_| deny(protocol));
    assert_eq!(result, 0, "the call fails");
    deeds.iter().find_map(|deed| match deed {
        Deed::Fail(error) => Some(*error),
        _ => None,
    })
}

#[test]
fn what_is_not_permitted_is_refused_if_the_caller_may_be_a_kernel_thread() {
    assert_eq!(error(EVERY_TASK, TCP), Some(REFUSED));
    assert_eq!(error(EVERY_TASK, UDP), None);
    // The caller is a process.
    for protocol in [TCP, UDP] {
        assert_eq!(error(44, protocol), None);
        assert_eq!(error(0, protocol), None);
    }
}
