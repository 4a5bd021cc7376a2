//! How the tasks of a command are followed, and the cgroup that it may run in.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};
use tare_format::abi::{Attr, Flags};
use tare_format::ledger::FollowMode;
use tare_kernel::cgroup::{TransientCgroup, TransientParent};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel};

use crate::error::{InheritOption, NotFollowed, PlanError};
use crate::options::Follow;

/// How a command is followed.
#[derive(Debug)]
pub struct Following {
    /// The chosen way.
    pub mode: FollowMode,
    /// Why a way that sees more tasks wasn't chosen, if the choice was left to tare.
    pub why: Option<NotFollowed>,
    /// The command's own cgroup.
    pub(crate) cgroup: Option<TransientCgroup>,
}

/// The facts that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowRequest {
    /// The requested way.
    pub(crate) follow: Follow,
    /// An option that needs inherited events.
    pub(crate) needs_inherit: Option<InheritOption>,
    /// Whether to create the cgroup; otherwise only its feasibility is checked.
    pub(crate) makes_cgroup: bool,
}

impl Following {
    /// Chooses how to follow a command, and creates its cgroup if one is to be used.
    ///
    /// # Errors
    /// Fails if the way that the user insists on isn't possible.
    pub(crate) fn choose(
        request: FollowRequest,
        host: &Host,
        kernel: &dyn Kernel,
    ) -> Result<Self, PlanError> {
        let inherit = |why| Self { mode: FollowMode::Inherit, why, cgroup: None };
        let forced = request.follow != Follow::Auto;
        if let Some(option) = request.needs_inherit {
            return match request.follow {
                follow @ (Follow::Cgroup | Follow::System) => Err(PlanError::Follow {
                    follow,
                    reason: NotFollowed::OptionNeedsInherit(option),
                }),
                Follow::Auto | Follow::Inherit => {
                    let why = NotFollowed::OptionNeedsInherit(option);
                    Ok(inherit(Some(why).filter(|_| !forced)))
                }
            };
        }
        if request.follow == Follow::Inherit {
            return Ok(inherit(None));
        }
        let cpu = first_cpu(host);
        if let Err(errno) = check_target(EventTarget::Cpu(cpu), kernel) {
            let why = NotFollowed::CpusNotAllowed(errno);
            return if forced { Err(refused(request.follow, why)) } else { Ok(inherit(Some(why))) };
        }
        if request.follow == Follow::System {
            return Ok(Self { mode: FollowMode::System, why: None, cgroup: None });
        }
        match create_cgroup(request.makes_cgroup, cpu, host, kernel) {
            Ok(cgroup) => Ok(Self { mode: FollowMode::Cgroup, why: None, cgroup }),
            Err(why) if forced => Err(refused(request.follow, why)),
            Err(why) => Ok(Self { mode: FollowMode::System, why: Some(why), cgroup: None }),
        }
    }
}

fn refused(follow: Follow, reason: NotFollowed) -> PlanError {
    PlanError::Follow { follow, reason }
}

/// Creates a cgroup, and checks on this CPU that events can be opened on it. Without
/// `makes_cgroup`, only finds a place for it, and returns `None`.
///
/// # Errors
/// Fails with the reason.
fn create_cgroup(
    makes_cgroup: bool,
    cpu: u32,
    host: &Host,
    kernel: &dyn Kernel,
) -> Result<Option<TransientCgroup>, NotFollowed> {
    let place = TransientParent::find(host)?;
    if !makes_cgroup {
        return Ok(None);
    }
    let cgroup = place.create(host)?;
    // Events on a cgroup need CONFIG_CGROUP_PERF, and the controller `perf_event` in its hierarchy.
    let target = EventTarget::CgroupOnCpu(cgroup.as_fd().as_raw_fd(), cpu);
    check_target(target, kernel).map_err(NotFollowed::NoEventOnCgroup)?;
    Ok(Some(cgroup))
}

/// Tests a target with an event that never occurs.
fn check_target(target: EventTarget, kernel: &dyn Kernel) -> Result<(), Errno> {
    let kind = PERF_TYPE_SOFTWARE;
    let config = PERF_COUNT_SW_DUMMY.into();
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
    use tare_kernel::fake::{Scripted, ScriptedAnswer};

    use super::*;

    fn choose(
        follow: Follow,
        needs_inherit: Option<InheritOption>,
        host: &Host,
        kernel: &Scripted,
    ) -> Result<(FollowMode, Option<String>), String> {
        let chosen = Following::choose(
            FollowRequest { follow, needs_inherit, makes_cgroup: false },
            host,
            kernel,
        );
        chosen
            .map(|following| (following.mode, following.why.map(|why| why.to_string())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn falls_back_and_states_the_reason() {
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
            |_, target| matches!(target, EventTarget::CgroupOnCpu(..)),
            ScriptedAnswer::Refuse(Errno::NOENT),
        );
        let stepped = Following::choose(
            FollowRequest { follow: Follow::Auto, needs_inherit: None, makes_cgroup: true },
            &host,
            &refuses,
        )
        .unwrap();
        assert!(
            stepped.mode == FollowMode::System
                && stepped.why == Some(NotFollowed::NoEventOnCgroup(Errno::NOENT))
        );
        assert_eq!(
            std::fs::read_dir(root.path().join("cg")).unwrap().count(),
            1,
            "the cgroup that was tried is gone"
        );
        let all = Scripted::new();
        assert_eq!(choose(Follow::Auto, None, &host, &all), Ok((FollowMode::Cgroup, None)));
        assert_eq!(
            choose(Follow::Auto, Some(InheritOption::NoInherit), &host, &all),
            Ok((FollowMode::Inherit, Some("-i asks for it".to_owned())))
        );
        assert!(
            choose(Follow::System, Some(InheritOption::NoInherit), &host, &all)
                .unwrap_err()
                .contains("-i asks for it")
        );
        std::fs::write(root.path().join("cg/cgroup.subtree_control"), "cpu\n").unwrap();
        let (mode, why) = choose(Follow::Auto, None, &host, &all).unwrap();
        assert!(mode == FollowMode::System && why.unwrap().contains("limits"));
        assert!(choose(Follow::Cgroup, None, &host, &all).unwrap_err().contains("limits"));
        let none = || {
            Scripted::new().rule(
                |_, target| matches!(target, EventTarget::Cpu(_)),
                ScriptedAnswer::Refuse(Errno::ACCESS),
            )
        };
        let (mode, why) = choose(Follow::Auto, None, &host, &none()).unwrap();
        assert!(mode == FollowMode::Inherit && why.unwrap().contains("CAP_PERFMON"));
        assert!(choose(Follow::System, None, &host, &none()).unwrap_err().contains("CAP_PERFMON"));
    }
}
