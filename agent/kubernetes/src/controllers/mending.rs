//! Objects that another writer changes: each is looked at again at once, and one that is overwritten again and again
//! after a pause that grows.
//!
//! The watch shows each version of an object, also those that this process has written: a version is another writer's
//! unless the object was written or found right in it.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// Pause after the first time that an object was overwritten; it doubles with each time that follows.
const FIRST: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST: Duration = Duration::from_mins(1);

/// Time without another writer after which it counts as the first time again.
const QUIET: Duration = Duration::from_mins(10);

/// Known versions of objects, and those that other writers have changed since.
#[derive(Debug)]
pub(super) struct Mending<K> {
    versions: HashMap<K, Version>,
    /// Objects that others have changed, and the time from which each may be looked at.
    changed: HashMap<K, Instant>,
    /// Objects among them whose time has come.
    due: HashSet<K>,
    /// Objects that are being looked at for no other reason.
    mended: HashSet<K>,
    fights: HashMap<K, Fight>,
}

/// Known version of an object.
#[derive(Debug, PartialEq, Eq)]
enum Version {
    /// It is being looked at, and the watch has shown this version last since.
    Open(Option<Box<str>>),
    /// It is right in this version.
    Right(Box<str>),
}

/// An object that is overwritten and written anew in turn.
#[derive(Debug)]
struct Fight {
    /// Time of its last write.
    last: Instant,
    /// Pause before the next one.
    pause: Duration,
}

impl<K> Default for Mending<K> {
    fn default() -> Self {
        Self {
            versions: HashMap::new(),
            changed: HashMap::new(),
            due: HashSet::new(),
            mended: HashSet::new(),
            fights: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Mending<K> {
    /// Takes note of a version that the watch shows. That of an object without a look at it means nothing.
    pub(super) fn show(&mut self, key: &K, version: &str, now: Instant) {
        match self.versions.get_mut(key) {
            Some(Version::Open(shown)) => *shown = Some(version.into()),
            Some(Version::Right(right)) if **right != *version => self.change(key.clone(), now),
            Some(Version::Right(_)) | None => {}
        }
    }

    /// Takes note that a look at the object begins. If `is_other`, it is to be another one than it was, so a write of
    /// it mends nothing.
    pub(super) fn begin(&mut self, key: &K, is_other: bool) {
        let was_changed = self.changed.remove(key).is_some() | self.due.remove(key);
        if is_other {
            self.mended.remove(key);
        } else if was_changed {
            self.mended.insert(key.clone());
        }
        self.versions.insert(key.clone(), Version::Open(None));
    }

    /// Takes note that the object is right in this version. Returns whether this is news: another writer has overwritten
    /// it, for the first time in a while.
    pub(super) fn end(&mut self, key: &K, version: &str, is_written: bool, now: Instant) -> bool {
        let known = (self.versions).insert(key.clone(), Version::Right(version.into()));
        let was_mended = self.mended.remove(key) && is_written;
        let is_news = was_mended && self.fight(key, now);
        if let Some(Version::Open(Some(shown))) = known
            && *shown != *version
        {
            self.change(key.clone(), now);
        }
        is_news
    }

    /// Takes note of the time: the objects whose time has come are due.
    pub(super) fn wake(&mut self, now: Instant) {
        let due = self.changed.extract_if(|_, at| *at <= now);
        self.due.extend(due.map(|(key, _)| key));
    }

    /// Returns whether the object is to be looked at now.
    pub(super) fn is_due(&self, key: &K) -> bool {
        self.due.contains(key)
    }

    /// Returns the time at which the next object is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.changed.values().min().copied()
    }

    /// Forgets the objects that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        let Self {
            versions,
            changed,
            due,
            mended,
            fights,
        } = self;
        versions.retain(|key, _| is_there(key));
        changed.retain(|key, _| is_there(key));
        due.retain(&is_there);
        mended.retain(&is_there);
        fights.retain(|key, _| is_there(key));
    }

    /// Another writer has changed the object.
    fn change(&mut self, key: K, now: Instant) {
        let fight = self.fights.get(&key);
        let at = fight.map_or(now, |fight| now.max(fight.last + fight.pause));
        self.changed.entry(key).or_insert(at);
    }

