//! A log's directory: one file a segment.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use monedula_protocol::error_code::ErrorCode;

use super::file::{OpenFiles, SegmentFile, name_of, offset_of};
use super::segment::Segment;
use super::{Batch, Epochs, Log, marker};
use crate::BrokerError;

/// What a file's name ends with that is complete, and replaces others which may still be there.
const MERGED: &str = ".merged";
/// Says where the log starts: it is written before the segments before that are removed.
const START: &str = "start";
/// Says that offsets may be missing.
const COMPACTED: &str = "compacted";
/// The extension of one that is not complete.
const UNFINISHED: &str = "unfinished";

/// Where a log's files are.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    open_files: OpenFiles,
}

/// What cannot be learnt from the batches, and is kept beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    pub(crate) start_offset: i64,
    pub(crate) epochs: Vec<(i32, i64)>,
}

impl Directory {
    pub(super) fn create_segment(&self, base_offset: i64) -> io::Result<Segment> {
        Segment::create(&self.path, base_offset, &self.open_files)
    }

    /// Says that the log starts at an offset, before what lies before it is removed.
    pub(super) fn write_start(&self, start_offset: i64) -> io::Result<()> {
        let file = self.path.join(START);
        let new = file.with_extension(UNFINISHED);
        fs::write(&new, start_offset.to_string())?;
        fs::rename(&new, &file)
    }

    /// Puts one file in place of all that begin in a range of offsets. Whoever opens the directory after a crash finds either
    /// the old ones, or the new one whole: its last name but one says what it replaces.
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
    /// Gives an empty log in memory a directory, if it has none.
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

    /// Whether it has a directory.
    pub(crate) fn is_in_files(&self) -> bool {
        self.directory.is_some()
    }

    /// What is kept beside the batches.
    pub(crate) fn state(&self) -> LogState {
        LogState { start_offset: self.start_offset, epochs: self.epochs.entries().to_vec() }
    }

    /// Opens what a process before this one left; a directory that is not there is an empty log.
    ///
    /// # Errors
    /// [`BrokerError::Storage`] for files that cannot be read, and for damage that is no torn end.
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
            // Emptied by hand: what comes next goes on where the log started.
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
                // What is known of epochs was saved: they may begin where no batch does, or no batch any more.
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
        // A log that was emptied by hand ends where it started.
        log.end_offset = log.end_offset.max(log.start_offset);
        log.epochs.truncate_to(log.end_offset + 1);
        log.high_watermark = log.end_offset;
        Ok(log)
    }
}

/// Removes the files that a merged one replaces, and gives it its name. `None` for a name that is none of a merged file.
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

/// Where a log's directory says that it starts; 0 if it does not say.
fn start_in(path: &Path) -> Result<i64, BrokerError> {
    let file = path.join(START);
    let storage = |problem: String| BrokerError::Storage { path: file.clone(), problem };
    match fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().map_err(|error| storage(format!("{:?} is no offset: {error}", text.trim()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(storage(error.to_string())),
    }
}

/// The files of a directory's segments, by their first offsets. What compaction left half done is brought to its end.
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
