//! Addresses that no configuration defines: each is claimed in Consul's KV, so that all agents agree on it. Two
//! keys hold a claim: `shunt/vip/ADDRESS` names its service, and `shunt/vip-of/SERVICE` its address.

use std::{
    collections::HashMap,
    hash::Hasher as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fnv::FnvHasher;
use hyper::Method;
use ipnet::IpNet;
use serde::Deserialize;
use shunt_model::unusable;
use thiserror::Error;

use crate::consul::{
    http::{client::Client, error::AskError},
    objects::{part, read},
};

const LIMIT: Duration = Duration::from_secs(10);

/// Number of times that another agent may be quicker before it is tried again later.
const TRIES: u32 = 16;

/// Largest number of addresses of a range that are looked at.
const MOST: u128 = 1 << 20;

/// Why an address is not claimed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ClaimError {
    /// It may not be claimed. Guessing one would give two services the same.
    #[error(
        "vip_from_range: the token may not claim an address ({0}): give it key_prefix \"shunt/\" \
         write, or configure a `vip`"
    )]
    Forbidden(String),
    /// All are taken.
    #[error("vip_from_range: all addresses of {0} are claimed: give the frontend another range")]
    Full(IpNet),
    /// The claimed address is not one that the configuration wants.
    #[error(
        "vip_from_range: {found} is claimed for this service, outside {range}: configure the \
         range that has it, or delete the key shunt/vip-of/{name} and shunt/vip/{found}"
    )]
    Outside {
        /// The claimed address.
        found: String,
        /// The wanted range.
        range: IpNet,
        /// Name of the service.
        name: String,
    },
    /// It is not known.
    #[error(transparent)]
    Ask(AskError),
    /// Others were quicker, again and again.
    #[error("others claim addresses at the same time")]
    Crowded,
}

impl ClaimError {
    /// Returns whether it may go by itself, so that nothing is to be concluded from it.
    pub(super) const fn is_passing(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Crowded)
    }
}

