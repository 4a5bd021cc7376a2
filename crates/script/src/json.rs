//! The sink that prints JSON, an object per line.
//!
//! ```text
//! {"kind":"recording","version":1,"tool":"tare script"}
//! {"kind":"sample","event":"cpu-clock","time_ns":..,"comm":..,"callchain":[{"ip":"0x..","symbol":..,"offset":..,"dso":..},..]}
//! {"kind":"end","samples":..,"loss":[..],"ledger":{..}}
//! ```

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::Serialize;
use tare_format::abi::Sampling;
use tare_format::file::Features;
use tare_format::ledger::Ledger;
use tare_format::record::Sample;
use tare_profile::Losses;
use tare_render::{CopiedStacks, json_header, json_line};
use tare_replay::{
    CodeAddress, CpuMode, DsoAddress, FrameLocation, Machine, Replayed, SampleFilter, Sink,
    Tracepoints,
};
use tare_symbols::NameSource;

use crate::error::ScriptError;
use crate::json_sample::{JsonFrame, JsonSample};
use crate::lines::LineBuffer;
use crate::options::ScriptOptions;
use crate::pending::{may_have_lines, threads};
use crate::perf_json;

/// Version of the layout: see [`json_header`].
const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum JsonLine<'a> {
    Sample(Box<JsonSample>),
    End {
        samples: u64,
        loss: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        copied_stacks: Option<CopiedStacks<'a>>,
        ledger: Option<&'a Ledger>,
    },
}

/// Number of frames that wait for debug info above which it is read.
const WAITING: usize = 1 << 14;

/// Number of cached frames above which the cache is cleared. Most addresses occur many times.
const CACHED: usize = 1 << 17;

/// How the samples are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// tare's objects, one per line.
    Lines,
    /// One document, as `perf data convert --to-json` writes it.
    PerfDocument,
}

/// Prints each sample as a JSON object.
pub struct JsonSink<'a, W> {
    options: &'a ScriptOptions,
    filter: SampleFilter,
    lines: LineBuffer<W>,
    tracepoints: Tracepoints,
    chain: Vec<CodeAddress>,
    samples: u64,
    waiting: WaitingSamples,
    debug_frames: DebugFrames,
    layout: JsonLayout,
    /// Number of samples that were added to `lines`.
    added: u64,
}

impl<'a, W: Write> JsonSink<'a, W> {
    /// Prints the start of the output: an object that describes it, or the document's first line.
    ///
    /// # Errors
    /// Fails if `out` can't be written.
    pub fn new(
        options: &'a ScriptOptions,
        filter: SampleFilter,
        out: W,
        layout: JsonLayout,
    ) -> io::Result<Self> {
        let mut lines = LineBuffer::new(out);
        match layout {
            JsonLayout::Lines => json_header(lines.text(), VERSION, "tare script")?,
            JsonLayout::PerfDocument => lines.text().extend_from_slice(perf_json::BEGIN),
        }
        Ok(Self {
            options,
            filter,
            lines,
            tracepoints: Tracepoints::default(),
            chain: Vec::new(),
            samples: 0,
            waiting: WaitingSamples::default(),
            debug_frames: DebugFrames::default(),
            layout,
            added: 0,
        })
    }

    fn add_sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> io::Result<()> {
        self.tracepoints.learn(sample.description);
        let events = sample.description.events();
        let Some(event) = sample.event.and_then(|event| events.get(event)) else {
            return Ok(());
        };
        self.samples += 1;
        let head = &sample.fields.head;
        let mode = CpuMode::from_misc(sample.raw.misc);
        let pid = head.pid.unwrap_or(-1);
        let trace = sample.fields.raw.and_then(|raw| {
            let trace = self.tracepoints.fields(machine, event.attr.config, raw);
            (!trace.is_empty()).then(|| to_text(trace))
        });
        let has_chain = self.options.callchains && event.attr.has_callchain();
        if has_chain {
            machine.callchain(sample, self.options.max_stack, &mut self.chain);
        }
        let fixed =
            if let Sampling::Period(period) = event.attr.sampling { Some(period) } else { None };
        let line = JsonSample {
            event: to_text(&self.tracepoints.event_name(event)),
            time_ns: sample.time_ns,
            comm: head.tid.and_then(|tid| machine.comm(tid)).map(to_text),
            pid: head.pid,
            tid: head.tid,
            cpu: head.cpu,
            period: head.period.or(fixed),
            at: head
                .ip
                .and_then(|address| self.frame(machine, pid, CodeAddress::exact(mode, address))),
            addr: head.addr.map(|addr| format!("{addr:#x}")),
            trace,
            callchain: has_chain.then(|| self.callchain(machine, pid)),
        };
        if !self.options.inline {
            return self.add_line(line);
        }
        self.waiting.push(line);
        if self.waiting.frames < WAITING { Ok(()) } else { self.add_waiting(machine) }
    }

