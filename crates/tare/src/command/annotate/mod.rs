//! `tare annotate`: shows functions instruction by instruction.

mod json;
mod text;

use std::io::{BufWriter, Write};
use std::path::Path;

use tare_format::file::Description;
use tare_format::file::features::ARCH;
use tare_format::ledger::Ledger;
use tare_profile::{EventId, Filter, Losses, Profile, Selection, SortKey, SymbolId, Term, Weight};
use tare_render::{Column, TableView};
use tare_replay::{
    Recording, Replay, ReplayOptions, SampleDetail, SampleSink, SampleSinkOptions, own_tids,
};
use tare_symbols::{SymbolOptions, Unresolved};
use tare_tui::{CodeView, OpenedFunction, ProgressLine, UiExit};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::raw::{DisassemblerStyle, PercentType};
use crate::cli::resolved::{script, symbols};
use crate::command::header;
use crate::command::recording::open;
use crate::command::report::terms;
use crate::exit::{Exit, Refusal};
use crate::terminal;
use tare_annotate::{AnnotateRequest, AnnotatedFunction, Offsets, PathPrefix, SourceRoot, Style};

/// A function with its weight for one event, or the reason why it can't be disassembled.
struct WeightedFunction {
    event: String,
    name: String,
    result: Result<AnnotatedFunction, Unresolved>,
}

/// How functions are shown.
#[derive(Clone, Copy)]
struct ListingStyle {
    column: ListingColumn,
    percent_type: PercentType,
    asm_raw: bool,
    print_line: bool,
}

/// The column before each instruction.
#[derive(Clone, Copy)]
enum ListingColumn {
    Percent,
    Samples,
    Period,
}

impl ListingColumn {
    fn new(raw: &raw::ListingArgs) -> Self {
        match () {
            () if raw.show_nr_samples => Self::Samples,
            () if raw.show_total_period => Self::Period,
            () => Self::Percent,
        }
    }
}

/// Resolves `-C`.
fn cpu_terms(raw: &raw::ListingArgs) -> Result<Vec<Term>, Refusal> {
    let cpus = script::cpus(raw.cpu.as_deref())?;
    let any = Term::AnyOf(cpus.iter().copied().map(Term::Cpu).collect());
    Ok(if cpus.is_empty() { Vec::new() } else { vec![any] })
}

/// Whether `--percent-limit` and `--skip-missing` leave a function.
fn is_listed(function: &WeightedFunction, raw: &raw::ListingArgs, kind: PercentType) -> bool {
    match &function.result {
        Ok(annotated) => share_of_all(annotated, kind) >= raw.percent_limit,
        Err(_) => !raw.skip_missing,
    }
}

