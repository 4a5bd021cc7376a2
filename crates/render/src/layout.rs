//! How tables are laid out as text.

/// How tables are laid out. The usual is the layout of `perf report --stdio`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// What stands between cells, which are then not padded (`-t`). A cell that holds it has a `.`
    /// in its place.
    pub separator: Option<String>,
    /// The widths of columns from left to right; 0 is what fits (`-w`).
    pub widths: Vec<usize>,
    /// Each sort key is a level of a tree (`--hierarchy`).
    pub hierarchy: bool,
    /// Events that are shown side by side, by their places among the events (`--group`). Others
    /// have tables of their own.
    pub groups: Vec<EventGroup>,
    /// Whole paths of files, and the address of each row's first sample (`-v`).
    pub verbose: bool,
    /// Whole paths of source files.
    pub full_source_paths: bool,
}

/// Events whose figures stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventGroup {
    /// As the recording calls the group.
    pub name: String,
    /// Places of the events, the leader's first.
    pub events: Vec<usize>,
    /// Rows are ordered by the figures of this one of [`Self::events`] first.
    pub sort_by: usize,
}
