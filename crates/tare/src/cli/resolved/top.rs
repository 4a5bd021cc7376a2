//! What `tare top` is to do.

use std::time::Duration;

use clap::{Args, FromArgMatches};
use tare_kernel::host::Host;
use tare_profile::{Space, Term};
use tare_record::Options;
use tare_record::options::{Budget, Rate};
use tare_render::TableView;
use tare_symbols::SymbolOptions;
use tare_tui::Pace;

use crate::cli::raw;
use crate::cli::resolved::record::RecordOptions;
use crate::cli::resolved::report::{RecordingTraits, ReportOptions};
use crate::exit::Refusal;
use crate::terminal;

/// What sampling may cost where the user doesn't say, and the least rate.
const BUDGET: Budget = Budget { share: 0.01, min_hz: 19 };

/// How soon records are looked at for the first time.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// What `tare top` is to do.
#[derive(Debug)]
pub(crate) struct Top {
    /// What is recorded, and how.
    pub(crate) options: Options,
    /// The budget is the usual one: it is given up where it can't be kept.
    pub(crate) has_usual_budget: bool,
    /// How what is recorded is shown.
    pub(crate) form: TopForm,
    /// How long and how often.
    pub(crate) pace: Pace,
    /// When it ends at the latest.
    pub(crate) timeout: Option<Duration>,
    /// Conditions on samples.
    pub(crate) terms: Vec<Term>,
    /// Where symbols are looked for.
    pub(crate) symbols: SymbolOptions,
    /// Rows that are shown; `None`: as many as fit, or all.
    entries: Option<usize>,
    report: ReportOptions,
}

/// How what is recorded is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopForm {
    /// On the whole terminal.
    Screen,
    /// A screen of text at each refresh.
    Text,
    /// A document at each refresh.
    Json,
}

impl Top {
    /// Works out what is to be done.
    ///
    /// # Errors
    /// A [`Refusal`] that names the remedy.
    pub(crate) fn resolve(raw: &raw::TopArgs, host: &Host) -> Result<Self, Refusal> {
        let delay = seconds("-d", &raw.delay)?;
        let window = seconds("--window", &raw.window)?;
        let form = form(raw)?;
        let mut options = RecordOptions::resolve(record(raw), host)?.options;
        let has_usual_budget =
            options.sampling.budget.is_none() && !matches!(options.sampling.rate, Rate::Period(_));
        if has_usual_budget {
            options.sampling.budget = Some(Budget { min_hz: raw.min_rate, ..BUDGET });
        }
        options.may_pause = true;
        options.build_ids = false;
        options.rings.flush_interval = delay.min(FIRST_LOOK);
        let hidden = [(raw.hide_kernel, Space::Kernel), (raw.hide_user, Space::User)];
        let terms = hidden.into_iter().filter(|(hides, _)| *hides);
        let terms = terms.map(|(_, space)| Term::NotIn(space)).collect();
        let report = ReportOptions::resolve(report(raw)?)?;
        if report.asks_for_lines() {
            return Err(Refusal::usage(
                "--sort srcline and srcfile are for recordings (tare record, then tare report)",
            ));
        }
        Ok(Self {
            has_usual_budget,
            form,
            pace: Pace { window, delay, is_zeroed: raw.zero },
            timeout: raw.timeout.map(Duration::from_millis),
            terms,
            // What a download says of itself would stand in the middle of the screen.
            symbols: SymbolOptions { debuginfod: None, ..report.symbols.clone() },
            entries: raw.entries,
            report,
            options,
        })
    }

    /// What is shown of samples, with or without call chains. Of rows those that `fit`, unless the
    /// user says how many.
    pub(crate) fn view(&self, recorded: RecordingTraits, fit: Option<usize>) -> TableView {
        TableView { most_rows: self.entries.or(fit), ..self.report.view(recorded) }
    }

    /// Whether rows are told apart by the fields of tracepoints.
    pub(crate) fn shows_trace(&self) -> bool {
        self.report.shows_trace(RecordingTraits::default())
    }
}

fn form(raw: &raw::TopArgs) -> Result<TopForm, Refusal> {
    match (raw.json, raw.tui, raw.stdio) {
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

/// What `tare record` would be told.
fn record(raw: &raw::TopArgs) -> raw::RecordArgs {
    let mut record = raw::RecordArgs::default();
    record.events.clone_from(&raw.events);
    let sampling = &mut record.sampling;
    sampling.frequency.clone_from(&raw.frequency);
    sampling.count = raw.count;
    sampling.max_overhead.clone_from(&raw.max_overhead);
    sampling.min_rate = Some(raw.min_rate);
    sampling.with_call_graph = raw.with_call_graph;
    sampling.call_graph.clone_from(&raw.call_graph);
    sampling.no_call_graph = !raw.with_call_graph && raw.call_graph.is_none();
    sampling.all_cgroups = raw.all_cgroups;
    sampling.include_self = raw.include_self;
    sampling.sample_cpu = true;
    let target = &mut record.target;
    target.all_cpus = raw.all_cpus;
    target.pid.clone_from(&raw.pid);
    target.tid.clone_from(&raw.tid);
    target.uid.clone_from(&raw.uid);
    target.cpu.clone_from(&raw.cpu);
    target.cgroup.clone_from(&raw.cgroup);
    target.no_inherit = raw.no_inherit;
    record.output.mmap_pages.clone_from(&raw.mmap_pages);
    record.output.realtime = raw.realtime;
    record
}

/// What `tare report` would be told.
fn report(raw: &raw::TopArgs) -> Result<raw::ReportArgs, Refusal> {
    // As if nothing was typed.
    let matches =
        raw::ReportArgs::augment_args(clap::Command::new("top")).try_get_matches_from(["top"]);
    let typed = matches.and_then(|matches| raw::ReportArgs::from_arg_matches(&matches));
    let mut report = typed.map_err(|error| Refusal::usage(error.to_string()))?;
    let adds = raw.sort.first().is_some_and(|word| word.starts_with('+'));
    let usual = ["dso", "sym"].into_iter().filter(|_| raw.sort.is_empty() || adds);
    let named = raw.sort.iter().map(|word| word.trim_start_matches('+'));
    report.sort = usual.chain(named).map(str::to_owned).collect();
    report.fields.clone_from(&raw.fields);
    report.show_nr_samples = raw.show_nr_samples;
    report.show_total_period = raw.show_total_period;
    report.children = raw.children;
    report.no_children = raw.no_children;
    report.percent_limit = raw.percent_limit;
    report.percentage = raw.percentage;
    report.layout.column_widths.clone_from(&raw.column_widths);
    report.layout.verbose = raw.verbose;
    report.comms.clone_from(&raw.comms);
    report.dsos.clone_from(&raw.dsos);
    report.symbols.clone_from(&raw.symbols);
    report.symbol_search = raw.symbol_search.clone();
    Ok(report)
}
