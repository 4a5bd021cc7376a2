//! The interactive report.

use std::path::Path;

use tare_annotate::SourceRoot;
use tare_format::file::Description;
use tare_profile::{Filter, Term};
use tare_replay::{Recording, SampleSinkOptions, TimeRanges};

use crate::Outcome;
use crate::cli::resolved::report::{Interface, RecordingTraits, ReportOptions, ReportPart};
use crate::command::header;
use crate::command::recording;
use crate::command::report::{no_samples, recorded};
use crate::exit::{Exit, Refusal};
use crate::terminal;
use tare_tui::{CodeView, ReportInput, UiExit};

/// Whether the report is interactive. By default it is text if the recording is standard input, if
/// the terminal can't show an interface, or if the output exists only as text. With `--tui` the
/// last two are errors.
pub(super) fn is_wanted(report: &ReportOptions) -> Result<bool, Refusal> {
    let is_table = report.output.part == ReportPart::Table
        && report.output.header.is_none()
        && !report.output.json;
    let wants_text = report.is_text_alone() || report.output.threads || report.summed.exact;
    match report.output.interface {
        Interface::Terminal => {
            terminal::need_screen("the report")?;
            if !is_table || wants_text {
                return Err(Refusal::usage(
                    "--tui: --header, --header-only, --stats, --tasks, --mmaps, -D, --json, --threads, --weight=exact, layout options and the rarer sort keys only work as text; leave out --tui",
                ));
            }
            Ok(true)
        }
        Interface::Text | Interface::Pager => Ok(false),
        Interface::Fitting => {
            let is_stream = report.input == Path::new("-");
            Ok(is_table && !wants_text && !is_stream && terminal::has_screen())
        }
    }
}

/// Shows the report until the user quits.
pub(super) fn run(recording: Recording, report: &ReportOptions) -> Outcome {
    let known = without_latency(recorded(recording.description()));
    let base = base(report, recording.description())?;
    let ended = tare_tui::run(ReportInput {
        name: report.input.display().to_string(),
        // The messages of downloads would appear in the middle of the screen.
        symbols: tare_symbols::SymbolOptions { debuginfod: None, ..report.summed.symbols.clone() },
        samples: SampleSinkOptions {
            trace: report.columns.show_trace(known),
            raw_trace: report.summed.raw_trace,
            lines: report.columns.need_lines(),
            inline: report.summed.inline,
            judges_chains: true,
            forgets: false,
            branches: report.summed.branches,
            by_cost: report.summed.by_cost,
            details: report.columns.details(known),
            time_quantum_ns: report.summed.time_quantum_ns,
            nanoseconds: report.summed.nanoseconds,
            folds_numbers: report.summed.folds_numbers,
        },
        include_self: report.summed.include_self,
        // The interface filters samples.
        view: {
            let report = report.clone();
            Box::new(move |description| tare_render::TableView {
                filter: Filter::default(),
                ..report.view(without_latency(recorded(description)))
            })
        },
        base,
        terms: terms(&report.filter),
        is_plain: terminal::is_plain(),
        opened: None,
        code: CodeView {
            sources: SourceRoot::new(&report.summed.symbols, None),
            ..CodeView::default()
        },
        panics: report.output.tui_panic,
        header: header::lines,
        mend: tare_replay::suggest_symbol_remedy,
        recording,
    })?;
    match ended {
        UiExit::Quit => Ok(Exit::Success),
        UiExit::Signal(number) => Ok(Exit::from_signal(number)),
        UiExit::NoFunction => Ok(Exit::Failure),
        UiExit::NoSamples(losses) => Err(no_samples(report, &losses).into()),
    }
}

/// The interface has no latencies.
fn without_latency(recorded: RecordingTraits) -> RecordingTraits {
    RecordingTraits { shows_latency: false, ..recorded }
}

/// The samples that percentages refer to, as in the text report.
fn base(report: &ReportOptions, description: &Description) -> anyhow::Result<Vec<Term>> {
    let mut base: Vec<_> = any_of(&report.summed.cpus, |cpu| Term::Cpu(*cpu)).into_iter().collect();
    if report.rows.hides_unresolved {
        base.push(Term::Named);
    }
    if report.summed.time != TimeRanges::All {
        let windows: Vec<_> =
            report.summed.time.windows(description).map_err(recording::refusal)?.iter().collect();
        base.extend(any_of(&windows, |(from_ns, to_ns)| Term::Time(*from_ns, *to_ns)));
    }
    Ok(base)
}

/// The filters of the command line. Percentages refer to all samples, as in perf.
pub(crate) fn terms(filter: &Filter) -> Vec<Term> {
    let lists = [
        any_of(&filter.comms, |name| Term::Comm(name.clone())),
        any_of(&filter.pids, |pid| Term::Pid(*pid)),
        any_of(&filter.tids, |tid| Term::Tid(*tid)),
        any_of(&filter.dsos, |name| Term::Dso(name.clone())),
        any_of(&filter.symbols, |name| Term::Function(name.clone())),
        filter.symbol_part.clone().map(Term::Symbol),
    ];
    lists.into_iter().flatten().collect()
}

/// Returns a condition that holds if that of any item does. `None` for an empty list.
fn any_of<T>(wanted: &[T], term: impl Fn(&T) -> Term) -> Option<Term> {
    let mut terms: Vec<_> = wanted.iter().map(term).collect();
    match terms.len() {
        0 | 1 => terms.pop(),
        _ => Some(Term::AnyOf(terms)),
    }
}
