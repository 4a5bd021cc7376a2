//! The key table, used to look keys up and to generate the help.
//!
//! Keys that `perf report` has do the same here (`tools/perf/ui/browsers/hists.c` and
//! `annotate.c`); `docs/tui.md` lists the exceptions.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// A row per combination of sort keys, with its call chains.
    Functions,
    /// Callers and callees of a function.
    Callers,
    /// All call chains from the outermost function.
    Tree,
    /// All call chains as a flame graph.
    Flame,
    /// Samples over time.
    Timeline,
    /// A function's instructions.
    Annotate,
    /// Text: help, header, ledger.
    Text,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Switch to another view.
    Show(View),
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first line.
    First,
    /// To the last line.
    Last,
    /// Expand or collapse the line, or enter it.
    Enter,
    /// Expand or collapse one level.
    Expand,
    /// Collapse the line.
    Collapse,
    /// Expand or collapse everything below the row.
    ExpandRow,
    /// Expand everything.
    ExpandAll,
    /// Collapse everything.
    CollapseAll,
    /// The instructions of the function.
    Annotate,
    /// The next event.
    NextEvent,
    /// The previous event.
    PreviousEvent,
    /// Only this thread, or all again.
    ZoomThread,
    /// Only this process, or all again.
    ZoomProcess,
    /// Only this command, or all again.
    ZoomComm,
    /// Only this file, or all again.
    ZoomDso,
    /// Only the kernel, or all again.
    ZoomKernel,
    /// Only this CPU, or all again.
    ZoomCpu,
    /// Only samples with this call chain, or all again.
    ZoomStack,
    /// The outermost functions at the top or the bottom of the flame graph.
    Invert,
    /// Rows by CPU, or by thread.
    ByThread,
    /// Mark the start of a range.
    Begin,
    /// Mark the end of a range.
    End,
    /// Filter by the marked range, or by the column.
    Range,
    /// The next function by weight.
    NextFunction,
    /// The previous function by weight.
    PreviousFunction,
    /// Show or hide source lines.
    Source,
    /// Show or hide line numbers.
    LineNumbers,
    /// Show or hide file names of source lines.
    Files,
    /// Offsets from the function's start, or addresses.
    Distances,
    /// Cycle through which instructions show an offset.
    Level,
    /// Addresses instead of offsets.
    WholeAddresses,
    /// Show or hide the number of jumps to each instruction.
    Jumps,
    /// Show or hide the line from a jump to its target.
    Arrow,
    /// Percentages of all samples, or of the function's.
    OfAll,
    /// Percentages of sample counts, or of periods.
    BySamples,
    /// Percentages, periods, or sample counts.
    Figure,
    /// To the hottest instruction.
    Hottest,
    /// To the next instruction by weight.
    NextHottest,
    /// To the previous instruction by weight.
    PreviousHottest,
    /// Go to the jump's target.
    Jump,
    /// Prompt for a part of a function name.
    FilterSymbol,
    /// Prompt for a condition.
    Filter,
    /// Remove the last filter.
    Unfilter,
    /// Remove all filters.
    UnfilterAll,
    /// Prompt for a search text.
    Search,
    /// Next match.
    SearchNext,
    /// Previous match.
    SearchPrevious,
    /// Sort by the next column.
    Sort,
    /// Reverse the order.
    Reverse,
    /// Percentages of the displayed samples, or of all.
    Relative,
    /// Column titles on or off.
    Titles,
    /// Prompt for the percentage below which rows are hidden.
    Limit,
    /// Write the report, or the displayed instructions, to a file.
    Print,
    /// Whole paths, or file names.
    Verbose,
    /// Scroll names left.
    ScrollLeft,
    /// Scroll names right.
    ScrollRight,
    /// Open the row's menu.
    Menu,
    /// Show the recording's header.
    Header,
    /// Show losses and cost.
    Ledger,
    /// Show the keys.
    Help,
    /// One step back; quits from the first screen.
    Back,
    /// Quit.
    Quit,
    /// Suspend, as in a shell.
    Suspend,
    /// Pause or resume recording.
    Pause,
    /// Show only samples since the last refresh, or the whole window.
    Zero,
    /// Prompt for the refresh interval.
    Delay,
    /// Hide or show kernel samples.
    HideKernel,
    /// Hide or show user samples.
    HideUser,
}

