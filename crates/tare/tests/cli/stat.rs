//! `tare stat` as users and their scripts meet it: statuses, signals, what the command inherits,
//! targets, times, outputs.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::support::{Guarded, sh, stat, stderr, tare};

/// The first column of `-x,` lines.
fn counts(output: &Output) -> Vec<String> {
    stderr(output)
        .lines()
        .filter(|line| line.contains(',') && !line.starts_with("tare:"))
        .map(|line| line.split(',').next().unwrap_or_default().to_owned())
        .collect()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("tare itself is not killed")
}

/// Waits until something holds, for half a minute at most: machines under test are slow at times.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

fn spawn(args: &[&str]) -> Child {
    tare().arg("stat").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn the_status_is_the_commands_own() {
    assert_eq!(status(&stat(&["sh", "-c", "exit 9"])), 9);
    assert_eq!(status(&stat(&["sh", "-c", "kill -9 $$"])), 137);
    assert_eq!(status(&stat(&["-r3", "sh", "-c", "exit 4"])), 4);
    let missing = stat(&["no-such-program"]);
    assert_eq!(
        (status(&missing), stderr(&missing).as_str()),
        (127, "tare: 'no-such-program': command not found\n")
    );
    assert_eq!(status(&stat(&["/etc/passwd"])), 126);
    // execve's own refusal, seen only by the child.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    sh(&format!("chmod +x {}", script.display()));
    assert_eq!(status(&stat(&["-e", "page-faults", script.to_str().unwrap()])), 126);
}

#[test]
fn a_script_without_interpreter_line_runs_as_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "exit $(($1 + $2))\n").unwrap();
    sh(&format!("chmod +x {}", script.display()));
    assert_eq!(status(&stat(&["-e", "page-faults", script.to_str().unwrap(), "3", "4"])), 7);
}

#[test]
fn wrong_usage_is_2_and_says_where() {
    let wrong = stat(&["-e", "page-faults,cycle", "true"]);
    assert_eq!(status(&wrong), 2);
    assert!(
        stderr(&wrong).starts_with("tare: ")
            && stderr(&wrong).contains("character 13")
            && stderr(&wrong).contains("cycles"),
        "{wrong:?}"
    );
    assert_eq!(stderr(&wrong).lines().count(), 1, "{wrong:?}");
    for args in [
        ["--per-core", "true"],
        ["--per-thread", "true"],
        ["-r3", "-a"],
        ["-D-1", "true"],
        ["-C9999", "true"],
        ["-p", "0"],
        ["-x", ""],
    ] {
        let refused = stat(&args);
        assert_eq!(status(&refused), 2, "{args:?}: {refused:?}");
        assert!(stderr(&refused).starts_with("tare: "), "{args:?}: {refused:?}");
    }
    assert_eq!(status(&stat(&["-p", "999999999"])), 2);
}

#[test]
fn what_tare_cannot_do_is_125_and_the_command_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let touch = format!("touch {}", mark.display());
    let failures: [&[&str]; 3] = [
        &["-o", "/no/such/folder/file", "sh", "-c", &touch],
        &["--pre", "exit 1", "sh", "-c", &touch],
        &["--log-fd", "77", "sh", "-c", &touch],
    ];
    for args in failures {
        let failed = stat(args);
        assert_eq!(status(&failed), 125, "{failed:?}");
        assert!(stderr(&failed).starts_with("tare: "), "{failed:?}");
    }
    let failed = stat(&["--control", "fifo:/no/such/fifo", "sh", "-c", &touch]);
    assert_eq!(status(&failed), 2, "{failed:?}");
    assert!(!mark.exists());
}

#[test]
fn a_full_disk_is_said_even_if_the_command_succeeds() {
    let full = stat(&["-o", "/dev/full", "true"]);
    assert_eq!(status(&full), 125, "{full:?}");
    assert!(stderr(&full).contains("No space left"), "{full:?}");
}

