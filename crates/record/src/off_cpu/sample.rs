//! Waits as samples of the event `offcpu-time`.

use tare_events::Event;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Sampling};
use tare_format::record::{RecordHeader, TooLong};
use tare_kernel::bpf::REGISTERS;

use crate::registers;

/// perf's name for the event of its `--off-cpu`.
pub(crate) const EVENT: &str = "offcpu-time";

/// Fields of samples with call chains from stack copies, as in [`Attr::sample_type`].
const CHAINS: u32 =
    abi::PERF_SAMPLE_CALLCHAIN | abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER;

/// Returns the event, which is never opened. In perf it is the output of BPF programs
/// (`off_cpu_config` in `tools/perf/util/bpf_off_cpu.c`); perf reads its samples like any other
/// event's, unless they contain raw data.
pub(crate) fn event() -> Event {
    let kind = abi::PERF_TYPE_SOFTWARE;
    let config = u64::from(abi::PERF_COUNT_SW_BPF_OUTPUT);
    Event::new(EVENT, Attr { kind, config, sampling: Sampling::Period(1), ..Attr::default() })
}

/// The fields of the event's samples. `addr` names the user stack, the weight is the number of
/// waits, and with `wakers` the transaction field names the waker.
pub(crate) fn fields(chains: bool, copies: bool, wakers: bool) -> u64 {
    let always = abi::PERF_SAMPLE_IDENTIFIER
        | abi::PERF_SAMPLE_IP
        | abi::PERF_SAMPLE_TID
        | abi::PERF_SAMPLE_TIME
        | abi::PERF_SAMPLE_ADDR
        | abi::PERF_SAMPLE_CPU
        | abi::PERF_SAMPLE_PERIOD
        | abi::PERF_SAMPLE_WEIGHT;
    let chains = match (chains, copies) {
        (false, _) => 0,
        (true, false) => abi::PERF_SAMPLE_CALLCHAIN,
        (true, true) => CHAINS,
    };
    let wakers = if wakers { abi::PERF_SAMPLE_TRANSACTION } else { 0 };
    u64::from(always | chains | wakers)
}

/// A sample of waits, or one that introduces a user stack or a waker. Times are in the recording's
/// clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitSample<'a> {
    pub(crate) id: u64,
    pub(crate) ip: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time_ns: u64,
    /// Name of the user stack.
    pub(crate) user_key: u64,
    pub(crate) cpu: u32,
    pub(crate) ns: u64,
    pub(crate) waits: u64,
    /// Name of the waker.
    pub(crate) waker_key: u64,
    pub(crate) callchain: &'a [u64],
    /// User registers in the kernel's order, and a copy of the top of the stack.
    pub(crate) copy: Option<(&'a [u64; REGISTERS], &'a [u8])>,
}

impl WaitSample<'_> {
    /// Appends the record, with the fields of the event's samples.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub(crate) fn encode(&self, fields: u64, into: &mut Vec<u8>) -> Result<(), TooLong> {
        let has = |field: u32| fields & u64::from(field) != 0;
        let mut body = Vec::with_capacity(128 + 8 * self.callchain.len());
        let mut word = |word: u64| body.extend(word.to_ne_bytes());
        word(self.id);
        word(self.ip);
        word(pair(self.pid, self.tid));
        word(self.time_ns);
        word(self.user_key);
        word(pair(self.cpu, 0));
        word(self.ns);
        if has(abi::PERF_SAMPLE_CALLCHAIN) {
            word(self.callchain.len() as u64);
            self.callchain.iter().for_each(|address| word(*address));
        }
        if has(abi::PERF_SAMPLE_REGS_USER) {
            match self.copy {
                None => word(u64::from(abi::PERF_SAMPLE_REGS_ABI_NONE)),
                Some((of, _)) => {
                    word(u64::from(abi::PERF_SAMPLE_REGS_ABI_64));
                    registers::in_perfs_order(of).for_each(word);
                }
            }
            let stack = self.copy.map_or(&[][..], |(_, stack)| stack);
            let size = stack.len() as u64 / 8 * 8;
            body.extend(size.to_ne_bytes());
            body.extend(stack.get(..stack.len() / 8 * 8).unwrap_or_default());
            if size > 0 {
                body.extend(size.to_ne_bytes());
            }
        }
        body.extend(self.waits.to_ne_bytes());
        if has(abi::PERF_SAMPLE_TRANSACTION) {
            body.extend(self.waker_key.to_ne_bytes());
        }
        // `PERF_RECORD_MISC_KERNEL`: tasks wait in the kernel.
        let misc = u16::try_from(abi::PERF_RECORD_MISC_KERNEL).unwrap_or(0);
        into.extend(RecordHeader::new(abi::PERF_RECORD_SAMPLE, misc, body.len())?.encode());
        into.append(&mut body);
        Ok(())
    }
}

/// Packs two 32-bit numbers, the first at the lower address.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use tare_format::record::{Layout, RawRecord, Sample};
    use tare_format::{Endian, Words};

    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written() {
        let registers: [u64; REGISTERS] = std::array::from_fn(|at| at as u64);
        let stack = [7; 20];
        let sample = WaitSample {
            id: 1 << 62,
            ip: 2,
            pid: 3,
            tid: 4,
            time_ns: 5,
            user_key: 6,
            cpu: 7,
            ns: 8,
            waits: 9,
            waker_key: 12,
            callchain: &[10, 11],
            copy: None,
        };
        for (chains, copy) in [(false, false), (true, false), (true, true)] {
            let fields = fields(chains, copy, copy);
            let attr = Attr {
                sample_type: fields,
                sample_regs_user: registers::user_registers(),
                ..event().attr
            };
            let sample = WaitSample { copy: copy.then_some((&registers, &stack[..])), ..sample };
            let mut bytes = Vec::new();
            sample.encode(fields, &mut bytes).unwrap();
            let body = &bytes[8..];
            let raw = RawRecord { kind: 9, misc: 1, body, endian: Endian::NATIVE };
            let read = Sample::decode(&raw, &Layout::from(&attr)).unwrap();
            assert_eq!(
                (read.head.period, read.head.addr, read.weight),
                (Some(8), Some(6), Some(9))
            );
            assert_eq!(read.transaction, copy.then_some(12));
            assert_eq!(read.callchain.map(Words::len), chains.then_some(2));
            assert_eq!(read.stack_user.map(|stack| stack.bytes.len()), copy.then_some(16));
        }
    }
}
