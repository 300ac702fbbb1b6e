//! The rows whose client is no process of the node, on the real kernel programs: each is a packet
//! that comes in, again and again from other ports, until every endpoint was chosen.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use aya::{TestRun as _, programs::TestRunOptions};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use shunt_datapath::{
    Datapath, DatapathOptions, GuardOptions, PodDetection, PodInterfaces, RejectLimit,
};
use shunt_model::Protocol;
use shunt_runtime::Agent;
use shunt_tests::has_root;

use crate::{
    cases::{Case, Config, Flow, cases},
    difference::{of_source, of_verdict},
    network::network,
    node::{Found, Node, renderer, resync},
    report::Report,
};

/// The program drops the packet, in `linux/pkt_cls.h`.
const DROP: u32 = 2;

/// The programs of a node, attached to nothing.
struct Programs {
    agent: Agent,
    /// Each packet's own: none is of a connection that is known.
    port: u16,
}

impl Programs {
    fn load(config: &Config) -> Self {
        let ranges = config.detect_local.iter().map(|pods| pods.cidr);
        let options = DatapathOptions {
            pods: PodDetection {
                cluster_cidrs: ranges.collect(),
                interfaces: PodInterfaces::None,
            },
            masquerade_all: config.masquerade_all,
            guard: GuardOptions {
                guard: true,
                echo: true,
            },
            rejects: RejectLimit { rate: 0 },
            ..small()
        };
        let datapath = Datapath::load(&options).unwrap();
        let mut agent = Agent::new(renderer(config), datapath, BTreeSet::new());
        agent.set_host_addresses(config.local_ips.clone()).unwrap();
        Self { agent, port: 1024 }
    }

    /// Returns the outcome of a flow, and of more like it until all of so many endpoints were chosen.
    fn found(&mut self, flow: &Flow, expected: usize) -> Found {
        let mut found = self.packet(flow);
        for _ in 0..expected * 16 {
            if found.verdict != "dnat" || found.endpoints.len() >= expected {
                break;
            }
            let next = self.packet(flow);
            assert_eq!(next.verdict, "dnat", "{}: not always the same", flow.name);
            found.endpoints.extend(next.endpoints);
            found.is_masqueraded |= next.is_masqueraded;
        }
        found
    }

    /// Returns the outcome of one packet.
    fn packet(&mut self, flow: &Flow) -> Found {
        self.port += 1;
        let frame = frame(flow, self.port);
        let mut output = vec![0; frame.len() + 256];
        let program = self
            .agent
            .datapath_mut()
            .program(Datapath::INGRESS)
            .unwrap();
        let ran = program
            .test_run(TestRunOptions {
                data_in: Some(&frame),
                data_out: Some(&mut output),
                ..TestRunOptions::default()
            })
            .unwrap();
        if ran.return_value == DROP {
            return Found::only("drop");
        }
        output.truncate(ran.data_size_out as usize);
        let (source, destination) = ends(&output);
        match (source, destination) {
            // An ICMP error, back to the client. A pod that reaches itself is asked at another port.
            (_, (client, 0)) if client == flow.source => Found::only("reject"),
            (_, (asked, port)) if (asked, port) == (flow.destination, flow.port) => {
                Found::only("untouched")
            }
            ((source, _), (backend, port)) => Found {
                verdict: "dnat",
                endpoints: [SocketAddr::new(backend, port).to_string()].into(),
                is_masqueraded: source != flow.source,
            },
        }
    }
}

/// Options of a small node.
pub(crate) fn small() -> DatapathOptions {
    let mut options = DatapathOptions::default();
    options.sizes.frontends = 1024;
    options.sizes.slots = 8192;
    options.sizes.backends = 1024;
    options.sizes.conntrack = 65_536;
    options
}

/// The packet that begins the flow, from this port.
fn frame(flow: &Flow, port: u16) -> Vec<u8> {
    // To the loopback interface's own address, by which a test run has it come in.
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [0; 6]);
    let addressed = match (flow.source, flow.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
        (from, to) => panic!("{from} to {to}"),
    };
    let mut frame = Vec::new();
    match flow.key().protocol {
        Protocol::Tcp => addressed
            .tcp(port, flow.port, 1, 65_535)
            .syn()
            .write(&mut frame, &[]),
        Protocol::Udp => addressed
            .udp(port, flow.port)
            .write(&mut frame, b"question"),
        Protocol::Sctp => panic!("left out"),
    }
    .unwrap();
    frame
}

/// Returns the source and the destination of a frame; without ports if it is ICMP.
fn ends(frame: &[u8]) -> ((IpAddr, u16), (IpAddr, u16)) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (source, destination): (IpAddr, IpAddr) = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ipv4) => {
            let header = ipv4.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        NetSlice::Ipv6(ipv6) => {
            let header = ipv6.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    let (from, to) = match packet.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        _ => (0, 0),
    };
    ((source, from), (destination, to))
}

/// Settings for which the programs are loaded.
type Settings<'a> = (Option<String>, bool, &'a BTreeSet<IpAddr>);

#[test]
fn the_kernel_programs_send_flows_where_kube_proxy_does() {
    let Some(cases) = cases() else {
        return;
    };
    if !has_root() {
        return;
    }
    let mut nodes = BTreeMap::<Settings<'_>, Vec<&Case>>::new();
    for case in &cases {
        let config = &case.config;
        let range = config.detect_local.as_ref();
        let range = range.map(|pods| pods.cidr.to_string());
        let settings = (range, config.masquerade_all, &config.local_ips);
        nodes.entry(settings).or_default().push(case);
    }
    let (mut recorded, mut sources, mut model) =
        (Report::default(), Report::default(), Report::default());
    for cases in nodes.values() {
        let network = network(&cases[0].config);
        network.enter(|| {
            let mut programs = Programs::load(&cases[0].config);
            for case in cases {
                programs.agent.apply(resync(case)).unwrap();
                let node = Node::new(case);
                for flow in &case.flows {
                    let is_sctp = flow.key().protocol == Protocol::Sctp;
                    if is_sctp || case.config.is_of_node(flow.source) {
                        continue;
                    }
                    let expected = node.found(flow);
                    let found = programs.found(flow, expected.endpoints.len());
                    model.add(case, flow, found == expected, None, &(&found, &expected));
                    let agrees = (flow.verdict.as_str(), &flow.endpoints)
                        == (found.verdict, &found.endpoints);
                    let reason = of_verdict(case, flow, &found);
                    recorded.add(case, flow, agrees, reason, &found);
                    if agrees && found.verdict == "dnat" {
                        let agrees = flow.is_masqueraded == found.is_masqueraded;
                        let reason = of_source(case, flow, &found);
                        sources.add(case, flow, agrees, reason, &found);
                    }
                }
            }
        });
    }
    model.end("programs, against source and renderer");
    recorded.end("programs, verdicts and endpoints");
    sources.end("programs, sources that backends see");
}
