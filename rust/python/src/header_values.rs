//! Values of the headers of a batch, such as the trace contexts that its records carry.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};

/// The values of a row in the headers of some names; the first one of those with the same name.
pub(crate) type HeaderValues<'b> = Vec<Option<&'b [u8]>>;

/// The values that rows have in the headers of these names, each combination once, in the order of the rows, and at most
/// `limit` of them. Rows without any of the headers are left out.
pub(crate) fn header_values<'b>(batch: &'b RecordBatch, names: &[String], limit: usize) -> Vec<HeaderValues<'b>> {
    let Some(column) = batch.column_by_name("headers") else { return Vec::new() };
    let lists = column.as_list::<i32>();
    let pairs = lists.values().as_struct();
    let (keys, values) = (pairs.column(0).as_string::<i32>(), pairs.column(1).as_binary::<i32>());
    let offsets = lists.value_offsets();
    let (mut known, mut found) = (HashSet::new(), Vec::new());
    for row in 0..batch.num_rows() {
        if found.len() >= limit {
            break;
        }
        if lists.is_null(row) {
            continue;
        }
        let mut of_row: HeaderValues<'b> = vec![None; names.len()];
        // Backwards, so that the first one of a name is the one that stays.
        for at in (offsets[row] as usize..offsets[row + 1] as usize).rev() {
            if let Some(place) = names.iter().position(|name| name == keys.value(at)) {
                of_row[place] = (!values.is_null(at)).then(|| values.value(at));
            }
        }
        if of_row.iter().any(Option::is_some) && known.insert(of_row.clone()) {
            found.push(of_row);
        }
    }
    found
}
