//! Other datacenters: where a frontend's instances are besides, and to whom it is offered.

use std::{net::SocketAddr, ops::Range};

use shunt_model::{Protocol, unusable};
use toml::Spanned;

use crate::instances::{
    configuration::{
        fault::{Fault, fault},
        written::{ExportAt, FailoverList},
    },
    frontend::Vip,
    tier::{Export, Failover, Via},
};

/// So many of the nearest datacenters are asked for at most.
const NEAREST: i64 = 16;

/// Written settings of other datacenters, and those that they have to go with.
pub(super) struct Written<'a> {
    pub(super) span: &'a Range<usize>,
    pub(super) failover: Option<Spanned<FailoverList>>,
    pub(super) nearest: Option<Spanned<i64>>,
    pub(super) via: Option<Spanned<String>>,
    pub(super) sni: bool,
    pub(super) export: Option<Spanned<ExportAt>>,
    pub(super) vip: &'a Vip,
    pub(super) protocol: Protocol,
}

/// Meaning of these settings.
pub(super) struct Elsewhere {
    pub(super) failover: Failover,
    pub(super) via: Via,
    pub(super) export: Option<Export>,
}

/// Returns the meaning of the settings, if they go together.
pub(super) fn elsewhere(written: Written<'_>) -> Result<Elsewhere, Fault> {
    let Written {
        span,
        failover,
        nearest,
        via,
        sni,
        export,
        vip,
        protocol,
    } = written;
    let failover = known_failover(failover.as_ref(), nearest.as_ref())?;
    if let Some(via) = via.as_ref().filter(|_| failover == Failover::NONE) {
        return Err(fault(
            via,
            "via: it says how connections get to other datacenters, and there are none: give \
             the frontend a `failover`",
        ));
    }
    let way = via.as_ref().map_or(Ok(Via::Direct), known_via)?;
    if way == Via::Mesh && !sni {
        let at = via.as_ref().map_or(span.clone(), Spanned::span);
        return Err((
            at,
            "via: a mesh gateway waits for the name that a client says in TLS, and one that says \
             none would hang: set `sni = true` if all clients of this frontend speak TLS with the \
             names of the mesh, or use `via = \"gateway\"`"
                .into(),
        ));
    }
    if sni && way != Via::Mesh {
        return Err((
            span.clone(),
            "sni: only mesh gateways need it: give the frontend `via = \"mesh\"`, or take it away"
                .into(),
        ));
    }
    if way == Via::Mesh && protocol != Protocol::Tcp {
        return Err((
            span.clone(),
            "via: mesh gateways speak TLS over TCP alone: use `via = \"gateway\"` or `\"direct\"`"
                .into(),
        ));
    }
    let export = match &export {
        Some(export) => known_export(export, &failover, vip)?,
        None => None,
    };
    Ok(Elsewhere {
        failover,
        via: way,
        export,
    })
}

fn known_failover(
    list: Option<&Spanned<FailoverList>>,
    nearest: Option<&Spanned<i64>>,
) -> Result<Failover, Fault> {
    let count = match nearest {
        None => 0,
        Some(given) if (1..=NEAREST).contains(given.get_ref()) => *given.get_ref() as usize,
        Some(given) => {
            return Err(fault(
                given,
                format!(
                    "failover_nearest: {} is not among 1-{NEAREST}",
                    given.get_ref()
                ),
            ));
        }
    };
    let Some(list) = list else {
        return Ok(Failover::Datacenters {
            nearest: count,
            then: Vec::new(),
        });
    };
    let then = match list.get_ref() {
        FailoverList::Word(word) if word == "resolver" => {
            return match nearest {
                None => Ok(Failover::Resolver),
                Some(nearest) => Err(fault(
                    nearest,
                    "failover_nearest: the resolver says which datacenters: take it away, or name \
                     the datacenters",
                )),
            };
        }
        FailoverList::Word(word) => {
            return Err(fault(
                list,
                format!(
                    "failover: `{word}` is not `resolver`: give a list of datacenters, such as \
                     [\"dc2\"]"
                ),
            ));
        }
        FailoverList::Names(names) => names,
    };
    if then.is_empty() {
        return Err(fault(
            list,
            "failover: the list is empty: name a datacenter, or take it away",
        ));
    }
    for (number, name) in then.iter().enumerate() {
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if !is_name {
            return Err(fault(
                list,
                format!(
                    "failover: `{name}` is no name of a datacenter, which has small letters, \
                     digits, `-` and `_`"
                ),
            ));
        }
        if then[..number].contains(name) {
            return Err(fault(list, format!("failover: `{name}` is listed twice")));
        }
    }
    Ok(Failover::Datacenters {
        nearest: count,
        then: then.iter().map(|name| name.as_str().into()).collect(),
    })
}

fn known_via(text: &Spanned<String>) -> Result<Via, Fault> {
    match text.get_ref().as_str() {
        "direct" => Ok(Via::Direct),
        "gateway" => Ok(Via::Gateway),
        "mesh" => Ok(Via::Mesh),
        other => Err(fault(
            text,
            format!("via: `{other}` is none of `direct`, `gateway` and `mesh`"),
        )),
    }
}

fn known_export(
    given: &Spanned<ExportAt>,
    failover: &Failover,
    vip: &Vip,
) -> Result<Option<Export>, Fault> {
    let export = match given.get_ref() {
        ExportAt::AsIs(false) => return Ok(None),
        ExportAt::AsIs(true) => Export::AsIs,
        ExportAt::At(text) => {
            let wrong = |why: String| fault(given, format!("export: {why}"));
            let at: SocketAddr = text.parse().map_err(|_| {
                wrong(format!(
                    "`{text}` is not an address and a port, such as 192.0.2.1:443"
                ))
            })?;
            if let Some(kind) = unusable(at.ip()) {
                return Err(wrong(format!(
                    "{at} is {kind} address, which nobody can reach"
                )));
            }
            if at.port() == 0 {
                return Err(wrong(format!("{at} has no port")));
            }
            Export::At(at)
        }
    };
    if *failover != Failover::NONE {
        return Err(fault(
            given,
            "export: it offers the instances of this datacenter to others, and a frontend with a \
             `failover` might send their connections back: use two frontends",
        ));
    }
    if !matches!(vip, Vip::Fixed(_)) {
        return Err(fault(
            given,
            "export: others have to reach the address: give the frontend a `vip` that is one of \
             this host's addresses",
        ));
    }
    Ok(Some(export))
}
