//! What a sample costs on this host, for those who predict with it: as a study found it, else as it
//! was published.

use tare_format::ledger::Estimate;
use tare_kernel::host::Host;
use tare_measure::overhead::calibration::Conditions;
use tare_measure::overhead::plan::CallGraph;
use tare_measure::overhead::published::typical;

use super::state::StateFolder;
use super::{FOLDER, store};
use tare_format::ledger::SampleCost;

/// The cost of a sample of this event with this call graph, where a study measured it, else with
/// another call graph, which `source` names. `interrupts`: whether each sample is an interrupt, for
/// which there are published figures; `None` for other events without a study.
pub(crate) fn sample_cost(
    host: &Host,
    event: &str,
    call_graph: CallGraph,
    interrupts: bool,
) -> Option<SampleCost> {
    let folder = StateFolder::find(FOLDER).ok().flatten();
    calibrated(folder.as_ref(), host, event, call_graph)
        .or_else(|| interrupts.then(|| estimated(host)))
}

/// What a sample with a copied stack costs more than one with frame pointers, in microseconds, where
/// studies of this host measured both.
pub(crate) fn copied_stack_us(host: &Host, event: &str) -> Option<f64> {
    let folder = StateFolder::find(FOLDER).ok().flatten();
    let us = |call_graph: CallGraph| {
        let cost = calibrated(folder.as_ref(), host, event, call_graph)?;
        let is_of_another = cost.source.contains(" with call graph ");
        (!is_of_another).then_some(cost.us.value)
    };
    Some(us(CallGraph::Dwarf)? - us(CallGraph::Fp)?)
}

fn calibrated(
    folder: Option<&StateFolder>,
    host: &Host,
    event: &str,
    call_graph: CallGraph,
) -> Option<SampleCost> {
    let folder = folder?;
    let name = |path: &str| host.read(path).unwrap_or_default();
    let (host, kernel) = (name("/proc/sys/kernel/hostname"), name("/proc/sys/kernel/osrelease"));
    let others = [CallGraph::None, CallGraph::Fp, CallGraph::Dwarf]
        .into_iter()
        .filter(|other| *other != call_graph);
    // Modifiers choose what is sampled, and not what a sample costs.
    let plain = event.split(':').next().filter(|plain| *plain != event);
    let candidates = [call_graph].into_iter().chain(others).flat_map(|call_graph| {
        [Some(event), plain].into_iter().flatten().map(move |event| (call_graph, event))
    });
    let found = |(call_graph, event): (CallGraph, &str)| {
        let conditions = Conditions {
            host: host.clone(),
            kernel: kernel.clone(),
            event: event.to_owned(),
            call_graph,
        };
        store::calibration(folder, &conditions)
    };
    let calibration = candidates.into_iter().find_map(found)?;
    let measured = calibration.conditions.call_graph;
    let but = if measured == call_graph {
        String::new()
    } else {
        format!(" with call graph {}, not {}", measured.name(), call_graph.name())
    };
    Some(SampleCost {
        us: calibration.sample_us(),
        in_kernel: 1.0,
        calibrated: true,
        source: format!("calibrated on {host}{but}"),
        time: Some(calibration.time),
    })
}

fn estimated(host: &Host) -> SampleCost {
    let typical = typical(host.hypervisor().is_some());
    SampleCost {
        us: Estimate::exact(typical.us),
        in_kernel: 1.0,
        calibrated: false,
        source: format!("an estimate, as of {}: `tare overhead` measures it here", typical.of),
        time: None,
    }
}

#[cfg(test)]
mod tests {
    use tare_measure::overhead::fit::{Fit, Point};
    use tare_measure::overhead::rates::{Figure, FittedFigure};
    use tare_measure::overhead::study::{Study, StudyHost, VERSION};

    use super::*;

    /// A study of cpu-clock without call graphs, in which a sample costs 2.5 us.
    fn study() -> Study {
        let points = [100.0, 2000.0, 4000.0]
            .map(|hz| Point { hz, cost: Estimate::with_error(2.5e-6 * hz, 1e-6) });
        let fit = Fit::of(&points, None).unwrap();
        Study {
            version: VERSION,
            machine: StudyHost {
                host: "h".into(),
                kernel: "6.1".into(),
                cpu_model: "c".into(),
                cpus: 2,
                virtual_machine: None,
            },
            conditions: Conditions {
                host: "h".into(),
                kernel: "6.1".into(),
                event: "cpu-clock".into(),
                call_graph: CallGraph::None,
            },
            time: 0,
            seconds: 1.0,
            cpu: 0,
            slice_ms: 10.0,
            pairs: 6,
            seed: 1,
            uninterrupted: true,
            max_sample_rate: None,
            rows: Vec::new(),
            fits: vec![FittedFigure { figure: Figure::Stolen, fit }],
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_same_call_graph_is_preferred_and_another_is_named() {
        let (base, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = StateFolder::open_below(base.path());
        let kernel = root.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&kernel).unwrap();
        std::fs::write(kernel.join("hostname"), "h\n").unwrap();
        std::fs::write(kernel.join("osrelease"), "6.1\n").unwrap();
        let host = Host::at(root.path());
        let find = |event: &str, way| calibrated(Some(&folder), &host, event, way);
        assert_eq!(find("cpu-clock", CallGraph::Fp), None);
        store::save(&folder, &study()).unwrap();
        let other = find("cpu-clock:u", CallGraph::Fp).unwrap();
        assert_eq!(
            (other.source.as_str(), other.calibrated),
            ("calibrated on h with call graph none, not fp", true)
        );
        let mut with_chains = study();
        with_chains.conditions.call_graph = CallGraph::Fp;
        store::save(&folder, &with_chains).unwrap();
        assert_eq!(find("cpu-clock", CallGraph::Fp).unwrap().source, "calibrated on h");
        std::fs::write(kernel.join("osrelease"), "6.2\n").unwrap();
        assert_eq!(find("cpu-clock", CallGraph::Fp), None, "another kernel");
    }
}
