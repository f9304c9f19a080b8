//! The file of a segment: record batches one after the other, in their wire format.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, Batches, LOG_OVERHEAD_BYTES};

use super::Batch;
use crate::BrokerError;

/// The maximum number of files that are kept open. Others are opened for each use: there may be many partitions and few
/// file descriptors.
const MAX_OPEN_FILES: usize = 256;
/// Smaller batches are written with one system call.
const ONE_WRITE_BYTES: usize = 64 * 1024;
/// The size of the read buffer when a file is recovered.
const RECOVERY_BUFFER_BYTES: usize = 1 << 20;

/// The number of files that are kept open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenFiles(Arc<AtomicUsize>);

#[derive(Debug)]
pub(super) struct SegmentFile {
    path: PathBuf,
    kept: Option<File>,
    open_files: OpenFiles,
}

/// A batch in a recovered file, with its position in bytes.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) batch: Batch,
    pub(super) position: u64,
}

/// The file name of a segment.
pub(super) fn name_of(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

/// The base offset in the name of a segment file; `None` for any other file.
pub(super) fn offset_of(name: &str) -> Option<i64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok().filter(|&offset| offset >= 0)
}

impl SegmentFile {
    /// Creates a file. A file of that name, left by a failed attempt, is emptied.
    pub(super) fn create(directory: &Path, base_offset: i64, open_files: &OpenFiles) -> io::Result<Self> {
        let path = directory.join(name_of(base_offset));
        File::create(&path)?;
        Ok(Self { path, kept: None, open_files: open_files.clone() })
    }

