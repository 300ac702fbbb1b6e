//! A cluster with tenants: Services of honest namespaces, and the worst objects that the authors of others may write.

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::Range,
};

use serde_json::{Value, json};

use crate::{
    addresses,
    objects::{and, ready, service, slice, with},
    route_objects::{service_profile, traffic_split},
};

/// Numbers of a cluster with tenants.
#[derive(Debug, Clone, Copy)]
pub struct TenantSizes {
    /// Namespaces with the worst objects.
    pub tenants: u32,
    /// Services of others, ten in each namespace, with a frontend of each family.
    pub honest: u32,
    /// Ports and addresses of a Service that is larger than the table.
    pub large: [u32; 2],
    /// Ports and addresses of a Service that fits, but not beside that of another tenant.
    pub greedy: [u32; 2],
    /// Addresses of a Service with one port.
    pub addresses: u32,
    /// Small Services of a tenant.
    pub crowd: u32,
    /// Endpoints of a Service with Maglev tables.
    pub endpoints: u32,
    /// Flags with the sizes of the tables.
    pub flags: &'static [&'static str],
}

impl TenantSizes {
    /// A few tenants, beside tables in which their objects have no room.
    pub const SHORT: Self = Self {
        tenants: 10,
        honest: 200,
        large: [25, 100],
        greedy: [25, 60],
        addresses: 3_000,
        crowd: 10,
        endpoints: 20,
        flags: &[
            "--max-frontends",
            "2048",
            "--max-slots",
            "32768",
            "--max-backends",
            "4096",
        ],
    };

    /// A hundred tenants, beside tables of their default sizes.
    pub const FULL: Self = Self {
        tenants: 100,
        honest: 5_000,
        large: [250, 300],
        greedy: [200, 250],
        addresses: 100_000,
        crowd: 20,
        endpoints: 79,
        flags: &[],
    };
}

/// Number of honest Services of a namespace.
const EACH: u32 = 10;

/// Returns the ClusterIP of a Service of a kind: the number of the kind is the second one of the address.
fn cluster_ip(kind: u8, number: u32) -> IpAddr {
    let [_, _, high, low] = number.to_be_bytes();
    // No address ends with 0 or 255.
    let number = u32::from(high) * 256 + u32::from(low);
    let (third, last) = (number / 200, number % 200 + 1);
    Ipv4Addr::new(10, kind, third as u8, last as u8).into()
}

/// An object in another namespace.
fn of(namespace: &str, object: Value) -> Value {
    with(object, "/metadata/namespace", namespace)
}

fn honest_name(number: u32) -> (String, String) {
    (format!("honest-{}", number / EACH), format!("web-{number}"))
}

/// Returns the ClusterIP of an honest Service, of IPv4.
pub fn honest_ip(number: u32) -> IpAddr {
    cluster_ip(96, number)
}

/// Returns the endpoint of an honest Service after so many changes, of IPv4.
pub fn honest_endpoint(number: u32, changes: u32) -> IpAddr {
    cluster_ip(128 + (changes % 64) as u8, number)
}

/// Returns an honest Service, of both families.
pub fn honest_service(number: u32) -> Value {
    let (namespace, name) = honest_name(number);
    of(&namespace, service(&name, &honest_ip(number).to_string()))
}

/// Returns the slices of an honest Service after so many changes, one of each family.
pub fn honest_slices(number: u32, changes: u32) -> [Value; 2] {
    let (namespace, name) = honest_name(number);
    let endpoint = honest_endpoint(number, changes);
    [("4", endpoint), ("6", addresses::v6(endpoint))]
        .map(|(family, endpoint)| of(&namespace, slice(&name, family, &[ready(endpoint)])))
}

