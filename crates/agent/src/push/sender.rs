//! The thread that sends a target's requests, one after the other.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::outbox::Outbox;
use super::request::PushRequest;
use super::spool::PartId;
use crate::retry::pause_after;

/// Longest pause that a target may ask for.
const ASKED_PAUSE: Duration = Duration::from_secs(600);

/// Number of attempts at a request that a target answers with an error of its own.
const ATTEMPTS: u32 = 5;

/// Time between two attempts to lock the spool, which the sender of an earlier configuration holds
/// until its last request is answered.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// How a target answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetAnswer {
    /// It has the samples.
    Accepted,
    /// It won't accept the request.
    Refused(String),
    /// The request is tried again.
    Failed(SendFailure),
}

/// Why a request is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendFailure {
    /// What happened.
    pub(super) why: String,
    /// When the target asks for the next attempt.
    pub(super) after: Option<Duration>,
    /// Whether the request itself may be the cause: then the number of attempts is limited.
    pub(super) is_limited: bool,
}

impl SendFailure {
    /// A failure of the connection.
    pub(super) fn of_connection(why: String) -> Self {
        Self { why, after: None, is_limited: false }
    }
}

/// Sends a request and waits for the answer, for a limited time.
pub(super) trait Transport: Send {
    fn send(&mut self, request: &PushRequest) -> TargetAnswer;
}

/// The thread's work.
pub(super) struct Sender {
    pub(super) outbox: Arc<Outbox>,
    pub(super) transport: Box<dyn Transport>,
    /// Locked while requests of the spool are sent.
    pub(super) lock: File,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    number: u32,
    /// The request under way, and its attempts.
    attempts: Option<(PartId, u32)>,
}

impl Failures {
    /// Counts an attempt at a request, and returns their number.
    fn count(&mut self, id: PartId) -> u32 {
        let earlier = self.attempts.filter(|(of, _)| *of == id).map_or(0, |(_, number)| number);
        self.attempts = Some((id, earlier + 1));
        self.number += 1;
        earlier + 1
    }

    /// Returns the time until the next attempt.
    fn pause(&self, asked: Option<Duration>) -> Duration {
        let pause = pause_after(self.number);
        match asked {
            Some(asked) => asked.min(ASKED_PAUSE).mul_f64(1.0 + 0.1 * fastrand::f64()).max(pause),
            None => pause,
        }
    }
}

impl Sender {
    /// Sends requests until the agent ends.
    pub(super) fn run(mut self) {
        while flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if !self.outbox.pause(LOCK_PAUSE) {
                return;
            }
        }
        let mut failures = Failures::default();
        while let Some((id, file)) = self.outbox.next() {
            let Some(request) = file.read() else {
                self.outbox.refuse(id, file.samples, "a file of the spool is damaged".to_owned());
                continue;
            };
            match self.transport.send(&request) {
                TargetAnswer::Accepted => {
                    failures = Failures::default();
                    self.outbox.deliver(id, &request);
                }
                TargetAnswer::Refused(why) => self.outbox.refuse(id, request.samples, why),
                TargetAnswer::Failed(SendFailure { why, after, is_limited }) => {
                    let attempts = failures.count(id);
                    if is_limited && attempts >= ATTEMPTS {
                        self.outbox.refuse(id, request.samples, why);
                    } else {
                        self.outbox.retry(why);
                    }
                    if !self.outbox.pause(failures.pause(after)) {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_ask_for_a_longer_pause() {
        let pauses = |asked: u64| -> Vec<f64> {
            let failures = Failures { number: 1, attempts: None };
            let asked = Some(Duration::from_secs(asked));
            (0..200).map(|_| failures.pause(asked).as_secs_f64()).collect()
        };
        assert!(pauses(30).iter().all(|s| (30.0..=33.0).contains(s)));
        assert!(pauses(1 << 40).iter().all(|s| *s <= 660.0));
    }
}
