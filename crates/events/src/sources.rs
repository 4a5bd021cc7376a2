use std::cell::OnceCell;

use tare_kernel::host::{Host, Pmu};
use tare_kernel::tracefs::{Tracefs, TracefsError};

/// Where names are looked up: a machine's sysfs and tracefs. Both are read when a name needs them,
/// and not before: the names of software events need neither.
#[derive(Debug)]
pub struct Sources {
    host: Host,
    pmus: OnceCell<Vec<Pmu>>,
    cores: OnceCell<Vec<Pmu>>,
    tracefs: OnceCell<Tracefs>,
}

impl Sources {
    /// The names of this machine.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, pmus: OnceCell::new(), cores: OnceCell::new(), tracefs: OnceCell::new() }
    }

    /// All PMUs, sorted by name; none where sysfs can't be read.
    #[must_use]
    pub fn pmus(&self) -> &[Pmu] {
        self.pmus.get_or_init(|| self.host.pmus().unwrap_or_default())
    }

    /// Those PMUs that a test holds for, in the order in which the kernel numbered them
    /// (`uncore_imc_2` before `uncore_imc_10`).
    pub(super) fn pmus_that(&self, test: impl Fn(&Pmu) -> bool) -> Vec<Pmu> {
        let mut found: Vec<_> = self.pmus().iter().filter(|pmu| test(pmu)).cloned().collect();
        found.sort_by_key(|pmu| pmu.kind().ok());
        found
    }

    /// The PMUs of the cores: one on most machines, one for each kind of core on hybrid ones.
    #[must_use]
    pub fn cores(&self) -> &[Pmu] {
        self.cores.get_or_init(|| match self.host.pmu("cpu") {
            // The name that x86 gives it where all cores are of one kind: no need to look at the
            // others.
            Some(cpu) => vec![cpu],
            None => self.pmus_that(Pmu::is_core),
        })
    }

    /// Whether sysfs says for certain that the CPU's own events can't be opened: it lists PMUs, and
    /// none that could be the CPU's.
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
    /// Not mounted, or not readable for this user.
    pub fn tracefs(&self) -> Result<&Tracefs, TracefsError> {
        if let Some(found) = self.tracefs.get() {
            return Ok(found);
        }
        let found = Tracefs::find(&self.host)?;
        Ok(self.tracefs.get_or_init(|| found))
    }
}
