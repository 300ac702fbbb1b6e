//! The place of a task's flags in the kernel's own structure, by the kernel's types (BTF).
//!
//! The format is that of `include/uapi/linux/btf.h`. It is read here by hand, as no library shows the members of types.

use std::fs;

use shunt_common::socket::EVERY_TASK;

/// The kernel's types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The structure, and the member.
const STRUCTURE: &[u8] = b"task_struct";
const MEMBER: &[u8] = b"flags";

/// `BTF_MAGIC`, and kinds of types: `BTF_KIND_`.
const MAGIC: u16 = 0xeb9f;
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNCTION: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const TAG: u32 = 17;
const ENUM64: u32 = 19;

/// The length of `struct btf_type`, and of `struct btf_member`.
const TYPE: usize = 12;
const MEMBER_LENGTH: usize = 12;

/// Returns the offset of a task's flags in bytes, or [`EVERY_TASK`] if the kernel does not show its types.
pub(crate) fn task_flags() -> u32 {
    let offset = fs::read(TYPES).ok().and_then(|types| offset(&types));
    offset.unwrap_or(EVERY_TASK)
}

/// Returns the member's offset in bytes; `None` if it is not there, or not by itself.
fn offset(btf: &[u8]) -> Option<u32> {
    if u16_at(btf, 0)? != MAGIC {
        return None;
    }
    let header = u32_at(btf, 4)? as usize;
    let part = |place| {
        let begin = header.checked_add(u32_at(btf, place)? as usize)?;
        let length = u32_at(btf, place + 4)? as usize;
        btf.get(begin..begin.checked_add(length)?)
    };
    let (mut types, names) = (part(8)?, part(16)?);
    while !types.is_empty() {
        let info = u32_at(types, 4)?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let rest = types.get(TYPE..)?;
        let (members, behind) = rest.split_at_checked(length(kind, count))?;
        if kind == STRUCT && has_name(names, u32_at(types, 0)?, STRUCTURE) {
            return member(members, names, info >> 31 != 0);
        }
        types = behind;
    }
    None
}

/// Returns the length of what follows a type of this kind with so many elements.
const fn length(kind: u32, count: usize) -> usize {
    match kind {
        INT | VARIABLE | TAG => 4,
        ARRAY => 12,
        STRUCT | UNION => MEMBER_LENGTH * count,
        SECTION | ENUM64 => 12 * count,
        ENUM | FUNCTION => 8 * count,
        _ => 0,
    }
}

/// Returns the offset of the member, in bytes, among these. `has_widths`: offsets have the width of a bit field above them.
fn member(members: &[u8], names: &[u8], has_widths: bool) -> Option<u32> {
    let found = members
        .chunks_exact(MEMBER_LENGTH)
        .find(|member| u32_at(member, 0).is_some_and(|name| has_name(names, name, MEMBER)))?;
    let offset = u32_at(found, 8)?;
    let bits = if has_widths {
        offset & 0x00ff_ffff
    } else {
        offset
    };
    let is_word = bits.is_multiple_of(u32::BITS);
    (is_word && bits != 0).then_some(bits / 8)
}

fn has_name(names: &[u8], offset: u32, name: &[u8]) -> bool {
    let rest = names.get(offset as usize..);
    rest.and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.first() == Some(&0))
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    let bytes = bytes.get(place..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    let bytes = bytes.get(place..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, and where each begins.
    const NAMES: &[u8] = b"\0task_struct\0task\0flags\0state\0";
    const TASK_STRUCT: u32 = 1;
    const TASK: u32 = 13;
    const FLAGS: u32 = 18;
    const STATE: u32 = 24;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Types with a header before them and the names behind.
    fn btf(types: &[u32]) -> Vec<u8> {
        let types = words(types);
        let (length, names) = (types.len() as u32, NAMES.len() as u32);
        let header = [24, 0, length, length, names];
        let begin = [0x9f, 0xeb, 1, 0];
        [&begin[..], &words(&header), &types, NAMES].concat()
    }

    #[test]
    fn the_member_is_found_behind_types_of_other_kinds() {
        let int = [STATE, INT << 24, 4, 32];
        let other = [TASK, STRUCT << 24 | 1, 8, FLAGS, 1, 64];
        let enumeration = [0, ENUM << 24 | 1, 4, FLAGS, 7];
        let function = [0, FUNCTION << 24 | 1, 1, FLAGS, 1];
        let task = [
            TASK_STRUCT,
            STRUCT << 24 | 2,
            64,
            STATE,
            1,
            192,
            FLAGS,
            1,
            352,
        ];
        let all = [&int[..], &other, &enumeration, &function, &task].concat();
        assert_eq!(offset(&btf(&all)), Some(44));
        let without = [&int[..], &other].concat();
        assert_eq!(offset(&btf(&without)), None);
    }

    #[test]
    fn an_offset_of_bits_counts_as_long_as_it_is_that_of_a_word() {
        let task = |kinds: u32, place: u32| {
            let info = kinds | STRUCT << 24 | 1;
            offset(&btf(&[TASK_STRUCT, info, 64, FLAGS, 1, place]))
        };
        // A width above the offset, if the type has bit fields.
        assert_eq!(task(1 << 31, 32 << 24 | 0x160), Some(44));
        assert_eq!(task(0, 352), Some(44));
        assert_eq!(task(0, 353), None);
        assert_eq!(task(0, 0), None);
    }

    #[test]
    fn what_is_cut_off_has_no_member() {
        let whole = btf(&[TASK_STRUCT, STRUCT << 24 | 1, 64, FLAGS, 1, 352]);
        assert_eq!(offset(&whole), Some(44));
        for length in 0..whole.len() {
            assert_eq!(offset(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(offset(&[0xff; 100]), None);
    }

    #[test]
    fn this_kernels_flags_are_found_if_it_shows_its_types() {
        let shows = fs::exists(TYPES).unwrap();
        assert_eq!(task_flags() != EVERY_TASK, shows);
    }
}
