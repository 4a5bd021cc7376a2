//! The attribute of one event: its settings, and the fields of its samples.

use tare_events::{CallGraph, Event};
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling as Sampled};

use super::copies::LARGEST_COPY;
use super::{is_software, is_traced};
use crate::error::PlanError;
use crate::options::{Callchains, Sampling};
use crate::registers::user_registers;

/// Fields of every event's reading: the ledger needs the time on a counter, and the number of lost
/// samples.
pub(super) const READ_FORMAT: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED
    .union(ReadFormat::TOTAL_TIME_RUNNING)
    .union(ReadFormat::ID)
    .union(ReadFormat::LOST);

/// Fields of every event's samples: id, task and time. An event's own term can leave out the time.
const ALWAYS: u64 =
    (abi::PERF_SAMPLE_IDENTIFIER | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME) as u64;

/// Settings that the attributes of a recording share.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttrDefaults<'a> {
    pub(super) sampling: &'a Sampling,
    /// Whether records must name their CPU: events are opened on whole CPUs, or tasks are followed
    /// on some CPUs only.
    pub(super) names_cpu: bool,
    pub(super) inherit: bool,
    /// Whether rings are overwritten.
    pub(super) overwrite: bool,
    /// Limit on the frames of call chains, if it isn't the kernel's usual one: a reader can't tell
    /// a truncated chain otherwise.
    pub(super) max_stack: Option<u16>,
}

