//! Selection of the fields of a message that become columns, by their paths.

/// Selected fields in their order, each with the selection below it; empty for all.
#[derive(Debug, Default)]
pub(crate) struct FieldSelection(Vec<(Box<str>, Self)>);

impl FieldSelection {
    pub(crate) const ALL: Self = Self(Vec::new());

    /// Selection from paths such as `items.price`.
    pub(crate) fn of(paths: &[String]) -> Self {
        let mut wanted = Self::default();
        for path in paths {
            wanted.add(path);
        }
        wanted
    }

    fn add(&mut self, path: &str) {
        let mut at = self;
        for name in path.split('.') {
            let place = at.0.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
                at.0.push((name.into(), Self::default()));
                at.0.len() - 1
            });
            at = &mut at.0[place].1;
        }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.0.iter().map(|(name, below)| (&**name, below))
    }
}
