//! Predicts the cost of a sample on this host: from a study, else from a recording's calibration,
//! else from published figures.

use std::cell::OnceCell;
use std::time::{Duration, SystemTime};

use tare_format::abi::{Attr, Flags};
use tare_format::ledger::{CostOrigin, Estimate, SampleCost};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;

use super::calibration::{Calibration, Conditions};
use super::kept::{self, StateFolder};
use super::plan::CallGraph;
use super::published::{IN_KERNEL, typical_cost};
use super::short::{self, ShortError};
use super::study::cpu_model;

/// The costs of samples on a host.
#[derive(Debug)]
pub struct Costs {
    host: Host,
    folder: Option<StateFolder>,
    /// The host's name and the kernel's release.
    names: OnceCell<[String; 2]>,
}

impl Costs {
    /// Creates the costs of a host, with the results stored in a folder, if there is one.
    #[must_use]
    pub fn new(host: Host, folder: Option<StateFolder>) -> Self {
        Self { host, folder, names: OnceCell::new() }
    }

    /// Returns the cost of a sample of this event with these attributes: from a study or
    /// calibration, possibly with another call graph, which `source` names. If neither exists and
    /// each sample `interrupts` the CPU, returns a published figure, otherwise `None`.
    #[must_use]
    pub fn sample_cost(&self, event: &str, attr: &Attr, interrupts: bool) -> Option<SampleCost> {
        let cost = self
            .measured(event, CallGraph::from_attr(attr))
            .or_else(|| interrupts.then(|| self.published()))?;
        // Only samples of the kernel include the kernel's part of the call chain.
        let has_kernel_chains =
            attr.has_callchain() && !attr.flags.contains(Flags::EXCLUDE_CALLCHAIN_KERNEL);
        Some(SampleCost { in_kernel: if has_kernel_chains { IN_KERNEL } else { 1.0 }, ..cost })
    }

    /// Returns how much more a sample for a recorder that unwinds costs than one with frame
    /// pointers, in microseconds; `None` unless both were measured, and it costs more.
    #[must_use]
    pub fn copied_stack_us(&self, event: &str) -> Option<f64> {
        let us = |call_graph: CallGraph| {
            let found = self.find_calibration(event, call_graph)?;
            (found.conditions.call_graph == call_graph).then_some(found.sample_us().value)
        };
        Some(us(CallGraph::Auto)? - us(CallGraph::Fp)?).filter(|more| *more > 0.0)
    }

    /// Measures the cost of a sample of this event, in about the given time, and stores it. A
    /// failure to store it is ignored.
    ///
    /// # Errors
    /// See [`ShortError`].
    pub fn calibrate(
        &self,
        kernel: &dyn Kernel,
        event: &str,
        attr: &Attr,
        time: Duration,
    ) -> Result<Calibration, ShortError> {
        let call_graph = CallGraph::from_attr(attr);
        let limit = self.host.sysctl("kernel.perf_event_max_sample_rate").ok();
        let limit = limit.and_then(|hz| u64::try_from(hz).ok()).unwrap_or(u64::MAX);
        let measured = short::measure(kernel, attr, call_graph, limit, time)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let conditions = Conditions {
            cpu_model: Some(cpu_model(&self.host)),
            ..self.conditions(strip_modifiers(event), call_graph)
        };
        let found = Calibration::from_one_rate(
            conditions,
            now.map_or(0, |since| since.as_secs()),
            &measured,
        );
        if let Some(folder) = &self.folder {
            // After a failure the next recording measures again.
            let _ = kept::save_calibration(folder, found.clone());
        }
        Ok(found)
    }

