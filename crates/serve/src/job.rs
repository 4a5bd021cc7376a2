//! A question that is being answered: its progress, and its end if the client leaves.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tare_store::ScanProgress;

use crate::error::ServeError;
use crate::response::{PAGE_POLICY, PatientWriter, write_head};

/// How often a client hears of the progress.
const PROGRESS_TIME: Duration = Duration::from_millis(200);

/// Most questions that are answered at a time; others wait.
const MAX_JOBS: usize = 4;

/// A question that is being answered.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) progress: Arc<ScanProgress>,
}

impl Job {
    /// Returns whether its client is gone.
    pub(crate) fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }
}

/// Limits the questions that are answered at a time.
#[derive(Debug, Default)]
pub(crate) struct JobSlots {
    running: Mutex<usize>,
    changed: Condvar,
}

/// A place among the questions that are answered.
struct JobSlot<'a>(&'a JobSlots);

impl Drop for JobSlot<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_one();
    }
}

impl JobSlots {
    fn wait(&self, job: &Job) -> Result<JobSlot<'_>, ServeError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= MAX_JOBS {
            if job.is_stopped() {
                return Err(ServeError::Stopped);
            }
            let waited = self.changed.wait_timeout(running, PROGRESS_TIME);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *running += 1;
        Ok(JobSlot(self))
    }

    /// Answers a question on a thread of its own. `tick` runs while it lasts; if it fails, the
    /// client is gone and the question ends.
    ///
    /// # Errors
    /// Fails as the question does.
    pub(crate) fn run<T: Send>(
        &self,
        ask: impl FnOnce(&Job) -> Result<T, ServeError> + Send,
        mut tick: impl FnMut(&Job) -> io::Result<()>,
    ) -> Result<T, ServeError> {
        let job = Job::default();
        let (to_client, answers) = channel();
        std::thread::scope(|scope| {
            let shared = &job;
            let worker = std::thread::Builder::new().name("question".to_owned());
            worker.spawn_scoped(scope, move || {
                let answer = self.wait(shared).and_then(|_slot| ask(shared));
                // The client may be gone.
                let _ = to_client.send(answer);
            })?;
            loop {
                match answers.recv_timeout(PROGRESS_TIME) {
                    Ok(answer) => return answer,
                    Err(RecvTimeoutError::Timeout) => {
                        if tick(&job).is_err() {
                            job.progress.stop();
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => return Err(ServeError::Stopped),
                }
            }
        })
    }

    /// Answers a question as lines of JSON: progress while it lasts, then the answer or the error.
    ///
    /// # Errors
    /// Fails if the client is gone.
    pub(crate) fn stream(
        &self,
        stream: &TcpStream,
        ask: impl FnOnce(&Job) -> Result<Value, ServeError> + Send,
    ) -> io::Result<()> {
        let mut out = PatientWriter::new(stream)?;
        let policy = format!("Content-Security-Policy: {PAGE_POLICY}\r\n");
        write_head(&mut out, 200, "application/x-ndjson; charset=utf-8", &policy)?;
        let answer = self.run(ask, |job| {
            is_there(stream)?;
            out.extend();
            writeln!(out, "{}", json!({ "progress": job.progress.parts() }))
        });
        let line = match answer {
            Ok(answer) => json!({ "answer": answer }),
            Err(ServeError::Stopped) => return Ok(()),
            Err(error) => json!({ "error": error.to_string() }),
        };
        out.extend();
        out.write_all(format!("{line}\n").as_bytes())
    }
}

/// Fails if the client has closed its connection.
pub(crate) fn is_there(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
    match stream.peek(&mut [0]) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_ends_with_its_client() {
        let ask = |job: &Job| -> Result<(), ServeError> {
            while !job.is_stopped() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(ServeError::Stopped)
        };
        let gone = |_: &Job| Err(io::ErrorKind::BrokenPipe.into());
        assert!(matches!(JobSlots::default().run(ask, gone), Err(ServeError::Stopped)));
    }

    #[test]
    fn further_questions_wait() {
        let slots = JobSlots::default();
        let most = Mutex::new([0, 0]);
        let ask = |_: &Job| {
            let add = |by: i32| {
                let mut counts = most.lock().unwrap();
                counts[0] += by;
                counts[1] = counts[1].max(counts[0]);
            };
            add(1);
            std::thread::sleep(Duration::from_millis(5));
            add(-1);
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..4 * MAX_JOBS {
                scope.spawn(|| slots.run(ask, |_| Ok(())).unwrap());
            }
        });
        let [running, most] = *most.lock().unwrap();
        assert_eq!(running, 0);
        assert!((1..=4).contains(&most), "{most} at a time");
    }
}
