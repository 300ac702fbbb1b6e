//! The interfaces behind which are pods of this node and nothing else.

use std::collections::BTreeSet;

use crate::{netlink::links::Link, object::pods::PodInterfaces};

/// The indexes of those among `links`. The ports of the pods' bridge count like the bridge: a
/// pod's packets come in there first.
pub(crate) fn pod_interfaces(which: &PodInterfaces, links: &[Link]) -> BTreeSet<u32> {
    let of_pods: BTreeSet<u32> = links
        .iter()
        .filter(|link| match which {
            PodInterfaces::None => false,
            PodInterfaces::Bridge(name) => link.name == *name,
            PodInterfaces::Prefix(prefix) => link.name.starts_with(prefix),
        })
        .map(|link| link.index)
        .collect();
    let PodInterfaces::Bridge(_) = which else {
        return of_pods;
    };
    let is_port = |link: &&Link| {
        link.controller
            .is_some_and(|bridge| of_pods.contains(&bridge))
            && link.is_of_another_stack()
    };
    let ports = links.iter().filter(is_port).map(|link| link.index);
    ports.chain(of_pods.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::link::{InfoKind, InfoPortKind};

    use super::*;

    fn link(index: u32, name: &str, kind: Option<InfoKind>, controller: Option<u32>) -> Link {
        Link {
            kind,
            controller,
            port: controller.map(|_| InfoPortKind::Bridge),
            ..Link::named(index, name)
        }
    }

    #[test]
    fn a_bridge_counts_with_the_ports_that_pods_are_behind() {
        let veth = || Some(InfoKind::Veth);
        let links = [
            link(2, "eth0", None, None),
            link(3, "cni0", Some(InfoKind::Bridge), None),
            link(4, "veth4", veth(), Some(3)),
            link(5, "veth5", veth(), Some(3)),
            link(6, "eth1", None, Some(3)),
            link(7, "docker0", Some(InfoKind::Bridge), None),
            link(8, "veth8", veth(), Some(7)),
            link(9, "veth9", veth(), None),
        ];
        for (which, expected) in [
            (PodInterfaces::None, &[][..]),
            (PodInterfaces::Bridge("cni0".to_owned()), &[3, 4, 5]),
            (PodInterfaces::Bridge("cni1".to_owned()), &[]),
            (PodInterfaces::Prefix("veth".to_owned()), &[4, 5, 8, 9]),
        ] {
            let found = pod_interfaces(&which, &links);
            assert_eq!(found, expected.iter().copied().collect(), "{which:?}");
        }
    }
}
