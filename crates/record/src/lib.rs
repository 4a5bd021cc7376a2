//! Records events of the kernel (`perf_event_open(2)`) into `perf.data`, or hands the records to a
//! callback in the same process.
//!
//! ```text
//! RecorderOptions -> Recorder -> Recording -> RecordingResult
//!                    plan        process      ledger
//!
//! kernel -> ring buffers -> capture (headers, ids) -> output (write, mmap, direct, queue, zstd) -> perf.data
//!                              |                        \- or RecordSink: a callback           ^
//!                              +-- ledger: samples, losses, cost --- in a note at the end -----+
//! ```
//!
//! - [`RecorderOptions`] choose the events and the tasks or CPUs to record. A [`Recorder`] plans
//!   the recording on this machine: it tries the events on the kernel, and [`Recorder::plan`] lists
//!   the events to open.
//! - [`Recorder::start`] opens the events and returns a [`Recording`]. The caller waits for its
//!   descriptor (`AsFd`) and its [`Recording::deadline`], and calls [`Recording::process`]. There
//!   are further threads only for more readers than one (by default one per 32 CPUs), and if the
//!   output needs one.
//! - [`Recording::finish`] returns the ledger (samples, losses and cost) and the output's figures.
//! - [`Output`](output::Output) is a file, several files, a stream, or a
//!   [`RecordSink`](output::RecordSink).
//! - Nothing here prints, reads the environment, exits, or handles a signal. Warnings and errors
//!   are values ([`Warning`], [`PlanError`], [`RecordError`]). A caller blocks or ignores SIGXFSZ
//!   and SIGPIPE, which limits and closed pipes send to a writer; if an output is mapped
//!   ([`PathChoice::Mmap`](output::PathChoice::Mmap)), it handles SIGBUS
//!   (`tare_kernel::file_window::catch_bus_errors`), which the kernel sends to a writer of a mapped
//!   file that another process has truncated.
//! - Memory for records from ring buffers is bounded: by the buffers' size, by the output's queue,
//!   and by the flight recorder's limit if only the last seconds are kept.
//! - `perf_event_open(2)`, clock and disk are behind traits: see [`Backend`], [`clock::Clock`] and
//!   [`output::disk::Disk`]. BPF programs and off-CPU time always use the running kernel.
//!
//! # Example
//! Records a thread of this process from another thread, and counts the bytes of records as they
//! come:
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::sync::{Arc, mpsc};
//!
//! use rustix::event::{PollFd, PollFlags, Timespec, poll};
//! use tare_format::file::writer::Description;
//! use tare_record::options::{Cpus, RecorderOptions, Target};
//! use tare_record::output::{Output, RecordSink, SinkClosed};
//! use tare_record::{Backend, Recorder, RecordingState, Start};
//!
//! /// Counts bytes of records.
//! struct Counter(Arc<AtomicU64>);
//!
//! impl RecordSink for Counter {
//!     fn begin(&mut self, _events: &Description) -> ControlFlow<SinkClosed> {
//!         ControlFlow::Continue(())
//!     }
//!
//!     fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
//!         self.0.fetch_add(records.len() as u64, Ordering::Relaxed);
//!         ControlFlow::Continue(())
//!     }
//! }
//!
//! let (tell, told) = mpsc::channel();
//! let (stop, stopped) = mpsc::channel::<()>();
//! let busy = std::thread::spawn(move || {
//!     tell.send(rustix::thread::gettid().as_raw_nonzero().get()).ok();
//!     while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {}
//! });
//! let target = Target::Threads(vec![told.recv()?], Cpus::All);
//! let recorder = Recorder::new(RecorderOptions { target, ..RecorderOptions::default() }, Backend::default())?;
//! print!("{}", recorder.plan());
//!
//! let bytes = Arc::new(AtomicU64::new(0));
//! let output = Output::to_sink(Box::new(Counter(Arc::clone(&bytes))));
//! let mut recording = recorder.start(Start { output, command: None, gives_other_rights: false, files: None })?;
//! while recording.status().samples < 10 && *recording.process()? == RecordingState::Recording {
//!     let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
//!     poll(&mut [PollFd::new(&recording, PollFlags::IN)], Some(&soon))?;
//! }
//! let finished = recording.finish(None)?;
//! stop.send(()).ok();
//! busy.join().ok();
//! assert!(finished.ledger.events[0].samples >= 10 && bytes.load(Ordering::Relaxed) > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod capture;
pub mod clock;
pub mod describe;
mod error;
mod follow;
mod keep;
mod off_cpu;
pub mod options;
pub mod output;
pub mod own_file;
mod own_threads;
pub mod plan;
mod process_file;
mod recorder;
mod recording;
pub mod registers;
mod ring_memory;
mod session;
pub mod synthesize;
mod warning;

pub use error::{FilterError, InheritOption, NotFollowed, NotTaken, PlanError, RecordError};
pub use follow::Following;
pub use options::RecorderOptions;
pub use own_threads::event_filter;
pub use recorder::Recorder;
pub use recording::{Recording, RecordingResult, RecordingState, SlowRate, Status, StopReason};
pub use session::{Backend, CostOfSample, Start};
pub use warning::{Feature, FinishedFile, Notice, RingLimit, Warning};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
