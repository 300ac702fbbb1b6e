//! Admission to the data: by the token, or by a session that began with it. All wrong tokens and cookies of a peer
//! count together.

use std::{
    io,
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, StatusCode,
    header::{HeaderValue, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE},
};
use serde_json::json;
use shunt_http::{Answer, Attempts, Peer, answer, text, with_header};

use crate::ui::{
    sessions::{Cookie, Sessions},
    token::UiToken,
};

/// The token, and the sessions that began with it.
#[derive(Debug)]
pub(super) struct SignIn {
    token: UiToken,
    sessions: Sessions,
    attempts: Attempts,
}

impl SignIn {
    /// No session, and no wrong token.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub(super) fn new(token: UiToken) -> io::Result<Self> {
        Ok(Self {
            token,
            sessions: Sessions::new()?,
            attempts: Attempts::new("page"),
        })
    }

    /// Admits a request. Returns whether it is of a session.
    ///
    /// # Errors
    ///
    /// The answer to a request without the token, and without a session.
    pub(super) fn admit(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        now: Instant,
    ) -> Result<bool, Box<Answer>> {
        let cookie = self.sessions.cookie(headers, now);
        // A session's number cannot be guessed, so it counts even if others of this address guess.
        if cookie == Cookie::Known {
            return Ok(true);
        }
        let bearer = self.token.bearer(headers);
        if bearer.is_none() && cookie == Cookie::Missing {
            return Err(Box::new(unauthorized()));
        }
        if let Some(pause) = self.attempts.pause(peer, now) {
            return Err(Box::new(too_many(pause)));
        }
        if bearer == Some(true) {
            return Ok(false);
        }
        self.attempts.count(peer, now);
        // A browser does not send again what has ended.
        let forget = self.sessions.forget(headers);
        Err(Box::new(with_header(unauthorized(), SET_COOKIE, forget)))
    }

    /// Begins a session for a browser that has sent the token.
    pub(super) fn sign_in(
        &self,
        given: &[u8],
        headers: &HeaderMap,
        peer: Peer,
        now: Instant,
    ) -> Answer {
        if let Some(pause) = self.attempts.pause(peer, now) {
            return too_many(pause);
        }
        if !self.token.is(given.trim_ascii()) {
            self.attempts.count(peer, now);
            return text(StatusCode::FORBIDDEN, "that is not the token\n");
        }
        match self.sessions.begin(headers, now) {
            Ok(cookie) => with_header(text(StatusCode::OK, ""), SET_COOKIE, cookie),
            Err(error) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot begin a session: {error}\n"),
            ),
        }
    }

    /// Ends the session of a browser.
    pub(super) fn sign_out(&self, headers: &HeaderMap) -> Answer {
        let forget = self.sessions.end(headers);
        with_header(text(StatusCode::OK, ""), SET_COOKIE, forget)
    }
}

fn unauthorized() -> Answer {
    let refusal = refusal(StatusCode::UNAUTHORIZED, "a token is needed");
    with_header(
        refusal,
        WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer"),
    )
}

fn too_many(pause: Duration) -> Answer {
    let seconds = pause.as_secs() + 1;
    let error = format!("too many wrong tokens came from this address: try again in {seconds} s");
    let refusal = refusal(StatusCode::TOO_MANY_REQUESTS, &error);
    with_header(refusal, RETRY_AFTER, HeaderValue::from(seconds))
}

fn refusal(status: StatusCode, error: &str) -> Answer {
    let body = json!({ "error": error }).to_string();
    answer(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use hyper::header::{AUTHORIZATION, COOKIE};

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn peer(number: u32) -> Peer {
        Peer::Address(SocketAddr::new(Ipv4Addr::from_bits(number).into(), 1))
    }

    fn bearer(token: &str) -> HeaderMap {
        let value = format!("Bearer {token}");
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).unwrap());
        headers
    }

    fn status(result: Result<bool, Box<Answer>>) -> u16 {
        result.map_or_else(|answer| answer.status().as_u16(), |_| 200)
    }

    #[test]
    fn wrong_tokens_of_all_kinds_share_one_budget() {
        let door = SignIn::new(UiToken::of(TOKEN).unwrap()).unwrap();
        let now = Instant::now();
        let right = bearer(TOKEN);
        let answer = door.sign_in(TOKEN.as_bytes(), &HeaderMap::new(), peer(1), now);
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        assert!(!cookie.contains(TOKEN), "{cookie}");
        let name = cookie.split('=').next().unwrap();
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(value).unwrap());
            headers
        };
        let session = with(cookie);
        assert_eq!(status(door.admit(&session, peer(1), now)), 200);
        assert_eq!(status(door.admit(&HeaderMap::new(), peer(1), now)), 401);
        for _ in 0..4 {
            assert_eq!(status(door.admit(&bearer("wrong"), peer(1), now)), 401);
            let wrong = with(&format!("{name}=0123"));
            let refused = door.admit(&wrong, peer(1), now).unwrap_err();
            let forget = refused.headers()[SET_COOKIE].to_str().unwrap();
            assert!(forget.ends_with("Max-Age=0"), "{forget}");
        }
        for expected in [403, 403, 429, 429] {
            let answer = door.sign_in(b"wrong", &HeaderMap::new(), peer(1), now);
            assert_eq!(answer.status().as_u16(), expected);
        }
        // No token of that address is compared, so nothing is learnt; its sessions go on, and so do all others.
        assert_eq!(status(door.admit(&right, peer(1), now)), 429);
        assert_eq!(status(door.admit(&HeaderMap::new(), peer(1), now)), 401);
        assert_eq!(status(door.admit(&session, peer(1), now)), 200);
        assert_eq!(status(door.admit(&right, peer(2), now)), 200);
        let later = now + Duration::from_secs(3);
        assert_eq!(status(door.admit(&right, peer(1), later)), 200);
    }
}
