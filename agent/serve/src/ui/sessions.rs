//! Sessions of browsers that have signed in. A browser keeps a random number, never the token.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap,
    header::{COOKIE, HeaderValue, ORIGIN},
};

/// Duration of a session.
const LIFETIME: Duration = Duration::from_hours(12);

/// Maximum number of sessions; the oldest one ends for a new one.
const SESSIONS: usize = 256;

/// Length of a session's number, in bytes.
const LENGTH: usize = 16;

/// The header by which a proxy passes on that the browser has used TLS.
const FORWARDED: &str = "x-forwarded-proto";

/// The sessions of this run of the agent.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Name of the cookie. A browser sends the cookies of a host to all of its ports, so each agent has another name.
    name: String,
    begun: Mutex<HashMap<String, Instant>>,
}

/// The cookie of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// There is none of this agent.
    Missing,
    /// The number of a session.
    Known,
    /// Any other value: the session is over, or the number was never one.
    Unknown,
}

impl Sessions {
    /// No session yet.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            name: format!("shunt-ui-{}", random::<4>()?),
            begun: Mutex::default(),
        })
    }

    /// Begins a session. Returns the header that has the browser keep its number, out of the reach of scripts and of
    /// other pages.
    ///
    /// # Errors
    ///
    /// If the kernel gives no random bytes.
    pub(super) fn begin(&self, headers: &HeaderMap, now: Instant) -> io::Result<HeaderValue> {
        let number = random::<LENGTH>()?;
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|_, at| now.saturating_duration_since(*at) < LIFETIME);
        if begun.len() >= SESSIONS {
            let oldest = begun.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(number, _)| number.clone()) {
                begun.remove(&oldest);
            }
        }
        begun.insert(number.clone(), now);
        Ok(self.header(&number, "", headers))
    }

    /// Ends the session of a request, if it has one. Returns the header that has the browser forget it.
    pub(super) fn end(&self, headers: &HeaderMap) -> HeaderValue {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        for number in self.numbers(headers) {
            begun.remove(number);
        }
        self.forget(headers)
    }

    /// Returns the header that has the browser forget its cookie.
    pub(super) fn forget(&self, headers: &HeaderMap) -> HeaderValue {
        self.header("", "; Max-Age=0", headers)
    }

    /// Returns the state of a request's cookie.
    pub(super) fn cookie(&self, headers: &HeaderMap, now: Instant) -> Cookie {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cookie = Cookie::Missing;
        for number in self.numbers(headers) {
            let since = begun.get(number);
            if since.is_some_and(|at| now.saturating_duration_since(*at) < LIFETIME) {
                return Cookie::Known;
            }
            cookie = Cookie::Unknown;
        }
        cookie
    }

    /// Returns the values of this agent's cookies in a request.
    fn numbers<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let cookies = headers.get_all(COOKIE).into_iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(name, _)| *name == self.name)
            .map(|(_, number)| number)
    }

    fn header(&self, number: &str, further: &str, headers: &HeaderMap) -> HeaderValue {
        let secure = if has_tls(headers) { "; Secure" } else { "" };
        let name = &self.name;
        let text = format!("{name}={number}; Path=/; HttpOnly; SameSite=Strict{secure}{further}");
        let mut value = HeaderValue::try_from(text)
            .unwrap_or_else(|_| unreachable!("digits and names alone are in it"));
        value.set_sensitive(true);
        value
    }
}

/// Returns whether the browser has used TLS, as far as it or a proxy before the agent passes that on.
fn has_tls(headers: &HeaderMap) -> bool {
    let is = |name: &str, is_tls: fn(&str) -> bool| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(is_tls)
    };
    is(ORIGIN.as_str(), |origin| origin.starts_with("https://"))
        || is(FORWARDED, |scheme| scheme.eq_ignore_ascii_case("https"))
}

/// Returns so many random bytes, as hexadecimal digits.
fn random<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes whatever is written.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers
    }

    /// Begins a session; returns the request headers of its browser.
    fn sign_in(sessions: &Sessions, now: Instant) -> HeaderMap {
        let header = sessions.begin(&HeaderMap::new(), now).unwrap();
        let header = header.to_str().unwrap();
        assert!(
            header.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{header}"
        );
        with_cookie(header.split(';').next().unwrap())
    }

    #[test]
    fn a_session_ends_by_time_or_by_its_browser() {
        let sessions = Sessions::new().unwrap();
        let now = Instant::now();
        let [one, other] = [0, 1].map(|_| sign_in(&sessions, now));
        assert_ne!(one, other);
        assert_eq!(sessions.cookie(&one, now), Cookie::Known);
        let forgotten = sessions.end(&one);
        assert!(forgotten.to_str().unwrap().ends_with("; Max-Age=0"));
        assert_eq!(sessions.cookie(&one, now), Cookie::Unknown);
        assert_eq!(sessions.cookie(&other, now), Cookie::Known);
        assert_eq!(sessions.cookie(&other, now + LIFETIME), Cookie::Unknown);
        assert_eq!(sessions.cookie(&HeaderMap::new(), now), Cookie::Missing);
        assert_eq!(sessions.cookie(&with_cookie("a=b"), now), Cookie::Missing);
    }

    #[test]
    fn two_agents_at_one_host_have_cookies_of_different_names() {
        let now = Instant::now();
        let [one, other] = [0, 1].map(|_| Sessions::new().unwrap());
        let browser = |sessions: &Sessions| sign_in(sessions, now)[COOKIE].clone();
        let (mine, theirs) = (browser(&one), browser(&other));
        let both = format!("{}; {}", mine.to_str().unwrap(), theirs.to_str().unwrap());
        for sessions in [&one, &other] {
            assert_eq!(sessions.cookie(&with_cookie(&both), now), Cookie::Known);
        }
        let theirs = with_cookie(theirs.to_str().unwrap());
        assert_eq!(one.cookie(&theirs, now), Cookie::Missing);
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let sessions = Sessions::new().unwrap();
        let now = Instant::now();
        let first = sign_in(&sessions, now);
        let second = sign_in(&sessions, now + Duration::from_secs(1));
        let later = now + Duration::from_secs(2);
        for _ in 0..SESSIONS - 1 {
            sign_in(&sessions, later);
        }
        assert_eq!(sessions.cookie(&first, later), Cookie::Unknown);
        assert_eq!(sessions.cookie(&second, later), Cookie::Known);
    }

    #[test]
    fn a_cookie_behind_tls_is_never_sent_without() {
        let sessions = Sessions::new().unwrap();
        for (name, value, is_secure) in [
            ("origin", "https://node.example", true),
            ("origin", "http://127.0.0.1:9254", false),
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "http", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let cookie = sessions.begin(&headers, Instant::now()).unwrap();
            let cookie = cookie.to_str().unwrap();
            assert_eq!(cookie.contains("; Secure"), is_secure, "{name}: {value}");
        }
    }
}
