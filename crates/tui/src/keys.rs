//! The key table, used to look keys up and to generate the help.
//!
//! Where `perf report` has a key for something, it is the same one
//! (`tools/perf/ui/browsers/hists.c` and `annotate.c`).

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// A row per function, with its callees.
    Functions,
    /// Who calls a function, and what it calls.
    Callers,
    /// All call chains from the outermost function.
    Tree,
    /// The same as a flame graph.
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
    /// The event before.
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
    /// Flame graph with its root at the top or the bottom.
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
    /// The function before by weight.
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
    /// To the one before.
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
    /// Write the report to a file.
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
    /// The keys.
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

/// All bindings; the first match counts.
pub const BINDINGS: &[Binding] = &[
    key(&["h", "?", "F1"], &[], Action::Help, "this help"),
    key(&["q", "CTRL-c"], &[], Action::Quit, "quit"),
    key(&["ESC"], &[], Action::Back, "one step back: out of a view, a filter, the program"),
    key(&["CTRL-z"], &[], Action::Suspend, "back to the shell, until fg"),
    key(&["1"], &[], Action::Show(View::Functions), "functions"),
    key(
        &["2"],
        &[],
        Action::Show(View::Callers),
        "who calls the function of the row, and what it calls",
    ),
    key(&["3"], &[], Action::Show(View::Tree), "call tree"),
    key(&["4"], &[], Action::Show(View::Flame), "flame graph"),
    key(&["5"], &[], Action::Show(View::Timeline), "samples over time"),
    key(&["a"], CODE, Action::Annotate, "the instructions of the function"),
    key(&["UP"], &[View::Flame], Action::Up, "to the function above"),
    key(&["DOWN"], &[View::Flame], Action::Down, "to the function below"),
    key(&["LEFT"], &[View::Flame], Action::Left, "to the function to the left"),
    key(&["RIGHT"], &[View::Flame], Action::Right, "to the function to the right"),
    key(&["ENTER"], &[View::Flame], Action::Enter, "make the function as wide as the screen"),
    key(&["I"], &[View::Flame], Action::Invert, "the outermost functions above, or below"),
    key(&["LEFT"], &[View::Timeline], Action::Left, "back in time"),
    key(&["RIGHT"], &[View::Timeline], Action::Right, "on in time"),
    key(&["["], &[View::Timeline], Action::Begin, "a range begins here"),
    key(&["]"], &[View::Timeline], Action::End, "a range ends here"),
    key(&["ENTER"], &[View::Timeline], Action::Range, "only this range, or this column"),
    key(&["b"], &[View::Timeline], Action::ByThread, "by thread, or by CPU again"),
    key(&["ENTER"], &[View::Annotate], Action::Jump, "to where the instruction jumps"),
    key(&["s"], &[View::Annotate], Action::Source, "lines of the source on or off"),
    key(&["t"], &[View::Annotate], Action::Figure, "percentages, periods, or samples"),
    key(&["p"], &[View::Annotate], Action::OfAll, "percentages of all samples, or of the function"),
    key(&["b"], &[View::Annotate], Action::BySamples, "percentages by samples, or by periods"),
    key(&["k"], &[View::Annotate], Action::LineNumbers, "numbers of lines on or off"),
    key(&["L"], &[View::Annotate], Action::Files, "files before lines of the source on or off"),
    key(&["o"], &[View::Annotate], Action::Distances, "distances from the start, or addresses"),
    key(&["O"], &[View::Annotate], Action::Level, "distances where jumps lead, at calls, at all"),
    key(&["f"], &[View::Annotate], Action::WholeAddresses, "addresses in place of distances"),
    key(&["J"], &[View::Annotate], Action::Jumps, "how many jumps lead to an instruction"),
    key(&["j"], &[View::Annotate], Action::Arrow, "the line from a jump to where it leads"),
    key(&["RIGHT"], &[View::Annotate], Action::NextFunction, "the next function by weight"),
    key(&["LEFT"], &[View::Annotate], Action::PreviousFunction, "the function before by weight"),
    key(&["P"], &[View::Annotate], Action::Print, "write it to the file tare.annotate.N"),
    key(&["H"], &[View::Annotate], Action::Hottest, "to the hottest instruction"),
    key(&["TAB"], &[View::Annotate], Action::NextHottest, "to the next hottest instruction"),
    key(&["UNTAB"], &[View::Annotate], Action::PreviousHottest, "to the one before"),
    key(&["/"], &[View::Annotate, View::Text], Action::Search, "search"),
    key(&["UP"], LINES, Action::Up, "a line up"),
    key(&["DOWN"], LINES, Action::Down, "a line down"),
    key(&["PGUP"], LINES, Action::PageUp, "a screen up"),
    key(&["PGDN", "SPACE"], LINES, Action::PageDown, "a screen down"),
    key(&["HOME"], LINES, Action::First, "to the first line"),
    key(&["END"], LINES, Action::Last, "to the last line"),
    key(&["ENTER"], LISTS, Action::Enter, "open or close the line; without call chains the menu"),
    key(&["+"], LISTS, Action::Expand, "open or close one level of call chains"),
    key(&["-"], LISTS, Action::Collapse, "close them"),
    key(&["e"], LISTS, Action::ExpandRow, "open or close all call chains of the row"),
    key(&["E"], LISTS, Action::ExpandAll, "open all call chains"),
    key(&["C"], LISTS, Action::CollapseAll, "close all call chains"),
    key(&["TAB"], DATA, Action::NextEvent, "next event"),
    key(&["UNTAB"], DATA, Action::PreviousEvent, "event before"),
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
    key(&["/"], DATA, Action::FilterSymbol, "only functions with this in their names"),
    key(
        &["f"],
        DATA,
        Action::Filter,
        "only comm=, pid=, tid=, cpu=, cgroup=, dso=, symbol=, function=, event=, time=",
    ),
    key(&["LEFT"], LISTS, Action::Unfilter, "take the last filter back"),
    key(&["BACKSPACE", "DELETE"], DATA, Action::Unfilter, "the same"),
    key(&["R"], DATA, Action::UnfilterAll, "take all filters back"),
    key(&["CTRL-f"], &[], Action::Search, "search"),
    key(&["n"], &[], Action::SearchNext, "next place that was searched for"),
    key(&["N"], &[], Action::SearchPrevious, "place before"),
    key(&["s"], &[View::Functions], Action::Sort, "sort by the next column"),
    key(&["r"], &[View::Functions], Action::Reverse, "turn the order around"),
    key(&["F"], DATA, Action::Relative, "percentages of what is shown, or of all"),
    key(&["H"], &[View::Functions], Action::Titles, "column titles on or off"),
    key(&["L"], LISTS, Action::Limit, "hide what is below so many percent"),
    key(&["P"], &[View::Functions], Action::Print, "write the report to the file tare.report.N"),
    key(&["V"], LISTS, Action::Verbose, "whole paths of files"),
    key(&["<"], LISTS, Action::ScrollLeft, "names further to the left"),
    key(&[">"], LISTS, Action::ScrollRight, "names further to the right"),
    key(&["m", "RIGHT"], LISTS, Action::Menu, "what can be done with the row"),
    key(&["i"], &[], Action::Header, "what the recording says of its machine and its events"),
    key(&["l"], &[], Action::Ledger, "the ledger: what recording cost, and what is missing"),
];

