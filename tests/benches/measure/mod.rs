//! Measuring: subjects in turn, round by round, and what is compared with what.
//!
//! ```ignore
//! let study = Study::new("traffic/request", "us a TCP request", Better::Lower)
//!     .baseline("direct", || Ok(sample([("p50", direct()?), ("p99", 0.0)])))
//!     .subject("shunt", || Ok(...))
//!     .bound(Bound::ratio("p50 over direct", "shunt", "direct", "p50", Limit::AtMost(1.05)));
//! bench.study(study)?;
//! ```

mod bound;
mod results;
mod round;
mod spread;
mod study;

pub(crate) use self::{
    bound::{Bound, Limit},
    results::{Judged, Results, Role, Row},
    round::{Round, Sample, sample},
    spread::Spread,
    study::{Better, Study},
};
