//! What a machine has to be able to do before a build for it is worth its time.
//!
//! [`Facts::gather`] tries it out, in well under a second and without a trace: a network namespace, its
//! settings, a device, a program. [`Facts::problems`] has a sentence with a remedy for each thing that
//! does not work.

mod bpf;
mod facts;
mod problem;

pub use self::{
    facts::{Facts, Room},
    problem::Purpose,
};
