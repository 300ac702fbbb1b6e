//! All rows through source and renderer.

use shunt_kubernetes::Address;

use crate::{
    cases::cases,
    difference::{of_source, of_verdict},
    node::Node,
    report::Report,
};

#[test]
fn flows_go_where_kube_proxy_sends_them() {
    let Some(cases) = cases() else {
        return;
    };
    let (mut verdicts, mut sources) = (Report::default(), Report::default());
    for case in &cases {
        let node = Node::new(case);
        for flow in &case.flows {
            let found = node.found(flow);
            let agrees =
                (flow.verdict.as_str(), &flow.endpoints) == (found.verdict, &found.endpoints);
            let reason = of_verdict(case, flow, &found);
            verdicts.add(case, flow, agrees, reason, &found);
            if agrees && found.verdict == "dnat" {
                let agrees = flow.is_masqueraded == found.is_masqueraded;
                let reason = of_source(case, flow, &found);
                sources.add(case, flow, agrees, reason, &found);
            }
        }
    }
    verdicts.end("verdicts and endpoints");
    sources.end("sources that backends see");
}

/// Objects have addresses as they are written.
#[test]
fn an_address_with_zeros_is_read_as_kube_proxy_reads_it() {
    let address: Address = serde_json::from_str("\"172.30.0.041\"").unwrap();
    assert_eq!(address.ip(), Some([172, 30, 0, 41].into()));
}
