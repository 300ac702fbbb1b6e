//! What a frontend comes to.

use crate::source::instances::{
    engine::{Engine, Known},
    place::Place,
    translate::{Translation, translate},
};

impl Engine {
    /// What a frontend comes to; `None`: it has no address, or nothing is known of its instances. What is
    /// wrong with it is shown from then on.
    pub(super) fn translated(&mut self, index: usize, place: &Place) -> Option<Translation> {
        let entry = &mut self.entries[index];
        let mut tiers = Vec::new();
        let mut problems = Vec::new();
        for query in entry.frontend.queries() {
            match self.known.get(&query) {
                Some(Known::Instances(instances)) => tiers.push(&**instances),
                Some(Known::Denied(_)) | None => return None,
            }
        }
        // The most wanted tier says it.
        let first = tiers.first().copied().unwrap_or_default();
        let address = entry.address(first, &mut problems);
        let translation = address.map(|address| translate(&entry.frontend, &address, tiers, place));
        let skips = translation.iter().flat_map(|found| &found.skips);
        problems.extend(skips.map(ToString::to_string));
        let id = entry.frontend.id.to_string();
        self.show(id, problems);
        translation
    }
}
