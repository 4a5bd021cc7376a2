//! The page of `tare flame` in headless Chromium.

use std::path::{Path, PathBuf};

use crate::browser::Browser;
use crate::made::SampleStream;
use crate::support::{status, stderr, tare};

const HOSTILE: &str = "</script><script>document.title='hacked'</script><img/src=x>";

/// A sample of each of `chains` call chains and `heavy` more of the first, by two threads within
/// 1.5 s. The outermost function of each chain is 1.
fn made(folder: &Path, name: &str, chains: u64, heavy: u64) -> PathBuf {
    let mut made = SampleStream::new(&[10, 11]);
    for chain in 0..chains + heavy {
        let number = if chain < chains { chain } else { 0 };
        let digits = (0..5).map(|at| number / 10_u64.pow(at) % 10 + 10 * u64::from(at));
        let middle = digits.flat_map(|digit| [100 + 2 * digit, 101 + 2 * digit]);
        // Innermost function first.
        let leaf = if number == 0 { 7 } else { 1000 + number % 20_000 };
        let functions: Vec<u64> = [leaf].into_iter().chain(middle).chain([1]).collect();
        let time_ns = 1_000_000_000 + chain * 1_500_000_000 / (chains + heavy);
        made.sample(10 + chain % 2, time_ns, &functions);
    }
    for number in 0..21_000 {
        match number {
            7 => made.name(number, HOSTILE),
            _ => made.name(number, &format!("function_{number}")),
        }
    }
    made.write(folder, name)
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
    assert!(all.contains("100.00 s in total"), "{all}");
    let search =
        "(() => { const box = document.getElementById('search'), begin = performance.now();
        box.value = 'function_1(00|01)$'; box.dispatchEvent(new Event('input'));
        return performance.now() - begin; })()";
    println!("a search took {} ms of {bytes} bytes", browser.js(search));
    // Every tenth chain's number ends in 0.
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
    browser.pointer("mouseMoved", x + width / 2.0, y + height - 60.0);
    assert!(browser.text("tip").starts_with("function_1"), "{}", browser.text("tip"));
    assert!(browser.text("tip").contains("100.00%"), "{}", browser.text("tip"));
    let (x, y, width, height) = box_of(&mut browser, "time");
    browser.drag((x + 2.0, y + height / 2.0), (x + width / 2.0, y + height / 2.0));
    let range = browser.text("range");
    assert!(range.starts_with("0.00 s to 0.7") && range.contains(" of 1.5"), "{range}");
    assert!(!browser.text("status").contains("1.00 s in total"), "{}", browser.text("status"));
    browser.js("document.getElementById('graph').focus()");
    browser.key("Escape");
    assert!(browser.text("range").contains("drag to select"), "{}", browser.text("range"));
    browser.js("document.querySelector('#threads input').click()");
    assert_eq!(browser.text("thread-summary"), "1 of 2 threads");
    assert!(browser.text("status").contains("500.00 ms in total"), "{}", browser.text("status"));
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
