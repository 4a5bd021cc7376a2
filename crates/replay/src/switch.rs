//! Selects samples from an event that switches on to one that switches off.

/// Which events switch, by name.
#[derive(Clone, Debug, Default)]
pub struct EventSwitch {
    /// Start with a sample of this event; `None`: with the first sample.
    pub on: Option<Vec<u8>>,
    /// Stop with a sample of this event.
    pub off: Option<Vec<u8>>,
    /// Take the samples that switch, too.
    pub shows: bool,
}

/// The current state of an [`EventSwitch`].
#[derive(Clone, Debug)]
pub struct SwitchState {
    switch: EventSwitch,
    is_off: bool,
}

impl SwitchState {
    /// Starts switched off if an event switches on.
    #[must_use]
    pub fn new(switch: &EventSwitch) -> Self {
        Self { is_off: switch.on.is_some(), switch: switch.clone() }
    }

    /// Whether no event switches.
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
