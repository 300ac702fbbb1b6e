//! The stack that the programs take, as the kernel counts it before it loads them.
//!
//! `check_max_stack_depth` of `kernel/bpf/verifier.c` adds up the frames of each chain of functions
//! that call each other, also where a constant means that a call never happens: dead code is removed
//! later. A frame is as large as the lowest place that the function uses; before Linux 6.8 in
//! multiples of 32 bytes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use aya_obj::{
    Object,
    generated::{
        BPF_ADD, BPF_ALU64, BPF_CALL, BPF_DW, BPF_IMM, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MOV,
        BPF_PSEUDO_CALL, BPF_PSEUDO_FUNC, BPF_ST, BPF_STX, BPF_X, bpf_insn,
    },
};

use crate::object::programs::{
    EGRESS, EGRESS_L3, EGRESS_V6, EGRESS_V6_L3, FLOW_OBJECT, INGRESS, INGRESS_L3, INGRESS_V6,
    INGRESS_V6_L3, OBJECT, XDP,
};

/// `MAX_BPF_STACK` of `linux/filter.h`.
const MOST: u32 = 512;

/// Size that a frame is a multiple of.
const UNIT: u32 = 32;

/// The register that has the frame's end.
const FRAME: u8 = 10;

/// A function: its frame, and whom it calls, by their first instructions.
#[derive(Debug, Default)]
struct Function {
    frame: u32,
    called: BTreeSet<usize>,
}

/// The functions of a program, by their first instructions: its own is at 0.
fn functions(program: &[bpf_insn]) -> BTreeMap<usize, Function> {
    let called = |(at, one): (usize, &bpf_insn)| {
        let source = u32::from(one.src_reg());
        let is_call = is(*one, BPF_JMP | BPF_CALL) && source == BPF_PSEUDO_CALL;
        let is_callback = is(*one, BPF_LD | BPF_IMM | BPF_DW) && source == BPF_PSEUDO_FUNC;
        (is_call || is_callback).then(|| (at, at.strict_add_signed(one.imm as isize + 1)))
    };
    let calls: BTreeMap<usize, usize> = program.iter().enumerate().filter_map(called).collect();
    let begins: BTreeSet<usize> = calls.values().copied().chain([0]).collect();
    let ends = begins.iter().copied().skip(1).chain([program.len()]);
    let parts = begins.iter().copied().zip(ends);
    let of_part = |(begin, end): (usize, usize)| {
        let function = Function {
            frame: frame(&program[begin..end]),
            called: calls.range(begin..end).map(|(_, &there)| there).collect(),
        };
        (begin, function)
    };
    parts.map(of_part).collect()
}

fn is(one: bpf_insn, code: u32) -> bool {
    u32::from(one.code) == code
}

/// The lowest place that a function uses of its frame.
fn frame(function: &[bpf_insn]) -> u32 {
    let mut frame = 0;
    // The registers that have the frame's end, too, until they are moved to the place they are for.
    let mut has_end = [false; 11];
    has_end[usize::from(FRAME)] = true;
    for one in function {
        let (to, from) = (usize::from(one.dst_reg()), usize::from(one.src_reg()));
        let place = match u32::from(one.code) & 0x07 {
            BPF_LDX if has_end[from] => one.off.into(),
            BPF_ST | BPF_STX if has_end[to] => one.off.into(),
            BPF_ALU64 if is(*one, BPF_ALU64 | BPF_ADD | BPF_K) && has_end[to] => one.imm,
            _ => 0,
        };
        frame = frame.max(place.min(0).unsigned_abs());
        if matches!(u32::from(one.code) & 0x07, BPF_LDX | BPF_ALU64) {
            has_end[to] = is(*one, BPF_ALU64 | BPF_MOV | BPF_X) && has_end[from];
        }
    }
    frame
}

/// The chain of frames from this function on that takes the most.
fn deepest(functions: &BTreeMap<usize, Function>, at: usize) -> Vec<u32> {
    let function = &functions[&at];
    let chains = function.called.iter().map(|&on| deepest(functions, on));
    let mut chain = chains.max_by_key(|chain| total(chain)).unwrap_or_default();
    chain.insert(0, function.frame);
    chain
}

fn total(chain: &[u32]) -> u32 {
    let frames = chain.iter();
    frames
        .map(|frame| frame.max(&1).next_multiple_of(UNIT))
        .sum()
}

#[test]
fn kernels_before_6_8_have_the_stack_that_the_programs_take() {
    for object in [&OBJECT, &FLOW_OBJECT] {
        has_room(Object::parse(&object.bytes().unwrap()).unwrap());
    }
}

fn has_room(mut object: Object) {
    let sections: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    object.relocate_calls(&sections).unwrap();
    for name in [
        INGRESS,
        EGRESS,
        INGRESS_V6,
        EGRESS_V6,
        INGRESS_L3,
        EGRESS_L3,
        INGRESS_V6_L3,
        EGRESS_V6_L3,
        XDP,
    ] {
        let program = &object.functions[&object.programs[name].function_key()];
        let functions = functions(&program.instructions);
        assert!(functions.len() > 10, "{name} calls functions");
        let chain = deepest(&functions, 0);
        let total = total(&chain);
        assert!(
            total <= MOST,
            "{name}: {total} bytes by frames of {chain:?}, each a multiple of {UNIT}"
        );
        println!("{name}: {total} bytes by frames of {chain:?}");
    }
}
