//! The abilities that a machine needs before a build for it is worth its time.
//!
//! [`Facts::gather`] tries them, in well under a second and without a trace: a network namespace, its
//! settings, a device, a program. [`Facts::problems`] returns a sentence with a remedy for each that
//! does not work.

mod bpf;
mod facts;
mod problem;

pub use self::{
    facts::{Facts, Room},
    problem::Purpose,
};
