//! The `tare` binary: see the library beside it.
#![no_main]

tare_kernel::main!(tare::run);