pub(crate) fn run(raw: raw::AnnotateArgs) -> Outcome {
    let base = cpu_terms(&raw.listing)?;
    let mut symbols = symbols::resolve(raw.symbol_search.clone());
    let progress = ProgressLine::begin();
    let input = raw.input.path();
    let mut recording = open(&input, &mut symbols, &progress)?;
    if is_for_screen(&raw)? {
        drop(progress);
        return interactive(recording, symbols, base, raw);
    }
    let root = SourceRoot::new(&symbols, relocation(raw.prefix, raw.prefix_strip));
    let mut sink = SampleSink::new(SampleSinkOptions::default(), recording.description());
    let mut replay = Replay::new(ReplayOptions {
        detail: SampleDetail::Leaf,
        symbols,
        ..ReplayOptions::default()
    });
    while replay.step(&mut recording, &mut sink, 1 << 12)?.is_continue() {}
    sink.learn_events(recording.description());
    let losses = replay.losses_of(&recording);
    let ledger = ledger(recording.description());
    let arch = recording.description().features().text(ARCH).unwrap_or_default().to_vec();
    let asked = AnnotateRequest {
        machine: replay.machine(),
        arch: &arch,
        style: style(raw.disassembler_style),
        with_source: !raw.no_source,
    };
    let wanted = FunctionFilter {
        name: raw.symbol.or(raw.named),
        dsos: raw.dsos,
        terms: base,
        without_tids: own_tids(ledger.as_ref(), raw.own.include_self).collect(),
    };
    progress.show_step("disassembling");
    let mut functions = annotated(&sink, &asked, &wanted);
    drop(progress);
    if let (true, Some(name)) = (functions.is_empty(), &wanted.name) {
        return Err(no_function(name).into());
    }
    functions.retain(|function| is_listed(function, &raw.listing, raw.percent_type));
    let losses = if raw.listing.quiet { Losses::default() } else { losses };
    let shown = ListingStyle {
        column: ListingColumn::new(&raw.listing),
        percent_type: raw.percent_type,
        asm_raw: raw.asm_raw,
        print_line: raw.print_line,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    if raw.json.json {
        json::write(&mut out, &functions, shown, &losses)?;
    } else {
        text::write(&mut out, &functions, shown, root, &losses)?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

fn no_function(name: &str) -> Refusal {
    let message =
        format!("no sample is in a function called '{name}'; `tare report` lists the functions");
    Refusal { exit: Exit::Failure, message }
}

/// Whether the interactive interface is used: with `--tui`, which fails on a terminal that can't
/// show it; otherwise on a terminal that can, unless `--stdio`, `--json` or a recording on standard
/// input prevents it.
fn is_for_screen(raw: &raw::AnnotateArgs) -> Result<bool, Refusal> {
    if raw.interface.tui {
        terminal::need_screen("the function")?;
        return Ok(true);
    }
    Ok(!raw.interface.stdio
        && !raw.listing.is_for_text()
        && !raw.json.json
        && raw.input.path() != Path::new("-")
        && terminal::has_screen())
}

/// Opens the interactive report at the named function, or at the hottest one.
fn interactive(
    recording: Recording,
    symbols: SymbolOptions,
    base: Vec<Term>,
    raw: raw::AnnotateArgs,
) -> Outcome {
    let name = raw.symbol.or(raw.named);
    let sources = SourceRoot::new(&symbols, relocation(raw.prefix, raw.prefix_strip));
    let keys = [SortKey::Comm, SortKey::Dso, SortKey::Symbol].map(Column::Key);
    let columns = [&[Column::Overhead][..], &keys].concat();
    let order = vec![Column::Overhead];
    let view = TableView { columns, order, ..TableView::default() };
    let dsos = raw.dsos.into_iter().map(String::into_bytes).collect();
    let ended = tare_tui::run(tare_tui::ReportInput {
        name: raw.input.path().display().to_string(),
        // The messages of downloads would appear in the middle of the screen.
        symbols: SymbolOptions { debuginfod: None, ..symbols },
        samples: SampleSinkOptions { judges_chains: true, ..SampleSinkOptions::default() },
        include_self: raw.own.include_self,
        view: Box::new(move |_| view.clone()),
        base,
        terms: terms(&Filter { dsos, ..Filter::default() }),
        is_plain: terminal::is_plain(),
        opened: Some(OpenedFunction { name: name.clone() }),
        code: CodeView {
            style: style(raw.disassembler_style),
            sources,
            hides_source: raw.no_source,
            with_files: raw.print_line,
            with_bytes: raw.asm_raw,
            of_all: raw.percent_type.is_of_all(),
            by_samples: raw.percent_type.is_by_samples(),
        },
        panics: false,
        header: header::lines,
        mend: tare_replay::suggest_symbol_remedy,
        recording,
    })?;
    match (ended, name) {
        (UiExit::NoFunction, Some(name)) => Err(no_function(&name).into()),
        (UiExit::Signal(number), _) => Ok(Exit::from_signal(number)),
        (UiExit::NoSamples(_), _) => {
            let message = format!("{}: there are no samples", raw.input.path().display());
            Err(Refusal { exit: Exit::Failure, message }.into())
        }
        (UiExit::Quit | UiExit::NoFunction, _) => Ok(Exit::Success),
    }
}

fn style(typed: DisassemblerStyle) -> Style {
    match typed {
        DisassemblerStyle::Att => Style::Att,
        DisassemblerStyle::Intel => Style::Intel,
    }
}

fn relocation(prefix: Option<String>, strip: usize) -> Option<PathPrefix> {
    prefix.map(|prefix| PathPrefix { prefix, strip })
}

/// Returns a function's percentage of all samples of its event.
fn share_of_all(annotated: &AnnotatedFunction, kind: PercentType) -> f64 {
    let kind =
        if kind.is_by_samples() { PercentType::GlobalHits } else { PercentType::GlobalPeriod };
    text::percent(annotated.own, annotated, kind)
}

/// Conditions on functions and samples, and the threads whose samples don't count.
struct FunctionFilter {
    name: Option<String>,
    dsos: Vec<String>,
    terms: Vec<Term>,
    without_tids: Vec<i32>,
}

impl FunctionFilter {
    fn takes(&self, profile: &Profile, function: SymbolId) -> bool {
        let Some(symbol) = profile.symbol(function) else { return false };
        let is_name =
            self.name.as_ref().is_none_or(|name| profile.string(symbol.name) == name.as_bytes());
        let is_dso = || {
            let dso = profile.dso(symbol.dso);
            dso.is_some_and(|dso| {
                self.dsos.iter().any(|name| {
                    [dso.short, dso.path]
                        .iter()
                        .any(|text| profile.string(*text) == name.as_bytes())
                })
            })
        };
        is_name && (self.dsos.is_empty() || is_dso())
    }
}

fn ledger(description: &Description) -> Option<Ledger> {
    description.notes().iter().rev().find_map(|note| Ledger::from_note(note))
}

/// Annotates the selected functions, by event, the heaviest first.
fn annotated(
    sink: &SampleSink,
    asked: &AnnotateRequest<'_>,
    wanted: &FunctionFilter,
) -> Vec<WeightedFunction> {
    let without_tids = wanted.without_tids.clone();
    let (profile, samples) = sink.tables();
    let terms = wanted.terms.clone();
    let selection = Selection { terms, without_tids, ..Selection::default() };
    let selected = selection.resolve(profile, samples);
    let weights = tare_annotate::weights(profile, samples, &selected);
    let all = |event: EventId| {
        let mut all = Weight::default();
        let taken = samples.iter().filter(|sample| sample.event == event && selected.takes(sample));
        taken.for_each(|sample| all.add(Weight { period: sample.period, samples: 1 }));
        all
    };
    let events: Vec<_> = profile.events().map(|(event, _)| (event, all(event))).collect();
    let mut functions: Vec<((EventId, SymbolId), Offsets)> =
        weights.into_iter().filter(|((_, function), _)| wanted.takes(profile, *function)).collect();
    functions.sort_by_key(|(key, offsets)| {
        (key.0, std::cmp::Reverse(tare_annotate::sum(offsets)), key.1)
    });
    let text = |id| String::from_utf8_lossy(profile.string(id)).into_owned();
    let of = |((event, function), offsets): ((EventId, SymbolId), Offsets)| {
        let all = events
            .iter()
            .find(|(known, _)| *known == event)
            .map_or_else(Weight::default, |(_, all)| *all);
        let symbol = sink.recorded_symbol(function).ok_or(Unresolved::NoSymbol);
        WeightedFunction {
            event: profile.event(event).map_or_else(String::new, |event| text(event.name)),
            name: profile.symbol(function).map_or_else(String::new, |symbol| text(symbol.name)),
            result: symbol.and_then(|symbol| asked.annotate(symbol, &offsets, all)),
        }
    };
    functions.into_iter().map(of).collect()
}
