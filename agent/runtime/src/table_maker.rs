//! Makes what takes long to make, in threads beside the event loop, one thing after the other.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::pending,
    hash::Hash,
    thread,
};

use tokio::sync::oneshot;
use tracing::warn;

/// Makes tables of recipes.
#[derive(Debug)]
pub(super) struct TableMaker<R, T> {
    make: fn(&R) -> Option<T>,
    wanted: VecDeque<R>,
    making: Option<(R, oneshot::Receiver<Option<T>>)>,
    /// `None`: it could not be made.
    made: HashMap<R, Option<T>>,
}

impl<R, T> TableMaker<R, T>
where
    R: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + 'static,
{
    /// Makes them so; `None`: there is no such table.
    pub(super) fn new(make: fn(&R) -> Option<T>) -> Self {
        Self {
            make,
            wanted: VecDeque::new(),
            making: None,
            made: HashMap::new(),
        }
    }

    /// Makes tables of those recipes, unless that is done or under way.
    pub(super) fn order<'a>(&mut self, recipes: impl IntoIterator<Item = &'a R>)
    where
        R: 'a,
    {
        for recipe in recipes {
            let is_making = self.making.as_ref().is_some_and(|(made, _)| made == recipe);
            if !is_making && !self.is_done(recipe) && !self.wanted.contains(recipe) {
                self.wanted.push_back(recipe.clone());
            }
        }
        self.begin();
    }

    /// Returns whether nothing more comes of this recipe: there is its table, or it could not be made.
    pub(super) fn is_done(&self, recipe: &R) -> bool {
        self.made.contains_key(recipe)
    }

    /// The tables of these recipes that are made.
    pub(super) fn tables(&self, recipes: &HashSet<R>) -> impl Iterator<Item = (R, T)> {
        let made = recipes.iter();
        made.filter_map(|recipe| Some((recipe.clone(), self.made.get(recipe)?.clone()?)))
    }

    /// Forgets those of which that is not so.
    pub(super) fn keep(&mut self, is_needed: impl Fn(&R) -> bool) {
        self.made.retain(|recipe, _| is_needed(recipe));
    }

    /// Waits until one more [is done](Self::is_done); for ever if none is wanted. Nothing is lost if it is
    /// not waited for to the end.
    pub(super) async fn done(&mut self) {
        let Some((recipe, table)) = &mut self.making else {
            return pending().await;
        };
        // A thread that panics has logged it.
        let table = table.await.ok().flatten();
        self.made.insert(recipe.clone(), table);
        self.making = None;
        self.begin();
    }

    /// Begins with the next one if none is being made.
    fn begin(&mut self) {
        while self.making.is_none()
            && let Some(recipe) = self.wanted.pop_front()
        {
            let (done, table) = oneshot::channel();
            let (make, of) = (self.make, recipe.clone());
            let thread = thread::Builder::new().name("maglev".to_owned());
            // It is not waited for where the agent ends.
            let begun = thread.spawn(move || drop(done.send(make(&of))));
            match begun {
                Ok(_) => self.making = Some((recipe, table)),
                Err(error) => {
                    warn!(%error, "no thread for a Maglev table: the event loop makes it");
                    self.made.insert(recipe, None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn each_is_made_once_and_one_after_the_other_and_kept_as_long_as_it_is_needed() {
        static AT_ONCE: AtomicU32 = AtomicU32::new(0);
        static MADE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
        let mut maker = TableMaker::new(|recipe| {
            assert_eq!(AT_ONCE.fetch_add(1, Ordering::SeqCst), 0);
            MADE.lock().unwrap().push(*recipe);
            thread::yield_now();
            AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            Some(recipe * 10)
        });
        maker.order(&[1, 2, 1]);
        maker.order(&[2, 3]);
        assert!(!maker.is_done(&1), "not before it is waited for");
        let all = HashSet::from([1, 2, 3]);
        for number in 1..=3 {
            maker.done().await;
            assert_eq!(maker.tables(&all).count(), number);
        }
        maker.order(&[3]);
        assert_eq!(*MADE.lock().unwrap(), [1, 2, 3]);
        let tables: HashMap<_, _> = maker.tables(&all).collect();
        assert_eq!(tables, [(1, 10), (2, 20), (3, 30)].into());
        maker.keep(|recipe| *recipe == 2);
        assert_eq!(maker.tables(&all).collect::<Vec<_>>(), [(2, 20)]);
        assert!(!maker.is_done(&3));
    }

    #[tokio::test]
    async fn one_that_fails_is_done_with_without_a_table_and_the_next_is_made() {
        let mut maker = TableMaker::new(|recipe: &u32| {
            assert_ne!(*recipe, 1, "as a fault in the making would");
            Some(*recipe)
        });
        maker.order(&[1, 2]);
        maker.done().await;
        maker.done().await;
        assert!(maker.is_done(&1) && maker.is_done(&2));
        let all = HashSet::from([1, 2]);
        assert_eq!(maker.tables(&all).collect::<Vec<_>>(), [(2, 2)]);
    }
}