/// Keys and their action in some views.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys' names.
    pub keys: &'static [&'static str],
    /// The views; all if empty.
    pub views: &'static [View],
    /// The action.
    pub action: Action,
    /// The help text.
    pub help: &'static str,
}

const LISTS: &[View] = &[View::Functions, View::Callers, View::Tree];
const ROWS: &[View] = &[View::Functions, View::Timeline];
const CODE: &[View] = &[View::Functions, View::Callers, View::Tree, View::Flame];
const DATA: &[View] = &[View::Functions, View::Callers, View::Tree, View::Flame, View::Timeline];
const LINES: &[View] =
    &[View::Functions, View::Callers, View::Tree, View::Timeline, View::Annotate, View::Text];

const fn key(
    keys: &'static [&'static str],
    views: &'static [View],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding { keys, views, action, help }
}

/// All bindings. The first that has the key and the view applies.
pub const BINDINGS: &[Binding] = &[
    key(&["h", "?", "F1"], &[], Action::Help, "this help"),
    key(&["q", "CTRL-c"], &[], Action::Quit, "quit"),
    key(&["ESC"], &[], Action::Back, "go back: leave the view, remove a filter, or quit"),
    key(&["CTRL-z"], &[], Action::Suspend, "suspend; fg resumes"),
    key(&["1"], &[], Action::Show(View::Functions), "functions"),
    key(&["2"], &[], Action::Show(View::Callers), "callers and callees of the selected function"),
    key(&["3"], &[], Action::Show(View::Tree), "call tree"),
    key(&["4"], &[], Action::Show(View::Flame), "flame graph"),
    key(&["5"], &[], Action::Show(View::Timeline), "samples over time"),
    key(&["a"], CODE, Action::Annotate, "instructions of the selected function"),
    key(&["UP"], &[View::Flame], Action::Up, "select the function above"),
    key(&["DOWN"], &[View::Flame], Action::Down, "select the function below"),
    key(&["LEFT"], &[View::Flame], Action::Left, "select the function to the left"),
    key(&["RIGHT"], &[View::Flame], Action::Right, "select the function to the right"),
    key(&["ENTER"], &[View::Flame], Action::Enter, "zoom: make the function as wide as the screen"),
    key(&["I"], &[View::Flame], Action::Invert, "outermost functions at the top, or at the bottom"),
    key(&["LEFT"], &[View::Timeline], Action::Left, "move back in time"),
    key(&["RIGHT"], &[View::Timeline], Action::Right, "move forward in time"),
    key(&["["], &[View::Timeline], Action::Begin, "mark the start of a range"),
    key(&["]"], &[View::Timeline], Action::End, "mark the end of a range"),
    key(&["ENTER"], &[View::Timeline], Action::Range, "only the marked range, or this column"),
    key(&["b"], &[View::Timeline], Action::ByThread, "rows by thread, or by CPU"),
    key(&["ENTER"], &[View::Annotate], Action::Jump, "go to the target of the jump"),
    key(&["s"], &[View::Annotate], Action::Source, "show or hide source lines"),
    key(&["t"], &[View::Annotate], Action::Figure, "percentages, periods, or sample counts"),
    key(&["p"], &[View::Annotate], Action::OfAll, "percentages of all samples, or of the function"),
    key(
        &["b"],
        &[View::Annotate],
        Action::BySamples,
        "percentages of sample counts, or of periods",
    ),
    key(&["k"], &[View::Annotate], Action::LineNumbers, "show or hide line numbers"),
    key(&["L"], &[View::Annotate], Action::Files, "show or hide file names of source lines"),
    key(
        &["o"],
        &[View::Annotate],
        Action::Distances,
        "offsets from the function's start, or addresses",
    ),
    key(
        &["O"],
        &[View::Annotate],
        Action::Level,
        "offsets at jump targets, also at calls, or everywhere",
    ),
    key(&["f"], &[View::Annotate], Action::WholeAddresses, "addresses instead of offsets"),
    key(
        &["J"],
        &[View::Annotate],
        Action::Jumps,
        "show or hide the number of jumps to an instruction",
    ),
    key(
        &["j"],
        &[View::Annotate],
        Action::Arrow,
        "show or hide the line from a jump to its target",
    ),
    key(&["RIGHT"], &[View::Annotate], Action::NextFunction, "next function by weight"),
    key(&["LEFT"], &[View::Annotate], Action::PreviousFunction, "previous function by weight"),
    key(
        &["P"],
        &[View::Annotate],
        Action::Print,
        "write the instructions to the file tare.annotate.N",
    ),
    key(&["H"], &[View::Annotate], Action::Hottest, "go to the hottest instruction"),
    key(&["TAB"], &[View::Annotate], Action::NextHottest, "go to the next hottest instruction"),
    key(
        &["UNTAB"],
        &[View::Annotate],
        Action::PreviousHottest,
        "go to the next hotter instruction",
    ),
    key(&["/"], &[View::Annotate, View::Text], Action::Search, "search"),
    key(&["UP"], LINES, Action::Up, "one line up"),
    key(&["DOWN"], LINES, Action::Down, "one line down"),
    key(&["PGUP"], LINES, Action::PageUp, "one screen up"),
    key(&["PGDN", "SPACE"], LINES, Action::PageDown, "one screen down"),
    key(&["HOME"], LINES, Action::First, "first line"),
    key(&["END"], LINES, Action::Last, "last line"),
    key(
        &["ENTER"],
        LISTS,
        Action::Enter,
        "expand or collapse the line; if nothing is below it, open the menu",
    ),
    key(&["+"], LISTS, Action::Expand, "expand or collapse one level of call chains"),
    key(&["-"], LISTS, Action::Collapse, "collapse the line"),
    key(&["e"], LISTS, Action::ExpandRow, "expand or collapse all call chains of the row"),
    key(&["E"], LISTS, Action::ExpandAll, "expand all call chains"),
    key(&["C"], LISTS, Action::CollapseAll, "collapse all call chains"),
    key(&["TAB"], DATA, Action::NextEvent, "next event"),
    key(&["UNTAB"], DATA, Action::PreviousEvent, "previous event"),
    key(&["t"], ROWS, Action::ZoomThread, "only this thread, or all again"),
    key(&["p"], ROWS, Action::ZoomProcess, "only this process, or all again"),
    key(&["c"], &[View::Functions], Action::ZoomComm, "only this command, or all again"),
    key(&["u"], ROWS, Action::ZoomCpu, "only this CPU, or all again"),
    key(&["d"], CODE, Action::ZoomDso, "only this file (DSO), or all again"),
    key(
        &["z"],
        &[View::Tree, View::Flame],
        Action::ZoomStack,
        "only this call chain, or all again",
    ),
    key(&["k"], DATA, Action::ZoomKernel, "only the kernel, or all again"),
    key(&["/"], DATA, Action::FilterSymbol, "only functions whose names contain a text"),
    key(
        &["f"],
        DATA,
        Action::Filter,
        "only comm=, pid=, tid=, cpu=, cgroup=, dso=, symbol=, function=, event=, time=",
    ),
    key(&["LEFT"], LISTS, Action::Unfilter, "remove the last filter"),
    key(&["BACKSPACE", "DELETE"], DATA, Action::Unfilter, "remove the last filter"),
    key(&["R"], DATA, Action::UnfilterAll, "remove all filters"),
    key(&["CTRL-f"], &[], Action::Search, "search"),
    key(&["n"], &[], Action::SearchNext, "next match"),
    key(&["N"], &[], Action::SearchPrevious, "previous match"),
    key(&["s"], &[View::Functions], Action::Sort, "sort by the next column"),
    key(&["r"], &[View::Functions], Action::Reverse, "reverse the order"),
    key(&["F"], DATA, Action::Relative, "percentages of the displayed samples, or of all"),
    key(&["H"], &[View::Functions], Action::Titles, "show or hide column titles"),
    key(&["L"], LISTS, Action::Limit, "hide rows below a percentage"),
    key(&["P"], &[View::Functions], Action::Print, "write the report to the file tare.report.N"),
    key(&["V"], LISTS, Action::Verbose, "show or hide whole paths of files"),
    key(&["<"], LISTS, Action::ScrollLeft, "scroll names back"),
    key(&[">"], LISTS, Action::ScrollRight, "scroll names to their ends"),
    key(&["m", "RIGHT"], LISTS, Action::Menu, "menu of the selected line"),
    key(&["i"], &[], Action::Header, "header of the recording: its machine and events"),
    key(&["l"], &[], Action::Ledger, "ledger and losses: what recording cost, and what is missing"),
];

