//! The profile model: samples summed up by command, process, file and symbol.
