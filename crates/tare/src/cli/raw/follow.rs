/// How to follow what a command starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FollowMode {
    /// The first of these that can be done
    #[default]
    Auto,
    /// A cgroup of its own, with events on it (needs `CAP_PERFMON`, and write access to the current
    /// cgroup)
    Cgroup,
    /// Events on whole CPUs; what is not the command's is left out (needs `CAP_PERFMON`)
    System,
    /// Each child gets copies of its parent's events (needs no rights, misses short-lived children)
    Inherit,
}