/// Bindings of the live view; they take precedence.
pub const LIVE_BINDINGS: &[Binding] = &[
    key(&["SPACE"], DATA, Action::Pause, "pause or resume recording"),
    key(&["z"], DATA, Action::Zero, "only samples since the last refresh, or the whole window"),
    key(&["D"], DATA, Action::Delay, "set the seconds between refreshes"),
    key(&["K"], DATA, Action::HideKernel, "hide or show kernel samples"),
    key(&["U"], DATA, Action::HideUser, "hide or show user samples"),
];

/// Iterates over the bindings of a recording or of a live view, in order of precedence.
fn bindings(is_live: bool) -> impl Iterator<Item = &'static Binding> {
    let live = if is_live { LIVE_BINDINGS } else { &[] };
    live.iter().chain(BINDINGS)
}

/// Mouse actions, for the help.
const MOUSE: &[(&str, &str)] = &[
    ("WHEEL", "scroll"),
    ("CLICK", "select a line, again to open it; sort by a column's title; switch views below"),
    ("RIGHT CLICK", "menu of the selected line"),
    ("DRAG", "over time: mark a range; ENTER filters by it"),
];

/// Returns the action of a key in a view.
pub(super) fn action(view: View, name: &str, is_live: bool) -> Option<Action> {
    let fits = |binding: &&Binding| {
        binding.keys.contains(&name) && (binding.views.is_empty() || binding.views.contains(&view))
    };
    bindings(is_live).find(fits).map(|binding| binding.action)
}

