//! Options of `tare script`.

use std::io::IsTerminal;
use std::path::PathBuf;

use tare_annotate::SourceRoot;
use tare_kernel::calendar_time::CalendarTime;
use tare_render::script::{Fields, Selection};
use tare_replay::{SampleFilterOptions, TimeRanges};
use tare_script::{PrintedRecords, ScriptOptions, TimeBase};
use tare_symbols::SymbolOptions;

use super::events::event_switch;
use super::symbols;
use crate::cli::raw;
use crate::cli::resolved::Extent;
use crate::exit::Refusal;

/// What is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// Lines, below a header of this extent.
    Text(Option<Extent>),
    /// Only the header.
    Header(Extent),
    /// Every record, as bytes and decoded.
    Dump,
    /// A JSON object for the recording, for each sample, and for losses and the ledger.
    Json,
    /// The document of `perf data convert --to-json`, in this file; `-` is standard output.
    PerfJson(PathBuf),
}

/// Options of `tare script`.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) input: PathBuf,
    pub(crate) options: ScriptOptions,
    pub(crate) filter: SampleFilterOptions,
    /// Print the samples of each event to a file of its own.
    pub(crate) per_event_dump: bool,
    pub(crate) symbols: SymbolOptions,
    pub(crate) output: ScriptForm,
}

impl Script {
    /// Resolves the options.
    ///
    /// # Errors
    /// Fails if an option's value is invalid.
    pub(crate) fn new(raw: &raw::ScriptArgs) -> Result<Self, Refusal> {
        let mut selection = Selection::default();
        raw.fields.iter().try_for_each(|typed| selection.change(typed)).map_err(Refusal::usage)?;
        let times = times(raw.tasks.range.time.as_deref())?;
        let filter = SampleFilterOptions {
            comms: raw.names.comms.clone(),
            pids: raw::TaskList::ids(&raw.tasks.pid),
            tids: raw::TaskList::ids(&raw.tasks.tid),
            cpus: cpus(raw.tasks.range.cpu.as_deref())?,
            dsos: raw.names.dsos.clone(),
            symbols: raw.names.symbols.clone(),
            addresses: addresses(raw),
            switch: event_switch(&raw.switch),
            times: if raw.reltime { times.since_first() } else { times },
        };
        let records = PrintedRecords {
            tasks: raw.show_task_events,
            maps: raw.show_mmap_events,
            switches: raw.show_switch_events,
            losses: raw.show_lost_events,
            rounds: raw.show_round_events,
            namespaces: raw.show_namespace_events,
            cgroups: raw.show_cgroup_events,
            bpf: raw.show_bpf_events,
            text_pokes: raw.show_text_poke_events,
        };
        let lines_from_servers = raw.inline.inline || selection.has_asked(Fields::OF_FILES);
        let options = ScriptOptions {
            selection,
            nanoseconds: raw.precision.ns,
            time_base: match (raw.reltime, raw.deltatime) {
                (true, _) => TimeBase::FirstSample,
                (_, true) => TimeBase::PreviousSample,
                _ => TimeBase::Recorded,
            },
            local_time: Some(local_time),
            callchains: !raw.hide_call_graph,
            inline: !raw.inline.no_inline,
            full_source_paths: raw.precision.full_source_path,
            // Known once the recording is open.
            sources: SourceRoot::default(),
            max_stack: raw.length.max_stack.unwrap_or(raw::MAX_STACK),
            max_blocks: raw.max_blocks.filter(|most| *most > 0),
            stop_at: raw.stop_bt.clone(),
            records,
        };
        Ok(Self {
            input: raw.input.input.clone().unwrap_or_else(usual_input),
            options,
            filter,
            per_event_dump: raw.per_event_dump,
            symbols: SymbolOptions {
                lines_from_servers,
                ..symbols::resolve(raw.symbol_search.clone())
            },
            output: output(raw),
        })
    }
}

/// Formats a time in seconds since 1970 as `2026-01-31 23:59:59`, in local time.
fn local_time(seconds: i64) -> String {
    match CalendarTime::local(seconds) {
        Some(CalendarTime { year, month, day, hour, minute, second }) => {
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        }
        None => "<failed>".to_owned(),
    }
}

fn output(raw: &raw::ScriptArgs) -> ScriptForm {
    let extent = if raw.file.show_info { Extent::Full } else { Extent::Usual };
    if let Some(path) = &raw.perf_json {
        ScriptForm::PerfJson(path.clone())
    } else if raw.file.dump_raw_trace {
        ScriptForm::Dump
    } else if raw.json {
        ScriptForm::Json
    } else if raw.file.header_only {
        ScriptForm::Header(extent)
    } else {
        ScriptForm::Text((raw.file.header || raw.file.show_info).then_some(extent))
    }
}

/// Returns the addresses in `-S`, each with the last address of its range: `--addr-range` bytes.
fn addresses(raw: &raw::ScriptArgs) -> Vec<(u64, u64)> {
    let address = |name: &String| u64::from_str_radix(name.strip_prefix("0x")?, 16).ok();
    let range = |first: u64| (first, first.saturating_add(raw.addr_range.saturating_sub(1)));
    raw.names.symbols.iter().filter_map(address).map(range).collect()
}

/// `perf.data`, or standard input where it is a pipe.
fn usual_input() -> PathBuf {
    use std::os::fd::AsFd;
    let stdin = std::io::stdin();
    let is_pipe = !stdin.is_terminal()
        && rustix::fs::fstat(stdin.as_fd()).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo
        });
    PathBuf::from(if is_pipe { "-" } else { raw::DEFAULT_RECORDING })
}

/// Parses a list of CPUs: `0,2-3` is 0, 2, 3. Empty without a list.
pub(crate) fn cpus(list: Option<&str>) -> Result<Vec<u32>, Refusal> {
    const MOST: u32 = 1 << 16;
    let Some(list) = list else { return Ok(Vec::new()) };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = first.parse::<u32>().ok()?;
        let last = last.parse::<u32>().ok()?;
        (first <= last && last < MOST).then_some(first..=last)
    };
    let ranges = list.split(',').map(range).collect::<Option<Vec<_>>>();
    let ranges = ranges
        .ok_or_else(|| Refusal::usage(format!("-C {list}: not a list of CPUs, such as 0,2-3")))?;
    Ok(ranges.into_iter().flatten().collect())
}

/// Parses `--time`.
pub(crate) fn times(typed: Option<&str>) -> Result<TimeRanges, Refusal> {
    let Some(text) = typed else { return Ok(TimeRanges::All) };
    TimeRanges::parse(text)
        .ok_or_else(|| Refusal::usage(format!("--time {text}: {}", TimeRanges::FORMS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus(Some("0,2-3")).unwrap(), [0, 2, 3]);
        assert!(cpus(None).unwrap().is_empty());
        assert!(["", "3-2", "0-99999999", "a"].iter().all(|text| cpus(Some(text)).is_err()));
    }
}
