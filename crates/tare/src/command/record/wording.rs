//! Words the recorder's warnings and errors, with options and remedies.

use rustix::io::Errno;
use tare_events::Unavailable;
use tare_kernel::bpf::BpfError;
use tare_kernel::capabilities::missing_capabilities;
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_record::options::Follow;
use tare_record::output::OutputError;
use tare_record::{
    Feature, Following, NotFollowed, NotTaken, PlanError, RecordError, RingLimit, Warning,
};

use crate::cli::resolved::events;
use crate::command::remedy;
use crate::exit::{Exit, Refusal};

const MAX_RATE: &str = "kernel.perf_event_max_sample_rate";

/// Words how the command is followed.
pub(crate) fn following(following: &Following) -> String {
    let how = following.mode.how();
    match &following.why {
        None => format!("follows the command {how}"),
        Some(why) => format!("follows the command {how}: {why}"),
    }
}

/// Words that a probe sees no new threads, for `record` and `stat`.
pub(crate) fn first_threads_only(event: &str) -> String {
    format!(
        "{event}: no calls of threads that start later, since the kernel can't pass the probe on to them; -a has all calls, and so has --follow=cgroup for a command"
    )
}

/// Words a warning, in one line.
pub(crate) fn warning(warning: &Warning) -> String {
    match warning {
        Warning::TimerInsteadOfCycles => {
            "no CPU PMU here: cpu-clock, a timer, takes the place of cycles".to_owned()
        }
        Warning::LowerRate { asked_hz, limit_hz } => {
            format!(
                "{limit_hz} samples a second instead of {asked_hz}: {}",
                raise(*asked_hz, *limit_hz)
            )
        }
        Warning::FirstThreadsOnly { event } => first_threads_only(event),
        Warning::KernelLacks(feature) => lacks(*feature).to_owned(),
        Warning::WeakGroupSplit { leader } => format!(
            "the events of the weak group of {leader} don't fit together: each is on its own"
        ),
        Warning::UserSpaceOnly { paranoid } => {
            let level = paranoid.map_or_else(|| "?".to_owned(), |level| level.to_string());
            format!(
                "user space only: kernel.perf_event_paranoid is {level} (`sudo sysctl kernel.perf_event_paranoid=1` lets the kernel in)"
            )
        }
        Warning::SmallRings { bytes, wanted_bytes, copied_bytes, limit } => {
            let remedy = match limit {
                RingLimit::LockedMemory => {
                    "raise 'ulimit -l' or the sysctl kernel.perf_event_mlock_kb, or run with CAP_IPC_LOCK"
                }
                RingLimit::AddressSpace => "raise 'ulimit -v'",
            };
            let copies = copied_bytes.map_or_else(String::new, |bytes| {
                format!(", and copies of {} KiB of each stack instead of 64", bytes >> 10)
            });
            format!(
                "rings of {} KiB a CPU instead of {}{copies}: {remedy} for larger ones, which lose less",
                bytes >> 10,
                wanted_bytes >> 10
            )
        }
        Warning::CallsByEvents { why } => {
            format!("{why}: by perf events instead, which take more of each call")
        }
        Warning::StepBack(text) => text.clone(),
        Warning::NotSwitched { reason } => {
            format!("the recording goes on in the same file: {reason}")
        }
    }
}

fn raise(asked_hz: u64, limit_hz: u64) -> String {
    format!("{MAX_RATE} is {limit_hz} (`sudo sysctl {MAX_RATE}={asked_hz}` raises it)")
}

