//! Where in a value the decoder is: a list on the stack, which becomes a text only when something is wrong.

/// The way from the root of a value to the place that is decoded.
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Element(&'p Path<'p>, usize),
    Entry(&'p Path<'p>, &'p str),
}

impl Path<'_> {
    /// As text, `items[3].price`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, name) => (*name).to_owned(),
            Self::Field(above, name) => format!("{}.{name}", above.text()),
            Self::Element(above, index) => format!("{}[{index}]", above.text()),
            Self::Entry(above, key) => format!("{}[{key:?}]", above.text()),
        }
    }
}
