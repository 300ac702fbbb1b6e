//! Indexes of service ports, given out, kept and taken back.

use super::*;

use shunt_model::{BackendSet, PortPart};

fn key(name: &str) -> GroupKey {
    GroupKey::of(&BackendSet {
        service: Arc::new(ServiceId::new("default", name)),
        port: "http".into(),
        affinity_timeout: 0,
        maglev: None,
        part: PortPart::Main,
        split: None,
        backends: Vec::new(),
    })
}

/// Tables that outlive who uses them, as the kernel's do.
#[derive(Debug, Clone)]
struct Pinned(Arc<Mutex<MemoryServices>>);

impl Pinned {
    fn new(capacity: u32) -> Self {
        Self(Arc::new(Mutex::new(MemoryServices::new(capacity))))
    }

    fn lock(&self) -> MutexGuard<'_, MemoryServices> {
        self.0.lock().unwrap()
    }

    /// A packet opens a connection of the service port.
    fn count(&self, number: ServiceNumber) {
        self.lock().connections[number.index() as usize] += 1;
    }

    fn writes(&self) -> usize {
        self.lock().writes
    }
}

impl ServiceTable for Pinned {
    fn capacity(&self) -> u32 {
        self.lock().capacity()
    }

    fn entry(&self, index: u32) -> shunt_common::ServiceEntry {
        self.lock().entry(index)
    }

    fn begin(&mut self, number: ServiceNumber, fingerprint: u64) -> io::Result<()> {
        self.lock().begin(number, fingerprint)
    }

    fn resume(&mut self, number: ServiceNumber) -> io::Result<()> {
        self.lock().resume(number)
    }

    fn end(&mut self, index: u32) -> io::Result<()> {
        self.lock().end(index)
    }

    fn counts(&self, index: u32) -> io::Result<ServiceCounts> {
        self.lock().counts(index)
    }

    fn of_frontend(&self, family: FrontendsOf, frontend: u32) -> ServiceNumber {
        self.lock().of_frontend(family, frontend)
    }

    fn set_of_frontend(&mut self, family: FrontendsOf, frontend: u32, number: ServiceNumber) {
        self.lock().set_of_frontend(family, frontend, number);
    }
}

/// Both families' views of the tables, and who counts.
fn open(table: &Pinned) -> (Arc<Services>, FamilyServices, FamilyServices) {
    let services = Services::of(table.clone());
    let (v4, v6) = (
        services.of_family(FrontendsOf::V4),
        services.of_family(FrontendsOf::V6),
    );
    (services, v4, v6)
}

fn connections(services: &Services) -> Vec<(String, u64)> {
    let counted = services.read().unwrap().into_iter();
    counted
        .map(|counted| (counted.service.name.to_string(), counted.counts.connections))
        .collect()
}

#[test]
fn both_families_of_a_service_port_have_one_number() {
    let table = Pinned::new(8);
    let (services, v4, v6) = open(&table);
    let web = v4.claim(&key("web"));
    assert_ne!(web.index(), 0, "the first index is nobody's");
    assert_eq!(v6.claim(&key("web")), web);
    assert_ne!(v4.claim(&key("api")), web);
    v4.release(&key("web"));
    assert_eq!(v6.claim(&key("web")), web, "the other family has it still");
    assert_eq!(services.table_use().used, 2);
}

#[test]
fn an_index_is_given_out_again_after_a_grace_period_and_from_0() {
    let table = Pinned::new(2);
    let (services, v4, _) = open(&table);
    let web = v4.claim(&key("web"));
    table.count(web);
    assert_eq!(connections(&services), [("web".to_owned(), 1)]);
    v4.release(&key("web"));
    assert_eq!(connections(&services), [], "the counts go with the service");
    assert_eq!(
        v4.claim(&key("api")),
        ServiceNumber::default(),
        "packets may still count there"
    );
    assert!(v4.has_retired());
    v4.free_retired();
    let api = v4.claim(&key("api"));
    assert_eq!(api, web.next(), "the same index, another number");
    assert_eq!(connections(&services), [("api".to_owned(), 0)]);
}

#[test]
fn the_index_that_has_been_free_for_the_longest_comes_first() {
    let table = Pinned::new(5);
    let (_, v4, _) = open(&table);
    let mut numbers = Vec::new();
    for round in 0..8 {
        let key = key(&format!("s{round}"));
        numbers.push(v4.claim(&key));
        v4.release(&key);
        v4.free_retired();
    }
    for (first, again) in numbers.iter().zip(&numbers[4..]) {
        assert_eq!(first.next(), *again, "{numbers:?}");
    }
}

#[test]
fn the_next_agent_goes_on_with_the_counts() {
    let table = Pinned::new(8);
    let (_, v4, v6) = open(&table);
    let [web, _, gone] = ["web", "api", "gone"].map(|name| v4.claim(&key(name)));
    v4.assign(3, web);
    for number in [web, web, gone] {
        table.count(number);
    }
    drop((v4, v6));
    let writes = table.writes();

    let (services, v4, v6) = open(&table);
    for name in ["api", "web"] {
        v4.claim(&key(name));
    }
    assert_eq!(v4.claim(&key("web")), web);
    v4.assign(3, web);
    assert_eq!(table.writes(), writes, "nothing is new");
    // In the meantime another service has come, and one has gone.
    let new = v6.claim(&key("new"));
    assert_ne!(new.index(), gone.index());
    v4.settle(|_| true);
    v6.settle(|_| true);
    let expected = [("api", 0), ("new", 0), ("web", 2)];
    assert_eq!(
        connections(&services),
        expected.map(|(name, count)| (name.to_owned(), count))
    );
    assert_eq!(table.lock().entry(gone.index()).fingerprint, 0);
}

#[test]
fn a_resync_that_fails_leaves_what_an_earlier_agent_has_counted() {
    let table = Pinned::new(8);
    let (_, v4, _) = open(&table);
    let web = v4.claim(&key("web"));
    table.count(web);

    let (services, v4, v6) = open(&table);
    v4.claim(&key("web"));
    v4.unsettle(|_| false);
    v6.unsettle(|_| false);
    assert_eq!(connections(&services), []);
    assert_eq!(v4.claim(&key("web")), web);
    assert_eq!(connections(&services), [("web".to_owned(), 1)]);
}

#[test]
fn a_service_port_without_room_is_not_counted() {
    let table = Pinned::new(2);
    let (services, v4, _) = open(&table);
    v4.claim(&key("web"));
    assert_eq!(v4.claim(&key("api")), ServiceNumber::default());
    v4.release(&key("api"));
    let used = services.table_use();
    assert_eq!((used.used, used.capacity), (1, 1));
    v4.release(&key("web"));
    v4.free_retired();
    assert_ne!(v4.claim(&key("api")), ServiceNumber::default());
}

#[test]
fn an_entry_that_makes_no_sense_is_nobodys() {
    let table = Pinned::new(4);
    for index in [1, 3] {
        table.lock().entries[index] = shunt_common::ServiceEntry {
            fingerprint: key("web").identity(),
            number: ServiceNumber::new(3, 7),
            ..bytemuck::Zeroable::zeroed()
        };
    }
    let (services, v4, _) = open(&table);
    assert_eq!(v4.claim(&key("web")), ServiceNumber::new(3, 7));
    assert_eq!(
        services.table_use().used,
        1,
        "index 1 has the number of another"
    );
}
