//! The way in which programs are attached to interfaces.

use aya::util::KernelVersion;

use crate::{error::DatapathError, object::requirements::release};

/// The first kernel with TCX links.
const TCX_SINCE: KernelVersion = KernelVersion::new(6, 6, 0);

/// Choice of the way in which programs are attached to interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttachMode {
    /// By TCX links if the kernel has these, else by filters.
    #[default]
    Auto,
    /// By TCX links or not at all.
    Tcx,
    /// By filters of the clsact qdisc.
    Clsact,
}

/// Way in which programs are attached to interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachWay {
    /// By TCX links.
    Tcx,
    /// By filters of the clsact qdisc.
    Clsact,
}

impl AttachMode {
    /// Returns the way that this kernel offers.
    ///
    /// # Errors
    ///
    /// If it has no TCX, and nothing else is wanted.
    pub(crate) fn way(self) -> Result<AttachWay, DatapathError> {
        let has_tcx = KernelVersion::current().is_ok_and(|version| version >= TCX_SINCE);
        self.way_with(has_tcx)
            .ok_or_else(|| DatapathError::NoTcx { release: release() })
    }

    /// Returns the way on a kernel with TCX, or without; `None`: there is none.
    const fn way_with(self, has_tcx: bool) -> Option<AttachWay> {
        match (self, has_tcx) {
            (Self::Auto | Self::Tcx, true) => Some(AttachWay::Tcx),
            (Self::Auto, false) | (Self::Clsact, _) => Some(AttachWay::Clsact),
            (Self::Tcx, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcx_is_taken_where_the_kernel_has_it_and_demanded_only_by_name() {
        for (mode, with, without) in [
            (
                AttachMode::Auto,
                Some(AttachWay::Tcx),
                Some(AttachWay::Clsact),
            ),
            (AttachMode::Tcx, Some(AttachWay::Tcx), None),
            (
                AttachMode::Clsact,
                Some(AttachWay::Clsact),
                Some(AttachWay::Clsact),
            ),
        ] {
            assert_eq!([mode.way_with(true), mode.way_with(false)], [with, without]);
        }
        let error = DatapathError::NoTcx {
            release: "6.1.0".to_owned(),
        };
        let text = error.to_string();
        assert!(
            text.contains("6.1.0") && text.contains("Linux 6.6"),
            "{text}"
        );
    }
}
