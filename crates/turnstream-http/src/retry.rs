//! When a turn that failed is asked again, and after how long. No IO and no clock: time is an argument.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use turnstream_core::{Error, Head};

/// When a turn that failed before any output is asked again, and after how long.
///
/// An error is retried if [`Error::is_retryable`] says so: the provider's own word first, the kind second.
/// The wait is what the provider asks for, or else a random part of a time that doubles with every attempt
/// (full jitter).
///
/// ```
/// use std::time::Duration;
/// use turnstream_core::{Error, ErrorKind};
/// use turnstream_http::RetryPolicy;
///
/// let policy = RetryPolicy::new().jitter(|| 1.0);
/// let error = Error::new(ErrorKind::Overloaded, "try later");
/// assert_eq!(policy.decide(1, &error), Some(Duration::from_millis(500)));
/// assert_eq!(policy.decide(2, &error), Some(Duration::from_millis(1000)));
/// assert_eq!(policy.decide(3, &error), None);
/// ```
#[derive(Clone)]
pub struct RetryPolicy {
    max_attempts: u32,
    base_delay: Duration,
    max_delay: Duration,
    max_retry_after: Duration,
    jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl RetryPolicy {
    /// Three attempts: 500 ms doubled for each, up to 8 s, and up to 60 s if the provider asks for it.
    pub fn new() -> Self {
        Self {
            max_attempts: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            max_retry_after: Duration::from_secs(60),
            jitter: Arc::new(fastrand::f64),
        }
    }

    /// One attempt.
    pub fn never() -> Self {
        Self::new().max_attempts(1)
    }

    /// Sets how many requests are sent for one turn at most, the first among them. 3 by default.
    pub fn max_attempts(self, max_attempts: u32) -> Self {
        Self { max_attempts, ..self }
    }

    /// Sets the longest wait after the first attempt; it doubles for each further one. 500 ms by default.
    pub fn base_delay(self, base_delay: Duration) -> Self {
        Self { base_delay, ..self }
    }

    /// Sets the longest wait of the policy's own. 8 s by default.
    pub fn max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay, ..self }
    }

    /// Sets the longest wait that a provider may ask for. An error that asks for more goes to the caller
    /// at once, with the time it asks for. 60 s by default.
    pub fn max_retry_after(self, max_retry_after: Duration) -> Self {
        Self { max_retry_after, ..self }
    }

    /// Sets where random numbers from 0 to 1 come from, for tests.
    pub fn jitter(self, jitter: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self { jitter: Arc::new(jitter), ..self }
    }

    /// How long to wait before the next attempt, or `None` if there is to be none. `attempts` is how many
    /// have been made, `error` how the last one ended.
    pub fn decide(&self, attempts: u32, error: &Error) -> Option<Duration> {
        if !self.allows(attempts) || error.partial() || !error.is_retryable() {
            return None;
        }
        match error.retry_after() {
            // "At once" and times that have passed say nothing about when: the own wait is kinder.
            None | Some(Duration::ZERO) => Some(self.back_off(attempts)),
            Some(wait) if wait > self.max_retry_after => None,
            Some(wait) => Some(wait),
        }
    }

    /// Whether there may be another attempt after so many.
    pub(crate) fn allows(&self, attempts: u32) -> bool {
        attempts < self.max_attempts
    }

    fn back_off(&self, attempts: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
        let longest = self.base_delay.saturating_mul(factor).min(self.max_delay);
        let part = (self.jitter)();
        let part = if part.is_nan() { 1.0 } else { part.clamp(0.0, 1.0) };
        // The longest durations are no exact floats, and rounded up they are too long.
        Duration::try_from_secs_f64(longest.as_secs_f64() * part).unwrap_or(longest)
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RetryPolicy")
            .field("max_attempts", &self.max_attempts)
            .field("base_delay", &self.base_delay)
            .field("max_delay", &self.max_delay)
            .field("max_retry_after", &self.max_retry_after)
            .finish_non_exhaustive()
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// How long the head of a reply asks to wait: a number, or else the HTTP date in `retry-after`. `None` if it
/// does not say, or not in words that mean anything.
///
/// A date is counted from the reply's own `date` if it has one, so that a wrong clock on this side does no
/// harm, else from `now`. One that has passed is zero.
pub(crate) fn retry_after(head: &Head, now: SystemTime) -> Option<Duration> {
    let date = |name| httpdate::parse_http_date(head.headers.get(name)?.to_str().ok()?.trim()).ok();
    head.retry_after().or_else(|| {
        let until = date("retry-after")?;
        Some(until.duration_since(date("date").unwrap_or(now)).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use turnstream_core::{ErrorKind, reexports::http::HeaderMap, refused};

    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy::new().jitter(|| 0.5)
    }

    fn head(pairs: &[(&'static str, &'static str)]) -> Head {
        let headers: HeaderMap =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Head::new(429, headers, 1)
    }

    /// What a 429 with these headers makes of the first attempt: the time asked for, and the decision.
    fn first_429(pairs: &[(&'static str, &'static str)]) -> (Option<Duration>, Option<Duration>) {
        let now = httpdate::parse_http_date("Wed, 01 Jan 2025 00:00:00 GMT").unwrap();
        let head = head(pairs);
        let mut error = refused(429, &head.headers, b"");
        if let Some(wait) = retry_after(&head, now) {
            error = error.with_retry_after(wait);
        }
        (error.retry_after(), policy().decide(1, &error))
    }

    #[test]
    fn case_130_every_form_of_retry_after() {
        let own = Some(Duration::from_millis(250));
        let both = |millis| (Some(Duration::from_millis(millis)), Some(Duration::from_millis(millis)));
        assert_eq!(first_429(&[("retry-after", "2")]), both(2000));
        assert_eq!(first_429(&[("retry-after", "1.5")]), both(1500));
        assert_eq!(first_429(&[("retry-after", "Wed, 01 Jan 2025 00:00:07 GMT")]), both(7000));
        let past = ("retry-after", "Tue, 31 Dec 2024 23:00:00 GMT");
        assert_eq!(first_429(&[past]), (Some(Duration::ZERO), own));
        assert_eq!(first_429(&[("retry-after-ms", "350"), ("retry-after", "9")]), both(350));
        assert_eq!(first_429(&[("retry-after", "86400")]), (Some(Duration::from_secs(86400)), None));
        assert_eq!(first_429(&[("retry-after", "soon")]), (None, own));
        assert_eq!(first_429(&[("x-should-retry", "false")]), (None, None));
    }

    #[test]
    fn absurd_times_are_as_good_as_none() {
        for text in ["", "-1", "nan", "inf", "1e400", "9e99", "2s", "Wed, 99 Jan 2025 00:00:07 GMT"] {
            let absurd = head(&[("retry-after", text)]);
            assert_eq!(retry_after(&absurd, SystemTime::UNIX_EPOCH), None, "{text}");
            let half_absurd = head(&[("retry-after-ms", text), ("retry-after", "3")]);
            let want = Some(Duration::from_secs(3));
            assert_eq!(retry_after(&half_absurd, SystemTime::UNIX_EPOCH), want, "{text}");
        }
    }

    #[test]
    fn a_date_is_counted_from_the_replys_own_date() {
        let head = head(&[
            ("date", "Wed, 01 Jan 2025 00:00:00 GMT"),
            ("retry-after", "Wed, 01 Jan 2025 00:00:05 GMT"),
        ]);
        assert_eq!(retry_after(&head, SystemTime::UNIX_EPOCH), Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_own_wait_doubles_up_to_its_cap() {
        let policy = RetryPolicy::new().max_attempts(u32::MAX).jitter(|| 1.0);
        let error = Error::new(ErrorKind::Connect, "refused");
        let waits = [1, 2, 3, 4, 5, 6, 99].map(|attempts| policy.decide(attempts, &error).unwrap());
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000].map(Duration::from_millis));
    }

    #[test]
    fn the_longest_delays_do_no_harm() {
        let policy = RetryPolicy::new().base_delay(Duration::MAX).max_delay(Duration::MAX).jitter(|| 1.0);
        let error = Error::new(ErrorKind::Server, "failed");
        assert_eq!(policy.decide(1, &error), Some(Duration::MAX));
    }

    #[test]
    fn jitter_takes_any_part_of_the_wait() {
        let error = Error::new(ErrorKind::Server, "failed");
        let table: [(fn() -> f64, u64); 5] =
            [(|| 0.0, 0), (|| 0.25, 125), (|| 1.0, 500), (|| -3.0, 0), (|| f64::NAN, 500)];
        for (jitter, millis) in table {
            let wait = RetryPolicy::new().jitter(jitter).decide(1, &error);
            assert_eq!(wait, Some(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn what_cannot_get_better_is_not_retried() {
        let table = [
            (ErrorKind::Authentication, false),
            (ErrorKind::PermissionDenied, false),
            (ErrorKind::NotFound, false),
            (ErrorKind::InvalidRequest, false),
            (ErrorKind::RateLimited, true),
            (ErrorKind::Overloaded, true),
            (ErrorKind::Server, true),
            (ErrorKind::Connect, true),
            (ErrorKind::FirstByteTimeout, true),
            (ErrorKind::IdleTimeout, true),
            (ErrorKind::TotalTimeout, false),
            (ErrorKind::Truncated, true),
            (ErrorKind::Provider, false),
            (ErrorKind::Malformed, false),
            (ErrorKind::NotAStream, false),
            (ErrorKind::LimitExceeded, false),
            (ErrorKind::Config, false),
        ];
        for (kind, retried) in table {
            let error = Error::new(kind, "m");
            assert_eq!(policy().decide(1, &error).is_some(), retried, "{kind}");
            assert_eq!(policy().decide(1, &error.with_partial(true)), None, "{kind}");
        }
    }

    #[test]
    fn the_providers_word_decides_first() {
        let overloaded = Error::new(ErrorKind::Provider, "Overloaded").with_retryable(true);
        assert_eq!(policy().decide(1, &overloaded), Some(Duration::from_millis(250)));
        let out_of_credit = Error::new(ErrorKind::RateLimited, "quota").with_retryable(false);
        assert_eq!(policy().decide(1, &out_of_credit), None);
    }

    #[test]
    fn no_more_attempts_than_set() {
        let error = Error::new(ErrorKind::Server, "failed");
        assert!(policy().decide(2, &error).is_some());
        assert_eq!(policy().decide(3, &error), None);
        assert_eq!(RetryPolicy::never().decide(1, &error), None);
        assert_eq!(policy().max_attempts(0).decide(1, &error), None);
    }
}
