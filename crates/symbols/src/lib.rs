//! Address spaces over time, and symbols: addresses in, names out.
