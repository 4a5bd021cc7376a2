//! Tasks and interrupts that wake tasks.
//!
//! ```text
//! a new waker            symbol `woken by NAME` at an address of its own; sample without weight: its name
//!                        (`transaction`), its thread, its frames after that symbol
//! waits                  samples that name the waker
//! ```

use std::collections::{HashMap, HashSet};

use tare_format::abi::bindings::{PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER};
use tare_format::abi::{Attr, Flags};
use tare_format::record::encode::Encoder;
use tare_format::record::{Ksymbol, Layout, SampleId};
use tare_kernel::bpf::Waker;

use super::ID;
use super::reason::{MOST_WAKERS, SYMBOL, WAKERS, WaitFunctions};
use super::sample::WaitSample;

/// Limit on remembered wakers. When it is reached, all are forgotten, and introduced again when
/// they reappear.
const KNOWN: usize = 1 << 16;

/// The wakers that the current file knows.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    introduced: HashSet<u64>,
    names: HashMap<Vec<u8>, u64>,
}

impl Wakers {
    /// Appends the records that introduce a waker, unless it is known. `fields` is the samples'
    /// `sample_type`; `time_ns` precedes the ends of all waits of this drain.
    pub(super) fn introduce(
        &mut self,
        waker: &Waker<'_>,
        functions: &WaitFunctions,
        fields: u64,
        time_ns: u64,
        into: &mut Vec<u8>,
    ) {
        if self.introduced.len() >= KNOWN {
            self.introduced.clear();
        }
        if !self.introduced.insert(waker.key) {
            return;
        }
        let (kernel, by_interrupt) = functions.waker(waker.kernel);
        let comm = waker.comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = match (by_interrupt, waker.tid) {
            (true, _) => b"woken by an interrupt".to_vec(),
            (false, 0) => b"woken by an idle CPU".to_vec(),
            _ => [b"woken by ", comm].concat(),
        };
        let symbol = self.symbol(name, fields, time_ns, into);
        let mut callchain = vec![PERF_CONTEXT_KERNEL, symbol];
        callchain.extend_from_slice(kernel);
        if !by_interrupt && !waker.user.is_empty() {
            callchain.push(PERF_CONTEXT_USER);
            callchain.extend_from_slice(waker.user);
        }
        let sample = WaitSample {
            id: ID,
            ip: symbol,
            pid: waker.pid,
            tid: waker.tid,
            time_ns,
            user_key: if by_interrupt { 0 } else { waker.user_key },
            waker_key: waker.key,
            callchain: &callchain,
            ..WaitSample::default()
        };
        // The sample always fits into a record.
        _ = sample.encode(fields, into);
    }

    /// Returns the address of a waker's symbol, and appends the symbol's record if it is new. Above
    /// [`MOST_WAKERS`], new names share an address without a symbol.
    fn symbol(&mut self, name: Vec<u8>, fields: u64, time_ns: u64, into: &mut Vec<u8>) -> u64 {
        if let Some(known) = self.names.get(&name) {
            return *known;
        }
        let number = self.names.len() as u64;
        let addr = WAKERS + u64::from(SYMBOL) * number.min(MOST_WAKERS);
        if number < MOST_WAKERS {
            let flags = Flags::SAMPLE_ID_ALL;
            let layout = Layout::from(&Attr { sample_type: fields, flags, ..Attr::default() });
            let id = SampleId { id: Some(ID), time_ns: Some(time_ns), ..SampleId::default() };
            let symbol = Ksymbol { addr, len: SYMBOL, ksym_type: 0, flags: 0, name: &name };
            // Task names are short.
            _ = Encoder::new(&layout, &id).ksymbol(into, &symbol);
            self.names.insert(name, addr);
        }
        addr
    }
}
