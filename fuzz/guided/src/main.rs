//! Runs the target of `tare-fuzz` named by `TARE_FUZZ_TARGET` under libFuzzer. See fuzz/README.md.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tare_fuzz::{TARGETS, Target, try_input};

static CHOSEN: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    CHOSEN.get_or_init(|| {
        let name = std::env::var("TARE_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|target| target.name == name);
        found.unwrap_or_else(|| panic!("TARE_FUZZ_TARGET names no target: '{name}'"))
    })
}

fuzz_target!(|input: &[u8]| {
    if let Err(failure) = try_input(chosen(), input) {
        panic!("{}: {failure:?}", chosen().name);
    }
});
