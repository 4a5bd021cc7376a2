//! Addresses with their symbols: one beside a sample, or a call chain below it.

use std::collections::HashMap;

use tare_format::abi::bindings::{
    PERF_CONTEXT_HV, PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER,
};
use tare_format::record::Sample;

use super::fields::Fields;
use super::line;
use tare_replay::{Machine, Mode, Place};

/// Texts that are kept: most addresses come many times.
const KEPT: usize = 1 << 18;

/// The text of a symbol, and whether call chains end with it.
#[derive(Clone, Debug)]
struct Named {
    text: Box<[u8]>,
    is_last: bool,
}

/// Writes addresses.
#[derive(Debug)]
pub(super) struct Chains {
    named: HashMap<(Place, Fields), Named>,
    max_stack: usize,
    stop_at: Vec<String>,
    chain: Vec<(Mode, u64)>,
}

impl Chains {
    pub(super) fn new(max_stack: usize, stop_at: Vec<String>) -> Self {
        Self { named: HashMap::new(), max_stack, stop_at, chain: Vec::new() }
    }

    /// Adds an address in its line: `      ffff1234 symbol+0x12 (file)`.
    pub(super) fn address(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        (mode, pid): (Mode, i32),
        ip: u64,
        fields: Fields,
    ) {
        if fields.contains(Fields::IP) {
            text.push(b' ');
            line::hex(text, ip, 16);
        }
        let place = machine.place(mode, pid, ip);
        self.symbol(text, machine, place, fields);
    }

    /// Adds a call chain, a line for each frame.
    pub(super) fn chain(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Sample<'_>,
        fields: Fields,
    ) {
        let mut chain = std::mem::take(&mut self.chain);
        addresses(machine, sample, self.max_stack, &mut chain);
        for (mode, ip) in &chain {
            let place = machine.place(*mode, sample.head.pid.unwrap_or(-1), *ip);
            if fields.contains(Fields::IP) {
                // An address of a program's file says more than one of a process that is gone.
                let shown = place
                    .filter(|place| is_user(machine, *place))
                    .map_or(*ip, |place| place.address);
                text.push(b'\t');
                line::hex(text, shown, 16);
            }
            let is_last = self.symbol(text, machine, place, fields);
            text.push(b'\n');
            if is_last {
                break;
            }
        }
        self.chain = chain;
    }

    /// Adds what an address is called: ` symbol+0x12 (file)`.
    pub(super) fn symbol(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        place: Option<Place>,
        fields: Fields,
    ) -> bool {
        let shown = fields & (Fields::SYM | Fields::SYMOFF | Fields::DSO);
        let Some(place) = place else {
            text.extend_from_slice(if shown.contains(Fields::SYM) { b" [unknown]" } else { b"" });
            text.extend_from_slice(if shown.contains(Fields::DSO) { b" ([unknown])" } else { b"" });
            return false;
        };
        if let Some(named) = self.named.get(&(place, shown)) {
            text.extend_from_slice(&named.text);
            return named.is_last;
        }
        let named = self.name(machine, place, shown);
        text.extend_from_slice(&named.text);
        let is_last = named.is_last;
        if self.named.len() >= KEPT {
            self.named.clear();
        }
        self.named.insert((place, shown), named);
        is_last
    }

    fn name(&self, machine: &mut Machine, place: Place, shown: Fields) -> Named {
        let mut text = Vec::new();
        let mut is_last = false;
        if shown.contains(Fields::SYM) {
            text.push(b' ');
            match machine.symbol(place) {
                Ok(symbol) => {
                    let name = machine.symbol_name(symbol);
                    line::name(&mut text, name.as_bytes());
                    is_last = self.stop_at.iter().any(|stop| stop == name);
                    if shown.contains(Fields::SYMOFF) {
                        text.extend_from_slice(b"+0x");
                        line::hex(&mut text, place.address.wrapping_sub(symbol.start), 0);
                    }
                }
                Err(_) => text.extend_from_slice(b"[unknown]"),
            }
        }
        if shown.contains(Fields::DSO) {
            text.extend_from_slice(b" (");
            line::name(&mut text, machine.dso_name(place.dso));
            text.push(b')');
        }
        Named { text: text.into(), is_last }
    }
}

/// The addresses of a sample's call chain, the innermost first: at most `most` that were recorded,
/// and as many of a copied stack.
pub(super) fn addresses(
    machine: &mut Machine,
    sample: &Sample<'_>,
    most: usize,
    chain: &mut Vec<(Mode, u64)>,
) {
    chain.clear();
    let mut mode = Mode::User;
    for ip in sample.callchain.iter().flat_map(|recorded| recorded.iter()) {
        match ip {
            PERF_CONTEXT_HV => mode = Mode::Other,
            PERF_CONTEXT_KERNEL => mode = Mode::Kernel,
            PERF_CONTEXT_USER => mode = Mode::User,
            // Not a context but garbage that was taken for a return address: perf shows nothing of
            // such a chain.
            PERF_CONTEXT_MAX.. => return chain.clear(),
            _ if chain.len() >= most => break,
            _ => chain.push((mode, ip)),
        }
    }
    let mut unwound = Vec::new();
    machine.unwind(sample, most, &mut unwound);
    chain.extend(unwound.into_iter().map(|ip| (Mode::User, ip)));
}

fn is_user(machine: &Machine, place: Place) -> bool {
    machine.dso(place.dso).is_some_and(|dso| !dso.kind.is_kernel())
}
