//! The one timer of a turn.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    task::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

/// Far enough away never to come, and near enough for every platform's clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// One timer for whatever a turn waits for next, bounded by the turn's total.
///
/// It is armed with every chunk and hardly ever goes off, so arming it only notes the time: the runtime's timer is
/// moved when it goes off too early, which is once in a timeout and not once in a chunk. Nor is the runtime's timer
/// polled again while it would wake the same task.
#[derive(Default)]
pub(crate) struct Timer {
    /// Goes off at the armed time or earlier.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whom `sleep` wakes.
    waker: Option<Waker>,
    armed: Option<Instant>,
    total: Option<Instant>,
}

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The time that was armed last.
    Armed,
    /// The total of the turn.
    Total,
}

impl Timer {
    /// Starts the total of the turn, if it has one.
    pub(crate) fn start(&mut self, total: Option<Duration>) {
        self.total = total.map(after);
    }

    /// Sets the timer to go off after `wait`, or with the total if that is earlier. `None` waits for the
    /// total alone.
    pub(crate) fn arm(&mut self, wait: Option<Duration>) {
        let armed = after(wait.unwrap_or(NEVER));
        let at = self.total.map_or(armed, |total| total.min(armed));
        self.armed = Some(at);
        match &mut self.sleep {
            Some(sleep) if sleep.deadline() <= at => {}
            Some(sleep) => {
                sleep.as_mut().reset(at);
                self.waker = None;
            }
            None => self.sleep = Some(Box::pin(sleep_until(at))),
        }
    }

    /// Waits for what was armed.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Expired> {
        let (Some(sleep), Some(armed)) = (&mut self.sleep, self.armed) else { return Poll::Pending };
        let knows_waker = self.waker.as_ref().is_some_and(|known| is_same(known, context.waker()));
        if knows_waker && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.waker = Some(context.waker().clone());
        loop {
            // The runtime's timer does not even note the waker of a task that has done too much in a row.
            ready!(pin!(unconstrained(sleep.as_mut())).poll(context));
            if sleep.deadline() >= armed {
                return Poll::Ready(if self.is_total_over() { Expired::Total } else { Expired::Armed });
            }
            sleep.as_mut().reset(armed);
        }
    }

    /// Whether the turn's total has run out. A body that never pauses never waits for the timer.
    pub(crate) fn is_total_over(&self) -> bool {
        self.total.is_some_and(|total| Instant::now() >= total)
    }

    /// Whether the turn's total leaves room for a wait.
    pub(crate) fn has_room_for(&self, wait: Duration) -> bool {
        self.total.is_none_or(|total| after(wait) < total)
    }
}

/// Whether two wakers do the same. [`Waker::will_wake`] takes a clone for another one where the compiler has made
/// several copies of a table, which then are equal and do not lie in the same place.
fn is_same(one: &Waker, other: &Waker) -> bool {
    one.data() == other.data() && one.vtable() == other.vtable()
}

fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now + NEVER)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        spawn,
        task::{coop::consume_budget, yield_now},
        time::{advance, timeout},
    };

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// More than the runtime lets a task do in a row.
    const ENOUGH: usize = 200;

    /// Begins anew what the task may do in a row, and does so much of it.
    async fn spend(budget: usize) {
        yield_now().await;
        for _ in 0..budget {
            consume_budget().await;
        }
    }

    /// Waits for the timer, in a task that nothing else wakes; then what ran out, and when. Nothing, if it never
    /// goes off. The task has done so much in a row before.
    async fn expiry(mut timer: Timer, began: Instant, budget: usize) -> Option<(Expired, Duration)> {
        let task = spawn(async move {
            spend(budget).await;
            let expired = poll_fn(|context| timer.poll(context)).await;
            (expired, began.elapsed())
        });
        timeout(SECOND * 99, task).await.ok()?.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_a_busy_task_polls_first_goes_off_in_time() {
        for budget in 0..ENOUGH {
            let (mut timer, began) = (Timer::default(), Instant::now());
            timer.arm(Some(SECOND));
            assert_eq!(expiry(timer, began, budget).await, Some((Expired::Armed, SECOND)), "{budget}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_a_busy_task_moves_goes_off_in_time() {
        for budget in 0..ENOUGH {
            let (mut timer, began) = (Timer::default(), Instant::now());
            timer.arm(Some(SECOND));
            assert!(timer.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            // It is only noted, and the runtime's timer is moved when it goes off too early.
            timer.arm(Some(SECOND * 3));
            advance(SECOND * 2).await;
            assert_eq!(expiry(timer, began, budget).await, Some((Expired::Armed, SECOND * 3)), "{budget}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_wakes_whoever_polled_it_last() {
        let (mut timer, began) = (Timer::default(), Instant::now());
        timer.arm(Some(SECOND));
        assert!(timer.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(expiry(timer, began, 0).await, Some((Expired::Armed, SECOND)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_goes_off_with_the_total_if_that_is_earlier() {
        let (mut timer, began) = (Timer::default(), Instant::now());
        timer.start(Some(SECOND * 2));
        timer.arm(Some(SECOND * 3));
        assert_eq!(expiry(timer, began, 0).await, Some((Expired::Total, SECOND * 2)));
    }
}