/// Bindings of the live view, as in `perf top`; they take precedence.
pub const LIVE_BINDINGS: &[Binding] = &[
    key(&["SPACE"], DATA, Action::Pause, "stop recording for a while, or go on"),
    key(&["z"], DATA, Action::Zero, "only what came since the last refresh, or the window again"),
    key(&["D"], DATA, Action::Delay, "ask for the seconds between refreshes"),
    key(&["K"], DATA, Action::HideKernel, "without what ran in the kernel, or with it again"),
    key(&["U"], DATA, Action::HideUser, "without what ran in programs, or with it again"),
];

/// Iterates over the bindings of a recording or of a live view.
fn bindings(is_live: bool) -> impl Iterator<Item = &'static Binding> {
    let live = if is_live { LIVE_BINDINGS } else { &[] };
    live.iter().chain(BINDINGS)
}

/// Mouse actions, for the help.
const MOUSE: &[(&str, &str)] = &[
    ("WHEEL", "up and down"),
    ("CLICK", "choose a line, again to open it; a view below, a column's title to sort by it"),
    ("RIGHT CLICK", "what can be done with the row"),
    ("DRAG", "over time: a range, which ENTER takes"),
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
    let mouse = MOUSE.iter().map(|(what, help)| format!("{what:<18} {help}"));
    bindings(is_live).filter(fits).map(line).chain(mouse).collect()
}
