//! Replays recordings of `perf record` and `tare record`: the caller pushes records as ring buffers
//! were drained, and a sink receives samples in time order, each with the threads, address spaces
//! and symbols of its time.
//!
//! ```text
//! file, pipe, folder --Recording--\
//! rings of this process -----------> Replay::push -> order of time -> Machine -> Sink
//!                                                                      |          |
//!                                     threads, mappings, build ids ----/          |
//!                                                     ProfileSink: sums up -------+
//!                                                     yours: each sample ---------/
//! ```
//!
//! - [`Recording`] opens and reads; [`Replay`] sorts, in bounded memory; [`Machine`] is the state
//!   of the recorded machine; a [`Sink`] receives samples and other records.
//! - [`summarize`] returns the [`tare_profile::Profile`] of a whole recording.
//! - Damage in a recording isn't an error. [`tare_profile::Losses`] counts it.
//!
//! A sink that collects the thread and time of each sample, with the records of two ring buffers:
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use tare_format::Endian;
//! use tare_format::abi::Attr;
//! use tare_format::file::{Description, Entry, RecordedEvent};
//! use tare_format::record::{RawRecord, Sample, kind};
//! use tare_replay::{Error, Machine, ReplayOptions, Replay, Replayed, Sink};
//!
//! #[derive(Default)]
//! struct Times(Vec<(Option<i32>, Option<u64>)>);
//!
//! impl Sink for Times {
//!     type Error = Error;
//!
//!     fn sample(
//!         &mut self,
//!         _machine: &mut Machine,
//!         sample: &Replayed<'_, Sample<'_>>,
//!     ) -> Result<ControlFlow<()>, Error> {
//!         self.0.push((sample.fields.head.tid, sample.time_ns));
//!         Ok(ControlFlow::Continue(()))
//!     }
//! }
//!
//! // An event whose samples have PERF_SAMPLE_TID and PERF_SAMPLE_TIME.
//! let attr = Attr { sample_type: 1 << 1 | 1 << 2, ..Attr::default() };
//! let event = RecordedEvent { attr, ids: vec![], name: Some(b"cpu-clock".to_vec()) };
//! let description = Description::from_events(Endian::Little, [event]);
//! let mut replay = Replay::new(ReplayOptions::default());
//! let mut times = Times::default();
//! for (tid, time_ns) in [(8_u64, 20_u64), (8, 40), (7, 10), (7, 30)] {
//!     let body = [(tid << 32 | tid).to_le_bytes(), time_ns.to_le_bytes()].concat();
//!     let kind = kind::PERF_RECORD_SAMPLE;
//!     let record = RawRecord { kind, misc: 2, body: &body, endian: Endian::Little };
//!     let entry = Entry { offset: 0, record, description: &description, payload: None };
//!     let _ = replay.push(&entry, &mut times)?;
//! }
//! replay.finish(&description, &mut times)?;
//! let expected = [(7, 10), (8, 20), (7, 30), (8, 40)];
//! assert_eq!(times.0, expected.map(|(tid, time_ns)| (Some(tid), Some(time_ns))));
//! # Ok::<(), Error>(())
//! ```
//!
//! The samples of a file by thread name, without looking up addresses:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use tare_replay::{Error, ProfileOptions, Recording, summarize};
//!
//! let recording = Recording::open(Path::new("perf.data"))?;
//! let profile = summarize(recording, &ProfileOptions::default())?.profile;
//! for (row, weight) in profile.rows() {
//!     let comm = row.comm.map_or(&b"?"[..], |comm| profile.string(comm));
//!     println!("{:6} {}", weight.samples, String::from_utf8_lossy(comm));
//! }
//! # Ok::<(), Error>(())
//! ```
#![forbid(unsafe_code)]

mod ahead;
mod build_ids;
mod callchain;
mod copied_stack;
mod cpumode;
mod deep_stacks;
mod deferred;
mod due;
mod error;
mod event_name;
mod filter;
mod group;
mod jit;
mod live;
mod live_unwinder;
mod machine;
mod mapping_names;
mod off_cpu;
mod options;
mod own_threads;
mod profile;
mod reader;
mod recorded_chains;
mod recorded_time;
mod recording;
mod replay;
mod replayed;
mod sink;
mod stack_trimmer;
mod switch;
mod symbol_remedy;
mod tasks;
mod threads;
mod times;
mod tracepoints;
mod unwinding;
mod unwound_event;
mod waiting;

pub use callchain::CodeAddress;
pub use cpumode::CpuMode;
pub use error::Error;
pub use filter::{SampleFilter, SampleFilterOptions};
pub use group::{GroupCounts, Member};
pub use live::{Live, LiveOptions, LiveSink};
pub use live_unwinder::LiveUnwinder;
pub use machine::{FrameLocation, Machine};
pub use options::{ReplayOptions, SampleDetail};
pub use own_threads::{OwnThreads, own_tids};
pub use profile::{
    CodeDetail, ProfileOptions, ProfileSink, ProfileSummary, SampleSink, SampleSinkOptions,
    has_branches, has_callchains, summarize,
};
pub use recording::{Position, Recording};
pub use replay::Replay;
pub use replayed::Replayed;
pub use sink::{EventFilter, Sink};
pub use stack_trimmer::StackTrimmer;
pub use switch::{EventSwitch, SwitchState};
pub use symbol_remedy::{add_remedy_files, suggest_symbol_remedy};
pub use tare_symbols::DsoAddress;
pub use tasks::{TaskEntry, TaskList, TaskMapping};
pub use threads::Thread;
pub use times::{TimeRanges, TimeWindows};
pub use tracepoints::Tracepoints;
pub use unwound_event::UnwoundEvent;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
