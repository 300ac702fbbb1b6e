//! The lines that a dump consists of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shunt_common::registry;

use super::{
    content::{Frontend, Interface, Neighbour, Node, Route, Rule},
    error::DumpError,
    hex::Hex,
    table::{Shape, Table},
};

/// Maximum number of bytes of a table in memory: a table that claims more is damaged.
const LARGEST: u64 = 1 << 32;

/// Byte order of numbers here.
pub const BYTE_ORDER: &str = if cfg!(target_endian = "little") {
    "little"
} else {
    "big"
};

#[cfg(test)]
impl Node {
    /// One for tests: its clocks have just begun, and it translates at no socket.
    pub(crate) fn of_tests() -> Self {
        Self {
            shunt: "0".to_owned(),
            taken: 0,
            ticks: 0,
            nanoseconds: 0,
            byte_order: BYTE_ORDER.to_owned(),
            anonymous: false,
            sockets: super::content::Sockets {
                mode: "off".to_owned(),
                hooks: Vec::new(),
            },
        }
    }
}

/// A line of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first one.
    Node(Node),
    /// A constant of the programs.
    Constant {
        /// Its name.
        name: String,
        /// As the programs hold it.
        value: Hex,
    },
    /// A table of the programs, whose entries follow.
    Table {
        /// Its name.
        name: String,
        /// Kind of the table.
        shape: Shape,
        /// Number of bytes of a key.
        key: usize,
        /// Number of bytes of a value.
        value: usize,
    },
    /// Some entries of a table.
    Entries {
        /// Its name.
        table: String,
        /// Keys and values.
        entries: Vec<(Hex, Hex)>,
    },
    /// A network interface.
    Interface(Interface),
    /// A route.
    Route(Route),
    /// A rule.
    Rule(Rule),
    /// A neighbour on a link.
    Neighbour(Neighbour),
    /// The events' data of a frontend.
    Frontend(Frontend),
    /// The last one.
    End {
        /// Number of lines before it.
        lines: usize,
    },
}

impl Record {
    /// The line, with its end.
    ///
    /// # Panics
    ///
    /// Never: a record has strings for keys, and numbers and strings for values.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("numbers and strings");
        line.push(b'\n');
        line
    }
}

/// A dump: a node's tables and its network at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// The node, and when it was.
    pub node: Node,
    /// The programs' constants, by name.
    pub constants: BTreeMap<String, Vec<u8>>,
    /// The programs' tables, by name.
    pub tables: BTreeMap<String, Table>,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Known neighbours on links.
    pub neighbours: Vec<Neighbour>,
    /// The events' data of frontends.
    pub frontends: Vec<Frontend>,
}

impl Dump {
    /// Returns whether a table of the programs has this key.
    pub(crate) fn has(&self, map: registry::Map, key: &[u8]) -> bool {
        let table = self.tables.get(map.name);
        table.is_some_and(|table| table.entries.contains_key(key))
    }

    /// With nothing but a node.
    pub const fn new(node: Node) -> Self {
        Self {
            node,
            constants: BTreeMap::new(),
            tables: BTreeMap::new(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            rules: Vec::new(),
            neighbours: Vec::new(),
            frontends: Vec::new(),
        }
    }

    /// The lines, from the first to the last.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let Self {
            node,
            constants,
            tables,
            interfaces,
            routes,
            rules,
            neighbours,
            frontends,
        } = self;
        let first = std::iter::once(Record::Node(node.clone()));
        let constants = constants.iter().map(|(name, value)| Record::Constant {
            name: name.clone(),
            value: Hex(value.clone()),
        });
        let tables = tables
            .iter()
            .flat_map(|(name, table)| table_records(name, table));
        first
            .chain(constants)
            .chain(interfaces.iter().cloned().map(Record::Interface))
            .chain(routes.iter().cloned().map(Record::Route))
            .chain(rules.iter().cloned().map(Record::Rule))
            .chain(neighbours.iter().cloned().map(Record::Neighbour))
            .chain(frontends.iter().cloned().map(Record::Frontend))
            .chain(tables)
    }
}

/// Maximum number of entries of a line.
const PIECE: usize = 1024;

/// The lines of a table.
pub fn table_records(name: &str, table: &Table) -> Vec<Record> {
    let head = Record::Table {
        name: name.to_owned(),
        shape: table.shape,
        key: table.key_size,
        value: table.value_size,
    };
    let entries: Vec<_> = table.entries.iter().collect();
    let pieces = entries.chunks(PIECE).map(|piece| Record::Entries {
        table: name.to_owned(),
        entries: piece
            .iter()
            .map(|(key, value)| (Hex((*key).clone()), Hex((*value).clone())))
            .collect(),
    });
    std::iter::once(head).chain(pieces).collect()
}

