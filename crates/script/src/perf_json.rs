//! The JSON document of `perf data convert --to-json`, with its keys
//! (`tools/perf/util/data-convert-json.c`).
//!
//! ```text
//! {"linux-perf-json-version":1,"samples":[
//! {"timestamp":..,"pid":..,"tid":..,"cpu":..,"comm":..,"callchain":[{"ip":"0x..","symbol":..,"dso":..},..]},
//! ..
//! ],"headers":{"header-version":1,"hostname":..,"cmdline":[..]}}
//! ```
//!
//! Headers come last, because those of a pipe may follow its samples. The fields of a tracepoint are
//! one text, `trace`; perf has a key for each.

use std::io;

use serde::Serialize;
use tare_format::file::Features;
use tare_format::file::features::{ARCH, CPUDESC, CPUID, HOSTNAME, OSRELEASE, VERSION};
use tare_format::printable;
use tare_render::json_line;

use crate::json_sample::{JsonFrame, JsonSample};

/// The start of the document.
pub(crate) const BEGIN: &[u8] = b"{\"linux-perf-json-version\":1,\"samples\":[\n";

#[derive(Serialize)]
struct PerfSample<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    comm: &'a str,
    callchain: Vec<PerfFrame<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
}

#[derive(Serialize)]
struct PerfFrame<'a> {
    ip: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PerfHeaders {
    header_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_desc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nrcpus_online: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nrcpus_avail: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    perf_version: Option<String>,
    cmdline: Vec<String>,
}

fn frame(frame: &JsonFrame) -> PerfFrame<'_> {
    // As in perf, a file is named only with a symbol.
    let dso = frame.symbol.is_some().then_some(frame.dso.as_deref()).flatten();
    PerfFrame { ip: &frame.ip, symbol: frame.symbol.as_deref(), dso }
}

/// Appends a sample.
pub(crate) fn add_sample(
    text: &mut Vec<u8>,
    sample: &JsonSample,
    is_first: bool,
) -> io::Result<()> {
    if !is_first {
        text.push(b',');
    }
    // A sample without a call chain has its own address as one.
    let chain: Vec<_> = match &sample.callchain {
        Some(chain) => chain.iter().map(frame).collect(),
        None => sample.at.iter().map(frame).collect(),
    };
    let line = PerfSample {
        timestamp: sample.time_ns,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        comm: sample.comm.as_deref().unwrap_or_default(),
        callchain: chain,
        trace: sample.trace.as_deref(),
    };
    json_line(text, &line)
}

/// Appends the headers, and ends the document.
pub(crate) fn add_end(text: &mut Vec<u8>, features: &Features) -> io::Result<()> {
    let feature = |bit| features.text(bit).ok().map(|value| printable(value).into_owned());
    let cpus = features.cpus().ok();
    let words = features.cmdline().unwrap_or_default();
    let headers = PerfHeaders {
        header_version: 1,
        hostname: feature(HOSTNAME),
        os_release: feature(OSRELEASE),
        arch: feature(ARCH),
        cpu_desc: feature(CPUDESC),
        cpuid: feature(CPUID),
        nrcpus_online: cpus.map(|(_, online)| online),
        nrcpus_avail: cpus.map(|(available, _)| available),
        perf_version: feature(VERSION),
        cmdline: words.into_iter().map(|word| printable(word).into_owned()).collect(),
    };
    text.extend_from_slice(b"],\"headers\":");
    json_line(text, &headers)?;
    text.extend_from_slice(b"}\n");
    Ok(())
}
