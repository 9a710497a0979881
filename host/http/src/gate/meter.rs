//! How much each key asks for, and when it has asked for too much.
//!
//! Requests and tokens are two buckets that fill evenly over a minute; a minute's worth may be taken at once. A request is taken when it
//! begins. Tokens are charged when an answer ends, because only then they are known, so that bucket may go below nothing: one answer may
//! overdraw it, and the next request waits until the debt is filled up. A limiter that only knows "may I take n" cannot owe, which is why
//! these forty lines are our own.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::errors::{ApiError, Kind};
use crate::keys::Limits;

/// The books of one key. They live as long as the key, through every reading of its file.
#[derive(Debug)]
pub(crate) struct Meter(Mutex<Books>);

#[derive(Debug)]
struct Books {
    limits: Limits,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    running: u32,
}

/// A request that counts as running until this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Arc<Meter>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.books().running -= 1;
    }
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        let bucket = |limit: Option<NonZeroU32>| limit.map(|limit| Bucket::full(limit, Instant::now()));
        let (requests, tokens) = (bucket(limits.requests_per_minute), bucket(limits.tokens_per_minute));
        Self(Mutex::new(Books { limits, requests, tokens, running: 0 }))
    }

    /// What holds from now on. A limit that stays keeps its books; what runs goes on.
    pub(crate) fn set(&self, limits: Limits) {
        let mut books = self.books();
        let fresh = |limit: Option<NonZeroU32>| limit.map(|limit| Bucket::full(limit, Instant::now()));
        if books.limits.requests_per_minute != limits.requests_per_minute {
            books.requests = fresh(limits.requests_per_minute);
        }
        if books.limits.tokens_per_minute != limits.tokens_per_minute {
            books.tokens = fresh(limits.tokens_per_minute);
        }
        books.limits = limits;
    }

    /// Takes a request, or says when to come back. A request that is refused costs nothing.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Running, ApiError> {
        let now = Instant::now();
        let mut books = self.books();
        let refused = |wait, what: String| ApiError::new(Kind::RateLimited, what).retry_after(wait);
        if let Some(most) = books.limits.concurrent
            && books.running >= most.get()
        {
            // When one of them ends nobody knows; the row of the error has a time to try again.
            return Err(refused(None, format!("this key already has {most} requests running, which is its limit; wait for one to end")));
        }
        if let Some(bucket) = &mut books.tokens
            && let Some(wait) = bucket.wait(now)
        {
            let limit = bucket.per_minute;
            return Err(refused(Some(wait), format!("this key has used its {limit} tokens a minute; wait as long as Retry-After says")));
        }
        if let Some(bucket) = &mut books.requests {
            if let Some(wait) = bucket.wait(now) {
                let limit = bucket.per_minute;
                return Err(refused(
                    Some(wait),
                    format!("this key has made its {limit} requests a minute; wait as long as Retry-After says"),
                ));
            }
            bucket.take(1);
        }
        books.running += 1;
        Ok(Running(Arc::clone(self)))
    }

    /// An answer took so many tokens.
    pub(crate) fn charge(&self, tokens: u64) {
        if let Some(bucket) = &mut self.books().tokens {
            bucket.fill(Instant::now());
            bucket.take(tokens);
        }
    }

    /// What is left, in OpenAI's headers; nothing where there is no limit.
    pub(crate) fn show(&self, headers: &mut HeaderMap) {
        let now = Instant::now();
        let mut books = self.books();
        let names = |limit, remaining, reset| [limit, remaining, reset].map(HeaderName::from_static);
        let requests = names("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests");
        let tokens = names("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens");
        let Books { requests: request_bucket, tokens: token_bucket, .. } = &mut *books;
        for (bucket, [limit, remaining, reset]) in [(request_bucket, requests), (token_bucket, tokens)] {
            let Some(bucket) = bucket else { continue };
            bucket.fill(now);
            headers.insert(limit, HeaderValue::from(bucket.per_minute.get()));
            // Whole ones, and never below nothing.
            headers.insert(remaining, HeaderValue::from(bucket.level.max(0.0) as u32));
            if let Ok(time) = HeaderValue::from_str(&span(bucket.until_full())) {
                headers.insert(reset, time);
            }
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills evenly; holds a minute's worth.
#[derive(Debug)]
struct Bucket {
    per_minute: NonZeroU32,
    level: f64,
    at: Instant,
}

impl Bucket {
    fn full(per_minute: NonZeroU32, now: Instant) -> Self {
        Self { per_minute, level: f64::from(per_minute.get()), at: now }
    }

    fn per_second(&self) -> f64 {
        f64::from(self.per_minute.get()) / 60.0
    }

    fn fill(&mut self, now: Instant) {
        let came = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second();
        self.level = (self.level + came).min(f64::from(self.per_minute.get()));
        self.at = now;
    }

    /// How long until there is a whole one; `None` = now.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let missing = 1.0 - self.level;
        (missing > 0.0).then(|| seconds(missing / self.per_second()))
    }

    fn take(&mut self, count: u64) {
        self.level -= count as f64;
    }

    fn until_full(&self) -> Duration {
        seconds((f64::from(self.per_minute.get()) - self.level) / self.per_second())
    }
}

fn seconds(time: f64) -> Duration {
    // A debt that takes longer than this type can say does not come about: tokens are counted in a u32 by the engine.
    Duration::try_from_secs_f64(time.max(0.0)).unwrap_or(Duration::MAX)
}

/// As OpenAI writes it: `88ms`, `7s`, `6m0s`.
fn span(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{}ms", time.as_millis());
    }
    let s = time.as_millis().div_ceil(1000);
    if s < 60 { format!("{s}s") } else { format!("{}m{}s", s / 60, s % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(count: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(count)
    }

    #[test]
    fn a_bucket_gives_a_minutes_worth_at_once_and_fills_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket::full(limit(6).unwrap(), start);
        for _ in 0..6 {
            assert_eq!(bucket.wait(start), None);
            bucket.take(1);
        }
        assert_eq!(bucket.wait(start), Some(Duration::from_secs(10)));
        assert_eq!(bucket.wait(start + Duration::from_secs(4)), Some(Duration::from_secs(6)));
        assert_eq!(bucket.wait(start + Duration::from_secs(11)), None);
        // However long nobody came, there is never more than a minute's worth.
        bucket.fill(start + Duration::from_secs(86_400));
        assert_eq!(bucket.level, 6.0);
        assert_eq!(bucket.until_full(), Duration::ZERO);
    }

    #[test]
    fn a_debt_is_filled_up_before_the_next_one() {
        let start = Instant::now();
        let mut bucket = Bucket::full(limit(60).unwrap(), start);
        bucket.take(160);
        assert_eq!(bucket.wait(start), Some(Duration::from_secs(101)));
        assert_eq!(bucket.wait(start + Duration::from_secs(102)), None);
    }

    #[test]
    fn requests_at_one_time_are_given_back_and_a_refused_one_costs_nothing() {
        let meter = Arc::new(Meter::new(Limits { concurrent: limit(1), requests_per_minute: limit(2), ..Limits::default() }));
        let first = meter.begin().unwrap();
        for _ in 0..5 {
            let refused = meter.begin().unwrap_err();
            assert_eq!(refused.kind, Kind::RateLimited);
        }
        drop(first);
        drop(meter.begin().unwrap());
        let refused = meter.begin().unwrap_err();
        assert!(refused.message.contains("2 requests a minute"), "{refused}");
        assert!(refused.retry_after.unwrap() <= Duration::from_secs(30));
    }

    #[test]
    fn a_limit_that_stays_keeps_its_books_and_a_new_one_begins_full() {
        let limits = Limits { requests_per_minute: limit(1), tokens_per_minute: limit(10), ..Limits::default() };
        let meter = Arc::new(Meter::new(limits));
        let running = meter.begin().unwrap();
        meter.charge(100);
        meter.set(Limits { tokens_per_minute: limit(20), ..limits });
        assert!(meter.begin().unwrap_err().message.contains("requests"));
        meter.set(Limits::default());
        drop(meter.begin().unwrap());
        drop(running);
        assert_eq!(meter.books().running, 0);
    }

    #[test]
    fn headers_show_what_is_left_and_only_where_there_is_a_limit() {
        let mut headers = HeaderMap::new();
        Meter::new(Limits::default()).show(&mut headers);
        assert!(headers.is_empty());
        let meter = Arc::new(Meter::new(Limits { tokens_per_minute: limit(100), ..Limits::default() }));
        meter.charge(250);
        meter.show(&mut headers);
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["x-ratelimit-limit-tokens"], "100");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "0");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "2m30s");
        assert_eq!([span(Duration::from_millis(88)), span(Duration::from_secs(360))], ["88ms", "6m0s"]);
    }
}