/// Puts lines together to a dump.
#[derive(Debug, Default)]
pub struct Collector {
    dump: Option<Dump>,
    lines: usize,
    is_whole: bool,
}

impl Collector {
    /// Takes the next line, without its end.
    ///
    /// # Errors
    ///
    /// If it is none, or does not fit those before it.
    pub fn take(&mut self, line: &[u8]) -> Result<(), DumpError> {
        self.lines += 1;
        let record = serde_json::from_slice(line).map_err(|error| self.damaged(&error))?;
        self.add(record)
    }

    /// Takes the record of the next line.
    ///
    /// # Errors
    ///
    /// If it does not fit those before it.
    pub fn put(&mut self, record: Record) -> Result<(), DumpError> {
        self.lines += 1;
        self.add(record)
    }

    fn damaged(&self, what: &impl ToString) -> DumpError {
        DumpError::Damaged {
            line: self.lines,
            what: what.to_string(),
        }
    }

    fn add(&mut self, record: Record) -> Result<(), DumpError> {
        if self.is_whole {
            return Err(self.damaged(&"it goes on after its last line"));
        }
        let Some(dump) = &mut self.dump else {
            let Record::Node(node) = record else {
                return Err(self.damaged(&"the node belongs there"));
            };
            if node.byte_order != BYTE_ORDER {
                return Err(DumpError::ByteOrder(node.byte_order));
            }
            self.dump = Some(Dump::new(node));
            return Ok(());
        };
        let added = match record {
            Record::Node(_) => Err("the node is there twice".to_owned()),
            Record::Constant { name, value } => {
                dump.constants.insert(name, value.0);
                Ok(())
            }
            Record::Table {
                name,
                shape,
                key,
                value,
            } => add_table(dump, &name, shape, key, value),
            Record::Entries { table, entries } => add_entries(dump, &table, entries),
            Record::Interface(interface) => {
                dump.interfaces.push(interface);
                Ok(())
            }
            Record::Route(route) => {
                dump.routes.push(route);
                Ok(())
            }
            Record::Rule(rule) => {
                dump.rules.push(rule);
                Ok(())
            }
            Record::Neighbour(neighbour) => {
                dump.neighbours.push(neighbour);
                Ok(())
            }
            Record::Frontend(frontend) => {
                dump.frontends.push(frontend);
                Ok(())
            }
            Record::End { lines } if lines + 1 == self.lines => {
                self.is_whole = true;
                Ok(())
            }
            Record::End { lines } => Err(format!(
                "{lines} lines were written before it, and {} are there",
                self.lines - 1
            )),
        };
        added.map_err(|what| self.damaged(&what))
    }

    /// Returns the number of lines that were taken.
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// The dump.
    ///
    /// # Errors
    ///
    /// If the last line was not there.
    pub fn finish(self) -> Result<Dump, DumpError> {
        let cut_off = DumpError::CutOff(self.lines);
        self.dump.filter(|_| self.is_whole).ok_or(cut_off)
    }
}

fn add_table(
    dump: &mut Dump,
    name: &str,
    shape: Shape,
    key_size: usize,
    value_size: usize,
) -> Result<(), String> {
    if let Shape::Array(count) = shape
        && (value_size as u64)
            .checked_mul(count.into())
            .is_none_or(|bytes| bytes > LARGEST)
    {
        return Err(format!("{name} cannot be so large"));
    }
    let table = Table {
        shape,
        key_size,
        value_size,
        entries: BTreeMap::new(),
    };
    match dump.tables.insert(name.to_owned(), table) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is there twice")),
    }
}

fn add_entries(dump: &mut Dump, name: &str, entries: Vec<(Hex, Hex)>) -> Result<(), String> {
    let Some(table) = dump.tables.get_mut(name) else {
        return Err(format!("nothing was said of a table {name}"));
    };
    for (Hex(key), Hex(value)) in entries {
        if key.len() != table.key_size || value.len() != table.value_size {
            return Err(format!(
                "an entry of {name} has {} and {} bytes, not {} and {}",
                key.len(),
                value.len(),
                table.key_size,
                table.value_size
            ));
        }
        if let Shape::Array(count) = table.shape {
            let index = key.as_slice().try_into().map(u32::from_ne_bytes);
            if index.is_ok_and(|index| index >= count) || index.is_err() {
                return Err(format!("an entry of {name} is beyond its end"));
            }
        }
        table.entries.insert(key, value);
    }
    Ok(())
}
