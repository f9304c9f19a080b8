//! Position of the decoder in a value: a linked list on the stack, which becomes a text only for an error.

/// Path from the root of a value to the current one.
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Element(&'p Path<'p>, usize),
    Entry(&'p Path<'p>, &'p str),
}

impl Path<'_> {
    /// Text of the path, like `items[3].price`.
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