fn lacks(feature: Feature) -> &'static str {
    match feature {
        Feature::DeferredCallchains => {
            "this kernel doesn't defer user call chains (Linux 6.19 does): they are taken with each sample"
        }
        Feature::GroupReadsInChildren => {
            "this kernel can't read groups (:S) in children: what the first thread starts is not recorded"
        }
        Feature::LostByEvent => {
            "this kernel doesn't count lost samples by event (PERF_FORMAT_LOST): losses are known by ring"
        }
        Feature::BuildIdsInMappings => {
            "this kernel writes no build ids with mappings: tare reads them from the files when the recording ends"
        }
        Feature::WeightStruct => "this kernel has one weight for a sample, not several",
        Feature::TerseBranches => {
            "this CPU or kernel has no short form of branch records: call chains by them are larger"
        }
        Feature::Cgroups => "this kernel has no cgroups in samples",
        Feature::KernelSymbols => {
            "this kernel doesn't report code that it generates (BPF programs)"
        }
        Feature::GuestsFromHost => {
            "this PMU can't distinguish guests from their host: G and H have no effect"
        }
    }
}

/// Words an error of planning a recording, with the remedy.
pub(crate) fn plan_error(error: &PlanError, host: &Host) -> Refusal {
    let failed = |exit, message| Refusal { exit, message };
    match error {
        PlanError::OnlineCpus(_) => failed(Exit::Failure, error.to_string()),
        PlanError::DefaultEvent(event) => events::refuse(event),
        PlanError::Follow { follow, reason } => not_followed(*follow, reason),
        PlanError::CgroupsOfEvents { cgroups, events } => Refusal::usage(format!(
            "-G names {cgroups} cgroups for {events} events: give one for all, or one for each event"
        )),
        PlanError::NoDwarf => {
            Refusal::usage("--call-graph dwarf is not supported on this processor: use fp")
        }
        PlanError::BranchesTwice { event } => Refusal::usage(format!(
            "{event}: --call-graph lbr needs the branch records that -b and -j fill: leave one out"
        )),
        PlanError::NoMaxRate => {
            Refusal::usage(format!("-F max: {MAX_RATE} can't be read, give a number"))
        }
        PlanError::RateNotAllowed { asked_hz, limit_hz } => Refusal::usage(format!(
            "{asked_hz} samples a second are not allowed: {}",
            raise(*asked_hz, *limit_hz)
        )),
        PlanError::BudgetOfTasks => Refusal::usage(
            "--max-overhead is for events of whole CPUs and cgroups, and these are of tasks: use -a, -G, --follow=cgroup or --follow=system (they need CAP_PERFMON)",
        ),
        PlanError::BudgetOfPeriod { event } => Refusal::usage(format!(
            "{event}: --max-overhead changes rates, and this one has a period: give it a rate (-F)"
        )),
        PlanError::BudgetOfUnknown { event } => Refusal::usage(format!(
            "{event}: --max-overhead needs the cost of its samples, which is unknown for this event or for groups: leave the event out, or record without a budget"
        )),
        PlanError::NotTaken { event, reason } => {
            let message = format!("cannot record '{event}': {reason}{}", not_taken(*reason));
            failed(Exit::OwnFailure, message)
        }
        PlanError::Open(error) => remedy::for_open(error, host, &FileLimit::now()),
        PlanError::Unsupported { .. } | PlanError::NoCpu { .. } | PlanError::Fields { .. } => {
            Refusal::usage(error.to_string())
        }
    }
}

fn not_followed(follow: Follow, reason: &NotFollowed) -> Refusal {
    if let NotFollowed::OptionNeedsInherit(option) = reason {
        return Refusal::usage(format!(
            "{option} is for events that are inherited: use --follow=inherit"
        ));
    }
    let (name, others) = match follow {
        Follow::Cgroup => ("cgroup", "system or inherit"),
        Follow::System | Follow::Auto | Follow::Inherit => ("system", "inherit"),
    };
    Refusal {
        exit: Exit::OwnFailure,
        message: format!("--follow={name}: {reason}; use --follow={others}"),
    }
}

