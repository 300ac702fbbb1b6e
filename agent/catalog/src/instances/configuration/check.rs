//! Conversion of the text into values, with an error for each way in which it can be wrong.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    ops::Range,
    sync::Arc,
};

use ipnet::IpNet;
use shunt_model::{Protocol, Selection, unusable};
use toml::Spanned;

use crate::instances::{
    configuration::{
        elsewhere::{Elsewhere, Written, elsewhere},
        error::ConfigurationError,
        fault::{Fault, fault},
        written::{Addresses, Entry},
    },
    frontend::{Frontend, Vip, id},
    tag::TagRule,
};

/// All entries of the file, of which no two are for the same frontend.
pub(super) fn checked(
    text: &str,
    entries: Vec<Spanned<Entry>>,
) -> Result<Vec<Frontend>, ConfigurationError> {
    let mut ids = HashMap::new();
    let mut places = BTreeMap::new();
    let mut frontends = Vec::with_capacity(entries.len());
    for entry in entries {
        let span = entry.span();
        let entry = entry.into_inner();
        let service = entry.service.get_ref().clone();
        let error = |(at, what): Fault| {
            ConfigurationError::at(text, &at, format!("frontend of `{service}`: {what}"))
        };
        let frontend = frontend(entry, &span).map_err(error)?;
        let line = ConfigurationError::at(text, &span, String::new()).line;
        if let Some(first) = ids.insert(Arc::clone(&frontend.id), line) {
            return Err(error((
                span,
                format!(
                    "name: line {first} has a frontend of this service and name already: give \
                     each of its frontends a `name` of its own"
                ),
            )));
        }
        if let (Vip::Fixed(ips), Some(port)) = (&frontend.vip, frontend.port) {
            for ip in ips {
                if let Some(first) = places.insert((*ip, port, frontend.protocol), line) {
                    let protocol = frontend.protocol;
                    return Err(error((
                        span,
                        format!(
                            "vip: {ip} port {port}/{protocol} is the frontend of line {first} \
                             already: give one of them another address or port"
                        ),
                    )));
                }
            }
        }
        frontends.push(frontend);
    }
    Ok(frontends)
}

/// The tagged address that Consul gives by itself to those that speak Connect's protocol.
const OF_PROXIES: &str = "consul-virtual";

fn frontend(entry: Entry, span: &Range<usize>) -> Result<Frontend, Fault> {
    let Entry {
        service,
        name,
        vip,
        vip_from_tag,
        vip_from_range,
        port,
        protocol,
        tags,
        service_meta,
        node_meta,
        only_passing,
        ignore_checks,
        connect,
        prefer_local,
        affinity,
        selection,
        masquerade,
        failover,
        failover_nearest,
        via,
        sni,
        export,
    } = entry;
    let named = |field: &str, text: &Spanned<String>| {
        if text.get_ref().is_empty() {
            return Err(fault(text, format!("{field}: it is empty: give it a name")));
        }
        Ok(())
    };
    named("service", &service)?;
    if let Some(name) = &name {
        named("name", name)?;
    }
    if let Some(tag) = vip_from_tag.as_ref().filter(|_| !connect)
        && tag.get_ref() == OF_PROXIES
    {
        let what = format!(
            "vip_from_tag: Consul gives `{OF_PROXIES}` to sidecar proxies alone: set `connect = true`"
        );
        return Err(fault(tag, what));
    }
    let vip = choice(vip, vip_from_tag, vip_from_range, span)?;
    let port = port.as_ref().map(number).transpose()?;
    if port.is_none() && !matches!(vip, Vip::Tagged(_)) {
        return Err((
            span.clone(),
            "port: it is missing, and only a tagged address (vip_from_tag) may bring one".into(),
        ));
    }
    let protocol = protocol
        .as_ref()
        .map_or(Ok(Protocol::Tcp), known_protocol)?;
    let Elsewhere {
        failover,
        via,
        export,
    } = elsewhere(Written {
        span,
        failover,
        nearest: failover_nearest,
        via,
        sni,
        export,
        vip: &vip,
        protocol,
    })?;
    Ok(Frontend {
        id: Arc::new(id(
            service.get_ref(),
            name.as_ref().map(|name| name.get_ref().as_str()),
        )),
        service: service.into_inner().into(),
        vip,
        port,
        protocol,
        tags: tags.iter().map(tag).collect::<Result<_, _>>()?,
        service_meta,
        node_meta,
        only_passing,
        ignored_checks: ignore_checks,
        connect,
        prefer_local,
        affinity: affinity.as_ref().map_or(Ok(0), seconds)?,
        selection: selection.as_ref().map(known_selection).transpose()?,
        masquerade,
        failover,
        via,
        trusts_gateways: false,
        export,
    })
}