    pub(super) fn existing(path: PathBuf, open_files: &OpenFiles) -> Self {
        Self { path, kept: None, open_files: open_files.clone() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The time of the last write in milliseconds; 0 if it is unknown.
    pub(super) fn modified_ms(&self) -> i64 {
        let modified = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_millis() as i64)
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).open(&self.path)
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        if let Some(file) = &mut self.kept {
            return work(file);
        }
        let mut file = self.open()?;
        let result = work(&mut file)?;
        if self.open_files.0.fetch_add(1, Ordering::Relaxed) < MAX_OPEN_FILES {
            self.kept = Some(file);
        } else {
            self.open_files.0.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// Closes the file, because nothing more is written to it.
    pub(super) fn release(&mut self) {
        if self.kept.take().is_some() {
            self.open_files.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Appends a batch at `position`, the end of the file. If the write fails, the file is truncated to its old length.
    pub(super) fn append(&mut self, batch: &Batch, position: u64) -> io::Result<()> {
        self.with(|file| {
            let written = match batch.total_bytes() {
                0..ONE_WRITE_BYTES => file.write_all(&batch.to_vec()),
                _ => file.write_all(&batch.header.to_bytes()).and_then(|()| file.write_all(&batch.payload)),
            };
            written.inspect_err(|_| drop(file.set_len(position)))
        })
    }

    pub(super) fn read(&self, position: u64, length: usize) -> io::Result<Bytes> {
        let read = |mut file: &File| {
            // `read_exact` would not do: it needs an initialized buffer, and to initialize it takes as long as to read.
            let mut bytes = Vec::with_capacity(length);
            file.seek(SeekFrom::Start(position))?;
            file.take(length as u64).read_to_end(&mut bytes)?;
            match bytes.len() == length {
                true => Ok(bytes.into()),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        };
        match &self.kept {
            Some(file) => read(file),
            None => read(&self.open()?),
        }
    }

    pub(super) fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.with(|file| file.set_len(length))
    }

    pub(super) fn remove(mut self) -> io::Result<()> {
        self.release();
        fs::remove_file(&self.path)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        self.release();
    }
}

/// Reads a file that an earlier process wrote, and checks every batch. If that process was killed during a write, the
/// end of the file is torn; with `may_be_torn` it is cut off. Anything else is damage and an error, and so are missing
/// offsets unless compaction left `gaps`: no checksum covers the offsets.
pub(super) fn recover(
    path: &Path,
    base_offset: i64,
    may_be_torn: bool,
    gaps: bool,
) -> Result<Vec<Recovered>, BrokerError> {
    let failed = |error: io::Error| BrokerError::Storage { path: path.to_owned(), problem: error.to_string() };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut input = BufReader::with_capacity(RECOVERY_BUFFER_BYTES, file);
    let mut found = Vec::new();
    let (mut position, mut next_offset) = (0, base_offset);
    while position < length {
        match read_batch(&mut input, length - position, next_offset, gaps).map_err(failed)? {
            Ok(batch) => {
                let start = position;
                position += batch.total_bytes() as u64;
                next_offset = batch.header.next_offset();
                found.push(Recovered { batch, position: start });
            }
            Err(problem) => {
                drop(input);
                let bytes = fs::read(path).map_err(failed)?;
                let rest = bytes.get(position as usize + 1..).unwrap_or_default();
                if !may_be_torn || holds_batch(rest, next_offset) {
                    let problem = format!(
                        "the log is damaged at byte {position}, where offset {next_offset} should be: {problem}. \
                         Restore the file from a copy, or delete it and all later ones of this partition to go on without them"
                    );
                    return Err(BrokerError::Storage { path: path.to_owned(), problem });
                }
                log::warn!(
                    "{}: cut off {} bytes of a batch that was not written to its end",
                    path.display(),
                    length - position
                );
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                file.set_len(position).map_err(failed)?;
                break;
            }
        }
    }
    Ok(found)
}

/// Reads the next batch. The inner error says what is wrong with it.
fn read_batch(
    input: &mut impl Read,
    remaining: u64,
    next_offset: i64,
    gaps: bool,
) -> io::Result<Result<Batch, String>> {
    let mut prefix = [0; LOG_OVERHEAD_BYTES];
    if remaining < BATCH_HEADER_BYTES as u64 {
        return Ok(Err(format!("{remaining} bytes are no batch")));
    }
    input.read_exact(&mut prefix)?;
    let [.., a, b, c, d] = prefix;
    let length = i64::from(i32::from_be_bytes([a, b, c, d])) + LOG_OVERHEAD_BYTES as i64;
    if length < BATCH_HEADER_BYTES as i64 || length as u64 > remaining {
        return Ok(Err(format!("a batch of {length} bytes does not fit into the {remaining} that are left")));
    }
    let mut bytes = vec![0; length as usize];
    bytes[..LOG_OVERHEAD_BYTES].copy_from_slice(&prefix);
    input.read_exact(&mut bytes[LOG_OVERHEAD_BYTES..])?;
    Ok(check(&bytes.into(), next_offset, gaps))
}

fn check(bytes: &Bytes, next_offset: i64, gaps: bool) -> Result<Batch, String> {
    let raw = Batches::new(bytes).next().transpose().map_err(|error| error.to_string())?;
    let raw = raw.ok_or("no whole batch")?;
    raw.verify_crc().map_err(|error| error.to_string())?;
    let too_far = if gaps { i64::from(i32::MAX) } else { 0 };
    if !(next_offset..=next_offset.saturating_add(too_far)).contains(&raw.header.base_offset) {
        return Err(format!("the batch has offset {}", raw.header.base_offset));
    }
    Ok(Batch { header: raw.header, payload: bytes.slice_ref(raw.payload()) })
}

/// True if a whole batch begins anywhere in the bytes. Then what lies before it is damage, not a torn end.
fn holds_batch(bytes: &[u8], next_offset: i64) -> bool {
    const MAGIC_AT: usize = 16;
    (0..bytes.len().saturating_sub(BATCH_HEADER_BYTES - 1)).any(|start| {
        let rest = &bytes[start..];
        // Cheap conditions first: this runs for every byte.
        rest[MAGIC_AT] == 2
            && rest[0] == 0
            && Batches::new(rest).next().is_some_and(|batch| {
                batch.is_ok_and(|batch| batch.header.base_offset >= next_offset && batch.verify_crc().is_ok())
            })
    })
}

/// A batch with only its header, whose records are in a file.
pub(super) fn header_only(header: BatchHeader) -> Batch {
    Batch { header, payload: Bytes::new() }
}
