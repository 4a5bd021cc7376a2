use super::*;
use crate::host::fixture::{self, FixtureHost};

const WITH_PERF: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nperf_event\t0\t1\t1\n";

/// A machine with these mounts and memberships, and with these cgroups.
fn machine(mountinfo: &str, own: &str, folders: &[&str]) -> FixtureHost {
    let mut files = vec![
        ("/proc/self/mountinfo".to_owned(), mountinfo.to_owned()),
        ("/proc/self/cgroup".to_owned(), own.to_owned()),
        ("/proc/cgroups".to_owned(), WITH_PERF.to_owned()),
    ];
    files.extend(folders.iter().map(|folder| (format!("{folder}/cgroup.procs"), String::new())));
    fixture::machine(&files)
}

fn at(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(path))
}

#[test]
fn version_2_alone() {
    let machine = machine(
        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "0::/user.slice/a.scope\n",
        &["/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/b c"],
    );
    let host = machine.host();
    let cgroups = Cgroups::read(&host);
    assert_eq!(cgroups.perf_event, PerfEvent::Version2);
    assert_eq!(cgroups.v2.as_ref().unwrap().own, at("/sys/fs/cgroup/user.slice/a.scope"));
    for name in ["b c", "/b c", "b c/", "/sys/fs/cgroup/b c"] {
        assert!(
            cgroups.find(&host, name).is_ok_and(|folder| folder == Path::new("/sys/fs/cgroup/b c")),
            "{name}"
        );
    }
    assert!(cgroups.find(&host, "/").is_ok_and(|folder| folder == Path::new("/sys/fs/cgroup")));
    assert_eq!(
        cgroups.find(&host, "b").unwrap_err().to_string(),
        "no cgroup 'b' below /sys/fs/cgroup"
    );
    assert!(matches!(cgroups.find(&host, "user.slice/../b c"), Err(CgroupError::Outside { .. })));
}

/// Version 1 has some controllers, but not `perf_event`: names start at version 2's own mount,
/// below `unified`.
#[test]
fn hybrid_with_perf_event_on_version_2() {
    let machine = machine(
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        "1:cpu:/x\n0::/\n",
        &["/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/unified/job"],
    );
    let cgroups = Cgroups::read(&machine.host());
    assert_eq!(cgroups.perf_event, PerfEvent::Version2);
    assert_eq!(
        cgroups.for_events,
        Some(Hierarchy {
            mount: "/sys/fs/cgroup/unified".into(),
            own: at("/sys/fs/cgroup/unified")
        })
    );
    assert_eq!(
        cgroups.find(&machine.host(), "job").unwrap(),
        Path::new("/sys/fs/cgroup/unified/job")
    );
}

#[test]
fn perf_event_on_version_1() {
    let mountinfo = "33 31 0:30 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n\
                     41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let own = "3:perf_event:/job\n1:name=systemd:/\n0::/user\n";
    let folders = ["/sys/fs/cgroup/perf_event/job", "/sys/fs/cgroup/unified/user"];
    let seen = machine(mountinfo, own, &folders);
    let cgroups = Cgroups::read(&seen.host());
    assert_eq!(cgroups.perf_event, PerfEvent::Version1);
    assert_eq!(cgroups.v2.as_ref().unwrap().own, at("/sys/fs/cgroup/unified/user"));
    assert_eq!(
        cgroups.find(&seen.host(), "job").unwrap(),
        Path::new("/sys/fs/cgroup/perf_event/job")
    );
    assert!(cgroups.find(&seen.host(), "user").is_err());

    let unseen = machine(mountinfo.lines().nth(1).unwrap(), own, &folders);
    let error = Cgroups::read(&unseen.host()).find(&unseen.host(), "job").unwrap_err();
    assert!(error.to_string().contains("mount -t cgroup -o perf_event"), "{error}");
}

/// A container without a cgroup namespace of its own: its part of the tree is bound to the usual
/// place.
#[test]
fn bind_mount_of_the_own_part() {
    let machine = machine(
        "500 400 0:26 /docker/4f/nested /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        "0::/docker/4f/nested/init\n",
        &["/sys/fs/cgroup/init"],
    );
    assert_eq!(Cgroups::read(&machine.host()).v2.unwrap().own, at("/sys/fs/cgroup/init"));
}

/// Of several mounts the one that shows the own cgroup counts, and of those the one that shows
/// most.
#[test]
fn several_mounts() {
    let machine = machine(
        "1 0 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n\
         2 0 0:26 / /mnt/all rw - cgroup2 cgroup2 rw\n\
         3 0 0:26 /own /mnt/part rw - cgroup2 cgroup2 rw\n",
        "0::/own\n",
        &["/mnt/other", "/mnt/all/own", "/mnt/part"],
    );
    assert_eq!(
        Cgroups::read(&machine.host()).v2,
        Some(Hierarchy { mount: "/mnt/all".into(), own: at("/mnt/all/own") })
    );
}

/// In a cgroup namespace, a mount made outside of it starts above the namespace's top, under a name
/// that isn't told.
#[test]
fn mounts_from_outside_of_the_namespace() {
    let inside = |own: &str| {
        machine(
            "1 0 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            own,
            &["/sys/fs/cgroup/beside"],
        )
    };
    assert_eq!(
        Cgroups::read(&inside("0::/\n").host()).v2,
        Some(Hierarchy { mount: "/sys/fs/cgroup".into(), own: None })
    );
    assert_eq!(
        Cgroups::read(&inside("0::/../beside\n").host()).v2.unwrap().own,
        at("/sys/fs/cgroup/beside")
    );
    let moved_out = machine(
        "1 0 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "0::/../beside\n",
        &["/sys/fs/cgroup"],
    );
    assert_eq!(Cgroups::read(&moved_out.host()).v2.unwrap().own, None);
}

#[test]
fn nothing_there() {
    let empty = fixture::empty();
    let cgroups = Cgroups::read(&empty.host());
    assert_eq!(cgroups, Cgroups { v2: None, perf_event: PerfEvent::Version2, for_events: None });
    assert!(matches!(cgroups.find(&empty.host(), "x"), Err(CgroupError::NotMounted { .. })));

    let without = fixture::machine(&[(
        "/proc/cgroups",
        "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nperf_event\t0\t1\t0\n",
    )]);
    assert!(matches!(
        Cgroups::read(&without.host()).find(&without.host(), "x"),
        Err(CgroupError::NoPerfEvent)
    ));
}

#[test]
fn delegation_tells_what_is_missing() {
    let machine = fixture::machine(&[
        ("/cg/cgroup.procs", ""),
        ("/cg/cgroup.type", "threaded\n"),
        ("/cg/cgroup.subtree_control", "cpu memory\n"),
    ]);
    let delegation = Delegation::read(&machine.host(), Path::new("/cg"));
    assert_eq!((delegation.create, delegation.attach), (Ok(()), Ok(())));
    assert_eq!(delegation.odd_type.as_deref(), Some("threaded"));
    assert_eq!(delegation.for_children, ["cpu", "memory"]);
    assert_eq!(Delegation::read(&machine.host(), Path::new("/none")).create, Err(Errno::NOENT));
}
