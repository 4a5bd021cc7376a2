//! Options of `tare top`.

use std::time::Duration;

use tare_kernel::host::Host;
use tare_profile::{Space, Term};
use tare_record::RecorderOptions;
use tare_record::options::{Budget, Rate};
use tare_render::TableView;
use tare_symbols::SymbolOptions;
use tare_tui::Pace;

use crate::cli::raw;
use crate::cli::resolved::record::RecordOptions;
use crate::cli::resolved::report::{RecordingTraits, ReportOptions};
use crate::exit::Refusal;
use crate::terminal;

/// Default of `--max-overhead`: the share of the sampled CPUs' time that sampling may cost. See
/// [`Top::has_default_budget`] for when it is dropped.
const BUDGET_SHARE: f64 = 0.01;

/// The value of `--call-graph` for `-g`. Copies are smaller than in `record`, because the thread that
/// reads the rings also unwinds and draws.
const CALL_GRAPH: &str = "auto,16384";

/// Limit of the flush interval: the recorder's default. A longer delay would also delay the first
/// records.
const FIRST_READ: Duration = Duration::from_millis(raw::record::FLUSH_INTERVAL_MS);

/// Options of `tare top`.
#[derive(Debug)]
pub(crate) struct Top {
    /// Options of the recorder.
    pub(crate) options: RecorderOptions,
    /// Whether the overhead budget is the default, which is dropped where none is possible: for
    /// tasks, events with a period, and events of unknown cost.
    pub(crate) has_default_budget: bool,
    /// Form of the output.
    pub(crate) form: TopForm,
    /// Window and delay.
    pub(crate) pace: Pace,
    /// Time after which it ends.
    pub(crate) timeout: Option<Duration>,
    /// Conditions on samples.
    pub(crate) terms: Vec<Term>,
    /// Sources of symbols.
    pub(crate) symbols: SymbolOptions,
    /// Most rows to show; `None`: as many as fit, or all.
    entries: Option<usize>,
    report: ReportOptions,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopForm {
    /// On the whole terminal.
    Screen,
    /// A table of text at each refresh.
    Text,
    /// A document at each refresh.
    Json,
}

impl Top {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub(crate) fn resolve(raw: &raw::TopArgs, host: &Host) -> Result<Self, Refusal> {
        let delay = seconds("-d", &raw.schedule.delay)?;
        let window = seconds("--window", &raw.schedule.window)?;
        let form = form(raw)?;
        let mut options = RecordOptions::resolve(record(raw), host)?.options;
        let has_default_budget =
            options.sampling.budget.is_none() && !matches!(options.sampling.rate, Rate::Period(_));
        if has_default_budget {
            options.sampling.budget =
                Some(Budget { share: BUDGET_SHARE, min_hz: raw.sampler.min_rate });
        }
        options.may_pause = true;
        options.build_ids = false;
        options.rings.flush_interval = delay.min(FIRST_READ);
        let hidden =
            [(raw.filters.hide_kernel, Space::Kernel), (raw.filters.hide_user, Space::User)];
        let terms = hidden.into_iter().filter(|(hides, _)| *hides);
        let terms = terms.map(|(_, space)| Term::NotIn(space)).collect();
        let report = ReportOptions::resolve(report(raw))?;
        if report.columns.need_lines() {
            return Err(Refusal::usage(
                "--sort srcline and srcfile are for recordings (tare record, then tare report)",
            ));
        }
        if report.needs_switches() {
            return Err(Refusal::usage(
                "--sort latency and parallelism are for recordings (tare record --latency, then tare report)",
            ));
        }
        if report.summed.folds_numbers {
            return Err(Refusal::usage(
                "--sort comm_nodigit is for recordings (tare record, then tare report)",
            ));
        }
        Ok(Self {
            has_default_budget,
            form,
            pace: Pace { window, delay, is_zeroed: raw.schedule.zero },
            timeout: raw.schedule.end.duration(),
            terms,
            // Progress messages of downloads would corrupt the screen.
            symbols: SymbolOptions { debuginfod: None, ..report.summed.symbols.clone() },
            entries: raw.output.rows.entries,
            report,
            options,
        })
    }

    /// Returns the view of the samples. Shows as many rows as `fit`, unless `-E` limits them.
    pub(crate) fn view(&self, recorded: RecordingTraits, fit: Option<usize>) -> TableView {
        TableView { most_rows: self.entries.or(fit), ..self.report.view(recorded) }
    }

    /// Whether rows are keyed by tracepoint fields.
    pub(crate) fn shows_trace(&self) -> bool {
        self.report.columns.show_trace(RecordingTraits::default())
    }
}

fn form(raw: &raw::TopArgs) -> Result<TopForm, Refusal> {
    match (raw.output.json, raw.output.interface.tui, raw.output.interface.stdio) {
        (true, ..) => Ok(TopForm::Json),
        (_, true, _) => terminal::need_screen("it").map(|()| TopForm::Screen),
        (_, _, true) => Ok(TopForm::Text),
        _ => Ok(if terminal::has_screen() { TopForm::Screen } else { TopForm::Text }),
    }
}

fn seconds(option: &str, text: &str) -> Result<Duration, Refusal> {
    let refuse = || Refusal::usage(format!("{option} {text}: give seconds from 0.1 to 3600"));
    Pace::seconds(text).ok_or_else(refuse)
}

/// Options of the `tare record` that records the same.
fn record(raw: &raw::TopArgs) -> raw::RecordArgs {
    let mut record = raw::RecordArgs::default();
    record.events.list = raw.events.clone();
    let sampling = &mut record.sampling;
    sampling.sampler = raw.sampler.clone();
    if raw.sampler.with_call_graph && raw.sampler.call_graph.is_none() {
        sampling.sampler.call_graph = Some(CALL_GRAPH.to_owned());
    }
    sampling.no_call_graph = !raw.sampler.with_call_graph && raw.sampler.call_graph.is_none();
    sampling.sample_cpu = true;
    record.target.attach = raw.attach.clone();
    record.target.children = raw.children.clone();
    record
}

/// Options of the `tare report` command that shows the same table, except for `-K` and `-U`.
fn report(raw: &raw::TopArgs) -> raw::ReportArgs {
    let mut report = raw::ReportArgs::default();
    let typed = &raw.columns.sort;
    let adds = typed.first().is_some_and(|word| word.starts_with('+'));
    let default = ["dso", "sym"].into_iter().filter(|_| typed.is_empty() || adds);
    let named = typed.iter().map(|word| word.trim_start_matches('+'));
    report.keys.columns.sort = default.chain(named).map(str::to_owned).collect();
    report.keys.columns.fields.clone_from(&raw.columns.fields);
    report.rows = raw.rows.clone();
    report.layout.table = raw.output.table.clone();
    report.filters.names = raw.filters.names.clone();
    report.symbol_search = raw.symbol_search.clone();
    report
}