#[test]
fn the_command_inherits_what_it_would_have_had() {
    // Descriptors, signal dispositions and mask, limits, terminal, group: the same with and without
    // tare.
    let look = "cat </proc/self/status | grep -E '^(Sig|Shd)(Blk|Ign|Cgt)'; ulimit -a; for fd in /proc/$$/fd/*; do echo ${fd##*/}; done; ps -o pgid=,sid=,tty=,nice= $$ | \
                sed 's/^ *//'";
    let own = env!("CARGO_BIN_EXE_tare");
    let situations = [
        "",
        "exec <&-;",
        "exec <&- >&-; exec >OUT;",
        "trap '' PIPE XFSZ CHLD INT;",
        "ulimit -Sn 20;",
        "exec 7</dev/null;",
        "ulimit -f 100;",
    ];
    for situation in situations {
        let folder = tempfile::tempdir().unwrap();
        let run = |with: &str, name: &str| {
            let out = folder.path().join(name);
            let situation =
                situation.replace("OUT", &folder.path().join("stdout").display().to_string());
            let script = folder.path().join("look");
            fs::write(&script, look).unwrap();
            let line =
                format!("{situation} {with} sh -c '. {} > {}'", script.display(), out.display());
            assert!(
                Command::new("setsid")
                    .args(["-w", "sh", "-c", &line])
                    .output()
                    .unwrap()
                    .status
                    .success(),
                "{line}"
            );
            let text = fs::read_to_string(out).unwrap();
            assert!(text.contains("SigIgn"), "{text}");
            // A new session has a new number each time.
            text.lines()
                .map(|line| {
                    if line.contains('?') {
                        line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
                    } else {
                        line.to_owned()
                    }
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            run("", "bare"),
            run(&format!("{own} stat -e page-faults -o /dev/null"), "counted"),
            "{situation}"
        );
    }
}

#[test]
fn the_command_lives_on_if_tare_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (started, done) = (folder.path().join("started"), folder.path().join("done"));
    let script = format!("touch {}; sleep 0.3; touch {}", started.display(), done.display());
    let mut child = spawn(&["-e", "page-faults", "sh", "-c", &script]);
    wait_until("the command starts", || started.exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(!done.exists());
    wait_until("the command ends", || done.exists());
}

#[test]
fn an_interrupt_ends_the_command_and_partial_counts_are_shown() {
    for (name, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let child = spawn(&[
            "-x,",
            "-e",
            "page-faults",
            "sh",
            "-c",
            &format!("touch {}; exec sleep 60", started.display()),
        ]);
        wait_until("the command starts", || started.exists());
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), expected, "{output:?}");
        assert!(counts(&output)[0].parse::<u32>().unwrap() > 10, "{output:?}");
    }
}

#[test]
fn a_second_interrupt_no_longer_waits_for_a_command_that_ignores_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!(
        "trap '' INT; trap 'exit 5' TERM; touch {}; while :; do sleep 0.01; done",
        started.display()
    );
    let mut child = spawn(&["-x,", "-e", "page-faults", "sh", "-c", &script]);
    wait_until("the command starts", || started.exists());
    signal(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "the command had its say");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), counts(&output).len()), (5, 1), "{output:?}");
}

#[test]
fn without_a_command_an_interrupt_shows_the_counts_and_is_130() {
    if !crate::support::is_root() {
        return;
    }
    let child = spawn(&["-a", "-x,", "-e", "context-switches", "-I", "10"]);
    // The interval lines say that counting has begun.
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 130, "{output:?}");
    assert!(counts(&output).len() > 1, "{output:?}");
}

#[test]
fn no_zombie_and_no_process_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // The child waits when opening fails; it must end without having run.
    let line = format!(
        "ulimit -n 12; {} stat -a -e page-faults,cs,migrations,faults,minor-faults,major-faults,dummy,cpu-clock touch {}; ps -e -o ppid=,stat=,comm= | grep -w $$ | grep -v -w -e ps -e grep -e sh",
        env!("CARGO_BIN_EXE_tare"),
        mark.display()
    );
    let output = sh(&line);
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!mark.exists());
    assert!(stderr(&output).contains("file descriptors are needed"), "{output:?}");
}

