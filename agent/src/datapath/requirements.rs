//! What the programs ask of the kernel, and what a kernel that refuses them lacks.

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{BpfHelper, is_helper_supported},
};
use aya_obj::generated::bpf_func_id::*;
use nix::sys::utsname::uname;

use super::DatapathError;

/// The helpers that the programs call, each with the version of Linux that brought it.
/// Distributions bring some to older kernels, so it is the kernel that is asked, not its version.
const HELPERS: [(BpfHelper, &str, &str); 10] = [
    (BPF_FUNC_fib_lookup, "bpf_fib_lookup", "4.18"),
    (BPF_FUNC_get_prandom_u32, "bpf_get_prandom_u32", "4.1"),
    (BPF_FUNC_loop, "bpf_loop", "5.17"),
    (BPF_FUNC_map_delete_elem, "bpf_map_delete_elem", "3.19"),
    (BPF_FUNC_map_lookup_elem, "bpf_map_lookup_elem", "3.19"),
    (BPF_FUNC_map_update_elem, "bpf_map_update_elem", "3.19"),
    (BPF_FUNC_redirect, "bpf_redirect", "4.2"),
    (BPF_FUNC_redirect_neigh, "bpf_redirect_neigh", "5.10"),
    (BPF_FUNC_skb_change_tail, "bpf_skb_change_tail", "4.9"),
    (BPF_FUNC_skb_store_bytes, "bpf_skb_store_bytes", "4.1"),
];

/// Why the kernel does not take the program `name`: what it lacks, or else what it says itself.
pub fn explain(name: &'static str, source: ProgramError) -> DatapathError {
    let lacks = |helper: BpfHelper| {
        is_helper_supported(ProgramType::SchedClassifier, helper).is_ok_and(|has| !has)
    };
    let missing: Vec<String> = HELPERS
        .iter()
        .filter(|(helper, ..)| lacks(*helper))
        .map(|(_, name, since)| format!("{name} (Linux {since})"))
        .collect();
    if missing.is_empty() {
        return DatapathError::Program { name, source };
    }
    DatapathError::OldKernel {
        release: uname().map_or_else(
            |_| "of an unknown version".to_owned(),
            |name| name.release().to_string_lossy().into_owned(),
        ),
        missing: missing.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use aya_obj::{
        Object,
        generated::{BPF_CALL, BPF_JMP, BPF_PSEUDO_CALL},
    };

    use super::*;
    use crate::datapath::kernel::OBJECT;

    #[test]
    fn the_helpers_that_the_programs_call_are_known() {
        let object = Object::parse(OBJECT).unwrap();
        let instructions = object
            .functions
            .values()
            .flat_map(|function| &function.instructions);
        let called: BTreeSet<i32> = instructions
            .filter(|call| {
                u32::from(call.code) == BPF_JMP | BPF_CALL
                    && u32::from(call.src_reg()) != BPF_PSEUDO_CALL
                    && call.imm > 0
            })
            .map(|call| call.imm)
            .collect();
        let known: BTreeSet<i32> = HELPERS.iter().map(|(helper, ..)| *helper as i32).collect();
        let unknown: Vec<_> = called.difference(&known).collect();
        assert!(unknown.is_empty(), "add these of bpf_func_id: {unknown:?}");
    }
}
