//! `--json`: an object a line.
//!
//! ```text
//! {"kind":"recording","version":1,"tool":"tare script"}
//! {"kind":"sample","event":"cpu-clock","time_ns":..,"comm":..,"callchain":[{"ip":"0x..","symbol":..,"offset":..,"dso":..},..]}
//! {"kind":"end","samples":..,"loss":[..],"ledger":{..}}
//! ```

use serde::Serialize;
use tare_format::abi::Sampling;
use tare_format::record::Sample;

use crate::cli::resolved::script::Script;
use tare_format::ledger::Ledger;
use tare_profile::Losses;
use tare_render::CopiedStacks;
use tare_replay::{CodeAddress, CpuMode, Machine, Replayed, Tracepoints};

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
#[derive(Serialize)]
struct Frame {
    ip: String,
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    dso: Option<String>,
    /// Why there is no symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<String>,
}

/// Makes objects.
pub(super) struct Objects<'a> {
    script: &'a Script,
    tracepoints: Tracepoints,
    chain: Vec<CodeAddress>,
    samples: u64,
}

impl<'a> Objects<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        Self { script, tracepoints: Tracepoints::default(), chain: Vec::new(), samples: 0 }
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
        let (mode, pid) = (CpuMode::of_misc(sample.raw.misc), head.pid.unwrap_or(-1));
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
            at: head.ip.map(|address| frame(machine, pid, CodeAddress { mode, address })),
            addr: head.addr.map(|addr| format!("{addr:#x}")),
            trace,
            callchain: has_chain
                .then(|| self.chain.iter().map(|at| frame(machine, pid, *at)).collect()),
        };
        tare_render::json_line(text, &Line::Sample(Box::new(line)))
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

fn frame(machine: &mut Machine, pid: i32, at: CodeAddress) -> Frame {
    let CodeAddress { mode, address: ip } = at;
    let mut frame =
        Frame { ip: format!("{ip:#x}"), symbol: None, offset: None, dso: None, unresolved: None };
    let Some(at) = machine.dso_address(mode, pid, ip) else { return frame };
    frame.dso = Some(text_of(machine.dso_name(at.dso)));
    match machine.symbol(at) {
        Ok(symbol) => {
            frame.offset = Some(at.address.wrapping_sub(symbol.start));
            frame.symbol = Some(machine.symbol_name(symbol).to_owned());
        }
        Err(why) => frame.unresolved = Some(why.to_string()),
    }
    frame
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
