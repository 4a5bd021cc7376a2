//! `tare record --output-path` `direct` and `auto` on several file systems, each an image mounted
//! in a private namespace.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::recorded::{read, samples_of};
use crate::support::{is_root, stderr, tare};

/// Mounts an image, records into it, and copies out the recording and its size in the page cache.
/// The mount ends with the namespace.
const IN_IMAGE: &str = r#"image=$1 dir=$2 out=$3 lower=$4 room=$5; shift 5
mount -o loop "$image" "$dir" || exit 99
if [ "$lower" = overlay ]; then
    mkdir "$dir/lower" "$dir/upper" "$dir/spare" "$dir/all" &&
    mount -t overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/spare" none "$dir/all" || exit 99
    dir=$dir/all
fi
if [ "$room" != all ]; then
    free=$(df --output=avail -B1 "$dir" | tail -n 1)
    fallocate -l $((free - room)) "$dir/filler" || exit 99
fi
cd "$dir" && "$@"; status=$?
fincore -nbo RES perf.data >"$out/cached"
stat -c '%s %b %B' perf.data >"$out/size"
cp perf.data "$out/perf.data"; exit $status"#;

struct DiskRecording {
    folder: tempfile::TempDir,
    output: Output,
}

/// Records page faults with stack copies, some megabytes, on a file system of this kind. If it
/// isn't available, prints the reason and returns `None`.
fn record_on(kind: &str, room: &str, way: &[&str]) -> Option<DiskRecording> {
    if !is_root() {
        println!("skipped: mounting takes root");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    File::create(&image).unwrap().set_len(320 << 20).unwrap();
    let below = if kind == "overlay" { "ext4" } else { kind };
    let program = format!("mkfs.{below}");
    let mut make = Command::new(&program);
    // No blocks reserved for root.
    make.args(["-m", "0"].iter().filter(|_| below == "ext4")).arg("-q").arg(&image);
    let made = make.stdin(Stdio::null()).output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        println!("skipped: {program}: {made:?}");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", IN_IMAGE, "sh"]).arg(&image).arg(&mounted);
    command.arg(folder.path()).args([kind, room]).arg(tare().get_program());
    let events = ["record", "-e", "page-faults", "-c", "1", "--call-graph", "dwarf,8192"];
    let work = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    command.args(events).args(["-v", "-o", "perf.data"]).args(way).args(["--", "sh", "-c", work]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    if output.status.code() == Some(99) {
        println!("skipped: {kind} can't be mounted: {}", stderr(&output));
        return None;
    }
    Some(DiskRecording { folder, output })
}

/// Bytes of the file in the page cache, its length, and its size on disk.
fn sizes(folder: &Path) -> [u64; 3] {
    let numbers = |file: &str| -> Vec<u64> {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let size = numbers("size");
    [numbers("cached")[0], size[0], size[1] * size[2]]
}

#[test]
fn direct_output_leaves_the_page_cache_alone_where_the_file_system_lets_it() {
    let all = ["ext4", "xfs", "overlay"];
    let direct = all.map(|kind| (kind, "--output-path=direct"));
    for (kind, way) in direct.into_iter().chain([("ext4", "--output-path=auto")]) {
        let Some(DiskRecording { folder, output }) = record_on(kind, "all", &[way]) else { return };
        let text = stderr(&output);
        assert!(output.status.success(), "{kind}: {text}");
        assert!(text.contains("output: direct"), "{kind}: {text}");
        let found = read(&folder.path().join("perf.data"));
        assert!(found.finished && found.samples > 1000, "{kind}: {found:?}");
        assert_eq!(samples_of(&found.ledger.unwrap()), found.samples, "{kind}");
        let [cached, len, taken] = sizes(folder.path());
        // A busy machine is sometimes too slow.
        if text.contains("the disk was too slow") {
            println!("skipped: {kind}, {way}: what the page cache has of it");
            continue;
        }
        // `auto` starts in the page cache and drops from it what has reached the disk by the end.
        let most = if way.ends_with("auto") { 6 << 20 } else { 1 << 20 };
        assert!(len > 8 << 20 && cached < most, "{kind}: {cached} of {len} bytes are cached");
        // The space allocated ahead was freed.
        assert!(taken < len + (1 << 20), "{kind}: {len} bytes take {taken}");
    }
}

#[test]
fn direct_output_goes_on_by_writes_where_it_is_of_no_use() {
    let Some(DiskRecording { folder, output }) =
        record_on("btrfs", "all", &["--output-path=direct"])
    else {
        return;
    };
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("output: write (btrfs caches"), "{text}");
    let found = read(&folder.path().join("perf.data"));
    assert!(found.finished && found.samples > 1000, "{found:?}");
}

#[test]
fn a_disk_of_any_kind_that_gets_full_keeps_a_whole_file() {
    for kind in ["ext4", "xfs"] {
        // XFS varies in how much of the last blocks it hands out, so compressed data may not fit.
        let auto = "--output-path=auto";
        let direct = "--output-path=direct";
        let ways = [&[direct][..], &[auto], &["-z", direct]];
        for way in &ways[..if kind == "xfs" { 1 } else { 3 }] {
            let room = if way.len() == 1 { 6 << 20 } else { 512 << 10 };
            let made = record_on(kind, &room.to_string(), way);
            let Some(DiskRecording { folder, output }) = made else { return };
            let case = format!("{kind}, {way:?}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(125), "{case}");
            assert_eq!(stderr(&output).matches("ended early").count(), 1, "{case}");
            let found = read(&folder.path().join("perf.data"));
            let ledger = found.ledger.unwrap();
            assert!(found.finished && ledger.stopped.is_some(), "{case}");
            assert_eq!(samples_of(&ledger), found.samples, "{case}");
            assert!(found.samples > 100 || way.len() > 1, "{case}");
        }
    }
}