impl From<AskError> for ClaimError {
    fn from(error: AskError) -> Self {
        match &error {
            AskError::Status { code: 403, text } => Self::Forbidden(text.clone()),
            _ => Self::Ask(error),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    value: Option<String>,
}

impl Entry {
    fn text(&self) -> String {
        let bytes = self
            .value
            .as_ref()
            .and_then(|text| STANDARD.decode(text).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }
}

/// The address of `range` that is claimed for the service `name`, now or before.
pub(super) async fn claim(client: &Client, name: &str, range: IpNet) -> Result<IpAddr, ClaimError> {
    let whose = format!("/v1/kv/shunt/vip-of/{}", part(name));
    for _ in 0..TRIES {
        if let Some(text) = value(client, &whose).await? {
            let outside = || ClaimError::Outside {
                found: text.clone(),
                range,
                name: name.to_owned(),
            };
            let ip: IpAddr = text.parse().map_err(|_| outside())?;
            return if range.contains(&ip) {
                Ok(ip)
            } else {
                Err(outside())
            };
        }
        let taken = taken(client).await?;
        // An agent may have died between the two keys.
        let begun = taken
            .iter()
            .find(|(ip, owner)| *owner == name && range.contains(*ip));
        let ip = match begun {
            Some((ip, _)) => *ip,
            None => {
                let ip = free(name, range, &taken).ok_or(ClaimError::Full(range))?;
                let at = format!("/v1/kv/shunt/vip/{}?cas=0", part(&ip.to_string()));
                if !put(client, &at, name).await? {
                    continue;
                }
                ip
            }
        };
        if put(client, &format!("{whose}?cas=0"), &ip.to_string()).await? {
            return Ok(ip);
        }
        // Another agent has claimed one for the same service: that counts, if it is another one.
        if value(client, &whose).await?.as_deref() != Some(&*ip.to_string()) {
            let at = format!("/v1/kv/shunt/vip/{}", part(&ip.to_string()));
            client.send(Method::DELETE, &at, Vec::new(), LIMIT).await?;
        }
    }
    Err(ClaimError::Crowded)
}

/// Returns the claimed addresses, with their services.
async fn taken(client: &Client) -> Result<HashMap<IpAddr, String>, ClaimError> {
    let answer = match client.get(0, "/v1/kv/shunt/vip/?recurse", LIMIT).await {
        Ok(answer) => answer,
        Err(AskError::Status { code: 404, .. }) => return Ok(HashMap::new()),
        Err(error) => return Err(error.into()),
    };
    let entries: Vec<Entry> = read(&answer.body)?;
    let taken = entries.iter().filter_map(|entry| {
        let ip = entry.key.strip_prefix("shunt/vip/")?.parse().ok()?;
        Some((ip, entry.text()))
    });
    Ok(taken.collect())
}

async fn value(client: &Client, path: &str) -> Result<Option<String>, ClaimError> {
    match client.get(0, path, LIMIT).await {
        Ok(answer) => {
            let entries: Vec<Entry> = read(&answer.body)?;
            Ok(entries.first().map(Entry::text))
        }
        Err(AskError::Status { code: 404, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the key was not there, so that it is ours now.
async fn put(client: &Client, path: &str, value: &str) -> Result<bool, ClaimError> {
    let body = value.as_bytes().to_vec();
    let answer = client.send(Method::PUT, path, body, LIMIT).await?;
    Ok(answer.body.trim_ascii() == b"true")
}

/// Returns a free address: the first one from a place on that follows from the name, so that agents that start
/// together seldom want the same one for different services.
fn free(name: &str, range: IpNet, taken: &HashMap<IpAddr, String>) -> Option<IpAddr> {
    let count = size(range).min(MOST);
    let start = u128::from(hash(name)) % count;
    (0..count)
        .map(|step| nth(range, (start + step) % count))
        .find(|ip| is_given(range, *ip) && !taken.contains_key(ip))
}

/// Returns the number of addresses of a range.
fn size(range: IpNet) -> u128 {
    let bits = range.max_prefix_len() - range.prefix_len();
    1_u128.checked_shl(bits.into()).unwrap_or(u128::MAX)
}

fn nth(range: IpNet, number: u128) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => Ipv4Addr::from(first.to_bits().wrapping_add(number as u32)).into(),
        IpAddr::V6(first) => Ipv6Addr::from(first.to_bits().wrapping_add(number)).into(),
    }
}

/// Not the address of the network itself, nor its broadcast address.
fn is_given(range: IpNet, ip: IpAddr) -> bool {
    let is_single = range.max_prefix_len() - range.prefix_len() < 2;
    let is_end = ip == range.network() || (ip == range.broadcast() && ip.is_ipv4());
    (is_single || !is_end) && unusable(ip).is_none()
}

/// Returns a hash of the text, the same of all agents.
fn hash(text: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_range_is_given_once_but_its_ends() {
        for (range, expected) in [
            ("10.0.0.0/29", 6),
            ("10.0.0.0/30", 2),
            ("10.0.0.0/31", 2),
            ("10.0.0.7/32", 1),
            ("fd00::/125", 7),
            ("fd00::1/128", 1),
        ] {
            let range: IpNet = range.parse().unwrap();
            let mut taken = HashMap::new();
            while let Some(ip) = free(&format!("s{}", taken.len()), range, &taken) {
                assert!(range.contains(&ip));
                assert_eq!(taken.insert(ip, String::new()), None);
            }
            assert_eq!(taken.len(), expected, "{range}");
        }
    }

    #[test]
    fn a_name_leads_to_the_same_address_everywhere() {
        let range: IpNet = "10.200.0.0/16".parse().unwrap();
        let first = free("consul/web", range, &HashMap::new()).unwrap();
        assert_eq!(free("consul/web", range, &HashMap::new()), Some(first));
        let taken = HashMap::from([(first, "other".to_owned())]);
        assert_ne!(free("consul/web", range, &taken), Some(first));
        let wide: IpNet = "fd00::/8".parse().unwrap();
        assert!(free("consul/web", wide, &HashMap::new()).is_some());
    }
}
