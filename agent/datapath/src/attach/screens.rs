//! Programs and queueing disciplines of others on the devices of pods.
//!
//! `bpf_redirect_peer` passes neither the egress hook and queueing discipline of the host's end of a pair, nor what
//! runs at its ingress after our program. So no packet is redirected to or from such a device: a network policy
//! agent's programs and a bandwidth limit see every packet.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use rtnetlink::packet_route::{
    RouteNetlinkMessage,
    tc::{TcHandle, TcMessage},
};

use crate::{
    attach::{attachment::has_tcx, clsact, default_routes, hook::Hook},
    netlink::{
        dump::{Listing, dump},
        messages::interface_of,
    },
    sys::program_query::{QueriedHook, programs_at},
};

/// Queueing discipline of a device that has none: a pair's by default.
const NONE: &str = "noqueue";

/// The first thing on each device that redirected packets would not pass, a phrase.
pub(crate) type Screens = BTreeMap<u32, String>;

/// Returns the interfaces among `candidates` that are screened: the host's ends of pairs, by index, which have our
/// programs. Uplinks are not: what leaves by them passes their egress hook and their queueing discipline. An interface
/// that cannot be read counts as screened.
pub(crate) fn find(candidates: &BTreeSet<u32>) -> Screens {
    let uplinks = default_routes::interfaces().unwrap_or_default();
    let disciplines = Disciplines::list();
    let screen_of = |index: &u32| {
        let screen = match &disciplines {
            Ok(disciplines) => screen_of(*index, disciplines),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        let screen = screen.unwrap_or_else(|error| Some(format!("unknown: {error}")));
        Some((*index, screen?))
    };
    candidates
        .difference(&uplinks)
        .filter_map(screen_of)
        .collect()
}

fn screen_of(index: u32, disciplines: &Disciplines) -> io::Result<Option<String>> {
    for (hook, name, ours) in [
        (QueriedHook::TcxIngress, "TCX ingress", 1),
        (QueriedHook::TcxEgress, "TCX egress", 1),
        (QueriedHook::NetkitPrimary, "netkit primary", 0),
        (QueriedHook::NetkitPeer, "netkit peer", 0),
    ] {
        if programs_at(index, hook)?.len() > ours {
            return Ok(Some(format!("a program at its hook {name}")));
        }
    }
    if disciplines.unread.contains(&index) {
        return Ok(Some(
            "a queueing discipline that is not understood".to_owned(),
        ));
    }
    for discipline in disciplines.of.get(&index).into_iter().flatten() {
        let Discipline { parent, kind } = discipline;
        match (*parent, kind.as_str()) {
            (TcHandle::ROOT, NONE) => {}
            (TcHandle::CLSACT, "clsact") => {
                for hook in Hook::ALL {
                    if has_filters(index, hook)? {
                        return Ok(Some(format!("a filter at its {}", hook.name())));
                    }
                }
            }
            // Classes of another discipline have their own.
            (TcHandle::ROOT | TcHandle::CLSACT, _) => {
                return Ok(Some(format!("the queueing discipline `{kind}`")));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Returns whether others have a filter at a hook of an interface that has clsact.
fn has_filters(index: u32, hook: Hook) -> io::Result<bool> {
    let mut request = TcMessage::with_index(index.cast_signed());
    request.header.parent = clsact::parent(hook);
    let request = RouteNetlinkMessage::GetTrafficFilter(request);
    let Listing { items, unread } = dump(request, |message| match message {
        RouteNetlinkMessage::NewTrafficFilter(filter) => {
            (has_tcx() || !clsact::is_ours(&filter)).then_some(())
        }
        _ => None,
    })?;
    Ok(!items.is_empty() || !unread.is_empty())
}

/// A queueing discipline of an interface.
#[derive(Debug)]
struct Discipline {
    parent: TcHandle,
    kind: String,
}

/// The queueing disciplines of all interfaces.
#[derive(Debug, Default)]
struct Disciplines {
    of: BTreeMap<u32, Vec<Discipline>>,
    /// Interfaces with one that cannot be read.
    unread: BTreeSet<u32>,
}

impl Disciplines {
    fn list() -> io::Result<Self> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let Listing { items, unread } = dump(request, |message| match message {
            RouteNetlinkMessage::NewQueueDiscipline(discipline) => Some(discipline),
            _ => None,
        })?;
        let mut this = Self {
            unread: unread
                .iter()
                .filter_map(|message| interface_of(message))
                .collect(),
            ..Self::default()
        };
        for TcMessage {
            header, attributes, ..
        } in items
        {
            let kind = clsact::kind_of(attributes);
            let index = header.index.cast_unsigned();
            this.of.entry(index).or_default().push(Discipline {
                parent: header.parent,
                kind: kind.unwrap_or_default(),
            });
        }
        Ok(this)
    }
}
