//! The tables of frontends that select by Maglev.

use serde::Serialize;

use crate::proto;

/// The tables of frontends that select by Maglev. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MaglevTables {
    /// Number of tables; frontends with the same backends share one.
    pub tables: u64,
    /// The entries of the slots tables that they take.
    pub slots: u64,
    /// The service ports whose table does not fit, by name, sorted: these select at random.
    pub without_room: Vec<String>,
}

impl From<MaglevTables> for proto::MaglevTables {
    fn from(maglev: MaglevTables) -> Self {
        let MaglevTables {
            tables,
            slots,
            without_room,
        } = maglev;
        Self {
            tables,
            slots,
            without_room,
        }
    }
}

impl From<proto::MaglevTables> for MaglevTables {
    fn from(message: proto::MaglevTables) -> Self {
        let proto::MaglevTables {
            tables,
            slots,
            without_room,
        } = message;
        Self {
            tables,
            slots,
            without_room,
        }
    }
}
