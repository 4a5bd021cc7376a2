//! Unwinds user call chains from recorded registers and copies of the stack, on several threads.
//! The result doesn't depend on their number.

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tare_format::abi::bindings::{PERF_SAMPLE_REGS_ABI_32, PERF_SAMPLE_REGS_ABI_64};
use tare_format::record::{Sample, SampleHead};
use tare_symbols::{
    AddressSpace, DsoTable, Registers, Stack, UnwindCache, UnwindOutcome, Unwinder, UnwoundFrame,
};

use crate::callchain;
use crate::deep_stacks::DeepStacks;

/// Stacks that a thread takes at a time.
const BATCH: usize = 16;

/// Minimum number of stacks per thread: starting one takes as long as unwinding about ten.
const WORTH_A_THREAD: usize = 64;

/// Limit of threads; more would wait for memory.
const THREADS: usize = 16;

/// A copied stack, with the registers and the address space to unwind it.
#[derive(Debug)]
pub(crate) struct CopiedStack<'a> {
    /// Number of records before its sample in the batch.
    pub(crate) position: usize,
    registers: Option<Registers>,
    /// The process's, at the time of the sample.
    pub(crate) space: Option<AddressSpace>,
    copy: Cow<'a, [u8]>,
    /// The user part of the recorded call chain.
    frame_pointers: Vec<u64>,
}

/// The frames of an unwound stack, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct StackFrames {
    pub(crate) frames: Vec<UnwoundFrame>,
    end: UnwindOutcome,
    /// Number of frames that come from the recorded call chain.
    spliced: usize,
}

impl StackFrames {
    /// Whether any comes from the recorded call chain.
    pub(crate) fn is_spliced(&self) -> bool {
        self.spliced > 0
    }

    /// Whether they reach the start of their thread.
    pub(crate) fn is_whole(&self) -> bool {
        self.end == UnwindOutcome::Whole
    }

    /// Whether they are right, and their callers are missing.
    pub(crate) fn is_truncated(&self) -> bool {
        self.end.is_truncated()
    }

    /// Returns the stack as addresses of code. `position` is the number of records before its
    /// sample.
    pub(crate) fn as_stack(&self, position: usize) -> UnwoundStack {
        let addresses = self.frames.iter().map(UnwoundFrame::code_address).collect();
        UnwoundStack { position, addresses, end: self.end, spliced: self.spliced }
    }
}

#[derive(Debug)]
pub(crate) struct UnwoundStack {
    pub(crate) position: usize,
    /// Innermost first.
    pub(crate) addresses: Vec<u64>,
    pub(crate) end: UnwindOutcome,
    /// Number of addresses that come from the recorded call chain.
    pub(crate) spliced: usize,
}

impl<'a> CopiedStack<'a> {
    /// Returns a sample's stack, or `None` if it lacks user registers or a copy of the user stack.
    pub(crate) fn from_sample(
        sample: &Sample<'a>,
        position: usize,
        space: Option<&AddressSpace>,
    ) -> Option<Self> {
        let recorded = sample.regs_user?;
        let stack = sample.stack_user.filter(|stack| stack.room > 0)?;
        // A kernel thread has no user stack.
        if recorded.abi == 0 {
            return None;
        }
        let by_number = |number| recorded.get(number);
        let registers = match u32::try_from(recorded.abi) {
            Ok(PERF_SAMPLE_REGS_ABI_64) => Registers::by_perf_number(by_number),
            Ok(PERF_SAMPLE_REGS_ABI_32) => Registers::by_perf_number_in_32_bits(by_number),
            _ => None,
        };
        Some(Self {
            position,
            registers,
            space: space.cloned(),
            copy: Cow::Borrowed(stack.bytes),
            frame_pointers: callchain::user_part(sample).collect(),
        })
    }

    pub(crate) fn stack_pointer(&self) -> Option<u64> {
        Some(self.registers?.stack_pointer())
    }

    /// Bytes of the copy.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.copy.len()
    }

    /// Continues the copy by a stack that was copied before the sample.
    pub(crate) fn continue_copy(&mut self, deep: &mut DeepStacks, head: &SampleHead) {
        if let Cow::Borrowed(copy) = self.copy
            && let Some(registers) = &self.registers
            && let Some(tid) = head.tid.and_then(|tid| u32::try_from(tid).ok())
            && let Some(time_ns) = head.time_ns
        {
            let registers = [registers.instruction_pointer(), registers.stack_pointer()];
            self.copy = deep.continue_copy(copy, tid, time_ns, registers);
        }
    }

    /// Returns the distance from the stack pointer to the base of the stack in bytes, if the
    /// stack's mapping is known.
    pub(crate) fn bytes_to_base(&self) -> Option<u64> {
        let sp = self.registers?.stack_pointer();
        Some(self.space.as_ref()?.find(sp)?.end - sp)
    }

    /// Unwinds the stack.
    pub(crate) fn unwind_frames(
        &self,
        unwinder: &Unwinder,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
    ) -> StackFrames {
        let mut frames = Vec::with_capacity(32);
        let (end, spliced) = match (&self.registers, &self.space) {
            (Some(registers), Some(space)) => {
                let stack =
                    Stack { registers, copy: &self.copy, frame_pointers: &self.frame_pointers };
                unwinder.unwind_frames(cache, dsos, space, &stack, &mut frames)
            }
            (Some(_), None) => (UnwindOutcome::NoMapping, 0),
            (None, _) => (UnwindOutcome::NoRegisters, 0),
        };
        StackFrames { frames, end, spliced }
    }
}

/// Makes a cache for each of `threads` threads, by default one per CPU of this process, and at most
/// [`THREADS`].
pub(crate) fn make_caches(threads: Option<NonZero<usize>>) -> Vec<UnwindCache> {
    let threads = threads.or_else(|| thread::available_parallelism().ok());
    let threads = threads.map_or(1, NonZero::get).min(THREADS);
    std::iter::repeat_with(UnwindCache::default).take(threads).collect()
}

/// Unwinds stacks on at most one thread per cache, and returns them in their order.
pub(crate) fn unwind_all(
    unwinder: &Unwinder,
    caches: &mut [UnwindCache],
    dsos: &DsoTable,
    stacks: &[CopiedStack<'_>],
) -> Vec<UnwoundStack> {
    let next = AtomicUsize::new(0);
    let work =
        |cache: &mut UnwindCache| {
            let mut done = Vec::new();
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                let Some(batch) = stacks.get(first..) else { return done };
                let batch = batch.iter().take(BATCH);
                done.extend(batch.map(|stack| {
                    stack.unwind_frames(unwinder, cache, dsos).as_stack(stack.position)
                }));
            }
        };
    let Some((own, others)) = caches.split_first_mut() else { return Vec::new() };
    let helpers = (stacks.len() / WORTH_A_THREAD).saturating_sub(1).min(others.len());
    let mut done = thread::scope(|scope| {
        let spawned = others.iter_mut().take(helpers).map_while(|cache| {
            // If no more threads can be started, the others unwind all stacks.
            thread::Builder::new().spawn_scoped(scope, || work(cache)).ok()
        });
        let spawned: Vec<_> = spawned.collect();
        let mut done = work(own);
        for thread in spawned {
            done.append(
                &mut thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        done
    });
    done.sort_unstable_by_key(|stack| stack.position);
    done
}
