//! Tests of the binary, a module for each command or promise. One program, so that it is linked
//! once.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // outside of `#[test]` functions clippy takes helpers for production code

mod support;

mod advice;
mod archive;
mod budget;
mod doctor;
mod events;
mod help;
mod jit;
mod keep_binaries;
mod list;
mod overhead;
mod predicted_cost;
mod reading;
mod record;
mod record_cgroup;
mod record_child;
mod record_dwarf;
mod record_files;
mod record_follow;
mod record_gone;
mod record_hotplug;
mod record_marks;
mod record_options;
mod record_output;
mod record_own;
mod record_peers;
mod record_said;
mod record_stacks;
mod record_stopped;
mod record_switch;
mod recorded;
mod report;
mod report_input;
mod script;
mod script_tracepoints;
mod stat;
mod stat_attr;
mod stat_cgroup;
mod stat_follow;
mod stat_like_perf;
mod stat_output;
mod stat_time;
mod symbols;
mod symbols_debuginfod;
mod symbols_found;
mod three;
mod tmux;
mod trace;
mod tui;
mod uprobe;
mod versus;
