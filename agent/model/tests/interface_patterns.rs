//! The interfaces that a pattern means, and texts that are no pattern.

use shunt_model::{Fault, InterfacePattern};

#[test]
fn a_pattern_means_the_names_that_match() {
    for (pattern, matching, others) in [
        ("eth0", &["eth0"][..], &["eth1", "eth00", "ETH0"][..]),
        ("veth*", &["veth", "veth0a1b"], &["eth0", "xveth0"]),
        ("eth?", &["eth0", "ethx"], &["eth", "eth10"]),
        ("eth[0-3]", &["eth0", "eth3"], &["eth4", "eth"]),
        ("*[!0]", &["eth1", "cni"], &["cni0"]),
        ("*", &["lo", "eth0"], &[]),
        // Which these are is not a matter of names.
        ("auto", &[], &["auto", "eth0"]),
    ] {
        let parsed: InterfacePattern = pattern.parse().unwrap();
        assert_eq!(parsed.to_string(), pattern);
        for name in matching {
            assert!(parsed.matches(name), "{pattern} means {name}");
        }
        for name in others {
            assert!(!parsed.matches(name), "{pattern} does not mean {name}");
        }
    }
}

#[test]
fn a_name_is_at_most_as_long_as_the_kernels_and_a_pattern_may_be_longer() {
    let parse = |text: &str| text.parse::<InterfacePattern>();
    let long = "sixteen-bytes-xx";
    assert_eq!(parse(long), Err(Fault::LongInterfaceName(long.to_owned())));
    assert!(parse("sixteen-bytes-[xyz]*").is_ok());
    assert_eq!(parse(""), Err(Fault::EmptyName));
    for text in ["a b", "a/*", "a\n"] {
        assert_eq!(parse(text), Err(Fault::BadName(text.to_owned())));
    }
    for pattern in ["[", "eth[", "a**"] {
        let found = parse(pattern);
        assert!(matches!(found, Err(Fault::BadPattern { .. })), "{found:?}");
    }
}
