//! What a sample costs on this host, for those who predict with it: as a study found it, else as it
//! was published.

use tare_format::ledger::Estimate;
use tare_kernel::host::Host;
use tare_measure::overhead::calibration::Place;
use tare_measure::overhead::plan::CallGraph;
use tare_measure::overhead::published::typical;

use super::state::StateFolder;
use super::{FOLDER, store};
use tare_format::ledger::SampleCost;

/// The cost of a sample of this event, in the way that its call chains are taken where that was
/// measured, else in another way, which is said. `interrupts`: whether each sample is an interrupt,
/// of which there are published figures. None for other events that nobody measured.
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
    let ways = [call_graph]
        .into_iter()
        .chain(others)
        .flat_map(|way| [Some(event), plain].into_iter().flatten().map(move |event| (way, event)));
    let found = |(way, event): (CallGraph, &str)| {
        let place = Place {
            host: host.clone(),
            kernel: kernel.clone(),
            event: event.to_owned(),
            call_graph: way,
        };
        store::calibration(folder, &place)
    };
    let calibration = ways.into_iter().find_map(found)?;
    let way = calibration.place.call_graph;
    let but = if way == call_graph {
        String::new()
    } else {
        format!(" with call graph {}, not {}", way.name(), call_graph.name())
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
    use super::super::document::tests::study;
    use super::*;

    #[test]
    fn the_same_way_of_call_chains_is_preferred_and_another_is_named() {
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
        with_chains.place.call_graph = CallGraph::Fp;
        store::save(&folder, &with_chains).unwrap();
        assert_eq!(find("cpu-clock", CallGraph::Fp).unwrap().source, "calibrated on h");
        std::fs::write(kernel.join("osrelease"), "6.2\n").unwrap();
        assert_eq!(find("cpu-clock", CallGraph::Fp), None, "another kernel");
    }
}
