//! Studies as files: one for each host, kernel, event and call graph.

use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;
use tare_measure::overhead::calibration::{Calibration, Conditions, VERSION as CALIBRATION};

use super::state::StateFolder;
use tare_measure::overhead::study::{Kept, Study, VERSION};

const ENDING: &str = ".json";

/// Keeps a study in the place of the one before it, and says where.
pub(super) fn save(folder: &StateFolder, study: &Study) -> anyhow::Result<PathBuf> {
    let name = file_name(&study.conditions);
    let text = serde_json::to_string_pretty(&study.kept())? + "\n";
    folder.write(&name, &text).with_context(|| folder.path(&name).display().to_string())?;
    Ok(folder.path(&name))
}

/// All that are kept, the latest first. What can't be read or is of another version is named and
/// left out.
pub(super) fn load_all(folder: &StateFolder) -> anyhow::Result<Vec<Study>> {
    let mut found = Vec::new();
    for name in folder.names()?.iter().filter(|name| name.ends_with(ENDING)) {
        let read = folder.read(name).map_err(anyhow::Error::from).and_then(|text| {
            let kept: Kept = serde_json::from_str(&text.unwrap_or_default())?;
            anyhow::ensure!(
                kept.study.version == VERSION,
                "version {} is not {VERSION}",
                kept.study.version
            );
            Ok(kept.study)
        });
        match read {
            Ok(study) => found.push(study),
            Err(error) => crate::exit::say(&format!(
                "{}: {error:#}: a new study replaces it",
                folder.path(name).display()
            )),
        }
    }
    found.sort_by_key(|study| std::cmp::Reverse(study.time));
    Ok(found)
}

/// What of a study is for those who predict with it.
#[derive(Deserialize)]
struct ForPrediction {
    calibration: Option<Calibration>,
}

/// The calibration under these conditions; none where nothing was measured or the file can't be read.
pub(super) fn calibration(folder: &StateFolder, conditions: &Conditions) -> Option<Calibration> {
    let text = folder.read(&file_name(conditions)).ok()??;
    let calibration = serde_json::from_str::<ForPrediction>(&text).ok()?.calibration?;
    // Anybody can have written the file: what no sample can cost is not believed.
    let slope = calibration.sample_us();
    let is_sane =
        [slope.low, slope.value, slope.high].iter().all(|us| us.is_finite() && us.abs() < 1e6)
            && slope.value > 0.0;
    (calibration.version == CALIBRATION && calibration.conditions == *conditions && is_sane)
        .then_some(calibration)
}

/// A name that says what it is, and differs for every conditions.
fn file_name(conditions: &Conditions) -> String {
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .take(40)
            .collect::<String>()
    };
    let whole =
        [&conditions.host, &conditions.kernel, &conditions.event].map(String::as_str).join("\0");
    // FNV-1a: the same on every machine and in every version.
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-{}-{hash:016x}{ENDING}", plain(&conditions.event), conditions.call_graph.name())
}

#[cfg(test)]
mod tests {
    use tare_measure::overhead::plan::CallGraph;

    use super::*;

    #[test]
    fn names_stay_in_their_folder_and_differ() {
        let conditions = |event: &str, kernel: &str| Conditions {
            host: "h".into(),
            kernel: kernel.into(),
            event: event.into(),
            call_graph: CallGraph::Fp,
        };
        let name = file_name(&conditions("../a/b", "6.1"));
        assert!(name.starts_with("___a_b-fp-") && name.ends_with(".json"), "{name}");
        assert_ne!(
            file_name(&conditions("cycles", "6.1")),
            file_name(&conditions("cycles", "6.2"))
        );
    }
}
