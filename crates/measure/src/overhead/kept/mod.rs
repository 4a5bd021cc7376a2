//! Stores studies, and calibrations by recordings where there is no study: a file for each host,
//! kernel, event and call graph.

mod folder;

use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use tare_format::ledger::CostOrigin;

use super::calibration::{Calibration, Conditions};
use super::study::{Study, StudyRecord, VERSION};

pub use folder::{FolderError, StateFolder};

/// The name of the folder, below tare's.
pub const FOLDER: &str = "overhead";

const ENDING: &str = ".json";

/// The reason why a file can't be used or written.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text doesn't have the expected format.
    #[error(transparent)]
    Text(#[from] serde_json::Error),
    /// The format has another version.
    #[error("version {0} is not {VERSION}")]
    Version(u32),
}

/// A file that can't be used or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct Unusable {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: KeptError,
}

/// The contents of a folder.
#[derive(Debug, Default)]
pub struct StoredStudies {
    /// The studies, the latest first.
    pub studies: Vec<Study>,
    /// Files that can't be read or parsed, or have another version.
    pub unusable: Vec<Unusable>,
}

/// Stores a study, and returns the path of its file. Replaces an earlier study or calibration for
/// the same conditions.
///
/// # Errors
/// Fails if writing fails.
pub fn save(folder: &StateFolder, study: &Study) -> Result<PathBuf, Unusable> {
    write(folder, &study.conditions, &study.to_record())
}

/// Stores the calibration of a recording. It replaces a study for the same conditions, so call this
/// only without one.
///
/// # Errors
/// Fails if writing fails.
pub fn save_calibration(
    folder: &StateFolder,
    calibration: Calibration,
) -> Result<PathBuf, Unusable> {
    let conditions = calibration.conditions.clone();
    write(folder, &conditions, &StudyRecord { calibration: Some(calibration), study: None })
}

fn write(
    folder: &StateFolder,
    conditions: &Conditions,
    record: &StudyRecord,
) -> Result<PathBuf, Unusable> {
    let name = file_name(conditions);
    let path = folder.path(&name);
    let written = serde_json::to_string_pretty(record)
        .map_err(KeptError::from)
        .and_then(|text| Ok(folder.write(&name, &(text + "\n"))?));
    match written {
        Ok(()) => Ok(path),
        Err(why) => Err(Unusable { path, why }),
    }
}

/// Loads all studies.
///
/// # Errors
/// Fails if the folder can't be read.
pub fn load_all(folder: &StateFolder) -> io::Result<StoredStudies> {
    let mut loaded = StoredStudies::default();
    for name in folder.names()?.iter().filter(|name| name.ends_with(ENDING)) {
        match load(folder, name) {
            Ok(study) => loaded.studies.extend(study),
            Err(why) => loaded.unusable.push(Unusable { path: folder.path(name), why }),
        }
    }
    loaded.studies.sort_by_key(|study| std::cmp::Reverse(study.time));
    Ok(loaded)
}

/// Loads the study in a file; `None` if it has only a calibration.
fn load(folder: &StateFolder, name: &str) -> Result<Option<Study>, KeptError> {
    let text = folder.read(name)?.unwrap_or_default();
    match serde_json::from_str::<StudyRecord>(&text)?.study {
        Some(study) if study.version != VERSION => Err(KeptError::Version(study.version)),
        study => Ok(study),
    }
}

/// The part of a file that predictions need.
#[derive(Deserialize)]
struct CalibrationRecord {
    calibration: Option<Calibration>,
}

/// Finds the calibration for these conditions; `None` if nothing was measured, the file can't be
/// read or is invalid, or another CPU model was measured. `cpu_model` returns the model of this
/// host's CPUs; it is called only if a file names a model.
#[must_use]
pub fn find_calibration(
    folder: &StateFolder,
    conditions: &Conditions,
    cpu_model: &dyn Fn() -> String,
) -> Option<Calibration> {
    let text = folder.read(&file_name(conditions)).ok()??;
    let found = serde_json::from_str::<CalibrationRecord>(&text).ok()?.calibration?;
    let stored = &found.conditions;
    let is_here = Conditions { cpu_model: stored.cpu_model.clone(), ..conditions.clone() }
        == *stored
        && stored.cpu_model.as_ref().is_none_or(|model| *model == cpu_model());
    (is_here && found.is_valid() && found.origin != CostOrigin::Estimate).then_some(found)
}

/// Returns a file name that differs for every host, kernel, event and call graph, but not for every
/// CPU model: a measurement on new CPUs replaces the old one.
fn file_name(conditions: &Conditions) -> String {
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .take(40)
            .collect::<String>()
    };
    let whole =
        [&conditions.host, &conditions.kernel, &conditions.event].map(String::as_str).join("\0");
    // FNV-1a is the same on every machine and in every version.
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-{}-{hash:016x}{ENDING}", plain(&conditions.event), conditions.call_graph.name())
}

#[cfg(test)]
mod tests {
    use super::super::plan::CallGraph;
    use super::super::short::ShortMeasurement;
    use super::*;
    use tare_format::ledger::Estimate;

    fn conditions(event: &str, kernel: &str) -> Conditions {
        Conditions {
            host: "h".into(),
            kernel: kernel.into(),
            event: event.into(),
            call_graph: CallGraph::Fp,
            cpu_model: Some("c".into()),
        }
    }

    #[test]
    fn file_names_have_no_path_and_differ_by_kernel() {
        let name = file_name(&conditions("../a/b", "6.1"));
        assert!(name.starts_with("___a_b-fp-") && name.ends_with(".json"), "{name}");
        assert_ne!(
            file_name(&conditions("cycles", "6.1")),
            file_name(&conditions("cycles", "6.2"))
        );
    }

    #[test]
    fn a_calibration_is_found_only_for_its_cpu_and_is_not_a_study() {
        let base = tempfile::tempdir().unwrap();
        let folder = StateFolder::make(base.path(), FOLDER).unwrap();
        let measured =
            ShortMeasurement { stolen_us: Estimate::exact(3.0), samples: 500, frames: None };
        let calibrate =
            |event: &str| Calibration::from_one_rate(conditions(event, "6.1"), 7, &measured);
        save_calibration(&folder, calibrate("cycles")).unwrap();
        let find = |kernel: &str, model: &str| {
            let model = model.to_owned();
            find_calibration(&folder, &conditions("cycles", kernel), &move || model.clone())
        };
        assert_eq!(find("6.1", "c"), Some(calibrate("cycles")));
        assert_eq!((find("6.1", "another"), find("6.2", "c")), (None, None));
        let loaded = load_all(&folder).unwrap();
        assert!(loaded.studies.is_empty() && loaded.unusable.is_empty());
        folder.write("x.json", "{").unwrap();
        assert_eq!(load_all(&folder).unwrap().unusable[0].path, folder.path("x.json"));
    }
}
