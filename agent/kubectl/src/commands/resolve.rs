//! Places of a command line, with pods replaced by their addresses.

use std::{fmt, str::FromStr};

use anyhow::{Result, anyhow};

use crate::{
    cluster::{PodAddresses, addresses},
    fleet::Fleet,
    place::Named,
};

/// Returns the place, or one for each address of the pod: a pod may have an address of each family.
///
/// # Errors
///
/// The API server does not answer, or there is no such pod.
pub(super) async fn resolve<T>(fleet: &Fleet, named: &Named<T>) -> Result<Vec<T>>
where
    T: Clone + FromStr<Err: fmt::Display>,
{
    let pod = match named {
        Named::Plain(place) => return Ok(vec![place.clone()]),
        Named::Pod(pod) => pod,
    };
    let PodAddresses { ips, .. } = addresses(&fleet.client, pod).await?;
    let places = ips
        .into_iter()
        .map(|ip| pod.at(ip).map_err(|text| anyhow!("{pod}: {text}")));
    places.collect()
}

/// As [`resolve`], of a place that need not be named.
///
/// # Errors
///
/// As [`resolve`].
pub(super) async fn resolve_if_named<T>(
    fleet: &Fleet,
    named: Option<&Named<T>>,
) -> Result<Vec<Option<T>>>
where
    T: Clone + FromStr<Err: fmt::Display>,
{
    match named {
        None => Ok(vec![None]),
        Some(named) => Ok(resolve(fleet, named).await?.into_iter().map(Some).collect()),
    }
}
