//! Dumps are read as they were written, or not at all.

use super::{
    content::{Node, Sockets},
    error::DumpError,
    file::{read, write},
    record::{BYTE_ORDER, Dump},
    table::{Shape, Table},
};

fn dump() -> Dump {
    let mut dump = Dump::new(Node {
        shunt: "0.1.0".to_owned(),
        taken: 1,
        ticks: 2,
        nanoseconds: 3,
        byte_order: BYTE_ORDER.to_owned(),
        anonymous: false,
        sockets: Sockets {
            mode: "host".to_owned(),
            hooks: vec!["connect4".to_owned()],
        },
    });
    dump.constants.insert("REDIRECT".to_owned(), vec![0; 4]);
    let entries = (0_u32..3000).map(|index| (index.to_ne_bytes().to_vec(), vec![index as u8; 8]));
    let table = Table {
        shape: Shape::Array(3000),
        key_size: 4,
        value_size: 8,
        entries: entries.collect(),
    };
    dump.tables.insert("CELLS_V4".to_owned(), table);
    dump
}

fn written(dump: &Dump) -> Vec<u8> {
    let mut file = Vec::new();
    write(dump, &mut file).unwrap();
    file
}

#[test]
fn a_dump_is_read_as_it_was_written() {
    let dump = dump();
    assert_eq!(read(&written(&dump)[..]).unwrap(), dump);
}

#[test]
fn what_is_cut_off_anywhere_is_no_dump() {
    let file = written(&dump());
    for length in (0..file.len()).step_by(37) {
        read(&file[..length]).unwrap_err();
    }
}

#[test]
fn a_changed_byte_is_found_out() {
    let file = written(&dump());
    for place in (0..file.len()).step_by(11) {
        let mut changed = file.clone();
        changed[place] ^= 0x41;
        if let Ok(read) = read(&changed[..]) {
            // Of gzip's header some bytes mean nothing.
            assert_eq!(read, dump(), "at {place}");
        }
    }
}

#[test]
fn another_form_is_named() {
    let file = written(&dump());
    let other = [b"SHUNT-DUMP 2\n", &file[13..]].concat();
    assert!(matches!(read(&other[..]), Err(DumpError::Version(form)) if form == "2"));
    assert!(matches!(read(&file[1..]), Err(DumpError::Foreign)));
}

#[test]
fn tables_do_not_claim_what_they_do_not_have() {
    for line in [
        r#"{"record":"table","name":"X","shape":{"array":4294967295},"key":4,"value":4096}"#,
        r#"{"record":"entries","table":"X","entries":[]}"#,
        r#"{"record":"node"}"#,
        r#"{"record":"nonsense"}"#,
        "[]",
    ] {
        let mut collector = super::record::Collector::default();
        let first = dump().records().next().unwrap().line();
        collector.take(first.trim_ascii_end()).unwrap();
        collector.take(line.as_bytes()).unwrap_err();
    }
}
