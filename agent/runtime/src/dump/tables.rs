//! The programs' tables, as a dump has them.

use shunt_common::registry::{self, Kind};
use shunt_datapath::{Contents, TableCopy};
use shunt_trace::{Shape, Table};

/// Returns whether a table is of use in a later analysis. What programs keep for the packets of a moment
/// is not, but for when the next rejection is due.
pub(super) fn is_of_use(name: &str) -> bool {
    registry::maps().all(|map| map.name != name || map.kind != Kind::Scratch) || has_dues(name)
}

/// Returns whether a table has times that are compared with the clock to the nanosecond: when rejections are due.
pub(super) fn has_dues(name: &str) -> bool {
    name == registry::REJECTIONS.name
}

/// The table that was copied.
pub(super) fn table(copy: TableCopy) -> Table {
    let TableCopy {
        name: _,
        count,
        key_size,
        value_size,
        contents,
    } = copy;
    let (shape, entries) = match contents {
        Contents::Values(values) => {
            let values = (0_u32..).zip(values.chunks(value_size));
            let used = values.filter(|(_, value)| value.iter().any(|byte| *byte != 0));
            let entries = used.map(|(index, value)| (index.to_ne_bytes().to_vec(), value.to_vec()));
            (Shape::Array(count), entries.collect())
        }
        Contents::Entries(entries) => (Shape::Hash, entries.into_iter().collect()),
    };
    Table {
        shape,
        key_size,
        value_size,
        entries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_array_only_what_is_used_is_dumped() {
        let copy = TableCopy {
            name: "CELLS_V4",
            count: 3,
            key_size: 4,
            value_size: 2,
            contents: Contents::Values(vec![0, 0, 7, 0, 0, 0]),
        };
        let table = table(copy);
        assert_eq!(table.shape, Shape::Array(3));
        assert_eq!(table.entries.len(), 1);
        assert_eq!(table.at(1), Some(&[7, 0][..]));
    }

    #[test]
    fn what_programs_keep_for_a_moment_is_left_out() {
        for (name, is_there) in [
            ("CONNTRACK_V4", true),
            ("INTERFACES", true),
            ("REJECTIONS", true),
            ("HALFWAY_V4", false),
        ] {
            assert_eq!(is_of_use(name), is_there, "{name}");
        }
    }
}
