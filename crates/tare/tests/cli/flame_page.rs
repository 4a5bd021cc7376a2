//! The page of `tare flame` in headless Chromium.

use std::path::{Path, PathBuf};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, RecordHeader, SampleId, kind};

use crate::browser::Browser;
use crate::support::{status, stderr, tare};

/// IP, TID, TIME, CALLCHAIN.
const SAMPLE_TYPE: u64 = 0x27;
const HOSTILE: &str = "</script><script>document.title='hacked'</script><img/src=x>";
const CODE: u64 = 0x10_0000;

fn attr() -> Attr {
    Attr {
        kind: 1,
        sampling: Sampling::Period(1_000_000),
        sample_type: SAMPLE_TYPE,
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM,
        ..Attr::default()
    }
}

fn sample(tid: u64, time_ns: u64, functions: &[u64]) -> Vec<u8> {
    let address = |number: &u64| CODE + number * 16 + 8;
    let user = u64::MAX - 511; // PERF_CONTEXT_USER
    let mut words = vec![address(&functions[0]), 10 | tid << 32, time_ns];
    words.extend([functions.len() as u64 + 1, user]);
    words.extend(functions.iter().map(address));
    let size = u16::try_from(RecordHeader::SIZE + words.len() * 8).unwrap();
    let header = RecordHeader { kind: kind::PERF_RECORD_SAMPLE, misc: 2, size }.encode();
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    [&header[..], &body].concat()
}

/// A stream with a sample of each of `chains` call chains, of two threads, in a second and a half,
/// and a perf map with the names of functions. Function 1 calls all; `heavy` is sampled more often.
fn made(folder: &Path, name: &str, chains: u64, heavy: u64) -> PathBuf {
    let event = EventDescription { attr: attr(), ids: vec![1], name: "cpu-clock".into() };
    let description = Description { events: vec![event], ..Description::default() };
    let mut stream = description.stream_beginning().unwrap();
    let id = SampleId { time_ns: Some(1), ..SampleId::default() };
    let encoder = Encoder::new(&Layout::from(&attr()), &id);
    for tid in [10, 11] {
        let comm = Comm { pid: 10, tid, comm: b"made", is_exec: false };
        encoder.comm(&mut stream, &comm).unwrap();
    }
    let inode = FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
    let map = Mmap {
        pid: 10,
        tid: 10,
        start: CODE,
        len: 1 << 24,
        pgoff: 0,
        file: inode,
        prot: 5,
        flags: 2,
        path: b"//anon",
        is_data: false,
    };
    encoder.mmap(&mut stream, &map).unwrap();
    for chain in 0..chains + heavy {
        let number = if chain < chains { chain } else { 0 };
        let digits = (0..5).map(|at| number / 10_u64.pow(at) % 10 + 10 * u64::from(at));
        let middle = digits.flat_map(|digit| [100 + 2 * digit, 101 + 2 * digit]);
        // The innermost function first.
        let leaf = if number == 0 { 7 } else { 1000 + number % 20_000 };
        let functions: Vec<u64> = [leaf].into_iter().chain(middle).chain([1]).collect();
        let time_ns = 1_000_000_000 + chain * 1_500_000_000 / (chains + heavy);
        stream.extend(sample(10 + chain % 2, time_ns, &functions));
    }
    let maps = folder.join("tmp");
    std::fs::create_dir_all(&maps).unwrap();
    let named = |number: u64| match number {
        7 => HOSTILE.to_owned(),
        number => format!("function_{number}"),
    };
    let line = |number: u64| format!("{:x} 10 {}\n", CODE + number * 16, named(number));
    std::fs::write(maps.join("perf-10.map"), (0..21_000).map(line).collect::<String>()).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, stream).unwrap();
    file
}

fn page(folder: &Path, args: &[&Path]) -> PathBuf {
    let page = folder.join("page.html");
    let output = tare()
        .args(["flame", "--symfs"])
        .arg(folder)
        .args(args)
        .arg("-o")
        .arg(&page)
        .output()
        .unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    page
}

