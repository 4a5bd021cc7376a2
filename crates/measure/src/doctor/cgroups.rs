//! Checks whether cgroups can be counted and created.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tare_kernel::cgroup::{Cgroups, Delegation, Hierarchy, PerfEvent};

use super::events;
use super::facts::Facts;
use super::item::{Group, Item, Remedy, State};
use super::remedy::{self, shell_word};

pub(super) fn examine(facts: &Facts<'_>) -> Vec<Item> {
    let cgroups = Cgroups::read(&facts.host);
    vec![version_2(&cgroups), counting(facts, &cgroups), delegation(facts, &cgroups)]
}

fn version_2(cgroups: &Cgroups) -> Item {
    let item = |found: String| Item::ok(Group::Cgroups, "cgroup_v2", "version 2", found);
    match &cgroups.v2 {
        Some(Hierarchy { mount, own: Some(own) }) if own == mount => {
            item(format!("at {}; own cgroup: the root", mount.display()))
        }
        Some(Hierarchy { mount, own: Some(own) }) => {
            item(format!("at {}; own cgroup: {}", mount.display(), own.display()))
        }
        Some(Hierarchy { mount, own: None }) => {
            item(format!("at {}; tare's own cgroup in it is unknown", mount.display()))
        }
        None => item("not mounted".to_owned()).with_shortcoming(
            State::Missing,
            "commands can't be put into a cgroup of their own",
            vec![mount_v2(cgroups)],
        ),
    }
}

fn mount_v2(cgroups: &Cgroups) -> Remedy {
    let place = if cgroups.perf_event == PerfEvent::Version1 {
        "/sys/fs/cgroup/unified"
    } else {
        "/sys/fs/cgroup"
    };
    Remedy::command(
        format!("sudo mkdir -p {place} && sudo mount -t cgroup2 none {place}"),
        "shows the tree, changes no cgroup",
    )
}

fn counting(facts: &Facts<'_>, cgroups: &Cgroups) -> Item {
    const COST: &str = "-G and --for-each-cgroup don't work";
    let item = |found: &str| Item::ok(Group::Cgroups, "cgroup_events", "events of cgroups", found);
    let version = match cgroups.perf_event {
        PerfEvent::Version1 => "on version 1's perf_event",
        PerfEvent::Version2 => "on version 2",
        PerfEvent::Nowhere => {
            let build = Remedy::setting(
                "CONFIG_CGROUP_PERF=y",
                "in the build of the kernel, and no cgroup_disable=perf_event at boot",
            );
            return item("the kernel has none").with_shortcoming(State::Missing, COST, vec![build]);
        }
    };
    let Some(hierarchy) = &cgroups.for_events else {
        let mount = if cgroups.perf_event == PerfEvent::Version1 {
            let place = "/sys/fs/cgroup/perf_event";
            let command =
                format!("sudo mkdir -p {place} && sudo mount -t cgroup -o perf_event none {place}");
            Remedy::command(command, "shows the tree, changes no cgroup")
        } else {
            mount_v2(cgroups)
        };
        return item(&format!("{version}, which is not mounted")).with_shortcoming(
            State::Missing,
            COST,
            vec![mount],
        );
    };
    let path =
        facts.host.path(&hierarchy.own.as_ref().unwrap_or(&hierarchy.mount).to_string_lossy());
    let folder = match rustix::fs::open(
        &path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(folder) => folder,
        Err(errno) => {
            return Item::unknown(
                Group::Cgroups,
                "cgroup_events",
                "events of cgroups",
                format!("{}: {errno}", path.display()),
            );
        }
    };
    match facts.probe().cgroup(std::os::fd::AsFd::as_fd(&folder), facts.some_cpu()) {
        Ok(()) => item(&format!("yes, {version}")),
        Err(why) => item(&format!("{version}; {}", events::reason(why))).with_shortcoming(
            State::Missing,
            COST,
            remedy::refused(facts, why, 0),
        ),
    }
}

fn delegation(facts: &Facts<'_>, cgroups: &Cgroups) -> Item {
    const COST: &str = "a command can't be counted in a cgroup of its own, which costs less than inheritance for commands that fork a lot";
    let item =
        |found: &str| Item::ok(Group::Cgroups, "cgroup_delegation", "own child cgroups", found);
    let Some(hierarchy) = &cgroups.v2 else {
        return item("no version 2").with_shortcoming(
            State::Missing,
            COST,
            vec![mount_v2(cgroups)],
        );
    };
    let Some(own) = &hierarchy.own else {
        return item("tare's own cgroup is unknown").with_shortcoming(
            State::Missing,
            COST,
            vec![scope(facts, &hierarchy.mount)],
        );
    };
    let delegation = Delegation::read(&facts.host, own);
    if let Some(kind) = &delegation.odd_type {
        return item(&format!("the own cgroup is of type '{kind}'")).with_shortcoming(
            State::Missing,
            COST,
            vec![scope(facts, &hierarchy.mount)],
        );
    }
    match (delegation.create, delegation.attach) {
        (Ok(()), Ok(())) => {
            let controllers = delegation.for_children.join(" ");
            item(&format!(
                "yes ({})",
                if controllers.is_empty() { "no controllers for children" } else { &controllers }
            ))
        }
        (Err(Errno::ROFS), _) | (_, Err(Errno::ROFS)) => {
            let remount = Remedy::command(
                format!("sudo mount -o remount,rw {}", shell_word(&hierarchy.mount)),
                "the container may then manage cgroups",
            );
            item("mounted read-only").with_shortcoming(State::Missing, COST, vec![remount])
        }
        (Err(why), _) | (_, Err(why)) => {
            let why = if why == Errno::ACCESS { "not allowed".to_owned() } else { why.to_string() };
            item(&why).with_shortcoming(State::Missing, COST, vec![scope(facts, &hierarchy.mount)])
        }
    }
}

/// Returns the command that starts tare in a cgroup that belongs to this user, or moves the shell
/// into one.
fn scope(facts: &Facts<'_>, mount: &Path) -> Remedy {
    if facts.host.path("/run/systemd/system").is_dir() {
        return Remedy::command(
            "systemd-run --user --scope -p Delegate=yes tare …",
            "runs tare in a cgroup that belongs to you",
        );
    }
    let folder = shell_word(&mount.join("tare"));
    Remedy::command(
        format!(
            "sudo mkdir -p {folder} && sudo chown -R $(id -u) {folder} && echo $$ | sudo tee {folder}/cgroup.procs"
        ),
        "this shell then runs in a cgroup that belongs to you",
    )
}
