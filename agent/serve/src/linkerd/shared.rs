//! Results of answers, made once for all clients that follow the same question.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use shunt_model::Answer;
use shunt_runtime::Observed;
use tonic::Status;

/// Something that is made of answers.
pub(super) trait Made: Send + Sync + Sized + 'static {
    /// The question, with all that the result depends on besides the answer.
    type Question: Clone + Eq + Hash + Send + Sync + 'static;
    /// Settings of all questions.
    type Settings: Clone + Send + Sync + 'static;
    /// Memory from one answer to the next.
    type Memory: Default + Send + 'static;
    /// A message to a client.
    type Message: Clone + Send + Sync + 'static;

    /// Makes it of an answer.
    fn make(
        question: &Self::Question,
        settings: &Self::Settings,
        answer: &Answer,
        memory: &mut Self::Memory,
    ) -> Self;

    /// Returns the messages that lead from `old`, which a client got, to `new`.
    fn messages(old: Option<&Self>, new: &Self) -> Vec<Self::Message>;

    /// The error with which streams end that have come to this; `None`: they go on.
    fn end(&self) -> Option<Status> {
        None
    }
}

/// The questions that clients follow. One that is followed no longer is forgotten.
pub(super) struct Followed<M: Made> {
    settings: M::Settings,
    questions: Mutex<HashMap<M::Question, Weak<Shared<M>>>>,
}

/// The results that clients share who follow one question.
pub(super) struct Shared<M: Made> {
    question: M::Question,
    settings: M::Settings,
    last: Mutex<Last<M>>,
}

/// The results that were made last.
struct Last<M: Made> {
    memory: M::Memory,
    /// The answer, and what was made of it.
    made: Option<(Weak<Observed>, Arc<M>)>,
    /// The messages from one state to another.
    messages: Option<Step<M>>,
    /// Number of answers of which something was made, and of lists of messages.
    #[cfg(test)]
    makings: (usize, usize),
}

/// The messages between two states, which they do not keep: the clients that are in these states do.
struct Step<M: Made> {
    from: Option<Weak<M>>,
    to: Weak<M>,
    messages: Arc<[M::Message]>,
}

impl<M: Made> Step<M> {
    fn leads(&self, old: Option<&Arc<M>>, new: &Arc<M>) -> bool {
        let from = match (&self.from, old) {
            (None, None) => true,
            // A weak pointer keeps the place in memory from being used again.
            (Some(from), Some(old)) => from.as_ptr() == Arc::as_ptr(old),
            _ => false,
        };
        from && self.to.as_ptr() == Arc::as_ptr(new)
    }
}

impl<M: Made> Followed<M> {
    /// None yet.
    pub(super) fn new(settings: M::Settings) -> Self {
        Self {
            settings,
            questions: Mutex::default(),
        }
    }

    /// Returns the results that those who follow the question share.
    pub(super) fn share(&self, question: M::Question) -> Arc<Shared<M>> {
        let mut questions = lock(&self.questions);
        if let Some(shared) = questions.get(&question).and_then(Weak::upgrade) {
            return shared;
        }
        // Before the map grows.
        if questions.len() == questions.capacity() {
            questions.retain(|_, shared| shared.strong_count() > 0);
        }
        let shared = Arc::new(Shared {
            question: question.clone(),
            settings: self.settings.clone(),
            last: Mutex::new(Last {
                memory: M::Memory::default(),
                made: None,
                messages: None,
                #[cfg(test)]
                makings: (0, 0),
            }),
        });
        questions.insert(question, Arc::downgrade(&shared));
        shared
    }
}

impl<M: Made> Shared<M> {
    /// Returns what the answer leads to. It is made by the first who asks.
    pub(super) fn of(&self, observed: &Arc<Observed>) -> Arc<M> {
        let mut last = lock(&self.last);
        if let Some((of, made)) = &last.made
            && of.as_ptr() == Arc::as_ptr(observed)
        {
            return Arc::clone(made);
        }
        #[cfg(test)]
        {
            last.makings.0 += 1;
        }
        let made = Arc::new(M::make(
            &self.question,
            &self.settings,
            &observed.answer,
            &mut last.memory,
        ));
        last.made = Some((Arc::downgrade(observed), Arc::clone(&made)));
        made
    }