#[test]
fn a_hundred_thousand_chains_are_shown_searched_and_zoomed() {
    let folder = tempfile::tempdir().unwrap();
    let file = made(folder.path(), "big.data", 100_000, 0);
    let page = page(folder.path(), &[&file]);
    let bytes = std::fs::metadata(&page).unwrap().len();
    assert!(bytes < 6 << 20, "{bytes} bytes");
    let Some(mut browser) = Browser::open(&page, "light") else { return };
    let all = browser.text("status");
    assert!(all.contains("100.00 s in all"), "{all}");
    let search =
        "(() => { const box = document.getElementById('search'), begin = performance.now();
        box.value = 'function_1(00|01)$'; box.dispatchEvent(new Event('input'));
        return performance.now() - begin; })()";
    println!("a search took {} ms of {bytes} bytes", browser.js(search));
    // The last digit of a chain's number is 0 in every tenth of them.
    assert_eq!(browser.text("matched"), "10.00% matched");
    browser.js("document.getElementById('graph').focus()");
    browser.key("Escape");
    assert_eq!(browser.text("matched"), "");
    for _ in 0..4 {
        browser.key("ArrowUp");
    }
    let focused = browser.text("status");
    assert!(focused.starts_with("function_1"), "{focused}");
    browser.key("Enter");
    assert_eq!(browser.js("document.getElementById('zoom-out').hidden"), false);
    browser.key("Escape");
    assert_eq!(browser.js("document.getElementById('zoom-out').hidden"), true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn hovering_ranges_threads_views_and_themes_do_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = made(folder.path(), "small.data", 1000, 0);
    let Some(mut browser) = Browser::open(&page(folder.path(), &[&file]), "dark") else { return };
    assert_eq!(browser.js("document.documentElement.classList.contains('dark')"), true);
    let box_of = |browser: &mut Browser, id: &str| {
        let rectangle = browser.js(&format!(
            "(({{left, top, width, height}}) => [left, top, width, height])(document.getElementById('{id}').getBoundingClientRect())"
        ));
        let at = |at: usize| rectangle[at].as_f64().unwrap();
        (at(0), at(1), at(2), at(3))
    };
    let (x, y, width, height) = box_of(&mut browser, "graph");
    browser.pointer("mouseMoved", (x + width / 2.0, y + height - 60.0));
    assert!(browser.text("tip").starts_with("function_1"), "{}", browser.text("tip"));
    assert!(browser.text("tip").contains("100.00%"), "{}", browser.text("tip"));
    let (x, y, width, height) = box_of(&mut browser, "time");
    browser.drag((x + 2.0, y + height / 2.0), (x + width / 2.0, y + height / 2.0));
    let range = browser.text("range");
    assert!(range.starts_with("0.00 s to 0.7") && range.contains(" of 1.5"), "{range}");
    assert!(!browser.text("status").contains("1.00 s in all"), "{}", browser.text("status"));
    browser.js("document.getElementById('graph').focus()");
    browser.key("Escape");
    assert!(browser.text("range").contains("drag to choose"), "{}", browser.text("range"));
    browser.js("document.querySelector('#threads input').click()");
    assert_eq!(browser.text("thread-summary"), "1 of 2 threads");
    assert!(browser.text("status").contains("500.00 ms in all"), "{}", browser.text("status"));
    browser.js("document.getElementById('graph').focus()");
    browser.key("Escape");
    assert_eq!(browser.text("thread-summary"), "All 2 threads");
    for (key, view) in [("i", "icicle"), ("t", "timeline"), ("s", "sandwich"), ("f", "flame")] {
        browser.key(key);
        assert_eq!(browser.js("document.body.dataset.view"), view);
    }
    browser.key("l");
    assert_eq!(browser.js("document.documentElement.classList.contains('dark')"), false);
    browser.key("?");
    assert_eq!(browser.js("document.getElementById('help').open"), true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn two_recordings_are_compared_and_a_script_as_a_name_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let before = made(folder.path(), "before.data", 1000, 0);
    let now = made(folder.path(), "now.data", 1000, 1000);
    let page = page(folder.path(), &[&now, Path::new("--vs"), &before]);
    let Some(mut browser) = Browser::open(&page, "light") else { return };
    browser.js("document.getElementById('search').value = 'hacked'");
    browser.js("document.getElementById('search').dispatchEvent(new Event('input'))");
    assert_eq!(browser.text("matched"), "50.05% matched");
    browser.js("document.getElementById('side').click()");
    assert_eq!(browser.text("matched"), "0.10% matched");
    browser.js("document.querySelector('[data-view=sandwich]').click()");
    let first = browser.js("document.querySelector('.row span').textContent");
    assert_eq!(first, HOSTILE);
    let difference = browser.js("document.getElementById('colour').value");
    assert_eq!(difference, "difference");
    assert_eq!(
        browser.js("document.title").as_str().map(|title| title.contains("hacked")),
        Some(false)
    );
    assert_eq!(browser.js("document.images.length"), 0);
    assert_eq!(browser.complaints(), [""; 0]);
}
