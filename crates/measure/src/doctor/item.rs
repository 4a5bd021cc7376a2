//! The result of a check.

use serde::Serialize;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// No shortcoming.
    Ok,
    /// It works in part.
    Limited,
    /// It is absent or forbidden.
    Missing,
    /// It can't be determined.
    Unknown,
}

/// The heading of an item, in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    Machine,
    User,
    Events,
    Limits,
    Symbols,
    Cgroups,
    Bpf,
}

impl Group {
    pub(super) const ALL: [Self; 7] = [
        Self::Machine,
        Self::User,
        Self::Events,
        Self::Limits,
        Self::Symbols,
        Self::Cgroups,
        Self::Bpf,
    ];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::User => "User",
            Self::Events => "Events",
            Self::Limits => "Limits",
            Self::Symbols => "Symbols",
            Self::Cgroups => "Cgroups",
            Self::Bpf => "BPF",
        }
    }
}

/// A way to lift a limit, or to find its cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Remedy {
    /// A shell command, or a setting or instruction in words (for a hypervisor, a container engine,
    /// the kernel's build).
    #[serde(flatten)]
    pub how: RemedyAction,
    /// Where it applies, how long, or its effects, also on other users.
    pub note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RemedyAction {
    Command(String),
    Setting(String),
}

impl Remedy {
    pub(super) fn command(command: impl Into<String>, note: impl Into<String>) -> Self {
        Self { how: RemedyAction::Command(command.into()), note: note.into() }
    }

    pub(super) fn setting(setting: impl Into<String>, note: impl Into<String>) -> Self {
        Self { how: RemedyAction::Setting(setting.into()), note: note.into() }
    }
}

/// A check's finding, with its state, the cost of a shortcoming, and the remedies.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Item {
    /// Its stable name.
    pub id: &'static str,
    pub group: Group,
    pub title: &'static str,
    pub state: State,
    /// The finding, or why it is unknown.
    pub found: String,
    /// The consequence of the shortcoming, for example a feature that doesn't work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
}

impl Item {
    pub(super) fn ok(
        group: Group,
        id: &'static str,
        title: &'static str,
        found: impl Into<String>,
    ) -> Self {
        Self {
            id,
            group,
            title,
            state: State::Ok,
            found: found.into(),
            cost: None,
            remedies: Vec::new(),
        }
    }

    /// Creates an item that can't be determined, with the reason (without an error number).
    pub(super) fn unknown(
        group: Group,
        id: &'static str,
        title: &'static str,
        why: impl std::fmt::Display,
    ) -> Self {
        let why = why.to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        Self { state: State::Unknown, ..Self::ok(group, id, title, why) }
    }

    /// Adds a shortcoming: its state, its cost and its remedies.
    pub(super) fn with_shortcoming(
        self,
        state: State,
        cost: impl Into<String>,
        remedies: Vec<Remedy>,
    ) -> Self {
        Self { state, cost: Some(cost.into()), remedies, ..self }
    }
}
