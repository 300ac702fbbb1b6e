//! The kernel's result for the object.

use std::fs;

use shunt_datapath::{
    Datapath, DatapathError, DatapathOptions, Families, Loading, PacketLog, TableSizes,
};
use shunt_tests::PinDir;

use super::needs_root;

const SMALL: TableSizes = TableSizes {
    frontends: 8,
    slots: 8,
    backends: 8,
    conntrack: 64,
    affinity: 64,
    source_ranges: 64,
    fragments: 64,
    services: 64,
};

/// The size of a loaded program after the verifier, in bytes.
fn size(packet_log: PacketLog, program: &'static str) -> u32 {
    let options = DatapathOptions {
        packet_log,
        sizes: SMALL,
        ..DatapathOptions::default()
    };
    let mut datapath = Datapath::load(&options).unwrap();
    let info = datapath.program(program).unwrap().info().unwrap();
    assert_eq!(info.name_as_str(), Some(program), "the stable name");
    assert!(info.btf_id().is_some(), "the object carries BTF");
    info.size_translated().unwrap()
}

/// The programs that every node has, if it translates both families.
const PROGRAMS: [&str; 4] = [
    Datapath::INGRESS,
    Datapath::EGRESS,
    Datapath::INGRESS_V6,
    Datapath::EGRESS_V6,
];

/// Limit of the instructions that the verifier may look at, of the million that it does: kernels
/// differ in the ways that they take for the same.
const VERIFIED: u32 = 500_000;

#[test]
fn the_verifier_has_room_left() {
    needs_root!();
    let options = DatapathOptions {
        pod_cidrs: ["10.1.1.0/24", "fd00:10:1:1::/64"]
            .map(|cidr| cidr.parse().unwrap())
            .into(),
        redirect: true,
        sizes: SMALL,
        ..DatapathOptions::default()
    };
    let mut datapath = Datapath::load(&options).unwrap();
    for program in PROGRAMS {
        let info = datapath.program(program).unwrap().info().unwrap();
        let verified = info.verified_instruction_count().unwrap();
        println!("{program}: {verified} instructions");
        assert!(verified < VERIFIED, "{program}: {verified} instructions");
    }
}

/// Returns the number of instructions that the verifier visited for an agent that translates these families.
fn verified(families: Families) -> u32 {
    let options = DatapathOptions {
        families,
        sizes: SMALL,
        ..DatapathOptions::default()
    };
    let mut datapath = Datapath::load(&options).unwrap();
    let programs = if families.ipv6 {
        &PROGRAMS[..]
    } else {
        &PROGRAMS[..2]
    };
    let verified = programs.iter().map(|program| {
        let info = datapath.program(program).unwrap().info().unwrap();
        info.verified_instruction_count().unwrap()
    });
    let verified: Vec<u32> = verified.collect();
    println!("{families:?}: {verified:?} instructions");
    verified.iter().sum()
}

#[test]
fn the_verifier_does_not_look_at_a_family_that_is_left_out() {
    needs_root!();
    let both = verified(Families::default());
    for (ipv4, ipv6) in [(true, false), (false, true)] {
        let one = verified(Families { ipv4, ipv6 });
        assert!(3 * one < 2 * both, "{one} of {both} instructions");
    }
    let none = verified(Families {
        ipv4: false,
        ipv6: false,
    });
    assert!(none < 120, "{none} instructions of neither family");
}

#[test]
fn loading_that_is_stopped_leaves_nothing_pinned() {
    needs_root!();
    let pins = PinDir::new();
    let loading = Loading::new(DatapathOptions {
        sizes: SMALL,
        pin_dir: Some(pins.path().to_owned()),
        ..DatapathOptions::default()
    });
    loading.stop().stop();
    let Err(error) = loading.load() else {
        panic!("it was loaded");
    };
    assert!(matches!(error, DatapathError::Stopped), "{error}");
    assert!(!fs::exists(pins.path()).unwrap(), "what is pinned is gone");
}

#[test]
fn debug_messages_are_not_in_the_program_when_off() {
    needs_root!();
    let (off, on) = (
        size(PacketLog::Off, Datapath::INGRESS),
        size(PacketLog::Debug, Datapath::INGRESS),
    );
    assert!(
        off + 200 < on,
        "{off} bytes without and {on} bytes with messages"
    );
    assert!(size(PacketLog::Off, Datapath::EGRESS) > 0);
}

#[test]
fn more_pod_ranges_than_the_programs_hold_are_an_error() {
    let options = DatapathOptions {
        pod_cidrs: vec!["10.0.0.0/24".parse().unwrap(); 5],
        ..DatapathOptions::default()
    };
    let Err(error) = Datapath::load(&options) else {
        panic!("5 ranges were taken");
    };
    let expected = "5 ranges were given (of pods, or of sources of envelopes), at most 4 a family are possible";
    assert_eq!(error.to_string(), expected);
}