/// Exactly one of the three ways to an address.
fn choice(
    vip: Option<Spanned<Addresses>>,
    tag: Option<Spanned<String>>,
    range: Option<Spanned<String>>,
    span: &Range<usize>,
) -> Result<Vip, Fault> {
    match (vip, tag, range) {
        (Some(vip), None, None) => Ok(Vip::Fixed(addresses(vip)?)),
        (None, Some(tag), None) => {
            if tag.get_ref().is_empty() {
                return Err(fault(
                    &tag,
                    "vip_from_tag: it is empty: give it a tag such as `virtual`",
                ));
            }
            Ok(Vip::Tagged(tag.into_inner().into()))
        }
        (None, None, Some(given)) => Ok(Vip::Claimed(range_of(&given)?)),
        _ => Err((
            span.clone(),
            "vip: give one of `vip`, `vip_from_tag` and `vip_from_range`, and only one".into(),
        )),
    }
}

fn addresses(list: Spanned<Addresses>) -> Result<Vec<IpAddr>, Fault> {
    let span = list.span();
    let fault = |what: String| (span.clone(), format!("vip: {what}"));
    let Addresses(texts) = list.into_inner();
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        let address: IpAddr = text
            .parse()
            .map_err(|_| fault(format!("`{text}` is not an IP address")))?;
        if let Some(kind) = unusable(address) {
            let what = format!("{address} is {kind} address, which no frontend can have");
            return Err(fault(what));
        }
        if address.to_canonical() != address {
            let instead = address.to_canonical();
            return Err(fault(format!("{address}: write it as {instead}")));
        }
        if found.contains(&address) {
            return Err(fault(format!("{address} is listed twice")));
        }
        found.push(address);
    }
    if found.is_empty() {
        return Err(fault(
            "the list is empty: give it an address at least".into(),
        ));
    }
    Ok(found)
}

fn range_of(text: &Spanned<String>) -> Result<IpNet, Fault> {
    let given = text.get_ref();
    let range: IpNet = given.parse().map_err(|_| {
        fault(
            text,
            format!("vip_from_range: `{given}` is not a range such as 10.200.0.0/16"),
        )
    })?;
    match unusable(range.addr()) {
        Some(kind) => Err(fault(
            text,
            format!(
                "vip_from_range: {given} begins with {kind} address, which no frontend can have"
            ),
        )),
        None => Ok(range.trunc()),
    }
}

fn number(port: &Spanned<i64>) -> Result<u16, Fault> {
    match u16::try_from(*port.get_ref()) {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let given = port.get_ref();
            Err(fault(
                port,
                format!("port: {given} is no port: give it one of 1-65535"),
            ))
        }
    }
}

fn known_protocol(text: &Spanned<String>) -> Result<Protocol, Fault> {
    match text.get_ref().to_ascii_lowercase().as_str() {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        "sctp" => Ok(Protocol::Sctp),
        _ => {
            let given = text.get_ref();
            Err(fault(
                text,
                format!("protocol: `{given}` is none of `tcp`, `udp` and `sctp`"),
            ))
        }
    }
}

fn known_selection(text: &Spanned<String>) -> Result<Selection, Fault> {
    Selection::of_name(text.get_ref()).ok_or_else(|| {
        let given = text.get_ref();
        fault(
            text,
            format!("selection: `{given}` is neither `weighted` nor `maglev`"),
        )
    })
}

fn tag(text: &Spanned<String>) -> Result<TagRule, Fault> {
    if matches!(text.get_ref().as_str(), "" | "!") {
        return Err(fault(
            text,
            "tags: an empty tag is no instance's: take it away",
        ));
    }
    Ok(TagRule::new(text.get_ref()))
}

/// A duration of whole seconds.
fn seconds(text: &Spanned<String>) -> Result<u32, Fault> {
    let given = text.get_ref();
    let wrong = |why: &str| {
        fault(
            text,
            format!("affinity: `{given}` {why}: give it whole seconds with a unit, such as `3h`"),
        )
    };
    let duration = humantime::parse_duration(given).map_err(|_| wrong("is not a duration"))?;
    if duration.subsec_nanos() != 0 {
        return Err(wrong("has parts of a second"));
    }
    u32::try_from(duration.as_secs()).map_err(|_| wrong("is too long"))
}
