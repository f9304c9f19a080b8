//! `RunMember`: the member whose records a run handles.

use std::sync::Arc;

use monedula_client::consumer::Consumer;
use pyo3::prelude::*;

use super::group::MemberCore;
use super::part_rows::PartRows;
use crate::batch::Batch;
use crate::error::to_py;
use crate::share::ShareConsumerCore;

/// See the [module](self).
#[derive(FromPyObject)]
pub(crate) enum RunMember<'py> {
    Group(Bound<'py, MemberCore>),
    Share(Bound<'py, ShareConsumerCore>),
}

impl RunMember<'_> {
    /// The consumer that hears of finished rows; `None` for a share group, where each row is decided by itself.
    pub(super) fn consumer(&self) -> PyResult<Option<&Arc<Consumer>>> {
        match self {
            Self::Group(member) => member.get().consumer().map(Some),
            Self::Share(_) => Ok(None),
        }
    }

    /// The rows of a batch that `holder` has, by partition.
    pub(super) fn parts(&self, py: Python<'_>, batch: &Bound<'_, Batch>, holder: u64) -> PyResult<Vec<PartRows>> {
        let Batch(handed, _) = batch.get();
        let member = match self {
            Self::Group(member) => member.get(),
            Self::Share(member) => return member.get().hand_over(py, batch),
        };
        let consumer = member.consumer()?;
        let parts = py.detach(|| {
            let parts = consumer.hand_over(handed, holder)?;
            Ok(parts.into_iter().map(|(part, unfinished)| PartRows::new(consumer, part, unfinished)).collect())
        });
        parts.map_err(|error| to_py(py, error))
    }
}
