//! Prints the abilities that tests need and this kernel has or lacks, a line each: `has` or `lacks`, a tab, and the
//! reason of tests that are skipped without it. `cargo xtask test` compares the skips with it.

use std::process::ExitCode;

use shunt_tests::Ability;

fn main() -> ExitCode {
    for ability in Ability::ALL {
        match ability.is_there() {
            Ok(is_there) => {
                let state = if is_there { "has" } else { "lacks" };
                println!("{state}\t{}", ability.lack());
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
