//! A loaded program as the kernel runs it: its functions and what they call.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use nix::libc;

/// `BPF_OBJ_GET_INFO_BY_FD` of `linux/bpf.h`.
const GET_INFO: libc::c_long = 15;
/// `BPF_JMP | BPF_CALL`, `BPF_JMP | BPF_EXIT`, `BPF_LD | BPF_IMM | BPF_DW`, `BPF_JMP | BPF_JA` and
/// `BPF_JMP32 | BPF_JA` of `linux/bpf.h`.
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD_WIDE: u8 = 0x18;
const JUMP: u8 = 0x05;
const JUMP_FAR: u8 = 0x06;
/// `BPF_STX | BPF_ATOMIC | BPF_DW`.
const ATOMIC: u8 = 0xdb;
/// The classes of jumps.
const CLASS: u8 = 0x07;
const CLASS_JUMP: u8 = 0x05;
const CLASS_JUMP32: u8 = 0x06;
/// `BPF_PSEUDO_CALL`.
const PSEUDO_CALL: u8 = 1;

/// `struct bpf_prog_info` of `linux/bpf.h` up to what is used of it.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind_and_id: [u32; 2],
    tag: [u8; 8],
    jited_size: u32,
    translated_size: u32,
    jited: u64,
    translated: u64,
    between: [u64; 8],
    symbol_count: u32,
    length_count: u32,
    symbols: u64,
    lengths: u64,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_count: u32,
}

const _: () = assert!(core::mem::offset_of!(Info, symbol_count) == 104);
const _: () = assert!(core::mem::offset_of!(Info, function_count) == 144);

/// `struct bpf_func_info` of `linux/bpf.h`.
#[repr(C)]
#[derive(Clone, Default)]
struct Function {
    begin: u32,
    kind: u32,
}

/// `union bpf_attr` for this call.
#[repr(C)]
struct Attributes {
    descriptor: u32,
    size: u32,
    info: u64,
}

/// `BPF_ADD`, an atomic addition without a result, and `BPF_CMPXCHG`.
pub(crate) const ADD: i32 = 0;
pub(crate) const COMPARE_EXCHANGE: i32 = 0xf1;

/// Effect of an instruction on the way through its function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// On to the next.
    Next,
    /// There or to the next.
    Branch(usize),
    /// There.
    Jump(usize),
    /// A call of the kernel's, by its name.
    Kernel(String),
    /// A call of one of the program's functions, by its number.
    Function(usize),
    /// The function's end.
    Exit,
}

/// A program's functions.
pub(crate) struct Listing {
    /// Their names, the program itself first.
    pub names: Vec<String>,
    /// Begin of each function.
    pub begins: Vec<usize>,
    /// Atomic operations on words of 64 bits, by their places: each with its number, as [`ADD`] and
    /// [`COMPARE_EXCHANGE`].
    pub atomics: Vec<(usize, i32)>,
    /// All instructions; of one that takes two places the second is [`Step::Next`].
    pub steps: Vec<Step>,
}

