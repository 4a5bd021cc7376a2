//! Prints addresses with their symbols: one in the line of a sample, or a call chain below it.

use std::collections::HashMap;

use tare_format::record::Sample;
use tare_render::script::{Fields, hex, name};
use tare_replay::{CodeAddress, DsoAddress, FrameLocation, Machine, Replayed};

use crate::options::ScriptOptions;
use crate::pending::{FrameRequest, PendingLines, may_have_lines};

/// Maximum number of cached texts. Most addresses occur many times.
const CACHED: usize = 1 << 16;

/// The text of a symbol.
#[derive(Clone, Debug)]
struct SymbolText {
    text: Box<[u8]>,
    ends_chain: bool,
}

/// Prints addresses.
#[derive(Debug)]
pub(crate) struct AddressPrinter {
    /// By the address in its DSO, whether it is a return address, and the printed fields.
    texts: HashMap<(DsoAddress, bool, Fields), SymbolText, foldhash::fast::RandomState>,
    max_stack: usize,
    stop_at: Vec<String>,
    chain: Vec<CodeAddress>,
    inline: bool,
    full_source_paths: bool,
    /// Lines that wait for debug info.
    pub(crate) pending: PendingLines,
    /// Columns of the longest `data_src` so far.
    pub(crate) data_source_width: usize,
}

impl AddressPrinter {
    pub(crate) fn new(options: &ScriptOptions) -> Self {
        Self {
            texts: HashMap::default(),
            max_stack: options.max_stack,
            stop_at: options.stop_at.clone(),
            chain: Vec::new(),
            inline: options.inline,
            full_source_paths: options.full_source_paths,
            pending: PendingLines::new(options.sources.clone(), options.full_source_paths),
            data_source_width: 0,
        }
    }

    /// Adds the address of a sample without a call chain: ` ffff1234 symbol+0x12 (file)`.
    pub(crate) fn add_address(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        pid: i32,
        address: CodeAddress,
        fields: Fields,
    ) {
        if fields.contains(Fields::IP) {
            text.push(b' ');
            hex(text, address.address, 16);
        }
        let at = machine.dso_address(address.mode, pid, address.address);
        let with_line =
            at.filter(|at| fields.contains(Fields::SRCLINE) && may_have_lines(machine, *at));
        match with_line {
            Some(at) => {
                let request = FrameRequest {
                    at,
                    is_return: false,
                    fields,
                    with_inlined: false,
                    full_source_paths: self.full_source_paths,
                };
                self.pending.push_frames(text.len(), b"", b"", request);
            }
            None => _ = self.add_symbol(text, machine, at, false, fields),
        }
    }

    /// Adds a call chain, a line per frame, up to the first return address that isn't in code.
    pub(crate) fn add_chain(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        fields: Fields,
    ) {
        let mut chain = std::mem::take(&mut self.chain);
        machine.callchain(sample, self.max_stack, &mut chain);
        let inline = self.inline;
        let needs_lookup = |machine: &Machine, at: DsoAddress| {
            let needs_line = fields.contains(Fields::SRCLINE) && may_have_lines(machine, at);
            needs_line || inline && machine.may_have_inlined(at.dso)
        };
        let pid = sample.fields.head.pid.unwrap_or(-1);
        for frame in &chain {
            let FrameLocation::Code(at) = machine.locate_frame(pid, *frame) else { break };
            let CodeAddress { address: ip, is_return, .. } = *frame;
            let begin = text.len();
            if fields.contains(Fields::IP) {
                // An address in a file outlives the process, unlike one in its address space.
                let printed = at.filter(|at| is_user(machine, *at)).map_or(ip, |at| at.address);
                text.push(b'\t');
                hex(text, printed, 16);
            }
            let ends_chain = match at.filter(|at| needs_lookup(machine, *at)) {
                Some(at) => {
                    let request = FrameRequest {
                        at,
                        is_return,
                        fields,
                        with_inlined: self.inline,
                        full_source_paths: self.full_source_paths,
                    };
                    self.pending.push_frames(begin, &text[begin..], b"\n", request);
                    text.truncate(begin);
                    !self.stop_at.is_empty()
                        && self.symbol_text(machine, at, is_return, Fields::SYM).ends_chain
                }
                None => {
                    let ends_chain = self.add_symbol(text, machine, at, is_return, fields);
                    text.push(b'\n');
                    ends_chain
                }
            };
            if ends_chain {
                break;
            }
        }
        self.chain = chain;
    }

    /// Adds the symbol and file of an address: ` symbol+0x12 (file)`. Returns whether call chains
    /// end at this symbol.
    pub(crate) fn add_symbol(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        at: Option<DsoAddress>,
        is_return: bool,
        fields: Fields,
    ) -> bool {
        let fields = fields & (Fields::SYM | Fields::SYMOFF | Fields::DSO);
        let Some(at) = at else {
            text.extend_from_slice(if fields.contains(Fields::SYM) { b" [unknown]" } else { b"" });
            let dso: &[u8] = if fields.contains(Fields::DSO) { b" ([unknown])" } else { b"" };
            text.extend_from_slice(dso);
            return false;
        };
        if let Some(symbol) = self.texts.get(&(at, is_return, fields)) {
            text.extend_from_slice(&symbol.text);
            return symbol.ends_chain;
        }
        let symbol = self.symbol_text(machine, at, is_return, fields);
        text.extend_from_slice(&symbol.text);
        let ends_chain = symbol.ends_chain;
        if self.texts.len() >= CACHED {
            self.texts.clear();
        }
        self.texts.insert((at, is_return, fields), symbol);
        ends_chain
    }

    fn symbol_text(
        &self,
        machine: &Machine,
        at: DsoAddress,
        is_return: bool,
        fields: Fields,
    ) -> SymbolText {
        let mut text = Vec::new();
        let mut ends_chain = false;
        if fields.contains(Fields::SYM) {
            text.push(b' ');
            match machine.symbol(machine.call_site(at, is_return)) {
                Ok(symbol) => {
                    let symbol_name = machine.symbol_name(symbol);
                    name(&mut text, symbol_name.as_bytes());
                    ends_chain = self.stop_at.iter().any(|stop| stop == symbol_name);
                    if fields.contains(Fields::SYMOFF) {
                        text.extend_from_slice(b"+0x");
                        hex(&mut text, at.address.wrapping_sub(symbol.start), 0);
                    }
                }
                Err(_) => text.extend_from_slice(b"[unknown]"),
            }
        }
        if fields.contains(Fields::DSO) {
            text.extend_from_slice(b" (");
            name(&mut text, machine.dso_name(at.dso));
            text.push(b')');
        }
        SymbolText { text: text.into(), ends_chain }
    }
}

fn is_user(machine: &Machine, at: DsoAddress) -> bool {
    machine.dso(at.dso).is_some_and(|dso| !dso.kind.is_kernel())
}
