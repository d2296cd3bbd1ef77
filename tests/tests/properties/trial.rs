//! Runs a property on many inputs, on all cores, and counts.

use std::{
    any::Any,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// After so many failures an input is given up: they are mostly the same one.
const FAILURES: usize = 3;
/// How many failures are shown.
const SHOWN: usize = 20;

/// What came of one property so far.
#[derive(Default)]
pub(crate) struct Trial {
    count: u64,
    sampled: usize,
    failures: Vec<String>,
}

impl Trial {
    /// Tries one variation. A panic in it is a failure, and is shown with what was varied.
    pub(crate) fn holds(&mut self, what: impl FnOnce() -> String, check: impl FnOnce()) {
        if self.failures.len() >= FAILURES {
            return;
        }
        self.count += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
            self.failures.push(format!("{}: {}", what(), message(&*panic)));
        }
    }

    /// Notes that only a sample of this input's variations is tried.
    pub(crate) fn is_sampled(&mut self) {
        self.sampled = 1;
    }
}

/// Tries a property on every input.
///
/// # Panics
///
/// When it does not hold for one of them. All of them are tried before.
pub(crate) fn try_all<T: Sync>(
    property: &str,
    inputs: &[T],
    name: impl Fn(&T) -> &str + Sync,
    check: impl Fn(&T, &mut Trial) + Sync,
) {
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Trial::default()));
    let work = || {
        while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut trial = Trial::default();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(input, &mut trial))) {
                trial.failures.push(message(&*panic).to_owned());
            }
            let mut total = total.lock().unwrap();
            total.count += trial.count;
            total.sampled += trial.sampled;
            total.failures.extend(trial.failures.iter().map(|failure| format!("{}: {failure}", name(input))));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let Trial { count, sampled, mut failures } = total.into_inner().unwrap();
    failures.sort();
    // Past the capture of the test's output: the totals belong into every log.
    let report = format!(
        "property {property}: {count} variations of {} inputs, {sampled} of them sampled\n",
        inputs.len()
    );
    std::io::stderr().write_all(report.as_bytes()).unwrap();
    assert!(count > 0, "the property {property} was tried on nothing");
    let shown = failures.iter().take(SHOWN).map(|failure| format!("\n\n{failure}")).collect::<String>();
    assert!(failures.is_empty(), "the property {property} does not hold {} times:{shown}", failures.len());
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
