//! The round marks of `tare record` (`FINISHED_ROUND`): no record after a mark is older than the
//! records before the previous mark.

use std::fs::File;
use std::path::Path;

use tare_format::file::Reader;
use tare_format::record::kind;

use crate::recorded::RecordingFolder;
use crate::support::stderr;

/// The number of marks, and of records that violate their order.
fn marks(path: &Path) -> (usize, usize) {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    // The newest record before the last mark, before the previous one, and overall.
    let mut before_last = 0;
    let mut before_previous = 0;
    let mut newest = 0;
    let mut marks = 0;
    let mut late = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        if entry.record.kind == kind::FINISHED_ROUND {
            (before_previous, before_last) = (before_last, newest);
            marks += 1;
            continue;
        }
        let time_ns = entry.description.lookup().time_ns(&entry.record).unwrap_or(0);
        // Records without a time are in order.
        late += usize::from(time_ns > 0 && time_ns < before_previous);
        newest = newest.max(time_ns);
    }
    (marks, late)
}

#[test]
fn what_was_overwritten_comes_before_any_mark() {
    let place = RecordingFolder::new();
    let busy = "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done";
    let command = format!("/bin/true; {busy}; /bin/true; {busy}; /bin/true; {busy}; /bin/true");
    let words = ["--overwrite", "-e", "cpu-clock", "-F", "1000", "--flush-interval", "50", "--"];
    let output = place.run(&[&words[..], &["sh", "-c", &command]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let (marks, late) = marks(&place.file());
    assert_eq!(late, 0, "{marks} marks: {}", stderr(&output));
}
