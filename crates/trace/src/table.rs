//! Tables of names by number, as text: each line begins with the number of its first name.

/// The names of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Vec<&'static str>);

impl Table {
    /// Parses lines such as `56 openat close`.
    pub(crate) fn parse(texts: &[&'static str]) -> Self {
        let mut names = Vec::new();
        for line in texts.iter().flat_map(|text| text.lines()) {
            let mut words = line.split(' ');
            let first: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
            for (number, name) in (first..).zip(words) {
                if names.len() <= number {
                    names.resize(number + 1, "");
                }
                names[number] = name;
            }
        }
        Self(names)
    }

    /// Returns the name of a number.
    pub(crate) fn name(&self, number: u32) -> Option<&'static str> {
        let name = self.0.get(usize::try_from(number).ok()?)?;
        (!name.is_empty()).then_some(name)
    }

    /// Iterates over all names with their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u32, &'static str)> + '_ {
        (0..)
            .zip(&self.0)
            .filter(|(_, name)| !name.is_empty())
            .map(|(number, name)| (number, *name))
    }
}
