//! Objects that are not as their kinds have them keep no honest workload from being published.

use std::fmt::Debug;

use proptest::prelude::*;

use super::*;
use crate::{
    controllers::workloads::{
        raw_slice::Slices, service::AllServices, tests::world::id, work::watches::AllNodes,
    },
    mutated::{
        examples::example,
        follow::{Honest, follow},
        mutation::{Mutant, mutants, settings},
    },
    watch::kind::{
        Definitions, EndpointSlices, ExternalWorkloads, Kind, LinkerdExternalWorkloads,
        ServiceCidrs,
    },
};

/// Has the controller take what its watches report of a kind.
async fn add<K>(
    work: &mut WorkloadWork,
    mutants: &[Mutant],
    honest: Honest,
    message: fn(Step<K::Object>) -> Change,
) where
    K: Kind,
    K::Object: Debug + PartialEq,
{
    for step in follow::<K>(mutants, &honest).await {
        work.take(message(step));
    }
}

fn web<K: Kind>() -> Honest {
    Honest::one::<K>("honest", "web")
}

/// Has the controller take all kinds. `honest/web` selects a workload of each group.
async fn take_all(work: &mut WorkloadWork, all: &[Mutant]) {
    let kinds =
        CustomKind::WITH_LOOKUPS.map(|kind| example(Definitions::NAME, "", kind.definition(), 1));
    let defined = Honest {
        last: kinds[0].clone(),
        listed: kinds.into(),
    };
    add::<Definitions>(work, all, defined, Change::Definition).await;
    add::<AllNodes>(work, all, web::<AllNodes>(), Change::Node).await;
    add::<ServiceCidrs>(work, all, web::<ServiceCidrs>(), Change::ServiceCidr).await;
    add::<EndpointSlices>(work, all, web::<EndpointSlices>(), Change::ApiServer).await;
    add::<EndpointSlices>(work, all, web::<EndpointSlices>(), Change::Linkerds).await;
    add::<AllServices>(work, all, web::<AllServices>(), Change::Service).await;
    // This one is of another Service.
    let slice = Honest::one::<Slices>("honest", "other");
    add::<Slices>(work, all, slice, Change::Slice).await;
    let own: fn(_) -> _ = |step| Change::Workload(Group::Shunt, step);
    add::<ExternalWorkloads>(work, all, web::<ExternalWorkloads>(), own).await;
    let theirs: fn(_) -> _ = |step| Change::Workload(Group::Linkerd, step);
    add::<LinkerdExternalWorkloads>(work, all, web::<LinkerdExternalWorkloads>(), theirs).await;
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn no_object_keeps_a_workload_from_being_published(mutants in mutants()) {
        in_runtime(async {
            let options = WorkloadOptions { linkerd: true, ..options() };
            let (mut work, _told) = work_with(&Arc::default(), options);
            take_all(&mut work, &mutants).await;
            assert!(work.is_complete());
            work.start_anew();
            let now = Instant::now();
            for number in 0..8 {
                work.sync(id(&format!("web-{number}")), now);
            }
            let before = work.writing.len();
            work.sync(ServiceId::new("honest", "web"), now);
            assert_eq!(work.writing.len(), before + 1, "it has a workload, and no slice");
        });
    }
}
