//! The data directory: which topics there are, and where each log's files lie.
//!
//! ```text
//! broker.json            the format, and how often a broker was started here
//! lock                   held by the broker that uses the directory
//! topics/<id>/topic.json a topic: name, configs, partitions
//! topics/<id>/0/         the segments of a partition
//! ```
//!
//! Directories are named by ids: names may differ in case only, which not every file system can tell, and a topic that is created
//! again is another.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use monedula_protocol::types::Uuid;
use serde::{Deserialize, Serialize};

use super::OpenFiles;
use crate::BrokerError;

const FORMAT: u32 = 1;

/// An open data directory; others cannot open it meanwhile.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    open_files: OpenFiles,
    starts: u64,
    /// What was saved of each topic last.
    saved: HashMap<Uuid, StoredTopic>,
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredBroker {
    format: u32,
    starts: u64,
}

/// A topic as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTopic {
    pub(crate) name: String,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) partitions: Vec<StoredPartition>,
}

/// A partition as its topic's file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPartition {
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
    pub(crate) log_start_offset: i64,
    /// Leader epochs with their first offsets.
    pub(crate) epochs: Vec<(i32, i64)>,
}

fn hex(id: Uuid) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id_of(hex: &str) -> Option<Uuid> {
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    let mut id = Uuid::ZERO;
    for (index, byte) in id.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(id)
}

fn storage(path: &Path, problem: impl ToString) -> BrokerError {
    BrokerError::Storage { path: path.to_owned(), problem: problem.to_string() }
}

/// Writes a file so that whoever reads it finds all of it, or what was there before.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    fs::rename(&new, path)
}

impl DataDir {
    /// Opens a directory, or makes it.
    ///
    /// # Errors
    /// A directory that cannot be read or written, that another broker uses, or that a newer version wrote.
    pub(crate) fn open(path: &Path) -> Result<Self, BrokerError> {
        fs::create_dir_all(path.join("topics")).map_err(|error| storage(path, error))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(|error| storage(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = "another broker uses this data directory: stop it, or choose another directory";
                return Err(storage(path, problem));
            }
            Err(TryLockError::Error(error)) => return Err(storage(&lock_path, error)),
        }
        let broker_path = path.join("broker.json");
        let mut broker = StoredBroker { format: FORMAT, starts: 0 };
        match fs::read(&broker_path) {
            Ok(text) => broker = serde_json::from_slice(&text).map_err(|error| storage(&broker_path, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(storage(&broker_path, error)),
        }
        if broker.format != FORMAT {
            let problem = format!("the directory has format {}, and this broker knows {FORMAT}", broker.format);
            return Err(storage(&broker_path, problem));
        }
        broker.starts += 1;
        let text = serde_json::to_vec_pretty(&broker).map_err(|error| storage(&broker_path, error))?;
        write_whole(&broker_path, &text).map_err(|error| storage(&broker_path, error))?;
        let (open_files, saved) = (OpenFiles::default(), HashMap::new());
        Ok(Self { path: path.to_owned(), open_files, starts: broker.starts, saved, _lock: lock })
    }

    /// How often the directory was opened: what is drawn by chance must not be drawn again.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    pub(crate) fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    fn topic_directory(&self, id: Uuid) -> PathBuf {
        self.path.join("topics").join(hex(id))
    }

    /// Where the log of a partition lies.
    pub(crate) fn log_directory(&self, id: Uuid, partition: i32) -> PathBuf {
        self.topic_directory(id).join(partition.to_string())
    }

    /// The topics that are there. One that was deleted, or created, only half way is removed.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn load(&mut self) -> Result<Vec<(Uuid, StoredTopic)>, BrokerError> {
        let directory = self.path.join("topics");
        let mut topics = Vec::new();
        for entry in fs::read_dir(&directory).map_err(|error| storage(&directory, error))? {
            let path = entry.map_err(|error| storage(&directory, error))?.path();
            let Some(id) = path.file_name().and_then(|name| name.to_str()).and_then(id_of) else { continue };
            let file = path.join("topic.json");
            let text = match fs::read(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::remove_dir_all(&path).map_err(|error| storage(&path, error))?;
                    continue;
                }
                Err(error) => return Err(storage(&file, error)),
            };
            let topic: StoredTopic = serde_json::from_slice(&text).map_err(|error| storage(&file, error))?;
            self.saved.insert(id, topic.clone());
            topics.push((id, topic));
        }
        // The order of a directory means nothing.
        topics.sort_by(|(_, left), (_, right)| left.name.cmp(&right.name));
        Ok(topics)
    }

    /// Saves what is known of a topic, if it changed.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn save(&mut self, id: Uuid, topic: StoredTopic) -> Result<(), BrokerError> {
        if self.saved.get(&id) == Some(&topic) {
            return Ok(());
        }
        let directory = self.topic_directory(id);
        let file = directory.join("topic.json");
        let text = serde_json::to_vec_pretty(&topic).map_err(|error| storage(&file, error))?;
        let written = fs::create_dir_all(&directory).and_then(|()| write_whole(&file, &text));
        written.map_err(|error| storage(&file, error))?;
        self.saved.insert(id, topic);
        Ok(())
    }

    /// Removes a topic with its logs.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub(crate) fn remove(&mut self, id: Uuid) -> Result<(), BrokerError> {
        if self.saved.remove(&id).is_none() {
            return Ok(());
        }
        let directory = self.topic_directory(id);
        // Without its description the rest is rubbish, whatever becomes of it.
        let file = directory.join("topic.json");
        let removed = fs::remove_file(&file).and_then(|()| fs::remove_dir_all(&directory));
        removed.map_err(|error| storage(&directory, error))
    }
}
