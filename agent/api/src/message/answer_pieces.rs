//! Answers to lookups in pieces: what is too large for one message of a client with default limits.

use std::{
    iter::{from_fn, once},
    vec::IntoIter,
};

use prost::Message;

use crate::proto::{
    Answer, Frontend, FrontendKey, LookupResponse, Memberships, ServicesResponse, Targets,
    WatchResponse,
};

/// A piece is not larger, unless a single element is. gRPC's clients in Go, Python and Java refuse messages of more
/// than 4 MiB by default. Answers below that stay in one piece, which earlier clients expect.
const PIECE_BYTES: usize = 4_000_000;

/// A piece of a listing is not larger, unless a single element is, so that it comes while its client reads on.
const LISTED_BYTES: usize = 300_000;

/// A frontend with more backends comes in parts: an element of the largest size is 2 MB.
const BACKENDS: usize = 32_768;

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
        Self::of(PIECE_BYTES.saturating_sub(start.encoded_len() + FRAME))
    }

    const fn of(bytes: usize) -> Self {
        Self {
            bytes,
            is_empty: true,
        }
    }

    /// Takes the elements of `rest` that fit, in their order.
    fn take<T: Message>(&mut self, rest: &mut IntoIter<T>) -> Vec<T> {
        let elements = rest.as_slice().iter();
        let count = elements.take_while(|element| self.fits(*element)).count();
        rest.take(count).collect()
    }

    /// Takes the room of an element, if there is so much. The first element of a piece always fits.
    fn fits(&mut self, element: &impl Message) -> bool {
        let bytes = element.encoded_len() + FRAME;
        if bytes > self.bytes && !self.is_empty {
            // The lists after this one begin with a later piece.
            self.bytes = 0;
            return false;
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_empty = false;
        true
    }
}

/// Returns a listing in pieces, at least one, which are made as they are taken: first what is missing.
pub fn services_pieces(
    missing: Vec<FrontendKey>,
    frontends: impl Iterator<Item = Frontend> + Send,
) -> impl Iterator<Item = ServicesResponse> + Send {
    let mut missing = missing.into_iter();
    let mut frontends = frontends.flat_map(parts).peekable();
    let mut is_first = true;
    from_fn(move || {
        if !is_first && missing.len() == 0 && frontends.peek().is_none() {
            return None;
        }
        is_first = false;
        let mut room = Room::of(LISTED_BYTES);
        let missing = room.take(&mut missing);
        let fitting = from_fn(|| frontends.next_if(|next| room.fits(next)));
        Some(ServicesResponse {
            missing,
            frontends: fitting.collect(),
        })
    })
}

/// Returns a frontend in parts, at least one, each with some of its backends.
fn parts(mut frontend: Frontend) -> impl Iterator<Item = Frontend> + Send {
    let key = frontend.key.clone();
    let mut rest = if frontend.backends.len() > BACKENDS {
        frontend.backends.split_off(BACKENDS)
    } else {
        Vec::new()
    }
    .into_iter();
    let others = from_fn(move || {
        let backends: Vec<_> = rest.by_ref().take(BACKENDS).collect();
        (!backends.is_empty()).then(|| Frontend {
            key: key.clone(),
            backends,
            continues: true,
            ..Frontend::default()
        })
    });
    once(frontend).chain(others)
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
    let in_parts = |frontends: Vec<Frontend>| -> IntoIter<Frontend> {
        let parts: Vec<Frontend> = frontends.into_iter().flat_map(parts).collect();
        parts.into_iter()
    };
    let (mut frontends, mut backend_of) = (in_parts(frontends), in_parts(backend_of));
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

/// Appends the next piece of a listing to those before it.
pub fn join_services(whole: &mut ServicesResponse, next: ServicesResponse) {
    let ServicesResponse { frontends, missing } = next;
    whole.missing.extend(missing);
    join_frontends(&mut whole.frontends, frontends);
}

fn join_frontends(whole: &mut Vec<Frontend>, next: Vec<Frontend>) {
    for frontend in next {
        match whole.last_mut() {
            Some(before) if frontend.continues => before.backends.extend(frontend.backends),
            _ => whole.push(frontend),
        }
    }
}

/// Appends the next piece of an answer to those before it.
pub fn join_lookup(whole: &mut LookupResponse, next: LookupResponse) {
    let LookupResponse {
        frontends,
        backend_of,
        missing,
        answer,
    } = next;
    join_frontends(&mut whole.frontends, frontends);
    join_frontends(&mut whole.backend_of, backend_of);
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
