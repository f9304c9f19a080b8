//! The directory of a log, with one file for each segment.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use monedula_protocol::error_code::ErrorCode;

use super::file::{OpenFiles, SegmentFile, name_of, offset_of};
use super::segment::Segment;
use super::{Batch, Epochs, Log, marker};
use crate::BrokerError;

/// The suffix of a complete file that replaces others, which may still exist.
const MERGED: &str = ".merged";
/// The file with the log start offset. It is written before the segments below that offset are removed.
const START: &str = "start";
/// A marker file: the log was compacted, so offsets may be missing.
const COMPACTED: &str = "compacted";
/// The extension of an incomplete file.
const UNFINISHED: &str = "unfinished";

#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    open_files: OpenFiles,
}

/// The part of a log's state that its batches do not contain. It is saved in the topic's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    pub(crate) start_offset: i64,
    pub(crate) epochs: Vec<(i32, i64)>,
}

impl Directory {
    pub(super) fn create_segment(&self, base_offset: i64) -> io::Result<Segment> {
        Segment::create(&self.path, base_offset, &self.open_files)
    }

    /// Writes the log start offset, before what lies below it is removed.
    pub(super) fn write_start(&self, start_offset: i64) -> io::Result<()> {
        let file = self.path.join(START);
        let new = file.with_extension(UNFINISHED);
        fs::write(&new, start_offset.to_string())?;
        fs::rename(&new, &file)
    }

    /// Replaces all segment files whose base offsets lie in a range by one file. After a crash the directory has either
    /// the old files or the complete new one, because the name of the merged file contains the range that it replaces.
    pub(super) fn write_merged(
        &self,
        base_offset: i64,
        end_offset: i64,
        batches: &[Batch],
    ) -> io::Result<Option<SegmentFile>> {
        File::create(self.path.join(COMPACTED))?;
        let merged = self.path.join(format!("{base_offset:020}-{end_offset:020}{MERGED}"));
        let unfinished = merged.with_extension(UNFINISHED);
        let mut output = io::BufWriter::new(File::create(&unfinished)?);
        for batch in batches {
            output.write_all(&batch.header.to_bytes())?;
            output.write_all(&batch.payload)?;
        }
        output.flush()?;
        fs::rename(&unfinished, &merged)?;
        let file = finish_merge(&merged)?;
        Ok(file.map(|file| SegmentFile::existing(file, &self.open_files)))
    }
}

