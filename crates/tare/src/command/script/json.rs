//! `--json`: an object a line.
//!
//! ```text
//! {"kind":"recording","version":1,"tool":"tare script"}
//! {"kind":"sample","event":"cpu-clock","time_ns":..,"comm":..,"callchain":[{"ip":"0x..","symbol":..,"offset":..,"dso":..},..]}
//! {"kind":"end","samples":..,"loss":[..],"ledger":{..}}
//! ```

use std::collections::HashMap;

use serde::Serialize;
use tare_format::abi::Sampling;
use tare_format::record::Sample;

use crate::cli::resolved::script::Script;
use tare_format::ledger::Ledger;
use tare_profile::Losses;
use tare_render::CopiedStacks;
use tare_replay::{CodeAddress, CpuMode, DsoAddress, Machine, Replayed, Tracepoints};
use tare_symbols::{Frames, NameSource};

use super::inline::{may_have_lines, threads, within};

/// Raised when a field changes its meaning or goes; new fields don't raise it.
const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    Recording {
        version: u32,
        tool: &'static str,
    },
    Sample(Box<SampleLine>),
    End {
        samples: u64,
        loss: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        copied_stacks: Option<CopiedStacks<'a>>,
        ledger: Option<&'a Ledger>,
    },
}

/// What samples of an event don't have is left out. Addresses are in hexadecimal: JavaScript's
/// numbers have 53 bits.
#[derive(Serialize)]
struct SampleLine {
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<u64>,
    #[serde(flatten)]
    at: Option<Frame>,
    #[serde(skip_serializing_if = "Option::is_none")]
    addr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callchain: Option<Vec<Frame>>,
}

/// An address of code, and what lies there.
#[derive(Default, Serialize)]
struct Frame {
    ip: String,
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    dso: Option<String>,
    /// Why there is no symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<String>,
    /// Where the symbol's name comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// It was inlined into the frame behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inlined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// The address that debug info is to be asked for.
    #[serde(skip)]
    within: Option<DsoAddress>,
}

/// Makes objects.
pub(super) struct Objects<'a> {
    script: &'a Script,
    tracepoints: Tracepoints,
    chain: Vec<CodeAddress>,
    samples: u64,
    /// Samples for which debug info is to be asked.
    waiting: Vec<SampleLine>,
}

/// Samples that wait at most.
const WAITING: usize = 1 << 14;

impl<'a> Objects<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        Self {
            script,
            tracepoints: Tracepoints::default(),
            chain: Vec::new(),
            samples: 0,
            waiting: Vec::new(),
        }
    }

    /// Adds what stands before the first sample.
    pub(super) fn begin(text: &mut Vec<u8>) -> std::io::Result<()> {
        tare_render::json_line(text, &Line::Recording { version: VERSION, tool: "tare script" })
    }

    /// Adds a sample.
    pub(super) fn sample(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> std::io::Result<()> {
        self.tracepoints.learn(sample.description);
        let events = sample.description.events();
        let Some(event) = sample.event.and_then(|event| events.get(event)) else {
            return Ok(());
        };
        self.samples += 1;
        let head = &sample.fields.head;
        let mode = CpuMode::of_misc(sample.raw.misc);
        let pid = head.pid.unwrap_or(-1);
        let trace = sample.fields.raw.and_then(|raw| {
            let trace = self.tracepoints.fields(machine, event.attr.config, raw);
            (!trace.is_empty()).then(|| text_of(trace))
        });
        let has_chain = self.script.callchains && event.attr.has_callchain();
        if has_chain {
            machine.callchain(sample, self.script.max_stack, &mut self.chain);
        }
        let fixed =
            if let Sampling::Period(period) = event.attr.sampling { Some(period) } else { None };
        let line = SampleLine {
            event: text_of(&self.tracepoints.event_name(event)),
            time_ns: sample.time_ns,
            comm: head.tid.and_then(|tid| machine.comm(tid)).map(text_of),
            pid: head.pid,
            tid: head.tid,
            cpu: head.cpu,
            period: head.period.or(fixed),
            at: head
                .ip
                .map(|address| self.frame(machine, pid, CodeAddress { mode, address }, false)),
            addr: head.addr.map(|addr| format!("{addr:#x}")),
            trace,
            callchain: has_chain.then(|| self.callchain(machine, pid)),
        };
        if !self.script.inline {
            return tare_render::json_line(text, &Line::Sample(Box::new(line)));
        }
        self.waiting.push(line);
        if self.waiting.len() < WAITING { Ok(()) } else { self.write_waiting(text, machine) }
    }

    fn callchain(&self, machine: &mut Machine, pid: i32) -> Vec<Frame> {
        let mut mode_before = None;
        let frames = self.chain.iter().map(|at| {
            // Each part begins where the CPU was, and goes on with return addresses.
            let is_caller = mode_before.replace(at.mode) == Some(at.mode);
            self.frame(machine, pid, *at, is_caller)
        });
        frames.collect()
    }

    /// Adds the samples that wait for debug info.
    pub(super) fn write_waiting(
        &mut self,
        text: &mut Vec<u8>,
        machine: &Machine,
    ) -> std::io::Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let found = LineLookup::of(machine, &waiting);
        for mut line in waiting.drain(..) {
            if let Some(frame) = &mut line.at {
                found.locate(frame);
            }
            line.callchain = line.callchain.map(|chain| found.expand(chain));
            tare_render::json_line(text, &Line::Sample(Box::new(line)))?;
        }
        Ok(())
    }

    /// Adds what stands behind the last sample.
    pub(super) fn end(
        &self,
        text: &mut Vec<u8>,
        losses: &Losses,
        ledger: Option<&Ledger>,
    ) -> std::io::Result<()> {
        tare_render::json_line(
            text,
            &Line::End {
                samples: self.samples,
                loss: tare_render::loss_lines(losses),
                copied_stacks: CopiedStacks::new(&losses.unwinding),
                ledger,
            },
        )
    }
}