    fn add_line(&mut self, line: JsonSample) -> io::Result<()> {
        let is_first = self.added == 0;
        self.added += 1;
        let text = self.lines.text();
        match self.layout {
            JsonLayout::Lines => json_line(text, &JsonLine::Sample(Box::new(line))),
            JsonLayout::PerfDocument => perf_json::add_sample(text, &line, is_first),
        }
    }

    /// Returns the frames of the call chain, up to the first return address that isn't in code.
    fn callchain(&self, machine: &Machine, pid: i32) -> Vec<JsonFrame> {
        let frame = |at: &CodeAddress| self.frame(machine, pid, *at);
        self.chain.iter().map_while(frame).collect()
    }

    /// Returns a frame; `None` for a return address that isn't in code.
    fn frame(&self, machine: &Machine, pid: i32, code: CodeAddress) -> Option<JsonFrame> {
        let FrameLocation::Code(at) = machine.locate_frame(pid, code) else { return None };
        let mut frame = JsonFrame { ip: format!("{:#x}", code.address), ..JsonFrame::default() };
        let Some(at) = at else { return Some(frame) };
        let call = machine.call_site(at, code.is_return);
        let needs_debug_info = self.options.inline && may_have_lines(machine, at);
        frame.call = needs_debug_info.then_some(call);
        frame.dso = Some(to_text(machine.dso_name(at.dso)));
        match machine.symbol(call) {
            Ok(symbol) => {
                frame.offset = Some(at.address.wrapping_sub(symbol.start));
                frame.symbol = Some(machine.symbol_name(symbol).to_owned());
                frame.source = machine.name_source(symbol).map(NameSource::name);
            }
            Err(reason) => frame.unresolved = Some(reason.to_string()),
        }
        Some(frame)
    }

    /// Looks up debug info for the samples that wait for it, and adds them.
    fn add_waiting(&mut self, machine: &Machine) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting).samples;
        self.debug_frames.look_up(machine, &waiting);
        for mut line in waiting {
            if let Some(frame) = &mut line.at {
                self.debug_frames.locate(frame);
            }
            line.callchain = line.callchain.map(|chain| self.debug_frames.expand(chain));
            self.add_line(line)?;
            self.lines.end_record()?;
        }
        self.debug_frames.bound();
        Ok(())
    }

    /// Ends a document of perf with the recording's headers.
    ///
    /// # Errors
    /// Fails if the output can't be written.
    pub fn finish_document(mut self, features: &Features) -> io::Result<()> {
        perf_json::add_end(self.lines.text(), features)?;
        self.lines.flush()
    }

    /// Prints the object after the last sample.
    ///
    /// # Errors
    /// Fails if the output can't be written.
    pub fn finish(mut self, losses: &Losses, ledger: Option<&Ledger>) -> io::Result<()> {
        let end = JsonLine::End {
            samples: self.samples,
            loss: tare_render::loss_lines(losses),
            copied_stacks: CopiedStacks::new(&losses.unwinding),
            ledger,
        };
        json_line(self.lines.text(), &end)?;
        self.lines.flush()
    }
}