impl Log {
    /// Creates the directory of an empty log in memory. Does nothing if it has one.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn attach(&mut self, path: impl FnOnce() -> PathBuf, open_files: &OpenFiles) -> Result<(), ErrorCode> {
        if self.directory.is_some() {
            return Ok(());
        }
        let directory = Directory { path: path(), open_files: open_files.clone() };
        let created = fs::create_dir_all(&directory.path).and_then(|()| directory.create_segment(self.end_offset));
        let segment = created.map_err(|error| {
            ::log::error!("{}: {error}", directory.path.display());
            ErrorCode::KafkaStorageError
        })?;
        self.segments = [segment].into();
        self.directory = Some(directory);
        Ok(())
    }

    pub(crate) fn is_in_files(&self) -> bool {
        self.directory.is_some()
    }

    /// The state to be saved beside the batches.
    pub(crate) fn state(&self) -> LogState {
        LogState { start_offset: self.start_offset, epochs: self.epochs.entries().to_vec() }
    }

    /// Opens the log that an earlier process left. A directory that does not exist is an empty log.
    ///
    /// # Errors
    /// [`BrokerError::Storage`] for files that cannot be read or are missing, and for damage other than a torn end.
    pub(crate) fn open(path: PathBuf, state: &LogState, open_files: &OpenFiles) -> Result<Self, BrokerError> {
        let mut log = Self { epochs: Epochs::from_entries(state.epochs.clone()), ..Self::default() };
        let files = segment_files(&path)?;
        let start_offset = state.start_offset.max(start_in(&path)?);
        match files.first() {
            Some(&(first, ref file)) => {
                if first > start_offset {
                    let problem = format!(
                        "it begins at offset {first}, but the log starts at {start_offset}: the files before it are missing. \
                         Restore them from a copy, or write {first} into {} to go on without them",
                        path.join(START).display()
                    );
                    return Err(BrokerError::Storage { path: file.clone(), problem });
                }
                log.segments.clear();
                log.start_offset = start_offset;
            }
            // Somebody removed all files: new records continue at the log start offset.
            None => (log.start_offset, log.end_offset) = (start_offset, start_offset),
        }
        let last = files.len().saturating_sub(1);
        let gaps = path.join(COMPACTED).exists();
        for (index, (base_offset, file)) in files.into_iter().enumerate() {
            let end_offset = log.end_offset;
            if base_offset < end_offset || (base_offset > end_offset && index > 0 && !gaps) {
                let problem =
                    format!("it begins at offset {base_offset}, but the file before it goes up to {end_offset}");
                return Err(BrokerError::Storage { path: file, problem });
            }
            log.end_offset = base_offset;
            let segment = Segment::recover(file, base_offset, (index == last, gaps), open_files, |batch| {
                // Saved epochs are kept: they may begin where there is no batch, or none any more.
                if log.epochs.latest().is_none_or(|latest| batch.header.partition_leader_epoch > latest) {
                    log.epochs.begin(batch.header.partition_leader_epoch, batch.header.base_offset);
                }
                log.learn(&batch.header, marker(batch));
                log.end_offset = batch.header.next_offset();
            })?;
            log.segments.push_back(segment);
        }
        if log.directory.is_none() && path.exists() && log.segments.front().is_some_and(|one| one.path().is_some()) {
            log.directory = Some(Directory { path, open_files: open_files.clone() });
        }
        // If somebody removed the files, the log ends at its start.
        log.end_offset = log.end_offset.max(log.start_offset);
        log.epochs.truncate_to(log.end_offset + 1);
        log.high_watermark = log.end_offset;
        Ok(log)
    }
}

/// Removes the files that a merged file replaces, and gives it its final name. `None` if the name is not that of a
/// merged file.
fn finish_merge(merged: &Path) -> io::Result<Option<PathBuf>> {
    let name = merged.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(MERGED));
    let range = name.and_then(|name| name.split_once('-'));
    let range = range.and_then(|(base, end)| Some((base.parse::<i64>().ok()?, end.parse::<i64>().ok()?)));
    let (Some((base_offset, end_offset)), Some(directory)) = (range, merged.parent()) else { return Ok(None) };
    for entry in fs::read_dir(directory)? {
        let file = entry?.path();
        let replaced = file.file_name().and_then(|name| name.to_str()).and_then(offset_of);
        if replaced.is_some_and(|offset| (base_offset..end_offset).contains(&offset)) {
            fs::remove_file(&file)?;
        }
    }
    let file = directory.join(name_of(base_offset));
    fs::rename(merged, &file)?;
    Ok(Some(file))
}

/// The log start offset in the directory of a log; 0 if there is none.
fn start_in(path: &Path) -> Result<i64, BrokerError> {
    let file = path.join(START);
    let storage = |problem: String| BrokerError::Storage { path: file.clone(), problem };
    match fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().map_err(|error| storage(format!("{:?} is no offset: {error}", text.trim()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(storage(error.to_string())),
    }
}

/// The segment files of a directory, sorted by base offset. Finishes an interrupted merge, and removes incomplete
/// files.
fn segment_files(path: &Path) -> Result<Vec<(i64, PathBuf)>, BrokerError> {
    let failed = |error: io::Error| BrokerError::Storage { path: path.to_owned(), problem: error.to_string() };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let names: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>().map_err(failed)?;
    let ends_with = |file: &Path, end: &str| file.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
    for file in &names {
        if ends_with(file, MERGED) {
            finish_merge(file).map_err(failed)?;
        } else if ends_with(file, UNFINISHED) {
            fs::remove_file(file).map_err(failed)?;
        }
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let base_offset = file.file_name().and_then(|name| name.to_str()).and_then(offset_of);
        files.extend(base_offset.map(|base_offset| (base_offset, file)));
    }
    files.sort();
    Ok(files)
}