impl AttrDefaults<'_> {
    /// Returns the attribute of an event, without the settings of its group and target.
    pub(super) fn attr(&self, event: &Event, rate: Sampled) -> Result<Attr, PlanError> {
        let mut attr = event.attr.clone();
        attr.sampling = rate;
        attr.read_format = READ_FORMAT;
        attr.sample_type = self.fields(event, rate);
        attr.flags |= Flags::SAMPLE_ID_ALL | Flags::DISABLED | Flags::WATERMARK;
        // 0 selects half of the ring, whatever its size (`ring_buffer_init` in the kernel).
        attr.wakeup = 0;
        attr.flags.set(Flags::INHERIT, event.inherit.unwrap_or(self.inherit));
        attr.flags.set(
            Flags::INHERIT_STAT,
            self.sampling.counts_of_threads && attr.flags.contains(Flags::INHERIT),
        );
        attr.flags.set(Flags::WRITE_BACKWARD, event.sampling.overwrite.unwrap_or(self.overwrite));
        self.set_clock(&mut attr);
        attr.sample_regs_user = self.sampling.user_registers;
        attr.sample_regs_intr = self.sampling.interrupt_registers;
        let registers = [
            (attr.sample_regs_user, abi::PERF_SAMPLE_REGS_USER),
            (attr.sample_regs_intr, abi::PERF_SAMPLE_REGS_INTR),
        ];
        for (_, field) in registers.into_iter().filter(|(registers, _)| *registers != 0) {
            attr.sample_type |= u64::from(field);
        }
        if let Some(branches) = event.sampling.branch_type.or(self.sampling.branches) {
            attr.sample_type |= u64::from(abi::PERF_SAMPLE_BRANCH_STACK);
            attr.branch_sample_type = branches;
        }
        if rate != Sampled::None {
            self.add_call_graph(event, &mut attr)?;
        }
        Ok(attr)
    }

    /// All events use one clock, so that records can be sorted by time.
    pub(super) fn set_clock(&self, attr: &mut Attr) {
        if let Some(clock) = self.sampling.clock {
            attr.flags |= Flags::USE_CLOCKID;
            attr.clockid = clock;
        }
    }

    fn fields(&self, event: &Event, rate: Sampled) -> u64 {
        let mut fields = ALWAYS | self.sampling.fields;
        let mut set = |field: u32, wanted: bool| {
            if wanted { fields |= u64::from(field) } else { fields &= !u64::from(field) }
        };
        set(abi::PERF_SAMPLE_TIME, event.sampling.time != Some(false));
        // Probes need no raw data, which hold only addresses.
        if event.attr.kind == abi::PERF_TYPE_TRACEPOINT {
            set(abi::PERF_SAMPLE_RAW, true);
        }
        if self.names_cpu || is_traced(event) {
            set(abi::PERF_SAMPLE_CPU, true);
        }
        if self.sampling.fields & u64::from(abi::PERF_SAMPLE_ADDR) != 0 {
            set(abi::PERF_SAMPLE_DATA_SRC, true);
        }
        // With this field and a fixed period, the kernel samples a software event at every
        // occurrence, whatever the period (`perf_swevent_event`). A fixed period needs no field
        // anyway, except that of a clock, which differs between a task and its children
        // (`varied_period`).
        let is_clock = super::is_clock(&event.attr) && rate != Sampled::None;
        let fixed_by_software = matches!(rate, Sampled::Period(_)) && is_software(event);
        let asked = self.sampling.fields & u64::from(abi::PERF_SAMPLE_PERIOD) != 0;
        set(
            abi::PERF_SAMPLE_PERIOD,
            is_clock || matches!(rate, Sampled::Frequency(_)) || asked && !fixed_by_software,
        );
        // The address of a tracepoint is the same in all samples, and its name says as much.
        let says_where = event.attr.kind != abi::PERF_TYPE_TRACEPOINT || rate != Sampled::Period(1);
        set(abi::PERF_SAMPLE_IP, says_where);
        fields
    }

    /// The source of the call chains in an event's samples.
    pub(super) fn call_graph(&self, event: &Event) -> CallGraph {
        let of_all = match is_traced(event) && !self.sampling.call_graph_of_tracepoints {
            true => CallGraph::No,
            false => self.sampling.call_graph,
        };
        // A stack depth or size implies the kind of call chain.
        let implied = event.sampling.stack_size.map(|_| CallGraph::Dwarf).or(event
            .sampling
            .max_stack
            .map(|_| match of_all {
                CallGraph::No => CallGraph::FramePointer,
                other => other,
            }));
        match event.sampling.call_graph.or(implied).unwrap_or(of_all) {
            // Without a user part there is nothing to unwind; neither is there if the kernel copies
            // no registers on this architecture.
            CallGraph::Auto
                if self.sampling.callchains == Callchains::Kernel || user_registers() == 0 =>
            {
                CallGraph::FramePointer
            }
            how => how,
        }
    }

    fn add_call_graph(&self, event: &Event, attr: &mut Attr) -> Result<(), PlanError> {
        let how = self.call_graph(event);
        if how == CallGraph::No {
            return Ok(());
        }
        attr.sample_type |= u64::from(abi::PERF_SAMPLE_CALLCHAIN | abi::PERF_SAMPLE_IP);
        attr.sample_max_stack = event.sampling.max_stack.or(self.max_stack).unwrap_or(0);
        attr.flags
            .set(Flags::EXCLUDE_CALLCHAIN_KERNEL, self.sampling.callchains == Callchains::User);
        attr.flags
            .set(Flags::EXCLUDE_CALLCHAIN_USER, self.sampling.callchains == Callchains::Kernel);
        match how {
            CallGraph::Auto | CallGraph::Dwarf | CallGraph::DwarfAndFramePointer => {
                if user_registers() == 0 {
                    return Err(PlanError::NoDwarf);
                }
                attr.sample_type |=
                    u64::from(abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER);
                attr.sample_regs_user |= user_registers();
                let bytes = Some(self.sampling.stack_bytes).filter(|bytes| *bytes > 0);
                attr.sample_stack_user =
                    event.sampling.stack_size.or(bytes).unwrap_or(LARGEST_COPY);
                if how == CallGraph::Dwarf {
                    attr.flags |= Flags::EXCLUDE_CALLCHAIN_USER;
                }
            }
            CallGraph::LastBranchRecord => {
                if attr.branch_sample_type != 0 {
                    return Err(PlanError::BranchesTwice { event: event.name.clone() });
                }
                attr.sample_type |= u64::from(abi::PERF_SAMPLE_BRANCH_STACK);
                attr.branch_sample_type = LBR_CALL_STACK | LBR_TERSE;
                attr.flags |= Flags::EXCLUDE_CALLCHAIN_USER;
            }
            CallGraph::DeferredFramePointer => {
                let has_user_part = !attr.flags.contains(Flags::EXCLUDE_CALLCHAIN_USER);
                attr.flags.set(Flags::DEFER_CALLCHAIN, has_user_part);
            }
            CallGraph::FramePointer | CallGraph::No => {}
        }
        Ok(())
    }
}

/// Branch records as a stack of user-space calls.
const LBR_CALL_STACK: u64 =
    (abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_CALL_STACK) as u64;
/// Omits branch fields that a call stack doesn't need (Linux 4.4), and adds the hardware's index of
/// the records (Linux 5.7).
pub(super) const LBR_TERSE: u64 = (abi::PERF_SAMPLE_BRANCH_NO_CYCLES
    | abi::PERF_SAMPLE_BRANCH_NO_FLAGS
    | abi::PERF_SAMPLE_BRANCH_HW_INDEX) as u64;