/// The Service of this name of a tenant: older than all others, of IPv4 alone, with these ports and external addresses.
fn tenants(
    tenant: u32,
    name: &str,
    number: u32,
    ports: Range<u32>,
    external: impl Iterator<Item = IpAddr>,
) -> Value {
    let ip = cluster_ip(97, tenant * 64 + number).to_string();
    let mut service = of(&format!("tenant-{tenant}"), service(name, &ip));
    service["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    service["spec"]["clusterIPs"] = json!([ip]);
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    let ports =
        ports.map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" }));
    service["spec"]["ports"] = ports.collect();
    service["spec"]["externalIPs"] = external.map(|ip| json!(ip)).collect();
    service
}

/// So many addresses of the outside, which are a tenant's own.
fn outside(tenant: u32, count: u32) -> impl Iterator<Item = IpAddr> {
    let first = Ipv4Addr::new(20, 0, 0, 0).to_bits() + (tenant << 17);
    (0..count).map(move |number| Ipv4Addr::from_bits(first + number).into())
}

/// Returns all objects of a tenant, in a form that is another one in each round.
pub fn worst_objects(tenant: u32, sizes: &TenantSizes, round: u32) -> Vec<Value> {
    let namespace = format!("tenant-{tenant}");
    // An address more or less changes each Service.
    let more = round % 2;
    let [large_ports, large_addresses] = sizes.large;
    let [ports, addresses] = sizes.greedy;
    let ports = 1000..1000 + ports;
    let mut objects = vec![
        tenants(
            tenant,
            "large",
            0,
            1000..1000 + large_ports,
            outside(tenant, large_addresses + more),
        ),
        tenants(
            tenant,
            "greedy",
            1,
            ports.clone(),
            outside(tenant, addresses - more),
        ),
        // The same frontends: each is a conflict.
        tenants(
            tenant,
            "twin",
            2,
            ports.clone(),
            outside(tenant, addresses - more),
        ),
        tenants(
            tenant,
            "many",
            3,
            80..81,
            outside(tenant, sizes.addresses - more),
        ),
    ];
    // The ClusterIPs of others.
    let stolen = (0..sizes.honest)
        .skip(tenant as usize)
        .step_by(sizes.tenants as usize);
    let stolen = stolen.skip(more as usize).map(honest_ip);
    objects.push(tenants(tenant, "thief", 4, 80..81, stolen.take(100)));
    let none = || outside(tenant, 0);
    let dsr = tenants(tenant, "dsr", 5, 80..81 + more, none());
    let dsr = and(
        dsr,
        "/metadata",
        "annotations",
        json!({ "service.shunt.io/forwarding": "dsr" }),
    );
    let maglev = tenants(tenant, "maglev", 6, 80..81, none());
    let maglev = and(
        maglev,
        "/metadata",
        "annotations",
        json!({ "service.shunt.io/selection": "maglev" }),
    );
    objects.extend([dsr, maglev]);
    let endpoints = (0..sizes.endpoints - more).map(|number| {
        let address = Ipv4Addr::new(10, 200, tenant as u8, number as u8 + 1);
        ready(address.into())
    });
    let endpoints: Vec<Value> = endpoints.collect();
    let slice_of = |name: &str, port: &str| {
        let slice = of(&namespace, slice(name, "4", &endpoints));
        with(slice, "/ports/0/name", port)
    };
    objects.push(slice_of("maglev", "p80"));
    objects.extend(["greedy", "twin"].map(|name| slice_of(name, "p1000")));
    for number in 0..sizes.crowd {
        let name = format!("crowd-{number}");
        objects.push(tenants(tenant, &name, 10 + number, 80..90 + more, none()));
    }
    objects.extend(unreadable(&namespace, more));
    objects
}

/// Objects that no reader of their kind expects.
fn unreadable(namespace: &str, more: u32) -> [Value; 5] {
    let nested = (0..1000 + more).fold(json!(1), |inner, _| json!([inner]));
    let half = slice("dsr", "5", &[ready(addresses::POD_A)]);
    [
        with(
            service("odd", "10.98.0.1"),
            "/spec/ports",
            format!("http-{more}"),
        ),
        with(slice("odd", "4", &[]), "/endpoints", 7 + more),
        with(half, "/ports/0/port", -1 - i64::from(more)),
        with(
            traffic_split(&[("dsr", 1)]),
            "/spec/backends/0/weight",
            0.5 + f64::from(more),
        ),
        with(service_profile("dsr"), "/spec/routes", nested),
    ]
    .map(|object| of(namespace, object))
}
