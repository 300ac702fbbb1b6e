//! Every way in which an event can be wrong, with the exact text of its error.

use shunt_model::Lines;

/// Returns the report on the second line of an input, if `line` stands there.
fn report(line: &str) -> String {
    let input = format!("\n{line}\n");
    let mut lines = Lines::new(input.as_bytes());
    let report = lines
        .next()
        .expect("the line is not empty")
        .map_or_else(|error| error.to_string(), |_| "fine".into());
    assert!(lines.next().is_none(), "{line}");
    report
}

/// An AddService of `default/web` with these fields besides its identity.
fn web(fields: &str) -> String {
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"web"}},{fields}}}}}"#
    )
}

/// The same service with this one port named http.
fn port(port: &str) -> String {
    web(&format!(r#""ports":{{"http":{port}}}"#))
}

/// The same service on a ClusterIP with these backends of its port http.
fn backends(list: &str) -> String {
    web(&format!(
        r#""cluster_ips":["10.96.0.1"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{list}]}}"#
    ))
}

#[track_caller]
fn expect(cases: &[(&str, &str)]) {
    for (line, text) in cases {
        assert_eq!(report(line), format!("line 2: {text}"), "{line}");
    }
}

/// Cases about the service `default/web`.
#[track_caller]
fn expect_of_web(form: fn(&str) -> String, cases: &[(&str, &str)]) {
    for (fields, text) in cases {
        assert_eq!(
            report(&form(fields)),
            format!("line 2: service default/web: {text}"),
            "{fields}"
        );
    }
}

#[test]
fn lines_that_are_no_json_object() {
    expect(&[
        ("hello", "not valid JSON: expected value (column 1)"),
        (
            r#"{"event":"Resync""#,
            "not valid JSON: EOF while parsing an object (column 17)",
        ),
        (
            r#"{"event":"DeleteService","id":{"namespace":"a","name":"b"}} x"#,
            "not valid JSON: trailing characters (column 61)",
        ),
        ("[]", "invalid type: sequence, expected an object"),
        (
            r#"["DeleteService"]"#,
            "invalid type: sequence, expected an object",
        ),
    ]);
}

#[test]
fn events_and_fields_that_do_not_exist_or_do_not_belong_together() {
    expect(&[
        ("{}", "missing field `event`"),
        (
            r#"{"event":7}"#,
            "event: invalid type: integer `7`, expected a string",
        ),
        (
            r#"{"event":"AddServices"}"#,
            "unknown event `AddServices`, expected one of `Resync`, `AddService`, `UpdateService`, `DeleteService`, \
             `UpdateNodePortServices`, `UpdateLocalFrontendIfs`, `UpdateLocalBackendIfs`, \
             `UpdateServiceCidrs`, `UpdateNodes`, `UpdateWorkloads`",
        ),
        (
            r#"{"event":"AddService","srv":1}"#,
            "srv: unknown field `srv`, expected one of `event`, `node_ips`, `services`, `frontend_ifs`, \
             `backend_ifs`, `service_cidrs`, `nodes`, `workloads`, `gone`, `service`, `id`, `old`, `new`",
        ),
        (
            r#"{"event":"AddService","event":"AddService"}"#,
            "event: duplicate field `event`",
        ),
        (
            r#"{"event":"Resync","node_ips":[]}"#,
            "missing field `services`",
        ),
        (
            r#"{"event":"Resync","services":[]}"#,
            "missing field `node_ips`",
        ),
        (
            r#"{"event":"UpdateNodePortServices","services":[]}"#,
            "missing field `node_ips`",
        ),
        (r#"{"event":"AddService"}"#, "missing field `service`"),
        (
            r#"{"event":"UpdateService","old":{}}"#,
            "missing field `service`",
        ),
        (r#"{"event":"DeleteService"}"#, "missing field `id`"),
        (
            r#"{"event":"UpdateLocalBackendIfs","old":[]}"#,
            "missing field `new`",
        ),
        (
            r#"{"event":"UpdateServiceCidrs","old":[]}"#,
            "unknown field `old` of UpdateServiceCidrs, expected `new`",
        ),
        (r#"{"event":"UpdateServiceCidrs"}"#, "missing field `new`"),
        (
            r#"{"event":"UpdateNodePortServices","node_ips":[],"service_cidrs":[]}"#,
            "unknown field `service_cidrs` of UpdateNodePortServices, expected one of `node_ips`, \
             `services`",
        ),
        (
            r#"{"event":"DeleteService","new":[]}"#,
            "unknown field `new` of DeleteService, expected `id`",
        ),
        (
            r#"{"event":"UpdateLocalFrontendIfs","new":[],"node_ips":[]}"#,
            "unknown field `node_ips` of UpdateLocalFrontendIfs, expected one of `old`, `new`",
        ),
    ]);
}

#[test]
fn identities_interfaces_and_node_addresses() {
    expect(&[
        (
            r#"{"event":"DeleteService","id":{"namespace":"","name":"web"}}"#,
            "id.namespace: the name is empty",
        ),
        (
            r#"{"event":"DeleteService","id":{"namespace":"a","name":"b/c"}}"#,
            "id.name: `b/c` is not a name: `/`, white space and control characters are not allowed",
        ),
        (
            r#"{"event":"DeleteService","id":{"namespace":"a"}}"#,
            "id: missing field `name`",
        ),
        (
            r#"{"event":"DeleteService","id":"default/web"}"#,
            r#"id: invalid type: string "default/web", expected an object"#,
        ),
        (
            r#"{"event":"DeleteService","id":["default","web"]}"#,
            "id: invalid type: sequence, expected an object",
        ),
        (
            r#"{"event":"UpdateLocalFrontendIfs","new":["eth0",""]}"#,
            "new[1]: the name is empty",
        ),
        (
            r#"{"event":"UpdateLocalBackendIfs","new":["sixteen-bytes-xx"]}"#,
            "new[0]: `sixteen-bytes-xx` is longer than the 15 bytes that an interface name has at most",
        ),
        (
            r#"{"event":"UpdateLocalFrontendIfs","new":["auto","eth[0"]}"#,
            "new[1]: `eth[0` is not a pattern for interface names such as veth*: invalid range pattern",
        ),
        (
            r#"{"event":"Resync","node_ips":[],"services":[],"frontend_ifs":["a b"]}"#,
            "frontend_ifs[0]: `a b` is not a name: `/`, white space and control characters are not allowed",
        ),
        (
            r#"{"event":"Resync","node_ips":[],"services":[],"backend_ifs":["a/b"]}"#,
            "backend_ifs[0]: `a/b` is not a name: `/`, white space and control characters are not allowed",
        ),
        (
            r#"{"event":"UpdateNodePortServices","node_ips":["192.168.16.10","nowhere"]}"#,
            "node_ips[1]: `nowhere` is not an IP address",
        ),
        (
            r#"{"event":"UpdateNodePortServices","node_ips":["fe80::1","::ffff:192.168.16.10"]}"#,
            "node_ips[1]: IPv4/IPv6 mix-up: ::ffff:192.168.16.10 is an IPv4-mapped address, write 192.168.16.10",
        ),
    ]);
}

#[test]
fn ranges_that_services_cannot_have_for_themselves() {
    expect(&[
        (
            r#"{"event":"UpdateServiceCidrs","new":["10.96.0.0/12","10.96.0.1"]}"#,
            "new[1]: `10.96.0.1` is not an address range such as 192.0.2.0/24",
        ),
        (
            r#"{"event":"UpdateServiceCidrs","new":["::ffff:10.96.0.0/108"]}"#,
            "new[0]: IPv4/IPv6 mix-up: ::ffff:10.96.0.0/108 is a range of IPv4-mapped addresses, \
             write 10.96.0.0/12",
        ),
        (
            r#"{"event":"UpdateServiceCidrs","new":["fd00:10:96::/112","::/0"]}"#,
            "new[1]: ::/0 is every address there is, and cannot be the services' alone",
        ),
        (
            r#"{"event":"Resync","node_ips":[],"services":[],"service_cidrs":["0.0.0.0/0"]}"#,
            "service_cidrs[0]: 0.0.0.0/0 is every address there is, and cannot be the services' alone",
        ),
    ]);
}

#[test]
fn workloads_that_are_none() {
    let id = r#"{"kind":"Pod","namespace":"default","name":"web-1"}"#;
    let update =
        |workloads: &str| format!(r#"{{"event":"UpdateWorkloads","workloads":[{workloads}]}}"#);
    let workload = |fields: &str| update(&format!(r#"{{"id":{id},{fields}}}"#));
    for (line, text) in [
        (
            r#"{"event":"UpdateWorkloads"}"#.to_owned(),
            "missing field `workloads`",
        ),
        (
            update(&format!(r#"{{"id":{id}}},{{"id":{id}}}"#)),
            "workloads[1]: the workload is already in workloads[0]",
        ),
        (
            update(&format!(r#"{{"id":{id}}}"#)).replace("]}", &format!(r#"],"gone":[{id}]}}"#)),
            "gone[0]: the workload is already in workloads[0]",
        ),
        (
            update(r#"{"id":{"kind":"pod","namespace":"default","name":"web-1"}}"#),
            "workloads[0].id.kind: unknown value `pod`, expected `Pod` or `ExternalWorkload`",
        ),
        (
            update(r#"{"id":{"kind":"Pod","namespace":"","name":"web-1"}}"#),
            "workloads[0].id.namespace: the name is empty",
        ),
        (
            workload(r#""ips":["10.1.1.3","10.1.1.300"]"#),
            "workloads[0].ips[1]: `10.1.1.300` is not an IP address",
        ),
        (
            workload(r#""phase":"Succeeded""#),
            "workloads[0].phase: unknown value `Succeeded`, expected `Running`, `Pending` or \
             `Terminating`",
        ),
        (
            workload(r#""ports":[{"port":0,"protocol":"TCP"}]"#),
            "workloads[0].ports[0].port: the port is 0",
        ),
        (
            workload(r#""host_ports":[{"ip":"0.0.0.0","port":80,"protocol":"TCP"}]"#),
            "workloads[0].host_ports[0].ip: 0.0.0.0 is the unspecified address, which cannot be \
             used here",
        ),
        (
            workload(r#""host_ports":[{"ip":"192.0.2.1","port":80,"protocol":"ICMP"}]"#),
            "workloads[0].host_ports[0].protocol: unknown value `ICMP`, expected `TCP`, `UDP` or \
             `SCTP`",
        ),
        (
            workload(r#""opaque_ports":["443","9-1"]"#),
            "workloads[0].opaque_ports[1]: `9-1` is not a port or a range of ports such as 3306-3310",
        ),
        (
            workload(r#""host_network":true"#),
            "workloads[0].host_network: unknown field `host_network`, expected one of `id`, `ips`, \
             `ports`, `host_ports`, `node`, `phase`, `ready`, `owner`, `opaque_ports`, \
             `policy_opaque_ports`, `mesh`",
        ),
        (
            workload(r#""policy_opaque_ports":["443","x"]"#),
            "workloads[0].policy_opaque_ports[1]: `x` is not a port or a range of ports such as \
             3306-3310",
        ),
        (
            workload(r#""mesh":{"service_account":"web","control_plane":"linkerd"}"#),
            "workloads[0].mesh: missing field `inbound_port`",
        ),
        (
            workload(r#""mesh":{"service_account":"web","inbound_port":4143}"#),
            "workloads[0].mesh: a proxy has either `service_account` and `control_plane`, or `uri` \
             and `server_name`",
        ),
        (
            workload(
                r#""mesh":{"service_account":"","control_plane":"linkerd","inbound_port":4143}"#,
            ),
            "workloads[0].mesh.service_account: the name is empty",
        ),
        (
            workload(r#""mesh":{"uri":"","server_name":"vm","inbound_port":4143}"#),
            "workloads[0].mesh.uri: the name is empty",
        ),
        (
            workload(r#""mesh":{"uri":"spiffe://a/vm","server_name":"vm","inbound_port":0}"#),
            "workloads[0].mesh.inbound_port: the port is 0",
        ),
        (
            workload(
                r#""mesh":{"uri":"a","server_name":"vm","inbound_port":1,"skipped_ports":["x"]}"#,
            ),
            "workloads[0].mesh.skipped_ports[0]: `x` is not a port or a range of ports such as \
             3306-3310",
        ),
        (
            r#"{"event":"Resync","node_ips":[],"services":[],"workloads":[{}]}"#.to_owned(),
            "workloads[0]: missing field `id`",
        ),
    ] {
        expect(&[(&line, text)]);
    }
}

#[test]
fn a_service_among_others_is_named_wherever_its_identity_stands() {
    let a = r#"{"id":{"namespace":"default","name":"a"}}"#;
    let b = r#"{"ports":{"http":{"protocol":"TCP","port":"80"}},"id":{"namespace":"default","name":"b"}}"#;
    let c =
        r#"{"ports":{"http":{"protocol":"TCP","port":0}},"id":{"namespace":"default","name":"c"}}"#;
    let resync =
        |services: &str| format!(r#"{{"event":"Resync","node_ips":[],"services":[{services}]}}"#);
    for (services, text) in [
        (
            format!("{a},{a}"),
            "service default/a: the service is already in services[0]",
        ),
        (
            format!("{a},{b}"),
            r#"service default/b: ports.http.port: invalid type: string "80", expected u16"#,
        ),
        (
            format!("{a},{c}"),
            "service default/c: ports.http.port: the port is 0",
        ),
        (format!("{a},{{}}"), "services[1]: missing field `id`"),
        (
            format!("{a},7"),
            "services[1]: invalid type: integer `7`, expected an object",
        ),
    ] {
        expect(&[(&resync(&services), text)]);
    }
}

#[test]
fn hostnames_of_endpoints() {
    expect_of_web(
        web,
        &[
            (
                r#""hostnames":{"10.1.1.300":"web-0"}"#,
                "hostnames.\"10.1.1.300\": `10.1.1.300` is not an IP address",
            ),
            (
                r#""hostnames":{"fd00::1":"a","fd00:0::1":"b"}"#,
                "hostnames.\"fd00:0::1\": the name is given twice",
            ),
            (
                r#""hostnames":{"fd00::1":""}"#,
                "hostnames.\"fd00::1\": the name is empty",
            ),
        ],
    );
}

#[test]
fn fields_of_a_service() {
    expect_of_web(
        web,
        &[
            (
                r#""cluster_ip":"10.96.0.1""#,
                "cluster_ip: unknown field `cluster_ip`, expected one of `id`, `cluster_ips`, `external_ips`, \
             `load_balancer_ips`, `load_balancer_source_ranges`, `traffic_policy`, `internal_traffic_policy`, \
             `session_affinity_timeout`, `selection`, `forwarding`, `masquerade`, `opaque_ports`, `profile`, \
             `hostnames`, `ports`, `backends`, `splits`",
            ),
            (
                r#""opaque_ports":["443","9-1"]"#,
                "opaque_ports[1]: `9-1` is not a port or a range of ports such as 3306-3310",
            ),
            (
                r#""cluster_ips":["10.96.0.1/32"]"#,
                "cluster_ips[0]: `10.96.0.1/32` is not an IP address",
            ),
            (
                r#""cluster_ips":["::ffff:10.96.0.1"]"#,
                "cluster_ips[0]: IPv4/IPv6 mix-up: ::ffff:10.96.0.1 is an IPv4-mapped address, write 10.96.0.1",
            ),
            (
                r#""external_ips":["203.0.113.7","224.0.0.1"]"#,
                "external_ips[1]: 224.0.0.1 is a multicast address, which cannot be used here",
            ),
            (
                r#""external_ips":["255.255.255.255"]"#,
                "external_ips[0]: 255.255.255.255 is the broadcast address, which cannot be used here",
            ),
            (
                r#""load_balancer_ips":["::1"]"#,
                "load_balancer_ips[0]: ::1 is a loopback address, which cannot be used here",
            ),
            (
                r#""cluster_ips":["10.96.0.1","10.96.0.1"]"#,
                "cluster_ips[1]: duplicate frontend: 10.96.0.1 is already in cluster_ips[0]",
            ),
            (
                r#""cluster_ips":["10.96.0.1","2001:db8::1","10.96.0.2"]"#,
                "cluster_ips[2]: IPv4/IPv6 mix-up: the service has another IPv4 address in cluster_ips[0]",
            ),
            (
                r#""cluster_ips":["2001:db8::1","2001:db8::2"]"#,
                "cluster_ips[1]: IPv4/IPv6 mix-up: the service has another IPv6 address in cluster_ips[0]",
            ),
            (
                r#""external_ips":["2001:db8::1","ff02::1"]"#,
                "external_ips[1]: ff02::1 is a multicast address, which cannot be used here",
            ),
            (
                r#""external_ips":["::"]"#,
                "external_ips[0]: :: is the unspecified address, which cannot be used here",
            ),
            (
                r#""load_balancer_ips":["fe80::1"]"#,
                "load_balancer_ips[0]: fe80::1 is a link-local address, which cannot be used here",
            ),
            (
                r#""load_balancer_source_ranges":["10.0.0.0/8","::ffff:10.0.0.0/104"]"#,
                "load_balancer_source_ranges[1]: IPv4/IPv6 mix-up: ::ffff:10.0.0.0/104 is a range of \
             IPv4-mapped addresses, write 10.0.0.0/8",
            ),
            (
                r#""cluster_ips":["10.96.0.1"],"load_balancer_ips":["10.96.0.2","10.96.0.1"]"#,
                "load_balancer_ips[1]: duplicate frontend: 10.96.0.1 is already in cluster_ips[0]",
            ),
            (
                r#""load_balancer_source_ranges":["10.0.0.0/33"]"#,
                "load_balancer_source_ranges[0]: `10.0.0.0/33` is not an address range such as 192.0.2.0/24",
            ),
            (
                r#""traffic_policy":"cluster""#,
                "traffic_policy: unknown value `cluster`, expected `Cluster` or `Local`",
            ),
            (
                r#""internal_traffic_policy":"Node""#,
                "internal_traffic_policy: unknown value `Node`, expected `Cluster` or `Local`",
            ),
            (
                r#""session_affinity_timeout":-1"#,
                "session_affinity_timeout: invalid value: integer `-1`, expected u32",
            ),
            (
                r#""masquerade":"yes""#,
                "masquerade: invalid type: string \"yes\", expected a boolean",
            ),
            (
                r#""selection":"Maglev""#,
                "selection: unknown value `Maglev`, expected `weighted` or `maglev`",
            ),
        ],
    );
}

#[test]
fn ports_of_a_service() {
    expect_of_web(
        port,
        &[
            (
                r#"{"protocol":"tcp","port":80}"#,
                "ports.http.protocol: unknown value `tcp`, expected `TCP`, `UDP` or `SCTP`",
            ),
            (
                r#"{"protocol":"TCP","port":0}"#,
                "ports.http.port: the port is 0",
            ),
            (
                r#"{"protocol":"TCP","port":65536}"#,
                "ports.http.port: invalid value: integer `65536`, expected u16",
            ),
            (r#"{"protocol":"TCP"}"#, "ports.http: missing field `port`"),
            (
                r#"{"protocol":"TCP","port":80,"nodePort":30080}"#,
                "ports.http.nodePort: unknown field `nodePort`, expected one of `protocol`, `port`, `node_port`",
            ),
        ],
    );
    expect_of_web(
        web,
        &[
            (
                r#""ports":{"":{"protocol":"TCP","port":80},"a":{"protocol":"TCP","port":81}}"#,
                r#"ports."": the name is empty"#,
            ),
            (
                r#""ports":{"a":{"protocol":"TCP","port":80},"a":{"protocol":"TCP","port":81}}"#,
                "ports.a: the name is given twice",
            ),
            (
                r#""ports":{"a":{"protocol":"TCP","port":80},"b.c":{"protocol":"TCP","port":80}}"#,
                r#"ports."b.c".port: duplicate frontend: 80/TCP is already in ports.a.port"#,
            ),
            (
                r#""ports":{"a":{"protocol":"TCP","port":80,"node_port":30080},"b":{"protocol":"TCP","port":81,"node_port":30080}}"#,
                "ports.b.node_port: duplicate frontend: 30080/TCP is already in ports.a.node_port",
            ),
            (
                r#""ports":{"a":{"protocol":"TCP","port":80}},"backends":{"b":[]}"#,
                "backends.b: the service declares no such port",
            ),
            (
                r#""ports":{"a":{"protocol":"TCP","port":80}},"backends":{"a":[],"a":[]}"#,
                "backends.a: the name is given twice",
            ),
        ],
    );
}

#[test]
fn backends_of_a_port() {
    expect_of_web(
        backends,
        &[
            (
                r#"{"ip":"10.1.1.3","port":8080},{"ip":"10.1.1","port":8080}"#,
                "backends.http[1].ip: `10.1.1` is not an IP address",
            ),
            (
                r#"{"ip":"127.0.0.1","port":8080}"#,
                "backends.http[0].ip: 127.0.0.1 is a loopback address, which cannot be used here",
            ),
            (
                r#"{"ip":"2001:db8::1","port":1}"#,
                "backends.http[0].ip: IPv4/IPv6 mix-up: an IPv6 backend, but the service has IPv4 addresses only",
            ),
            (
                r#"{"ip":"::ffff:10.1.1.3","port":1}"#,
                "backends.http[0].ip: IPv4/IPv6 mix-up: ::ffff:10.1.1.3 is an IPv4-mapped address, write 10.1.1.3",
            ),
            (
                r#"{"ip":"fe80::3","port":1}"#,
                "backends.http[0].ip: fe80::3 is a link-local address, which cannot be used here",
            ),
            (
                r#"{"ip":"10.1.1.3","port":0}"#,
                "backends.http[0].port: the port is 0",
            ),
            (
                r#"{"ip":"10.1.1.3","port":1,"weight":4294967296}"#,
                "backends.http[0].weight: invalid value: integer `4294967296`, expected u32",
            ),
            (
                r#"{"ip":"10.1.1.3","port":1,"weight":1},{"ip":"10.1.1.4","port":1},{"ip":"10.1.1.3","port":1,"weight":2}"#,
                "backends.http[2]: the same backend as backends.http[0], but not with the same properties",
            ),
            (
                r#"{"ip":"10.1.1.3","port":1,"state":"ready"}"#,
                "backends.http[0].state: unknown value `ready`, expected `Ready`, `Terminating` or `NotReady`",
            ),
            (
                r#"{"ip":"10.1.1.3","port":1,"scopes":["Cluster","Zone"]}"#,
                "backends.http[0].scopes[1]: unknown value `Zone`, expected `Cluster` or `Local`",
            ),
            (
                r#"{"ip":"10.1.1.3","port":1,"scopes":["Local"]}"#,
                "backends.http[0].scopes[0]: scope Local, but the backend is not local",
            ),
            (
                r#"["10.1.1.3",1]"#,
                "backends.http[0]: invalid type: sequence, expected an object",
            ),
        ],
    );
}

/// The same service with this split of its port http.
fn split(split: &str) -> String {
    web(&format!(
        r#""cluster_ips":["10.96.0.1"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"splits":{split}"#
    ))
}

#[test]
fn splits_that_cannot_be() {
    const WEB: &str = r#"{"service":{"namespace":"default","name":"web"},"port":80}"#;
    let with =
        |backends: &str| format!(r#"{{"http":{{"mode":"strict","backends":[{backends}]}}}}"#);
    let heavy = WEB.replace(r#""port""#, r#""weight":4294967295,"port""#);
    for (given, text) in [
        (
            r#"{"htp":{"mode":"strict","backends":[]}}"#.to_owned(),
            "splits.htp: the service declares no such port",
        ),
        (
            r#"{"http":{"mode":"strict","backends":[]},"http":{"mode":"first","backends":[]}}"#
                .to_owned(),
            "splits.http: the name is given twice",
        ),
        (
            r#"{"http":{"backends":[]}}"#.to_owned(),
            "splits.http: missing field `mode`",
        ),
        (
            r#"{"http":{"mode":"strict"}}"#.to_owned(),
            "splits.http: missing field `backends`",
        ),
        (
            r#"{"http":{"mode":"Strict","backends":[]}}"#.to_owned(),
            "splits.http.mode: unknown value `Strict`, expected `available`, `strict` or `first`",
        ),
        (
            r#"{"http":{"mode":"strict","frontends":"some","backends":[]}}"#.to_owned(),
            "splits.http.frontends: unknown value `some`, expected `all` or `cluster_ip`",
        ),
        (
            r#"{"http":["strict",null,[]]}"#.to_owned(),
            "splits.http: invalid type: sequence, expected an object",
        ),
        (
            with(r#"{"weight":1}"#),
            "splits.http.backends[0]: a backend is either `service` and `port`, or `ip` and `port`, or `invalid`",
        ),
        (
            with(&format!(r#"{WEB},{{"invalid":"","port":1}}"#)),
            "splits.http.backends[1]: a backend is either `service` and `port`, or `ip` and `port`, or `invalid`",
        ),
        (
            with(r#"{"service":{"namespace":"default","name":"web"},"ip":"10.1.1.3","port":1}"#),
            "splits.http.backends[0]: a backend is either `service` and `port`, or `ip` and `port`, or `invalid`",
        ),
        (
            with(r#"{"service":{"namespace":"default","name":"web"}}"#),
            "splits.http.backends[0]: missing field `port`",
        ),
        (
            with(r#"{"ip":"10.1.1.3"}"#),
            "splits.http.backends[0]: missing field `port`",
        ),
        (
            with(r#"{"ip":"10.1.1.3","port":0}"#),
            "splits.http.backends[0].port: the port is 0",
        ),
        (
            with(r#"{"ip":"10.1.1.300","port":1}"#),
            "splits.http.backends[0].ip: `10.1.1.300` is not an IP address",
        ),
        (
            with(r#"{"ip":"127.0.0.1","port":1}"#),
            "splits.http.backends[0].ip: 127.0.0.1 is a loopback address, which cannot be used here",
        ),
        (
            with(r#"{"ip":"fd00::3","port":1}"#),
            "splits.http.backends[0].ip: IPv4/IPv6 mix-up: an IPv6 backend, but the service has IPv4 addresses only",
        ),
        (
            with(r#"{"service":{"namespace":"","name":"web"},"port":1}"#),
            "splits.http.backends[0].service.namespace: the name is empty",
        ),
        (
            with(r#"{"service":{"namespace":"default","name":"a/b"},"port":1}"#),
            "splits.http.backends[0].service.name: `a/b` is not a name: `/`, white space and control characters are not allowed",
        ),
        (
            with(&format!("{heavy},{WEB}")),
            "splits.http.backends[1].weight: the sum of the split's weights exceeds 4294967295",
        ),
        (
            with(r#"{"ip":"10.1.1.3","port":1,"weight":-1}"#),
            "splits.http.backends[0].weight: invalid value: integer `-1`, expected u32",
        ),
    ] {
        expect_of_web(split, &[(&given, text)]);
    }
    for given in [
        with(""),
        with(&format!("{WEB},{WEB}")),
        with(&heavy),
        with(r#"{"invalid":"","weight":0},{"ip":"10.1.1.3","port":1,"weight":0}"#),
        r#"{"http":{"mode":"available","frontends":"cluster_ip","backends":[]}}"#.to_owned(),
    ] {
        assert_eq!(report(&split(&given)), "fine", "{given}");
    }
}

#[test]
fn what_is_optional_may_be_left_out_and_old_may_be_anything() {
    let full =
        r#""cluster_ips":["10.96.0.1"],"external_ips":[],"load_balancer_ips":["198.51.100.1"],
        "load_balancer_source_ranges":["10.0.0.0/8","2001:db8::/32"],"traffic_policy":"Local",
        "internal_traffic_policy":"Cluster","session_affinity_timeout":10800,"selection":"maglev","masquerade":false,
        "ports":{"":{"protocol":"SCTP","port":80,"node_port":0}},
        "backends":{"":[{"ip":"10.1.1.3","port":8080,"weight":0,"local":true,"host_network":true,
        "state":"Terminating","serving":true,"node":"a","zone":"b","scopes":["Cluster","Local"]}]},
        "splits":{"":{"mode":"strict","frontends":null,"backends":[{"service":null,"invalid":"no such kind"}]}}"#
            .replace('\n', "");
    for line in [
        web(&full).as_str(),
        r#"{"event":"Resync","node_ips":[],"services":[]}"#,
        r#"{"event":"UpdateNodePortServices","node_ips":[]}"#,
        r#"{"event":"UpdateService","old":[1,{"x":null}],"service":{"id":{"namespace":"default","name":"web"}}}"#,
        r#"{"new":[],"event":"UpdateLocalFrontendIfs","old":"anything"}"#,
    ] {
        assert_eq!(report(line), "fine", "{line}");
    }
}
