//! Tests of parts of the programs, in which each test sets the kernel's clock and routes.

mod fib;
mod kernel;
mod origin;
mod ports;
mod redirect;
mod sample;
mod sockets;
mod stack;

/// Makes two tests of a function that is generic over the family, `NAME_v4` and `NAME_v6`.
macro_rules! both_families {
    ($name:ident: $v4:ident $v6:ident) => {
        #[test]
        fn $v4() {
            $name::<shunt_common::V4>();
        }

        #[test]
        fn $v6() {
            $name::<shunt_common::V6>();
        }
    };
}
use both_families;
