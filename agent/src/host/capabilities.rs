//! Capabilities of this process.

use caps::{CapSet, Capability, errors::CapsError, has_cap};

/// Capabilities that translation needs, each with its substitutes: before they were apart, `CAP_SYS_ADMIN`
/// allowed all that has to do with BPF (`include/uapi/linux/capability.h`, Linux 5.8).
///
/// `CAP_BPF` makes tables and loads programs, `CAP_NET_ADMIN` attaches them to the network, and without
/// `CAP_PERFMON` the verifier allows no arithmetic on pointers.
const NEEDED: [(Capability, &[Capability]); 3] = [
    (Capability::CAP_BPF, &[Capability::CAP_SYS_ADMIN]),
    (Capability::CAP_NET_ADMIN, &[]),
    (Capability::CAP_PERFMON, &[Capability::CAP_SYS_ADMIN]),
];

/// The capabilities that translation needs and this process lacks, by their names.
///
/// # Errors
///
/// If the kernel does not report which this process has.
pub(crate) fn missing_capabilities() -> Result<Vec<String>, CapsError> {
    let mut missing = Vec::new();
    for (needed, others) in NEEDED {
        let mut has = has_cap(None, CapSet::Effective, needed)?;
        for other in others {
            has |= has_cap(None, CapSet::Effective, *other)?;
        }
        if !has {
            missing.push(needed.to_string());
        }
    }
    Ok(missing)
}