#[test]
fn three_hundred_events_at_once() {
    let events = vec!["page-faults"; 300].join(",");
    // The soft limit of 20 files is raised for tare, and the command still has it.
    let output = sh(&format!(
        "ulimit -Sn 20; {} stat -x, -e {events} sh -c 'ulimit -n'",
        env!("CARGO_BIN_EXE_tare")
    ));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "20\n", "{output:?}");
    let counts = counts(&output);
    assert_eq!(counts.len(), 300);
    assert!(
        counts.iter().all(|count| *count == counts[0] && count.parse::<u32>().unwrap() > 10),
        "{counts:?}"
    );
    let low =
        sh(&format!("ulimit -n 20; {} stat -x, -e {events} true", env!("CARGO_BIN_EXE_tare")));
    assert_eq!(status(&low), 125);
    assert!(
        stderr(&low).starts_with("tare: 300 file descriptors are needed")
            && stderr(&low).lines().count() == 1,
        "{low:?}"
    );
}

#[test]
fn running_processes_and_threads() {
    let mut busy = Guarded::busy();
    let id = busy.id().to_string();
    let clock = |args: &[&str]| {
        let output = stat(&[args, &["-x,", "-e", "task-clock:u", "--timeout", "200"]].concat());
        assert_eq!(status(&output), 0, "{output:?}");
        stderr(&output)
    };
    for option in ["-p", "-t"] {
        let text = clock(&[option, &id]);
        assert!(text.split(',').next().unwrap().parse::<f64>().unwrap() > 1.0, "{text}");
        let named = clock(&[option, &id, "--per-thread"]);
        assert!(named.starts_with(&format!("sh-{id},")), "{named}");
    }
    // Its end ends the measurement.
    for option in ["-p", "-t"] {
        if option == "-t" {
            busy = Guarded::spawn(Command::new("sleep").arg("0.4"));
        }
        let child = spawn(&[option, &busy.id().to_string(), "-x,", "-e", "page-faults:u"]);
        if option == "-p" {
            busy.end();
        }
        busy.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), if counts(&output).is_empty() { 2 } else { 0 }, "{output:?}");
    }
}

#[test]
fn a_child_is_counted_with_its_parent_unless_told_not_to() {
    let faults = |args: &[&str]| {
        let output = stat(
            &[
                &["-x,", "-e", "page-faults:u"],
                args,
                &["sh", "-c", "ls / >/dev/null; ls / >/dev/null; true"],
            ]
            .concat(),
        );
        counts(&output)[0].parse::<u32>().unwrap()
    };
    let (all, own) = (faults(&[]), faults(&["-i"]));
    assert!(all > own + 50, "{all} with children, {own} without");
}

