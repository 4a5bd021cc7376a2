/// How to follow a command's children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FollowMode {
    /// The first possible one of these
    #[default]
    Auto,
    /// Events on a cgroup of the command's own (needs `CAP_PERFMON`, and write access to the current
    /// cgroup)
    Cgroup,
    /// Events on whole CPUs, filtered to the command's samples (needs `CAP_PERFMON`)
    System,
    /// Copies of the parent's events in each child (needs no privileges, misses short-lived children)
    Inherit,
}
