//! `tare stat`: exit statuses, what the command inherits, and targets.

use std::fs;
use std::process::Command;

use crate::support::{ProcessGuard, csv_values, sh, spawn_stat, stat, status, stderr};

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
    // execve fails in the child.
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
    // Descriptors, signal dispositions and mask, limits, terminal and group are the same as without
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
            // Each new session has another id.
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
fn no_zombie_and_no_process_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // If opening events fails, the waiting child must exit without executing the command.
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
    // tare raises its own soft limit of 20 files; the command keeps it.
    let output = sh(&format!(
        "ulimit -Sn 20; {} stat -x, -e {events} sh -c 'ulimit -n'",
        env!("CARGO_BIN_EXE_tare")
    ));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "20\n", "{output:?}");
    let counts = csv_values(&output);
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
    let mut busy = ProcessGuard::busy();
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
    // The measurement ends with the process.
    for option in ["-p", "-t"] {
        if option == "-t" {
            busy = ProcessGuard::spawn(Command::new("sleep").arg("0.4"));
        }
        let child = spawn_stat(&[option, &busy.id().to_string(), "-x,", "-e", "page-faults:u"]);
        if option == "-p" {
            busy.end();
        }
        busy.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            status(&output),
            if csv_values(&output).is_empty() { 2 } else { 0 },
            "{output:?}"
        );
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
        csv_values(&output)[0].parse::<u32>().unwrap()
    };
    let all = faults(&[]);
    let own = faults(&["-i"]);
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