#[test]
fn whole_machine_by_cpu_core_socket_and_node() {
    if !crate::support::is_root() {
        return;
    }
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let lines = |args: &[&str]| {
        let output = stat(&[args, &["-x,", "-e", "task-clock", "sleep", "0.05"]].concat());
        assert_eq!(status(&output), 0, "{output:?}");
        stderr(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let cpus = lines(&["-a", "-A"]);
    assert!(cpus[0].starts_with("CPU0,"), "{cpus:?} of {online}");
    assert_eq!(lines(&["-C", "0", "-A"]).len(), 1);
    assert!(lines(&["-a", "--per-core"])[0].starts_with("S0-D0-C0,"));
    assert!(lines(&["-a", "--per-die"])[0].starts_with("S0-D0,"));
    assert!(
        lines(&["-a", "--per-socket"])[0].starts_with(&format!("S0,{},", cpus.len())),
        "{:?}",
        lines(&["-a", "--per-socket"])
    );
    assert!(lines(&["-a", "--per-node"])[0].starts_with("N0,"));
    assert_eq!(lines(&["-a"]).len(), 1);
}

#[test]
fn intervals_add_up_to_the_totals() {
    let output = stat(&[
        "--json",
        "-o",
        "-",
        "-I",
        "20",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6; do ls / >/dev/null; sleep 0.01; done >&2",
    ]);
    let document = document(&output);
    let intervals = document["intervals"].as_array().unwrap();
    assert!(intervals.len() > 2, "{document}");
    let sum: f64 =
        intervals.iter().map(|interval| interval["events"][0]["value"].as_f64().unwrap()).sum();
    assert_eq!(Some(sum), document["events"][0]["value"].as_f64());
    let counted =
        stat(&["-I", "10", "--interval-count", "3", "-x,", "-e", "page-faults:u", "sleep", "60"]);
    assert_eq!((counts(&counted).len(), status(&counted)), (3, 143), "{counted:?}");
}

#[test]
fn a_timeout_and_a_delay() {
    let output = stat(&["--timeout", "100", "-x,", "-e", "page-faults:u", "sleep", "60"]);
    assert_eq!((status(&output), counts(&output).len()), (143, 1), "{output:?}");
    // All of the command's faults lie before the delay ends.
    let delayed = stat(&[
        "-D",
        "300",
        "-x,",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "ls / >/dev/null; sleep 0.6",
    ]);
    assert!(counts(&delayed)[0].parse::<u32>().unwrap() < 10, "{delayed:?}");
}

#[test]
fn orders_come_over_descriptors_and_fifos() {
    let folder = tempfile::tempdir().unwrap();
    let (control, ack) = (folder.path().join("control"), folder.path().join("ack"));
    sh(&format!("mkfifo {} {}", control.display(), ack.display()));
    // The program under test counts exactly what lies between its own orders.
    let script = format!(
        "read_ack() {{ read line <&4; [ \"$line\" = ack ]; }}; exec 3>{0} 4<>{1}; ls / >/dev/null; echo enable >&3; read_ack; ls / >/dev/null; echo disable >&3; read_ack; ls / >/dev/null; echo nonsense >&3; echo ping >&3; read_ack",
        control.display(),
        ack.display()
    );
    let fifo = format!("fifo:{},{}", control.display(), ack.display());
    let whole = counts(&stat(&[
        "-x,",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "ls / >/dev/null; ls / >/dev/null; ls / >/dev/null",
    ]))[0]
        .parse::<f64>()
        .unwrap();
    let output =
        stat(&["-D", "-1", "--control", &fifo, "-x,", "-e", "page-faults:u", "sh", "-c", &script]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(
        stderr(&output).contains("'nonsense' is none of enable, disable, ping, stop"),
        "{output:?}"
    );
    let between = counts(&output)[0].parse::<f64>().unwrap();
    assert!(between > 20.0 && between < whole * 0.6, "{between} of {whole}");
    let stopped = sh(&format!(
        "(echo stop; sleep 5) | {} stat --control fd:0 -x, -e page-faults:u sleep 60",
        env!("CARGO_BIN_EXE_tare")
    ));
    assert_eq!(status(&stopped), 143, "{stopped:?}");
}

#[test]
fn before_and_after_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let echo = |word: &str| format!("echo {word} >> {}", log.display());
    let output = stat(&[
        "-r2",
        "--pre",
        &echo("pre"),
        "--post",
        &echo("post"),
        "-e",
        "page-faults",
        "sh",
        "-c",
        &echo("run"),
    ]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(
        fs::read_to_string(&log).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["pre", "run", "post", "pre", "run", "post"]
    );
}

#[test]
fn repeated_runs_have_a_mean_a_deviation_and_an_interval() {
    let document =
        document(&stat(&["-r8", "--json", "-o", "-", "-e", "page-faults:u,task-clock", "true"]));
    let clock = &document["events"][1];
    let runs: Vec<f64> =
        clock["runs"].as_array().unwrap().iter().map(|run| run.as_f64().unwrap()).collect();
    let mean = runs.iter().sum::<f64>() / 8.0;
    assert_eq!((runs.len(), document["runs"].as_u64()), (8, Some(8)));
    assert!((clock["value"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    let (low, high) =
        (clock["interval_95"][0].as_f64().unwrap(), clock["interval_95"][1].as_f64().unwrap());
    assert!(
        low < mean && mean < high && clock["standard_deviation"].as_f64().unwrap() > 0.0,
        "{clock}"
    );
    assert_eq!(document["times"]["elapsed_seconds"].as_array().unwrap().len(), 8);
}

#[test]
fn only_the_time() {
    let output = stat(&["--null", "true"]);
    assert!(
        stderr(&output).contains("seconds time elapsed")
            && !stderr(&output).contains("page-faults"),
        "{output:?}"
    );
}

#[test]
fn a_missing_event_is_a_reason_and_a_verdict_only_if_wanted() {
    // Type 4242 is nobody's PMU.
    let output = stat(&["-x,", "-e", "4242:1,page-faults:u", "true"]);
    assert_eq!(
        (status(&output), counts(&output)[0].as_str()),
        (0, "<not supported>"),
        "{output:?}"
    );
    assert!(
        stderr(&output)
            .contains("tare: not counted: 4242:1 (the kernel or its PMU does not have this event)"),
        "{output:?}"
    );
    assert_eq!(status(&stat(&["--strict", "-e", "4242:1", "true"])), 3);
    assert_eq!(status(&stat(&["--strict", "-e", "4242:1", "false"])), 1);
    assert_eq!(status(&stat(&["--strict", "true"])), 0, "the default events are what there is");
    let repeated = stat(&["-r3", "-e", "4242:1", "true"]);
    assert_eq!(stderr(&repeated).matches("tare: not counted").count(), 1, "{repeated:?}");
    let document = document(&stat(&["--json", "-o", "-", "-e", "4242:1", "true"]));
    assert!(
        document["events"][0]["value"].is_null() && document["events"][0]["reason"].is_string(),
        "{document}"
    );
}

#[test]
fn the_default_events_adapt_in_one_line() {
    let output = stat(&["true"]);
    let text = stderr(&output);
    assert!(
        text.contains("task-clock")
            && text.contains("page-faults")
            && !text.contains("<not supported>"),
        "{text}"
    );
    assert!(text.lines().filter(|line| line.starts_with("tare:")).count() <= 1, "{text}");
}

#[test]
fn files_are_the_owners_and_links_in_shared_folders_are_not_followed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts");
    let path = file.to_str().unwrap();
    stat(&["-x,", "-o", path, "-e", "page-faults:u", "true"]);
    stat(&["-x,", "-o", path, "--append", "-e", "page-faults:u", "true"]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    stat(&["-x,", "-o", path, "-e", "page-faults:u", "true"]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::symlink(&file, shared.join("link")).unwrap();
    let refused = stat(&["-o", shared.join("link").to_str().unwrap(), "true"]);
    assert_eq!(status(&refused), 125, "{refused:?}");
    assert!(stderr(&refused).contains("symbolic link"), "{refused:?}");
}

#[test]
fn names_from_outside_do_not_reach_the_terminal_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("a\u{1b}[31m,\"b");
    fs::copy(which("sleep"), &hostile).unwrap();
    let mut child = Guarded::spawn(Command::new(&hostile).arg("60"));
    wait_until("the program has its name", || {
        fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap().starts_with("a\u{1b}")
    });
    let id = child.id().to_string();
    let of = |form: &[&str]| {
        stderr(&stat(
            &[form, &["-p", &id, "--per-thread", "--timeout", "50", "-e", "page-faults:u"]]
                .concat(),
        ))
    };
    let (text, csv, lines) = (of(&[]), of(&["-x,"]), of(&["-j"]));
    child.end();
    for form in [&text, &csv, &lines] {
        assert!(!form.contains('\u{1b}') && form.contains(&id), "{form}");
    }
    assert_eq!(csv.trim_end().split(',').count(), 8, "{csv}");
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["thread"], format!("a\u{1b}[31m,\"b-{id}"));
    let title = stderr(&stat(&["-e", "page-faults:u", "true", "\u{1b}]0;owned\u{7}"]));
    assert!(!title.contains('\u{1b}') && !title.contains('\u{7}'), "{title}");
}

fn which(program: &str) -> std::path::PathBuf {
    ["/bin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
        .expect("coreutils")
}

#[test]
fn an_unprivileged_user_counts_user_mode() {
    let Some(user) = crate::support::Unprivileged::new() else { return };
    let output = user.stat(&["-x,", "-e", "page-faults", "true"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let paranoid: i32 =
        fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap().trim().parse().unwrap();
    if paranoid < 2 {
        println!("skipped: perf_event_paranoid is {paranoid}: nothing is closed to users here");
        return;
    }
    assert!(stderr(&output).contains("page-faults:u"), "{output:?}");
    let switches = user.stat(&["-x,", "-e", "context-switches", "true"]);
    assert!(stderr(&switches).contains("<not supported>,,context-switches"), "{switches:?}");
    for args in [
        &["-e", "page-faults:k", "true"][..],
        &["-a", "sleep", "0"],
        &["-e", "raw_syscalls:sys_enter", "true"],
    ] {
        let refused = user.stat(args);
        let text = stderr(&refused);
        assert!([2, 125].contains(&status(&refused)) && text.starts_with("tare: "), "{refused:?}");
        assert!(
            text.contains("sudo sysctl") || text.contains("not readable for this user"),
            "the remedy is named: {text}"
        );
    }
}