impl Listing {
    /// Reads the program back from the kernel, and the names of what it calls from
    /// `/proc/kallsyms`.
    pub(crate) fn of(program: BorrowedFd<'_>) -> Self {
        let mut sizes = Info::default();
        ask(program, &mut sizes);
        let mut code = vec![[0_u8; 8]; sizes.translated_size as usize / 8];
        let mut symbols = vec![0_u64; sizes.symbol_count as usize];
        let mut functions = vec![Function::default(); sizes.function_count as usize];
        let mut info = Info {
            translated_size: sizes.translated_size,
            translated: code.as_mut_ptr().expose_provenance() as u64,
            symbol_count: sizes.symbol_count,
            symbols: symbols.as_mut_ptr().expose_provenance() as u64,
            function_size: size_of::<Function>() as u32,
            functions: functions.as_mut_ptr().expose_provenance() as u64,
            function_count: sizes.function_count,
            ..Info::default()
        };
        ask(program, &mut info);

        let kernel = kernel_symbols();
        let base = kernel
            .iter()
            .find_map(|(address, name)| (name == "__bpf_call_base").then_some(*address))
            .expect("kallsyms shows addresses to root");
        let name_of = |address: &u64| kernel.get(address).cloned().unwrap_or_default();
        // bpf_prog_TAG_NAME
        let names = symbols
            .iter()
            .map(name_of)
            .map(|name| name.splitn(4, '_').last().unwrap_or_default().to_owned());

        let begins: Vec<usize> = functions.iter().map(|one| one.begin as usize).collect();
        assert_eq!(begins.len(), symbols.len(), "each function has both");
        // The kernel's distance of a call has 16 bits, which a long program exceeds.
        let at = |place: usize, offset: isize| {
            let is_there =
                |begin: usize| (place as isize + 1 + offset - begin as isize) % 0x1_0000 == 0;
            let found: Vec<usize> = (0..begins.len())
                .filter(|one| is_there(begins[*one]))
                .collect();
            assert_eq!(found.len(), 1, "a call at {place} is of one function");
            found[0]
        };
        let mut steps = Vec::with_capacity(code.len());
        let mut atomics = Vec::new();
        let mut is_second = false;
        for (place, instruction) in code.iter().enumerate() {
            let [operation, registers, low, high, immediate @ ..] = *instruction;
            let offset = isize::from(i16::from_le_bytes([low, high]));
            let immediate = i32::from_le_bytes(immediate);
            if operation == ATOMIC && !is_second {
                atomics.push((place, immediate));
            }
            let target = |by: isize| (place + 1).checked_add_signed(by).unwrap();
            let step = match operation {
                _ if is_second => Step::Next,
                CALL if registers >> 4 == PSEUDO_CALL => Step::Function(at(place, offset)),
                CALL => Step::Kernel(name_of(&base.wrapping_add_signed(immediate.into()))),
                EXIT => Step::Exit,
                JUMP => Step::Jump(target(offset)),
                JUMP_FAR => Step::Jump(target(immediate as isize)),
                _ if matches!(operation & CLASS, CLASS_JUMP | CLASS_JUMP32) => {
                    Step::Branch(target(offset))
                }
                _ => Step::Next,
            };
            is_second = !is_second && operation == LOAD_WIDE;
            steps.push(step);
        }
        Self {
            names: names.collect(),
            begins,
            atomics,
            steps,
        }
    }

    /// The names of the functions that have this atomic operation.
    pub(crate) fn functions_with(&self, operation: i32) -> BTreeSet<&str> {
        let found = self.atomics.iter().filter(|(_, other)| *other == operation);
        let name_at = |place: usize| {
            let numbers = 0..self.begins.len();
            let before = numbers.filter(|number| self.begins[*number] <= place);
            let function = before.max_by_key(|number| self.begins[*number]);
            function.map(|number| &*self.names[number])
        };
        found.filter_map(|(place, _)| name_at(*place)).collect()
    }

    /// The number of the function with this name.
    pub(crate) fn function(&self, name: &str) -> usize {
        let place = self.names.iter().position(|other| other == name);
        place.unwrap_or_else(|| panic!("{name} is none of {:?}", self.names))
    }
}

fn ask(program: BorrowedFd<'_>, info: &mut Info) {
    let mut attributes = Attributes {
        descriptor: program.as_raw_fd().cast_unsigned(),
        size: size_of::<Info>() as u32,
        info: (&raw mut *info).expose_provenance() as u64,
    };
    // SAFETY: the kernel writes the information and, within the lengths that are given there, the
    // two buffers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            GET_INFO,
            &raw mut attributes,
            size_of::<Attributes>(),
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn kernel_symbols() -> HashMap<u64, String> {
    let text = fs::read_to_string("/proc/kallsyms").unwrap();
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?.to_owned()))
    };
    text.lines().filter_map(symbol).collect()
}