/// Returns a key's name in the table.
pub(super) fn name(event: &KeyEvent) -> Option<String> {
    let is_held = |modifier| event.modifiers.contains(modifier);
    Some(match event.code {
        KeyCode::Char(' ') => "SPACE".to_owned(),
        KeyCode::Char(letter) if is_held(KeyModifiers::CONTROL) => format!("CTRL-{letter}"),
        KeyCode::Char(_) if is_held(KeyModifiers::ALT) => return None,
        KeyCode::Char(letter) => letter.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::BackTab => "UNTAB".to_owned(),
        code => match code {
            KeyCode::Enter => "ENTER",
            KeyCode::Esc => "ESC",
            KeyCode::Tab => "TAB",
            KeyCode::Backspace => "BACKSPACE",
            KeyCode::Delete => "DELETE",
            KeyCode::Up => "UP",
            KeyCode::Down => "DOWN",
            KeyCode::Left => "LEFT",
            KeyCode::Right => "RIGHT",
            KeyCode::PageUp => "PGUP",
            KeyCode::PageDown => "PGDN",
            KeyCode::Home => "HOME",
            KeyCode::End => "END",
            _ => return None,
        }
        .to_owned(),
    })
}

/// Returns the help lines of a view, one per binding.
pub(super) fn help(view: View, is_live: bool) -> Vec<String> {
    let fits = |binding: &&Binding| binding.views.is_empty() || binding.views.contains(&view);
    let line = |binding: &Binding| format!("{:<18} {}", binding.keys.join(" "), binding.help);
    let mouse = MOUSE.iter().map(|(action, help)| format!("{action:<18} {help}"));
    bindings(is_live).filter(fits).map(line).chain(mouse).collect()
}
