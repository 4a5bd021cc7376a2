//! Addresses with their symbols: one beside a sample, or a call chain below it.

use std::collections::HashMap;

use tare_format::record::Sample;

use super::inline::{InlineRequest, OpenLines, may_have_lines, within};
use super::line;
use crate::cli::resolved::script::Script;
use tare_render::script::Fields;
use tare_replay::{CodeAddress, DsoAddress, Machine, Replayed};

/// Texts that are kept: most addresses come many times.
const KEPT: usize = 1 << 16;

/// The text of a symbol, and whether call chains end with it.
#[derive(Clone, Debug)]
struct SymbolText {
    text: Box<[u8]>,
    is_last: bool,
}

/// Writes addresses.
#[derive(Debug)]
pub(super) struct Chains {
    named: HashMap<(DsoAddress, Fields), SymbolText, foldhash::fast::RandomState>,
    max_stack: usize,
    stop_at: Vec<String>,
    chain: Vec<CodeAddress>,
    inline: bool,
    with_paths: bool,
    /// Lines for which debug info is to be asked.
    pub(super) open: OpenLines,
    /// Columns that the longest `data_src` took so far.
    pub(super) data_source_width: usize,
}

impl Chains {
    pub(super) fn new(script: &Script) -> Self {
        let (named, chain) = Default::default();
        let max_stack = script.max_stack;
        let stop_at = script.stop_at.clone();
        let inline = script.inline;
        let with_paths = script.full_source_paths;
        let open = OpenLines::new(with_paths);
        let data_source_width = 0;
        Self { named, max_stack, stop_at, chain, inline, with_paths, open, data_source_width }
    }

    /// Adds an address in its line: `      ffff1234 symbol+0x12 (file)`.
    pub(super) fn address(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        pid: i32,
        CodeAddress { mode, address: ip }: CodeAddress,
        fields: Fields,
    ) {
        if fields.contains(Fields::IP) {
            text.push(b' ');
            line::hex(text, ip, 16);
        }
        let at = machine.dso_address(mode, pid, ip);
        let with_line =
            at.filter(|at| fields.contains(Fields::SRCLINE) && may_have_lines(machine, *at));
        if let Some(at) = with_line {
            let with_paths = self.with_paths;
            let asked = InlineRequest { at, within: at, fields, with_inlined: false, with_paths };
            self.open.push(text.len(), b"", b"", asked);
        } else {
            self.symbol(text, machine, at, fields);
        }
    }

    /// Adds a call chain, a line for each frame.
    pub(super) fn chain(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        fields: Fields,
    ) {
        let mut chain = std::mem::take(&mut self.chain);
        machine.callchain(sample, self.max_stack, &mut chain);
        let asks = self.inline || fields.contains(Fields::SRCLINE);
        let mut mode_before = None;
        for CodeAddress { mode, address: ip } in &chain {
            // Each part begins where the CPU was, and goes on with return addresses.
            let is_caller = mode_before.replace(*mode) == Some(*mode);
            let at = machine.dso_address(*mode, sample.fields.head.pid.unwrap_or(-1), *ip);
            let begin = text.len();
            if fields.contains(Fields::IP) {
                // An address of a program's file says more than one of a process that is gone.
                let shown = at.filter(|at| is_user(machine, *at)).map_or(*ip, |at| at.address);
                text.push(b'\t');
                line::hex(text, shown, 16);
            }
            let is_last = match at.filter(|at| asks && may_have_lines(machine, *at)) {
                Some(at) => {
                    let within = within(at, is_caller);
                    let with_inlined = self.inline;
                    let with_paths = self.with_paths;
                    let asked = InlineRequest { at, within, fields, with_inlined, with_paths };
                    self.open.push(begin, &text[begin..], b"\n", asked);
                    text.truncate(begin);
                    !self.stop_at.is_empty() && self.name(machine, at, Fields::SYM).is_last
                }
                None => {
                    let is_last = self.symbol(text, machine, at, fields);
                    text.push(b'\n');
                    is_last
                }
            };
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
        at: Option<DsoAddress>,
        fields: Fields,
    ) -> bool {
        let shown = fields & (Fields::SYM | Fields::SYMOFF | Fields::DSO);
        let Some(at) = at else {
            text.extend_from_slice(if shown.contains(Fields::SYM) { b" [unknown]" } else { b"" });
            text.extend_from_slice(if shown.contains(Fields::DSO) { b" ([unknown])" } else { b"" });
            return false;
        };
        if let Some(named) = self.named.get(&(at, shown)) {
            text.extend_from_slice(&named.text);
            return named.is_last;
        }
        let named = self.name(machine, at, shown);
        text.extend_from_slice(&named.text);
        let is_last = named.is_last;
        if self.named.len() >= KEPT {
            self.named.clear();
        }
        self.named.insert((at, shown), named);
        is_last
    }

    fn name(&self, machine: &mut Machine, at: DsoAddress, shown: Fields) -> SymbolText {
        let mut text = Vec::new();
        let mut is_last = false;
        if shown.contains(Fields::SYM) {
            text.push(b' ');
            match machine.symbol(at) {
                Ok(symbol) => {
                    let name = machine.symbol_name(symbol);
                    line::name(&mut text, name.as_bytes());
                    is_last = self.stop_at.iter().any(|stop| stop == name);
                    if shown.contains(Fields::SYMOFF) {
                        text.extend_from_slice(b"+0x");
                        line::hex(&mut text, at.address.wrapping_sub(symbol.start), 0);
                    }
                }
                Err(_) => text.extend_from_slice(b"[unknown]"),
            }
        }
        if shown.contains(Fields::DSO) {
            text.extend_from_slice(b" (");
            line::name(&mut text, machine.dso_name(at.dso));
            text.push(b')');
        }
        SymbolText { text: text.into(), is_last }
    }
}

fn is_user(machine: &Machine, at: DsoAddress) -> bool {
    machine.dso(at.dso).is_some_and(|dso| !dso.kind.is_kernel())
}
