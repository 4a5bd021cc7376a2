//! How what a command starts is followed, and in which cgroup it runs meanwhile.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};
use tare_format::abi::{Attr, Flags};
use tare_kernel::cgroup::{Transient, TransientPlace};
use tare_kernel::host::Host;
use tare_kernel::open::{Kernel, Target};

use crate::cli::raw::Follow;
use crate::exit::{Exit, Refusal};
use tare_format::ledger::FollowMode;

/// How a command is followed.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) mode: FollowMode,
    /// Why not in a way that sees more, where the user left the choice.
    pub(crate) why: Option<String>,
    /// The command's cgroup.
    pub(crate) cgroup: Option<Transient>,
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// What the user said.
    pub(crate) follow: Follow,
    /// An option that only inherited events fulfil.
    pub(crate) needs_inherit: Option<&'static str>,
    /// Nothing is to be run: no cgroup is made.
    pub(crate) dry_run: bool,
}

impl Following {
    /// Chooses, and makes the cgroup.
    ///
    /// # Errors
    /// What the user insists on can't be done: with what stands in its way.
    pub(crate) fn choose(wish: Wish, host: &Host, kernel: &dyn Kernel) -> Result<Self, Refusal> {
        let inherit = |why| Self { mode: FollowMode::Inherit, why, cgroup: None };
        let forced = wish.follow != Follow::Auto;
        if let Some(option) = wish.needs_inherit {
            return match wish.follow {
                Follow::Cgroup | Follow::System => Err(Refusal::usage(format!(
                    "{option} is for events that are inherited: use --follow=inherit"
                ))),
                Follow::Auto | Follow::Inherit => {
                    Ok(inherit(Some(format!("{option} asks for it")).filter(|_| !forced)))
                }
            };
        }
        if wish.follow == Follow::Inherit {
            return Ok(inherit(None));
        }
        if let Err(errno) = may_count_cpus(host, kernel) {
            let why = format!(
                "events on whole CPUs are not allowed ({errno}; CAP_PERFMON or kernel.perf_event_paranoid=0 allows them)"
            );
            return if forced { Err(refusal(wish.follow, &why)) } else { Ok(inherit(Some(why))) };
        }
        if wish.follow == Follow::System {
            return Ok(Self { mode: FollowMode::System, why: None, cgroup: None });
        }
        match own_cgroup(wish.dry_run, host, kernel) {
            Ok(cgroup) => Ok(Self { mode: FollowMode::Cgroup, why: None, cgroup }),
            Err(why) if forced => Err(refusal(wish.follow, &why)),
            Err(why) => Ok(Self { mode: FollowMode::System, why: Some(why), cgroup: None }),
        }
    }

    /// The line that says what was chosen.
    pub(crate) fn line(&self) -> String {
        let how = self.mode.how();
        self.why.as_ref().map_or_else(
            || format!("follows the command {how}"),
            |why| format!("follows the command {how}: {why}"),
        )
    }
}

fn refusal(follow: Follow, why: &str) -> Refusal {
    let (name, others) = if follow == Follow::Cgroup {
        ("cgroup", "system or inherit")
    } else {
        ("system", "inherit")
    };
    Refusal {
        exit: Exit::OwnFailure,
        message: format!("--follow={name}: {why}; use --follow={others}"),
    }
}

/// Makes a cgroup that events can be opened on; none where nothing is to be run. Else: what stands
/// in the way.
fn own_cgroup(
    dry_run: bool,
    host: &Host,
    kernel: &dyn Kernel,
) -> Result<Option<Transient>, String> {
    let place = TransientPlace::find(host).map_err(|error| error.to_string())?;
    if dry_run {
        return Ok(None);
    }
    let cgroup = place.create(host).map_err(|error| error.to_string())?;
    // That there is one doesn't say that it can have events (CONFIG_CGROUP_PERF, and that this
    // controller reached it).
    let target = Target::CgroupOnCpu(cgroup.as_fd().as_raw_fd(), first_cpu(host));
    may_count(target, kernel)
        .map_err(|errno| format!("no event can be opened on a new cgroup ({errno})"))?;
    Ok(Some(cgroup))
}

fn may_count_cpus(host: &Host, kernel: &dyn Kernel) -> Result<(), Errno> {
    may_count(Target::Cpu(first_cpu(host)), kernel)
}

/// Asks with an event that never happens.
fn may_count(target: Target, kernel: &dyn Kernel) -> Result<(), Errno> {
    let (kind, config) = (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.into());
    kernel
        .open(
            &Attr {
                kind,
                config,
                flags: Flags::DISABLED | Flags::EXCLUDE_KERNEL,
                ..Attr::default()
            },
            target,
            None,
        )
        .map(drop)
}

fn first_cpu(host: &Host) -> u32 {
    host.online_cpus().ok().and_then(|cpus| cpus.as_slice().first().copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tare_kernel::fake::{Answer, Scripted};

    use super::*;

    fn choose(
        follow: Follow,
        needs_inherit: Option<&'static str>,
        host: &Host,
        kernel: &Scripted,
    ) -> Result<(FollowMode, Option<String>), String> {
        let chosen = Following::choose(Wish { follow, needs_inherit, dry_run: true }, host, kernel);
        chosen.map(|following| (following.mode, following.why)).map_err(|refusal| refusal.message)
    }

    #[test]
    fn it_steps_down_and_says_why() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        let files = [
            ("proc/self/mountinfo", "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("cg/cgroup.procs", ""),
        ];
        for (file, text) in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let refuses = Scripted::new().rule(
            |_, target| matches!(target, Target::CgroupOnCpu(..)),
            Answer::Refuse(Errno::NOENT),
        );
        let stepped = Following::choose(
            Wish { follow: Follow::Auto, needs_inherit: None, dry_run: false },
            &host,
            &refuses,
        )
        .unwrap();
        assert!(
            stepped.mode == FollowMode::System
                && stepped.why.is_some_and(|why| why.contains("on a new cgroup"))
        );
        assert_eq!(
            std::fs::read_dir(root.path().join("cg")).unwrap().count(),
            1,
            "the cgroup that was tried is gone"
        );
        let all = Scripted::new();
        assert_eq!(choose(Follow::Auto, None, &host, &all), Ok((FollowMode::Cgroup, None)));
        assert_eq!(
            choose(Follow::Auto, Some("-i"), &host, &all),
            Ok((FollowMode::Inherit, Some("-i asks for it".to_owned())))
        );
        assert!(
            choose(Follow::System, Some("-i"), &host, &all)
                .unwrap_err()
                .contains("--follow=inherit")
        );
        std::fs::write(root.path().join("cg/cgroup.subtree_control"), "cpu\n").unwrap();
        let (mode, why) = choose(Follow::Auto, None, &host, &all).unwrap();
        assert!(mode == FollowMode::System && why.unwrap().contains("limits"));
        assert!(
            choose(Follow::Cgroup, None, &host, &all)
                .unwrap_err()
                .contains("use --follow=system or inherit")
        );
        let none = || {
            Scripted::new()
                .rule(|_, target| matches!(target, Target::Cpu(_)), Answer::Refuse(Errno::ACCESS))
        };
        let (mode, why) = choose(Follow::Auto, None, &host, &none()).unwrap();
        assert!(mode == FollowMode::Inherit && why.unwrap().contains("CAP_PERFMON"));
        assert!(
            choose(Follow::System, None, &host, &none())
                .unwrap_err()
                .contains("use --follow=inherit")
        );
    }
}
