//! Priority of threads on a processor.

use rustix::process::nice;

/// Distance that a thread steps back, in the steps of `nice(2)`.
const BACK: i32 = 10;

/// Has this thread give way to the agent's others where more of them want a processor than there are:
/// events are taken while ten thousand clients get the last one.
pub fn give_way() {
    // Linux counts it for the thread alone, and lets everyone step back.
    let _ = nice(BACK);
}