    /// Returns the messages that lead from `old`, which a client got, to `new`.
    pub(super) fn messages(&self, old: Option<&Arc<M>>, new: &Arc<M>) -> Arc<[M::Message]> {
        let mut last = lock(&self.last);
        if let Some(step) = last.messages.as_ref().filter(|step| step.leads(old, new)) {
            return Arc::clone(&step.messages);
        }
        #[cfg(test)]
        {
            last.makings.1 += 1;
        }
        let messages: Arc<[_]> = M::messages(old.map(Arc::as_ref), new).into();
        last.messages = Some(Step {
            from: old.map(Arc::downgrade),
            to: Arc::downgrade(new),
            messages: Arc::clone(&messages),
        });
        messages
    }

    /// Returns the number of answers of which something was made, and of lists of messages.
    #[cfg(test)]
    pub(super) fn makings(&self) -> (usize, usize) {
        lock(&self.last).makings
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use shunt_model::{Protocol, Query};

    use super::*;

    /// The length of an answer, with the number of answers before it.
    #[derive(Debug, PartialEq)]
    struct Length(usize, usize);

    impl Made for Length {
        type Question = String;
        type Settings = ();
        type Memory = usize;
        type Message = String;

        fn make(_: &String, (): &(), answer: &Answer, before: &mut usize) -> Self {
            *before += 1;
            Self(answer.targets.len(), *before - 1)
        }

        fn messages(old: Option<&Self>, new: &Self) -> Vec<String> {
            vec![format!("{old:?} {new:?}")]
        }
    }

    fn observed(generation: u64) -> Arc<Observed> {
        let address = "192.0.2.1".parse().unwrap();
        Arc::new(Observed {
            generation,
            answer: Answer {
                query: Query::address(address, None, Some(Protocol::Tcp)),
                targets: Vec::new(),
                endpoints: Vec::new(),
                member_of: Vec::new(),
            },
        })
    }

    #[test]
    fn a_thousand_who_follow_one_question_share_what_is_made() {
        let followed = Followed::<Length>::new(());
        let clients: Vec<_> = (0..1000).map(|_| followed.share("web".into())).collect();
        let mut states: Vec<Option<Arc<Length>>> = vec![None; 1000];
        for generation in 1..=3 {
            let observed = observed(generation);
            let mut lists = Vec::new();
            for (client, state) in clients.iter().zip(&mut states) {
                let newest = client.of(&observed);
                lists.push(client.messages(state.as_ref(), &newest));
                *state = Some(newest);
            }
            let made = generation as usize;
            assert_eq!(clients[999].makings(), (made, made));
            assert!(lists.iter().all(|list| Arc::ptr_eq(list, &lists[0])));
            let first = states[0].as_ref().unwrap();
            assert!(states.iter().flatten().all(|one| Arc::ptr_eq(one, first)));
        }
    }

    #[test]
    fn a_slow_client_gets_messages_of_its_own() {
        let followed = Followed::<Length>::new(());
        let shared = followed.share("web".into());
        let [one, two, three] = [1, 2, 3].map(|generation| shared.of(&observed(generation)));
        let step = shared.messages(Some(&two), &three);
        assert_eq!(*step, ["Some(Length(0, 1)) Length(0, 2)"]);
        let slow = shared.messages(Some(&one), &three);
        assert_eq!(*slow, ["Some(Length(0, 0)) Length(0, 2)"]);
        let new = shared.messages(None, &three);
        assert_eq!(*new, ["None Length(0, 2)"]);
    }

    #[test]
    fn a_question_that_is_followed_no_longer_is_forgotten() {
        let followed = Followed::<Length>::new(());
        for number in 0..10_000 {
            drop(followed.share(number.to_string()));
        }
        let held = lock(&followed.questions);
        assert!(held.len() < 100, "{}", held.len());
        drop(held);
        let [one, other] = ["a", "b"].map(|question| followed.share(question.into()));
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &followed.share("a".into())));
    }
}