impl<W: Write> Sink for JsonSink<'_, W> {
    type Error = ScriptError;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.options.callchains && self.filter.may_pass(sample)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, ScriptError> {
        if self.filter.is_past(sample.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        if self.filter.passes(machine, sample) {
            self.add_sample(machine, sample)?;
            self.lines.end_record()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> Result<(), ScriptError> {
        Ok(self.add_waiting(machine)?)
    }
}

/// Samples that wait for debug info.
#[derive(Default)]
struct WaitingSamples {
    samples: Vec<JsonSample>,
    /// Number of their frames, and of the samples.
    frames: usize,
}

impl WaitingSamples {
    fn push(&mut self, sample: JsonSample) {
        self.frames += 1 + sample.callchain.as_ref().map_or(0, Vec::len);
        self.samples.push(sample);
    }
}

/// A function at an address, as debug info describes it.
struct DebugFrame {
    /// `None` for a function that isn't inlined: it has the name of its symbol.
    inlined: Option<InlinedName>,
    file: Option<Rc<str>>,
    line: Option<u32>,
    column: Option<u32>,
}

struct InlinedName {
    name: Option<String>,
    source: &'static str,
}

/// Debug info of addresses in samples, innermost function first.
#[derive(Default)]
struct DebugFrames {
    by_address: HashMap<DsoAddress, Box<[DebugFrame]>, foldhash::fast::RandomState>,
    frames: usize,
}

impl DebugFrames {
    /// Reads the debug info of all addresses of samples.
    fn look_up(&mut self, machine: &Machine, samples: &[JsonSample]) {
        let frames =
            samples.iter().flat_map(|one| one.at.iter().chain(one.callchain.iter().flatten()));
        let mut addresses: Vec<DsoAddress> = frames.filter_map(|frame| frame.call).collect();
        addresses.retain(|address| !self.by_address.contains_key(address));
        addresses.sort_unstable_by_key(|at| (at.dso, at.address));
        addresses.dedup();
        let frames = machine.frames(&addresses, threads());
        // Texts of one lookup share the paths of files.
        let mut paths: HashMap<&str, Rc<str>> = HashMap::new();
        for (index, address) in addresses.into_iter().enumerate() {
            let frames: Box<[_]> =
                frames.get(index).map(|frame| DebugFrame::new(&frame, &mut paths)).collect();
            self.frames += frames.len();
            self.by_address.insert(address, frames);
        }
    }

    fn get(&self, call: Option<DsoAddress>) -> &[DebugFrame] {
        call.and_then(|call| self.by_address.get(&call)).map_or(&[], |frames| frames)
    }

    /// Clears the cache if it is large.
    fn bound(&mut self) {
        if self.frames > CACHED {
            *self = Self::default();
        }
    }

    /// Fills in the source line of a frame.
    fn locate(&self, frame: &mut JsonFrame) {
        if let Some(innermost) = self.get(frame.call).first() {
            innermost.set_location(frame);
        }
    }

    /// Returns a call chain with its inlined functions.
    fn expand(&self, chain: Vec<JsonFrame>) -> Vec<JsonFrame> {
        let mut expanded = Vec::with_capacity(chain.len());
        for mut frame in chain {
            for debug_frame in self.get(frame.call) {
                let Some(function) = &debug_frame.inlined else {
                    debug_frame.set_location(&mut frame);
                    continue;
                };
                let mut inlined = JsonFrame {
                    ip: frame.ip.clone(),
                    symbol: function.name.clone(),
                    dso: frame.dso.clone(),
                    source: Some(function.source),
                    inlined: true,
                    ..JsonFrame::default()
                };
                debug_frame.set_location(&mut inlined);
                expanded.push(inlined);
            }
            expanded.push(frame);
        }
        expanded
    }
}

impl DebugFrame {
    fn new<'a>(frame: &tare_symbols::Frame<'a>, paths: &mut HashMap<&'a str, Rc<str>>) -> Self {
        let location = frame.location;
        let number = |number: Option<u32>| number.filter(|number| *number > 0);
        Self {
            inlined: frame.is_inlined.then(|| InlinedName {
                name: frame.name.ok().map(str::to_owned),
                source: frame.source.name(),
            }),
            file: location
                .map(|at| Rc::clone(paths.entry(at.file).or_insert_with(|| at.file.into()))),
            line: number(location.map(|at| at.line)),
            column: number(location.map(|at| at.column)),
        }
    }

    fn set_location(&self, frame: &mut JsonFrame) {
        if let Some(file) = &self.file {
            frame.file = Some(file.to_string());
            frame.line = self.line;
            frame.column = self.column;
        }
    }
}

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
