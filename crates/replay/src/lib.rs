//! Recordings of `perf record` and `tare record`, replayed: records go in as rings were drained,
//! samples come out in order of time, each with the threads, address spaces and symbols of that
//! moment.
//!
//! ```text
//! file, pipe, folder --Recording--\
//! rings of this process -----------> Replay::push -> order of time -> Machine -> Sink
//!                                                                      |          |
//!                                     threads, mappings, build ids ----/          +- ProfileSink: sums up
//!                                                                                 \- yours: each sample
//! ```
//!
//! - [`Recording`] opens and reads; [`Replay`] orders, in bounded memory; [`Machine`] is the state
//!   of the recorded machine; a [`Sink`] takes what comes out.
//! - [`summarize`] does all of it for whoever wants a [`tare_profile::Profile`].
//! - Damage in a recording is no error. What is missing is in [`tare_profile::Losses`].
//!
//! A sink that counts samples by thread name:
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::ops::ControlFlow;
//! use std::path::Path;
//!
//! use tare_format::record::Sample;
//! use tare_replay::{Error, Machine, Options, Recording, Replay, Replayed, Sink};
//!
//! #[derive(Default)]
//! struct ByComm(BTreeMap<Vec<u8>, u64>);
//!
//! impl Sink for ByComm {
//!     type Error = Error;
//!
//!     fn sample(
//!         &mut self,
//!         machine: &mut Machine,
//!         sample: &Replayed<'_, Sample<'_>>,
//!     ) -> Result<ControlFlow<()>, Error> {
//!         let comm = sample.fields.head.tid.and_then(|tid| machine.comm(tid));
//!         *self.0.entry(comm.unwrap_or(b"?").to_vec()).or_default() += 1;
//!         Ok(ControlFlow::Continue(()))
//!     }
//! }
//!
//! let mut recording = Recording::open(Path::new("perf.data"))?;
//! let mut counts = ByComm::default();
//! let losses = Replay::new(Options::default()).run(&mut recording, &mut counts)?;
//! println!("{:?}, {} records lost", counts.0, losses.lost_records);
//! # Ok::<(), Error>(())
//! ```
#![forbid(unsafe_code)]

mod build_ids;
mod callchain;
mod copied_stack;
mod cpumode;
mod error;
mod event_name;
mod group;
mod machine;
mod profile;
mod recording;
mod replay;
mod replayed;
mod sink;
mod threads;
mod tracepoints;

pub use callchain::CodeAddress;
pub use cpumode::CpuMode;
pub use error::Error;
pub use group::{GroupCounts, Member};
pub use machine::{DsoAddress, Machine};
pub use profile::{ProfileOptions, ProfileSink, Summary, TimeRange, has_callchains, summarize};
pub use recording::Recording;
pub use replay::{Detail, Options, Replay};
pub use replayed::Replayed;
pub use sink::Sink;
pub use threads::Thread;
pub use tracepoints::Tracepoints;
