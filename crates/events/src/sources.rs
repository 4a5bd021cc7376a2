use std::cell::OnceCell;

use tare_kernel::host::{Host, Pmu};
use tare_kernel::tracefs::{Tracefs, TracefsError};

/// Looks names up in a machine's sysfs and tracefs. Each is read when a name first needs it; names
/// of software events need neither.
#[derive(Debug)]
pub struct Sources {
    host: Host,
    pmus: OnceCell<Vec<Pmu>>,
    cores: OnceCell<Vec<Pmu>>,
    tracefs: OnceCell<Tracefs>,
    takes_own_times: bool,
}

impl Sources {
    /// Creates the sources of a machine, without reading anything.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            host,
            pmus: OnceCell::new(),
            cores: OnceCell::new(),
            tracefs: OnceCell::new(),
            takes_own_times: false,
        }
    }

    /// Resolves `duration_time`, `user_time` and `system_time` to events that the caller fills
    /// ([`crate::Event::own_time`]). By default they are refused.
    #[must_use]
    pub fn with_own_times(self) -> Self {
        Self { takes_own_times: true, ..self }
    }

    pub(super) fn takes_own_times(&self) -> bool {
        self.takes_own_times
    }

    /// All PMUs, sorted by name; empty if sysfs can't be read.
    #[must_use]
    pub fn pmus(&self) -> &[Pmu] {
        self.pmus.get_or_init(|| self.host.pmus().unwrap_or_default())
    }

    /// Finds the PMUs that satisfy a test, in the order of their types (`uncore_imc_2` before
    /// `uncore_imc_10`).
    pub(super) fn find_pmus(&self, test: impl Fn(&Pmu) -> bool) -> Vec<Pmu> {
        let mut found: Vec<_> = self.pmus().iter().filter(|pmu| test(pmu)).cloned().collect();
        found.sort_by_key(|pmu| pmu.kind().ok());
        found
    }

    /// The PMUs of the cores: one on most machines, one for each kind of core on hybrid ones, none
    /// in most VMs.
    #[must_use]
    pub fn cores(&self) -> &[Pmu] {
        self.cores.get_or_init(|| match self.host.pmu("cpu") {
            // x86 with one kind of core names its PMU so; the others needn't be read.
            Some(cpu) => vec![cpu],
            None => self.find_pmus(Pmu::is_core),
        })
    }

    /// Whether the CPU's events certainly can't be opened: sysfs lists PMUs, and none can be the
    /// CPU's.
    #[must_use]
    pub fn lacks_cpu_pmu(&self) -> bool {
        !self.pmus().is_empty() && self.pmus().iter().all(Pmu::is_never_core)
    }

    /// The PMU of exactly this name.
    #[must_use]
    pub fn pmu(&self, name: &str) -> Option<Pmu> {
        self.host.pmu(name)
    }

    /// The machine's tracepoints.
    ///
    /// # Errors
    /// Fails if tracefs isn't mounted, or this user may not read it.
    pub fn tracefs(&self) -> Result<&Tracefs, TracefsError> {
        if let Some(found) = self.tracefs.get() {
            return Ok(found);
        }
        let found = Tracefs::find(&self.host)?;
        Ok(self.tracefs.get_or_init(|| found))
    }
}
