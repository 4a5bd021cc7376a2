//! `tare flame`: its output and its refusals. `flame_page` tests the page.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use crate::recorded::RecordingFolder;
use crate::support::{status, stderr, tare, workload};

/// A command with many samples at 999 Hz, on any machine.
const BUSY: &str = "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done";

fn flame(args: &[&str], folder: &Path) -> Output {
    tare().arg("flame").args(args).current_dir(folder).output().unwrap()
}

#[test]
fn a_picture_has_the_functions_the_losses_and_the_ledger() {
    let recording = RecordingFolder::new();
    let folder = recording.folder.path();
    let mix = workload("mix");
    let words = [
        "--call-graph",
        "fp",
        "-F",
        "999",
        "--flame",
        "page.html",
        "--",
        mix.to_str().unwrap(),
        "0.3",
        "90",
        "2",
    ];
    let mut record = recording.record(&words);
    let recorded = record.current_dir(folder).output().unwrap();
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("Content-Security-Policy") && page.len() < 300_000, "{}", page.len());
    let drawn = flame(&["-o", "out.svg"], folder);
    assert_eq!(status(&drawn), 0, "{}", stderr(&drawn));
    let picture = std::fs::read_to_string(folder.join("out.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for part in
        ["cpu-clock: ", "<title>mix: 100.00%", " (recorder: ", "code has no frame pointers: mix"]
    {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    for name in ["page.html", "out.svg"] {
        let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn without_a_name_it_writes_flame_html_and_says_so() {
    let recording = RecordingFolder::new();
    let folder = recording.folder.path();
    assert_eq!(status(&recording.run(&["-F", "999", "--", "sh", "-c", BUSY])), 0);
    for (options, name) in [(&[][..], "flame.html"), (&["--format", "svg"], "flame.svg")] {
        let output = flame(options, folder);
        assert_eq!((status(&output), stderr(&output)), (0, format!("tare: wrote {name}\n")));
        assert!(folder.join(name).metadata().unwrap().len() > 100, "{name}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    for (args, told, code) in [
        (&["absent.data"][..], "absent.data", 1),
        (&["absent.data", "-o", "x.html"], "absent.data", 1),
        (&["-o", "x.html", "--time", "nonsense"], "--time", 2),
    ] {
        let output = flame(args, folder);
        assert_eq!(status(&output), code, "{args:?}");
        assert!(
            stderr(&output).starts_with("tare: ") && stderr(&output).contains(told),
            "{output:?}"
        );
    }
    let recording = RecordingFolder::new();
    let recorded = recording.run(&["-F", "999", "--", "sh", "-c", BUSY]);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let file = recording.file();
    let file = file.to_str().unwrap();
    let unknown = flame(&[file, "-e", "cycles-of-mars", "-o", "x.html"], folder);
    assert_eq!(status(&unknown), 2);
    assert!(stderr(&unknown).contains("it has cpu-clock"), "{}", stderr(&unknown));
    symlink("/dev/null", folder.join("link.html")).unwrap();
    let linked = flame(&[file, "-o", "link.html"], folder);
    assert_eq!(status(&linked), 1);
    assert!(stderr(&linked).contains("symbolic link"), "{}", stderr(&linked));
    let full = flame(&[file, "-o", "/dev/full"], folder);
    assert_eq!(status(&full), 1);
    assert!(stderr(&full).contains("/dev/full"), "{}", stderr(&full));
}