    /// The object was overwritten, and is right again. Returns whether this is the first time in a while.
    fn fight(&mut self, key: &K, now: Instant) -> bool {
        let known = self.fights.get(key);
        let known = known.filter(|fight| now.duration_since(fight.last) < QUIET);
        let pause = known.map_or(FIRST, |fight| (fight.pause * 2).min(LONGEST));
        let is_first = known.is_none();
        self.fights.insert(key.clone(), Fight { last: now, pause });
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_of_another_writer_is_looked_at_and_an_own_one_is_not() {
        let now = Instant::now();
        for (what, before_answer, after_answer, is_looked_at) in [
            ("nothing is shown", &[][..], &[][..], false),
            ("its own write, late", &[], &["2"], false),
            ("its own write, early", &["2"], &[], false),
            ("what the look has found already", &["1", "2"], &[], false),
            ("another one, late", &[], &["2", "3"], true),
            ("another one, early", &["2", "3"], &[], true),
        ] {
            let mut mending = Mending::default();
            mending.show(&"r", "0", now);
            assert_eq!(mending.next_at(), None, "{what}: it was not looked at");
            mending.begin(&"r", false);
            for version in before_answer {
                mending.show(&"r", version, now);
            }
            assert!(!mending.end(&"r", "2", true, now), "{what}");
            for version in after_answer {
                mending.show(&"r", version, now);
            }
            mending.wake(now);
            assert_eq!(mending.is_due(&"r"), is_looked_at, "{what}");
        }
    }

    /// Has another writer change the object, and waits until it is right again. Returns the pause, and whether that is
    /// news.
    fn overwrite(mending: &mut Mending<&str>, now: &mut Instant, is_ours: bool) -> (u64, bool) {
        mending.show(&"r", "another", *now);
        let at = mending.next_at().unwrap();
        let pause = at - *now;
        *now = at;
        mending.wake(at);
        assert!(mending.is_due(&"r"));
        assert_eq!(mending.next_at(), None);
        mending.begin(&"r", false);
        assert!(!mending.is_due(&"r"));
        let is_news = mending.end(&"r", "ours", is_ours, at);
        (pause.as_secs(), is_news)
    }

    #[test]
    fn what_is_overwritten_again_and_again_is_mended_after_a_growing_pause_and_is_news_once() {
        let mut mending = Mending::default();
        let mut now = Instant::now();
        mending.begin(&"r", false);
        assert!(!mending.end(&"r", "ours", true, now), "it is new");
        for pause in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
            let found = overwrite(&mut mending, &mut now, true);
            assert_eq!(found, (pause, pause == 0));
        }
        // What leaves our entries as they are is no reason to wait.
        now = after(now, 61);
        for _ in 0..3 {
            assert_eq!(overwrite(&mut mending, &mut now, false), (0, false));
        }
        now = after(now, 600);
        assert_eq!(overwrite(&mut mending, &mut now, true), (0, true));
        assert_eq!(overwrite(&mut mending, &mut now, true), (1, false));
        mending.retain(|_| false);
        mending.show(&"r", "another", now);
        assert_eq!(mending.next_at(), None, "it is gone");
    }

    /// Returns an object that was right, and that another writer has changed since.
    fn changed(now: Instant) -> Mending<&'static str> {
        let mut mending = Mending::default();
        mending.begin(&"r", false);
        mending.end(&"r", "ours", true, now);
        mending.show(&"r", "another", now);
        mending
    }

    #[test]
    fn a_mend_that_has_to_be_tried_again_counts_once() {
        let now = Instant::now();
        let mut mending = changed(now);
        mending.wake(now);
        // The first try is a conflict.
        mending.begin(&"r", false);
        mending.begin(&"r", false);
        assert!(mending.end(&"r", "later", true, now));
    }

    #[test]
    fn a_write_of_what_is_to_be_another_one_mends_nothing() {
        let now = Instant::now();
        for is_awake in [false, true] {
            let mut mending = changed(now);
            if is_awake {
                mending.wake(now);
            }
            mending.begin(&"r", true);
            assert!(!mending.end(&"r", "later", true, now));
            assert!(!mending.is_due(&"r"));
            assert_eq!(mending.next_at(), None);
        }
    }
}