    fn conditions(&self, event: &str, call_graph: CallGraph) -> Conditions {
        let read = |name| self.host.read(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let [host, kernel] = self.names.get_or_init(|| ["hostname", "osrelease"].map(read));
        Conditions {
            host: host.clone(),
            kernel: kernel.clone(),
            event: event.to_owned(),
            call_graph,
            cpu_model: None,
        }
    }

    /// Finds a calibration with this call graph, or else with another; each of the event as named,
    /// or else without its modifiers.
    fn find_calibration(&self, event: &str, call_graph: CallGraph) -> Option<Calibration> {
        let folder = self.folder.as_ref()?;
        let others = CallGraph::ALL.into_iter().filter(|other| *other != call_graph);
        let without = Some(strip_modifiers(event)).filter(|stripped| *stripped != event);
        let mut candidates = [call_graph].into_iter().chain(others).flat_map(|call_graph| {
            [Some(event), without].into_iter().flatten().map(move |event| (call_graph, event))
        });
        candidates.find_map(|(call_graph, event)| {
            let conditions = self.conditions(event, call_graph);
            kept::find_calibration(folder, &conditions, &|| cpu_model(&self.host))
        })
    }

    fn measured(&self, event: &str, call_graph: CallGraph) -> Option<SampleCost> {
        let found = self.find_calibration(event, call_graph)?;
        let measured = found.conditions.call_graph;
        let but = if measured == call_graph {
            String::new()
        } else {
            format!(" with call graph {}, not {}", measured.name(), call_graph.name())
        };
        let host = &found.conditions.host;
        let source = match found.origin {
            CostOrigin::Calibration => format!("calibrated on {host} by a recording{but}"),
            _ => format!("measured on {host} by a study{but}"),
        };
        Some(SampleCost {
            us: found.sample_us(),
            in_kernel: 1.0,
            calibrated: true,
            origin: Some(found.origin),
            exact: measured == call_graph,
            source,
            time: Some(found.time),
        })
    }

    fn published(&self) -> SampleCost {
        let typical = typical_cost(self.host.hypervisor().is_some());
        SampleCost {
            us: Estimate::exact(typical.us),
            in_kernel: 1.0,
            calibrated: false,
            origin: Some(CostOrigin::Estimate),
            exact: false,
            source: format!(
                "an estimate, as of {}: `tare overhead` measures it here",
                typical.source
            ),
            time: None,
        }
    }
}

/// Cuts an event's name at the first colon: modifiers don't change a sample's cost.
fn strip_modifiers(event: &str) -> &str {
    event.split(':').next().unwrap_or(event)
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::PERF_SAMPLE_CALLCHAIN;

    use super::super::short::ShortMeasurement;
    use super::super::study::tests::study;
    use super::*;

    fn attr(has_chains: bool) -> Attr {
        let sample_type = if has_chains { u64::from(PERF_SAMPLE_CALLCHAIN) } else { 0 };
        Attr { sample_type, ..Attr::default() }
    }

    /// Creates a host with this kernel release, and a folder for its results.
    fn costs(base: &tempfile::TempDir, kernel: &str) -> Costs {
        let files = base.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&files).unwrap();
        std::fs::write(files.join("hostname"), "h\n").unwrap();
        std::fs::write(files.join("osrelease"), format!("{kernel}\n")).unwrap();
        std::fs::write(base.path().join("proc/cpuinfo"), "model name\t: c\n").unwrap();
        let folder = StateFolder::make(base.path(), kept::FOLDER).unwrap();
        Costs::new(Host::at(base.path()), Some(folder))
    }

    fn find(costs: &Costs, event: &str, has_chains: bool) -> SampleCost {
        costs.sample_cost(event, &attr(has_chains), true).unwrap()
    }

    #[test]
    fn prefers_the_same_call_graph_and_names_another() {
        let base = tempfile::tempdir().unwrap();
        let here = costs(&base, "6.1");
        let folder = here.folder.as_ref().unwrap();
        assert_eq!(find(&here, "cpu-clock", true).origin, Some(CostOrigin::Estimate));
        assert_eq!(here.sample_cost("page-faults", &attr(true), false), None);
        kept::save(folder, &study()).unwrap();
        let other = find(&here, "cpu-clock:u", true);
        assert_eq!(
            (other.source.as_str(), other.calibrated, other.in_kernel),
            ("measured on h by a study with call graph none, not fp", true, 2.0)
        );
        let mut with_chains = study();
        with_chains.conditions.call_graph = CallGraph::Fp;
        kept::save(folder, &with_chains).unwrap();
        assert_eq!(find(&here, "cpu-clock", true).source, "measured on h by a study");
        assert!(!find(&costs(&base, "6.2"), "cpu-clock", true).calibrated, "another kernel");
    }

    #[test]
    fn a_study_replaces_a_calibration() {
        let base = tempfile::tempdir().unwrap();
        let here = costs(&base, "6.1");
        let folder = here.folder.as_ref().unwrap();
        assert!(!find(&here, "cpu-clock:u", true).exact);
        let conditions = Conditions {
            cpu_model: Some("c".into()),
            ..here.conditions("cpu-clock", CallGraph::Fp)
        };
        let measured = ShortMeasurement {
            stolen_us: Estimate { value: 16.0, low: 15.0, high: 17.0 },
            samples: 900,
            frames: Some(8.0),
        };
        kept::save_calibration(folder, Calibration::from_one_rate(conditions, 7, &measured))
            .unwrap();
        let found = find(&here, "cpu-clock:u", true);
        assert_eq!(
            (found.us.value, found.origin, found.source.as_str()),
            (16.0, Some(CostOrigin::Calibration), "calibrated on h by a recording")
        );
        assert!(found.exact && !find(&here, "cpu-clock:u", false).exact);
        std::fs::write(base.path().join("proc/cpuinfo"), "model name\t: another\n").unwrap();
        assert!(!find(&here, "cpu-clock", true).calibrated, "other CPUs");
        std::fs::write(base.path().join("proc/cpuinfo"), "model name\t: c\n").unwrap();
        let mut with_chains = study();
        with_chains.conditions.call_graph = CallGraph::Fp;
        kept::save(folder, &with_chains).unwrap();
        assert_eq!(find(&here, "cpu-clock", true).origin, Some(CostOrigin::Study));
    }
}
