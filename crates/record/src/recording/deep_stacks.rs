//! The program that copies the part of user stacks for which samples have no room, for the recorder
//! that unwinds them.
//!
//! ```text
//! start       a thread starts: filters name it
//!             a slot for the program is attached to the events, which tasks inherit from then on
//! enabled     the thread waits for LOAD_AFTER, and loads the program into the slot
//! loaded      it wakes the caller's thread, which reads the pieces
//! ```
//! Neither the start nor a short command waits for the load. Until then the chains of deep stacks are
//! truncated, and counted.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::gettid;
use rustix::time::ClockId;
use tare_format::ledger::UnwoundChains;
use tare_kernel::bpf::{BpfError, DeepStackSlot, DeepStacks};
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};

use super::Recording;
use crate::capture::opening::Events;
use crate::capture::poller::{Poller, WakeSource};
use crate::error::RecordError;
use crate::options::Keep;
use crate::output::Output;
use crate::plan::RecordPlan;
use crate::session::RecordSession;

/// Time from the start to loading. A command that ends sooner doesn't share its CPUs with the load.
const LOAD_AFTER: Duration = Duration::from_millis(10);

/// Why deep stacks aren't copied before the program is loaded.
const NOT_LOADED: &str = "the recording ended before the program that copies them was loaded";

/// Loads the program on a thread. Dropping it stops the program and ends the thread, without waiting
/// for it.
#[derive(Debug)]
pub(super) struct DeepStackLoader {
    /// Thread id, for filters. It stays in use until the recording ends, so that no recorded thread
    /// gets it.
    tid: i32,
    slot: Arc<DeepStackSlot>,
    begin: SyncSender<()>,
    loaded: Receiver<Result<DeepStacks, BpfError>>,
    /// Becomes readable when the program is loaded.
    ready: Arc<OwnedFd>,
}

/// The work of the thread.
struct LoadRequest {
    slot: Arc<DeepStackSlot>,
    /// Bytes that each sample copies.
    copied: u32,
    begin: Receiver<()>,
    loaded: SyncSender<Result<DeepStacks, BpfError>>,
    ready: Arc<OwnedFd>,
}

impl LoadRequest {
    /// Body of the thread.
    fn run(self) {
        let Self { slot, copied, begin, loaded, ready } = self;
        let is_due = begin.recv().is_ok()
            && begin.recv_timeout(LOAD_AFTER) == Err(RecvTimeoutError::Timeout);
        if is_due && loaded.send(DeepStacks::load(&slot, copied)).is_ok() {
            let _ = rustix::io::write(&*ready, &1_u64.to_ne_bytes());
        }
        drop(slot);
        // Returns when the recording ends.
        let _ = begin.recv();
    }
}

impl DeepStackLoader {
    /// Starts the thread, if deep stacks are to be copied. Returns the kernel's reason if they can't
    /// be.
    ///
    /// # Errors
    /// Fails if no thread or file descriptor is left.
    pub(super) fn start(
        session: &RecordSession,
        output: &Output,
    ) -> Result<Option<Result<Self, BpfError>>, RecordError> {
        let Some(copied) = copied_bytes(session, output) else { return Ok(None) };
        let slot = match session.backend.kernel.deep_stacks() {
            Ok(slot) => Arc::new(slot),
            Err(why) => return Ok(Some(Err(why))),
        };
        let (begin, begins) = sync_channel(1);
        let (give, loaded) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| RecordError::Thread(errno.into()))?;
        let ready = Arc::new(ready);
        let load = LoadRequest {
            slot: Arc::clone(&slot),
            copied,
            begin: begins,
            loaded: give,
            ready: Arc::clone(&ready),
        };
        let run = move || {
            // If a seccomp filter refuses the call, this thread keeps its capabilities.
            let _ = keep_while_measuring(CapabilitySet::empty());
            // The starting thread waits for this.
            let _ = tell.send(gettid().as_raw_nonzero().get());
            load.run();
        };
        let thread = std::thread::Builder::new().name("tare-deep".to_owned()).spawn(run);
        thread.map_err(RecordError::Thread)?;
        let gone = |_| RecordError::Thread(std::io::ErrorKind::BrokenPipe.into());
        Ok(Some(Ok(Self { tid: told.recv().map_err(gone)?, slot, begin, loaded, ready })))
    }

    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    /// Attaches the slot to the events that the recorder unwinds.
    pub(super) fn attach(&self, events: &Events, plan: &RecordPlan) -> Result<(), BpfError> {
        Ok(events.run_program(self.slot.program(), &plan.unwound)?)
    }

    /// Makes the thread load the program.
    pub(super) fn begin(&self) {
        // It only fails if the thread was asked before.
        let _ = self.begin.try_send(());
    }

    /// Wakes the caller's thread when the program is loaded.
    ///
    /// # Errors
    /// Fails if `poller` accepts no further descriptor.
    pub(super) fn add_to_poller(&self, poller: &Poller) -> Result<(), RecordError> {
        poller.add(self.ready.as_fd(), WakeSource::Ring).map_err(RecordError::Poll)
    }
}

/// Returns the bytes that each sample copies, if deep stacks are to be copied: if the recorder
/// unwinds samples, doesn't keep records back, and uses the program's clock.
fn copied_bytes(session: &RecordSession, output: &Output) -> Option<u32> {
    let RecordSession { plan, options, .. } = session;
    let copies = plan.unwound.iter().filter_map(|event| plan.events.get(*event));
    let copied = copies.map(|planned| planned.attr.sample_stack_user).min()?;
    let is_wanted = output.so_far().unwound.is_some()
        && options.rings.keep == Keep::All
        && options.sampling.clock == Some(ClockId::Monotonic as i32);
    is_wanted.then(|| copied.min(DeepStacks::SURE_BYTES))
}

/// Notes in the ledger how much of a stack will be copied, and that this hasn't begun; or why it
/// won't be.
pub(super) fn note(
    unwound: UnwoundChains,
    loader: Option<&Result<DeepStackLoader, BpfError>>,
) -> UnwoundChains {
    match loader {
        None => unwound,
        Some(Ok(_)) => UnwoundChains {
            copied_bytes: DeepStacks::MOST_BYTES,
            copies_lack: Some(NOT_LOADED.to_owned()),
            ..unwound
        },
        Some(Err(why)) => UnwoundChains { copies_lack: Some(why.first_line()), ..unwound },
    }
}

impl Recording {
    /// Reads the pieces that the program copies, if it was loaded since the last call.
    pub(super) fn take_deep_stacks(&mut self) -> Result<(), RecordError> {
        let loaded = self.sources.deep.as_ref().and_then(|loader| loader.loaded.try_recv().ok());
        let Some(loaded) = loaded else { return Ok(()) };
        let noted = self.account.ledger.unwound.get_or_insert_default();
        noted.copies_lack = None;
        match loaded {
            Ok(deep) => {
                let poller = &self.capture.poller;
                let add = |file| poller.add(file, WakeSource::Ring).map_err(RecordError::Poll);
                deep.wakes().map_or(Ok(()), add)?;
                self.capture.shared.read_deep_stacks(deep);
            }
            Err(why) => {
                noted.copied_bytes = 0;
                noted.copies_lack = Some(why.first_line());
            }
        }
        Ok(())
    }
}
