//! Samples between those of two events: from one that switches on to one that switches off.

/// Which events switch, by name.
#[derive(Clone, Debug, Default)]
pub struct EventSwitch {
    /// Samples are taken from one of this event on; `None`: from the first.
    pub on: Option<Vec<u8>>,
    /// They are no longer taken from one of this event on.
    pub off: Option<Vec<u8>>,
    /// The samples that switch are taken too.
    pub shows: bool,
}

/// An [`EventSwitch`] at work.
#[derive(Clone, Debug)]
pub struct SwitchState {
    switch: EventSwitch,
    is_off: bool,
}

impl SwitchState {
    /// Off as long as something is to switch it on.
    #[must_use]
    pub fn new(switch: &EventSwitch) -> Self {
        Self { is_off: switch.on.is_some(), switch: switch.clone() }
    }

    /// Whether nothing switches.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.switch.on.is_none() && self.switch.off.is_none()
    }

    /// Whether a sample of an event is taken.
    pub fn takes(&mut self, event: &[u8]) -> bool {
        let is = |name: &Option<Vec<u8>>| name.as_deref() == Some(event);
        if self.is_off && is(&self.switch.on) {
            self.is_off = false;
            return self.switch.shows;
        }
        if !self.is_off && is(&self.switch.off) {
            self.is_off = true;
            return self.switch.shows;
        }
        !self.is_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_between_two_events_are_taken() {
        let name = |text: &str| Some(text.as_bytes().to_vec());
        let switch = EventSwitch { on: name("on"), off: name("off"), shows: false };
        let taken = |switch: &EventSwitch| {
            let mut switched = SwitchState::new(switch);
            ["a", "off", "on", "a", "on", "off", "a", "on", "a"]
                .map(|event| switched.takes(event.as_bytes()))
        };
        let f = false;
        assert_eq!(taken(&switch), [f, f, f, true, true, f, f, f, true]);
        let switch = EventSwitch { shows: true, ..switch };
        assert_eq!(taken(&switch), [f, f, true, true, true, true, f, true, true]);
        assert!(taken(&EventSwitch::default()).iter().all(|taken| *taken));
    }
}
