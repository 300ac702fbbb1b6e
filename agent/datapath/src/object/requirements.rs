//! The features of the kernel that the programs need, and those that a kernel that refuses them lacks.

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{BpfHelper, is_helper_supported, is_program_supported},
};
use aya_obj::generated::bpf_func_id::{
    BPF_FUNC_get_current_task_btf, BPF_FUNC_get_netns_cookie, BPF_FUNC_jiffies64, BPF_FUNC_loop,
    BPF_FUNC_redirect_neigh, BPF_FUNC_redirect_peer, BPF_FUNC_ringbuf_discard,
    BPF_FUNC_ringbuf_reserve, BPF_FUNC_ringbuf_submit, BPF_FUNC_set_retval,
    BPF_FUNC_xdp_load_bytes,
};
use nix::sys::utsname::uname;

use crate::error::{DatapathError, SocketError};

/// A helper, its name, and the version of Linux that brought it.
type Helper = (BpfHelper, &'static str, &'static str);

/// The helpers that the programs call, each with the version of Linux that brought it; those of
/// Linux 5.5 and before are left out, since older kernels have no tables like ours
/// (`BPF_F_MMAPABLE`). Distributions bring some to older kernels, so it is the kernel that is
/// asked, not its version.
const PACKET_HELPERS: [Helper; 7] = [
    (BPF_FUNC_jiffies64, "bpf_jiffies64", "5.6"),
    (BPF_FUNC_ringbuf_reserve, "bpf_ringbuf_reserve", "5.8"),
    (BPF_FUNC_ringbuf_submit, "bpf_ringbuf_submit", "5.8"),
    (BPF_FUNC_ringbuf_discard, "bpf_ringbuf_discard", "5.8"),
    (BPF_FUNC_redirect_neigh, "bpf_redirect_neigh", "5.10"),
    (BPF_FUNC_redirect_peer, "bpf_redirect_peer", "5.10"),
    (BPF_FUNC_loop, "bpf_loop", "5.17"),
];

/// The same of the XDP program, which calls fewer.
const XDP_HELPERS: [Helper; 5] = [
    PACKET_HELPERS[0],
    PACKET_HELPERS[1],
    PACKET_HELPERS[2],
    PACKET_HELPERS[3],
    PACKET_HELPERS[6],
];

/// Helpers that the XDP program calls besides while it reports packets.
const FLOW_HELPERS: [Helper; 1] = [(BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes", "5.18")];

/// The same of the programs at system calls.
const SOCKET_HELPERS: [Helper; 3] = [
    (BPF_FUNC_get_netns_cookie, "bpf_get_netns_cookie", "5.7"),
    (
        BPF_FUNC_get_current_task_btf,
        "bpf_get_current_task_btf",
        "5.11",
    ),
    (BPF_FUNC_set_retval, "bpf_set_retval", "5.18"),
];

/// Why the kernel does not take the program `name` of type `kind`: what it lacks, or else what it
/// reports itself.
pub(crate) fn explain(
    name: &'static str,
    kind: ProgramType,
    source: ProgramError,
) -> DatapathError {
    explain_with(name, kind, source, &[])
}

/// The same of a program that reports connections and packets.
pub(crate) fn explain_flows(
    name: &'static str,
    kind: ProgramType,
    source: ProgramError,
) -> DatapathError {
    let besides: &[Helper] = match kind {
        ProgramType::Xdp => &FLOW_HELPERS,
        _ => &[],
    };
    explain_with(name, kind, source, besides)
}

fn explain_with(
    name: &'static str,
    kind: ProgramType,
    source: ProgramError,
    besides: &[Helper],
) -> DatapathError {
    let has_cgroups = || is_program_supported(kind).unwrap_or(true);
    if kind == ProgramType::CgroupSockAddr && !has_cgroups() {
        return SocketError::OldKernel {
            release: release(),
            missing: "programs at cgroups (CONFIG_CGROUP_BPF)".to_owned(),
        }
        .into();
    }
    let lacks = |helper: BpfHelper| is_helper_supported(kind, helper).is_ok_and(|has| !has);
    let helpers: &[Helper] = match kind {
        ProgramType::CgroupSockAddr => &SOCKET_HELPERS,
        ProgramType::Xdp => &XDP_HELPERS,
        _ => &PACKET_HELPERS,
    };
    let missing: Vec<String> = helpers
        .iter()
        .chain(besides)
        .filter(|(helper, ..)| lacks(*helper))
        .map(|(_, name, since)| format!("{name} (Linux {since})"))
        .collect();
    if missing.is_empty() {
        return DatapathError::Program { name, source };
    }
    let (release, missing) = (release(), missing.join(", "));
    match kind {
        ProgramType::CgroupSockAddr => SocketError::OldKernel { release, missing }.into(),
        _ => DatapathError::OldKernel { release, missing },
    }
}

/// The kernel's version, as `uname -r` shows it.
fn release() -> String {
    uname().map_or_else(
        |_| "of an unknown version".to_owned(),
        |name| name.release().to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use aya_obj::{
        Object,
        generated::{
            BPF_CALL, BPF_JMP, BPF_PSEUDO_CALL,
            bpf_func_id::{BPF_FUNC_probe_read_kernel_str, BPF_FUNC_seq_write},
        },
    };

    use super::*;
    use crate::object::{
        embedded::Embedded,
        programs::{FLOW_OBJECT, OBJECT},
    };

    /// The helpers of Linux 5.6 and later that the programs of an object call.
    fn called(object: &Embedded) -> BTreeSet<i32> {
        let object = Object::parse(&object.bytes().unwrap()).unwrap();
        let instructions = object
            .functions
            .values()
            .flat_map(|function| &function.instructions);
        instructions
            .filter(|call| {
                u32::from(call.code) == BPF_JMP | BPF_CALL
                    && u32::from(call.src_reg()) != BPF_PSEUDO_CALL
            })
            .map(|call| call.imm)
            .filter(|helper| *helper > BPF_FUNC_probe_read_kernel_str as i32)
            .collect()
    }

    #[test]
    fn the_helpers_that_the_programs_call_are_known() {
        let known = PACKET_HELPERS.iter().chain(&SOCKET_HELPERS);
        // The iterator over sockets may be missing, and this came before it.
        let known = known
            .map(|(helper, ..)| *helper)
            .chain([BPF_FUNC_seq_write]);
        let known: BTreeSet<i32> = known.map(|helper| helper as i32).collect();
        assert_eq!(called(&OBJECT), known, "numbers of bpf_func_id");
        let of_flows = FLOW_HELPERS.map(|(helper, ..)| helper as i32);
        let known = known.into_iter().chain(of_flows).collect();
        assert_eq!(
            called(&FLOW_OBJECT),
            known,
            "with those that tell of packets"
        );
    }
}