impl Objects<'_> {
    fn frame(&self, machine: &mut Machine, pid: i32, at: CodeAddress, is_caller: bool) -> Frame {
        let CodeAddress { mode, address: ip } = at;
        let mut frame = Frame { ip: format!("{ip:#x}"), ..Frame::default() };
        let Some(at) = machine.dso_address(mode, pid, ip) else { return frame };
        let asks = self.script.inline && may_have_lines(machine, at);
        frame.within = asks.then(|| within(at, is_caller));
        frame.dso = Some(text_of(machine.dso_name(at.dso)));
        match machine.symbol(at) {
            Ok(symbol) => {
                frame.offset = Some(at.address.wrapping_sub(symbol.start));
                frame.symbol = Some(machine.symbol_name(symbol).to_owned());
                frame.source = machine.name_source(symbol).map(NameSource::name);
            }
            Err(why) => frame.unresolved = Some(why.to_string()),
        }
        frame
    }
}

/// What debug info says of addresses.
struct LineLookup<'a> {
    frames: Frames<'a>,
    /// Their places among those that were asked for.
    places: HashMap<DsoAddress, usize, foldhash::fast::RandomState>,
}

impl<'a> LineLookup<'a> {
    fn of(machine: &'a Machine, lines: &[SampleLine]) -> Self {
        let mut places = HashMap::default();
        let mut addresses = Vec::new();
        for line in lines {
            for at in line.at.iter().chain(line.callchain.iter().flatten()) {
                let Some(within) = at.within else { continue };
                places.entry(within).or_insert_with(|| {
                    addresses.push(within);
                    addresses.len() - 1
                });
            }
        }
        Self { frames: machine.frames(&addresses, threads()), places }
    }

    fn get(&self, within: Option<DsoAddress>) -> Option<usize> {
        self.places.get(&within?).copied()
    }

    /// Fills in a frame's line.
    fn locate(&self, frame: &mut Frame) {
        let place = self.get(frame.within);
        if let Some(found) = place.and_then(|place| self.frames.get(place).next()) {
            frame.set_location(&found);
        }
    }

    /// A call chain with its inlined functions.
    fn expand(&self, chain: Vec<Frame>) -> Vec<Frame> {
        let mut expanded = Vec::with_capacity(chain.len());
        for mut frame in chain {
            for found in self.get(frame.within).iter().flat_map(|place| self.frames.get(*place)) {
                if !found.is_inlined {
                    frame.set_location(&found);
                    continue;
                }
                let mut inlined = Frame {
                    ip: frame.ip.clone(),
                    symbol: found.name.ok().map(str::to_owned),
                    dso: frame.dso.clone(),
                    source: Some(found.source.name()),
                    inlined: true,
                    ..Frame::default()
                };
                inlined.set_location(&found);
                expanded.push(inlined);
            }
            expanded.push(frame);
        }
        expanded
    }
}

impl Frame {
    fn set_location(&mut self, found: &tare_symbols::Frame<'_>) {
        let Some(at) = found.location else { return };
        self.file = Some(at.file.to_owned());
        self.line = Some(at.line).filter(|line| *line > 0);
        self.column = Some(at.column).filter(|column| *column > 0);
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