/// The remedy for an event that the kernel rejects.
fn not_taken(reason: NotTaken) -> &'static str {
    match reason {
        NotTaken::Branches => ": leave out -b, -j and --call-graph lbr",
        NotTaken::Clock => ": use -k mono or -k raw",
        NotTaken::Precision => ": use fewer p, or P",
        NotTaken::InterruptRegisters => ": leave out --intr-regs",
        NotTaken::PageSizes => ": leave out --data-page-size and --code-page-size",
        NotTaken::PhysicalAddresses => ": leave out --phys-data",
        NotTaken::Namespaces => ": leave out --namespaces",
        NotTaken::Depth => ": use a smaller max-stack",
        NotTaken::OnlyCounted => ": use tare stat",
        NotTaken::Group => ": take it out, or make the group weak ({…}:W)",
        NotTaken::Unavailable(Unavailable::NoPmu) => "; -e cpu-clock samples by a timer",
        NotTaken::Unavailable(_) | NotTaken::Kernel(_) => "",
    }
}

/// Words an error of starting or continuing a recording, with the remedy.
pub(crate) fn record_error(error: RecordError, host: &Host, files: &FileLimit) -> anyhow::Error {
    match &error {
        RecordError::NoProcess(_) | RecordError::Cgroup(_) | RecordError::Filter(_) => {
            Refusal::usage(error.to_string()).into()
        }
        RecordError::NoProcessesOfUser(_) => Refusal::usage(format!("-u: {error}")).into(),
        RecordError::Open(error) => remedy::for_open(error, host, files).into(),
        RecordError::Priority(errno) => no_priority(None, *errno).into(),
        RecordError::Output(output) => output_error(output),
        RecordError::OffCpu(why) | RecordError::OffCpuNeither { programs: why, .. } => {
            off_cpu_error(why, &error)
        }
        _ => error.into(),
    }
}

/// Words an error of `--off-cpu`, with the remedy.
fn off_cpu_error(why: &BpfError, error: &RecordError) -> anyhow::Error {
    let remedy = match why {
        BpfError::NoProcess(_) => return Refusal::usage(why.to_string()).into(),
        BpfError::NotPermitted(_) => {
            format!(": {}", missing_capabilities("CAP_BPF and CAP_PERFMON"))
        }
        _ => String::new(),
    };
    Refusal { exit: Exit::OwnFailure, message: format!("--off-cpu: {error}{remedy}") }.into()
}

/// Words an error of opening or writing the output, with the option and the remedy.
pub(crate) fn output_error(error: &OutputError) -> anyhow::Error {
    let text = match error {
        OutputError::Open { .. } | OutputError::Keep { .. } | OutputError::NoReader(_) => {
            format!("-o {error}")
        }
        OutputError::NotSwitchable => {
            format!("--switch-output and --timestamp-filename take a file: {error}")
        }
        OutputError::SmallFiles { limit, beginning } => {
            let kib = |bytes: u64| bytes.div_ceil(1 << 10);
            let least = kib(beginning.saturating_mul(4));
            format!("--switch-output={}K: {error}: use at least {least}K", kib(*limit))
        }
        _ => match remedy_of_output(error) {
            Some(remedy) => format!("{error}: {remedy}"),
            None => error.to_string(),
        },
    };
    anyhow::Error::msg(text)
}

/// The remedy for an output that can't be written.
pub(crate) fn remedy_of_output(error: &OutputError) -> Option<&'static str> {
    match error {
        OutputError::Terminal => Some("use -o FILE, or pipe it into a program that reads it"),
        OutputError::Full => Some("make room, or use -z, --max-size or another file system (-o)"),
        OutputError::TooLong => Some("raise 'ulimit -f', or use -z or --max-size"),
        _ => None,
    }
}

/// Words the refusal of a realtime priority (`-r`).
pub(crate) fn no_priority(priority: Option<u32>, error: Errno) -> Refusal {
    let priority = priority.map_or_else(String::new, |priority| format!(" {priority}"));
    let remedy = "raise 'ulimit -r', run with CAP_SYS_NICE, or leave out -r";
    Refusal {
        exit: Exit::OwnFailure,
        message: format!(
            "-r{priority}: this user may not have a realtime priority ({error}): {remedy}"
        ),
    }
}
