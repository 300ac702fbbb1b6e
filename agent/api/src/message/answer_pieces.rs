//! Answers to lookups in pieces: what is too large for one message of a client with default limits.

use std::{iter::from_fn, vec::IntoIter};

use prost::Message;

use crate::proto::{Answer, LookupResponse, Memberships, Targets, WatchResponse};

/// A piece is not larger, unless a single element is. gRPC's clients in Go, Python and Java refuse messages of more
/// than 4 MiB by default. Answers below that stay in one piece, which earlier clients expect.
const PIECE_BYTES: usize = 4_000_000;

/// The bytes that tags and lengths of an element take at most, with those of the message around it.
const FRAME: usize = 16;

/// The room that is left in a piece.
struct Room {
    bytes: usize,
    /// True until the piece has an element.
    is_empty: bool,
}

impl Room {
    /// The room beside `start`, which has no list.
    fn beside(start: &impl Message) -> Self {
        Self {
            bytes: PIECE_BYTES.saturating_sub(start.encoded_len() + FRAME),
            is_empty: true,
        }
    }

    /// Takes the elements of `rest` that fit, in their order. The first element of a piece always does.
    fn take<T: Message>(&mut self, rest: &mut IntoIter<T>) -> Vec<T> {
        let mut count = 0;
        for element in rest.as_slice() {
            let bytes = element.encoded_len() + FRAME;
            if bytes > self.bytes && !self.is_empty {
                // The lists after this one begin with a later piece.
                self.bytes = 0;
                break;
            }
            self.bytes = self.bytes.saturating_sub(bytes);
            self.is_empty = false;
            count += 1;
        }
        rest.take(count).collect()
    }
}

/// Returns an answer in pieces, at least one. The lists of all pieces, one after the other, are those of the whole.
pub fn lookup_pieces(whole: LookupResponse) -> impl Iterator<Item = LookupResponse> + Send {
    let LookupResponse {
        frontends,
        backend_of,
        missing,
        answer,
    } = whole;
    let Answer {
        generation,
        kind,
        targets,
        endpoints,
        member_of,
    } = answer.unwrap_or_default();
    let (mut targets, mut endpoints) = (targets.into_iter(), endpoints.into_iter());
    let mut member_of = member_of.into_iter();
    let (mut frontends, mut backend_of) = (frontends.into_iter(), backend_of.into_iter());
    let mut missing = missing.into_iter();
    let mut is_first = true;
    from_fn(move || {
        let of_answer = targets.len() + endpoints.len() + member_of.len();
        let left = of_answer + frontends.len() + backend_of.len() + missing.len();
        if left == 0 && !is_first {
            return None;
        }
        is_first = false;
        let start = Answer {
            generation,
            kind: kind.clone(),
            ..Answer::default()
        };
        let mut room = Room::beside(&start);
        let answer = Answer {
            targets: room.take(&mut targets),
            endpoints: room.take(&mut endpoints),
            member_of: room.take(&mut member_of),
            ..start
        };
        Some(LookupResponse {
            answer: Some(answer),
            missing: room.take(&mut missing),
            frontends: room.take(&mut frontends),
            backend_of: room.take(&mut backend_of),
        })
    })
}

/// Returns a change in pieces, at least one. All but the last have `more` set, and only the first what is no list.
pub fn watch_pieces(whole: WatchResponse) -> impl Iterator<Item = WatchResponse> + Send {
    let WatchResponse {
        generation,
        snapshot,
        rebind,
        targets,
        adds,
        removes,
        empty,
        member_of,
        more: _,
    } = whole;
    let kind = targets
        .as_ref()
        .map(|Targets { kind, list: _ }| kind.clone());
    let mut targets = targets.unwrap_or_default().list.into_iter();
    let (mut adds, mut removes) = (adds.into_iter(), removes.into_iter());
    let mut first = Some((snapshot, rebind, empty, kind, member_of.is_some()));
    let mut member_of = member_of.unwrap_or_default().list.into_iter();
    from_fn(move || {
        let left = targets.len() + adds.len() + removes.len() + member_of.len();
        if left == 0 && first.is_none() {
            return None;
        }
        let (snapshot, rebind, empty, kind, has_member_of) = first.take().unwrap_or_default();
        let mut piece = WatchResponse {
            generation,
            snapshot,
            rebind,
            empty,
            ..WatchResponse::default()
        };
        let mut room = Room::beside(&piece);
        let list = room.take(&mut targets);
        piece.targets = (kind.is_some() || !list.is_empty()).then(|| Targets {
            kind: kind.unwrap_or_default(),
            list,
        });
        piece.adds = room.take(&mut adds);
        piece.removes = room.take(&mut removes);
        let list = room.take(&mut member_of);
        piece.member_of = (has_member_of || !list.is_empty()).then_some(Memberships { list });
        piece.more = targets.len() + adds.len() + removes.len() + member_of.len() > 0;
        Some(piece)
    })
}

/// Appends the next piece of an answer to those before it.
pub fn join_lookup(whole: &mut LookupResponse, next: LookupResponse) {
    let LookupResponse {
        frontends,
        backend_of,
        missing,
        answer,
    } = next;
    whole.frontends.extend(frontends);
    whole.backend_of.extend(backend_of);
    whole.missing.extend(missing);
    match (&mut whole.answer, answer) {
        (Some(whole), Some(next)) => {
            whole.targets.extend(next.targets);
            whole.endpoints.extend(next.endpoints);
            whole.member_of.extend(next.member_of);
        }
        (whole @ None, next) => *whole = next,
        (Some(_), None) => {}
    }
}

/// Appends the next piece of a change to those before it.
pub fn join_watch(whole: &mut WatchResponse, next: WatchResponse) {
    let WatchResponse {
        generation: _,
        snapshot: _,
        rebind: _,
        targets,
        adds,
        removes,
        empty: _,
        member_of,
        more,
    } = next;
    if let Some(next) = targets {
        let targets = whole.targets.get_or_insert_default();
        targets.list.extend(next.list);
    }
    whole.adds.extend(adds);
    whole.removes.extend(removes);
    if let Some(next) = member_of {
        let member_of = whole.member_of.get_or_insert_default();
        member_of.list.extend(next.list);
    }
    whole.more = more;
}
