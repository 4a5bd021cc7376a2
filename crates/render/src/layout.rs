//! The layout of tables as text.

/// The layout of tables as text. The default is that of `perf report --stdio`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The text between cells, which then aren't padded (`-t`). In cells it is replaced by `.`.
    pub separator: Option<String>,
    /// The widths of columns in cells, from left to right; 0 means as wide as the widest cell
    /// (`-w`).
    pub widths: Vec<usize>,
    /// Each sort key is a level of a tree (`--hierarchy`).
    pub hierarchy: bool,
    /// Events that are shown side by side (`--group`). Other events have their own tables.
    pub groups: Vec<EventGroup>,
    /// Whole paths of files, and the start of each row's function, or its address without one
    /// (`-v`).
    pub verbose: bool,
    /// Whole paths of source files.
    pub full_source_paths: bool,
}

/// Events whose figures are shown side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventGroup {
    /// The group's name in the recording.
    pub name: String,
    /// Indexes of the events, the leader's first.
    pub events: Vec<usize>,
    /// Index in [`Self::events`] of the event that rows are sorted by first.
    pub sort_by: usize,
}
