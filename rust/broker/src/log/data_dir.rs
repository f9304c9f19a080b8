//! The data directory: the files of topics and logs.
//!
//! ```text
//! broker.json            the format, and how often a broker was started here
//! lock                   held by the broker that uses the directory
//! topics/<id>/topic.json a topic: name, configs, partitions
//! topics/<id>/0/         the segments of a partition
//! security               users, ACLs, client quotas and delegation tokens, if there are any
//! known/<id>             an empty file for each topic
//! known/security         an empty file if there is a file `security`
//! ```
//!
//! A missing file is an error at the next start: a topic whose files somebody removed must not look like one that never
//! existed. A deleted topic is first removed from `known`, then its directory is renamed to `<id>.deleted`, then the
//! files are removed. So the next start can tell a deletion that a kill interrupted from files that somebody removed.
//!
//! Directories are named by topic id: names may differ only in case, which not every file system distinguishes, and a
//! topic that is recreated is another topic.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use monedula_protocol::types::Uuid;
use serde::{Deserialize, Serialize};

use super::OpenFiles;
use crate::BrokerError;

const FORMAT: u32 = 1;

/// An open data directory. It is locked, so that no other broker can open it.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    open_files: OpenFiles,
    starts: u64,
    /// The topics as they were saved last.
    saved: HashMap<Uuid, StoredTopic>,
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredBroker {
    format: u32,
    starts: u64,
}

/// A topic as `topic.json` stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTopic {
    pub(crate) name: String,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) partitions: Vec<StoredPartition>,
}

/// A partition as `topic.json` stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPartition {
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
    pub(crate) log_start_offset: i64,
    /// The leader epochs with their start offsets.
    pub(crate) epochs: Vec<(i32, i64)>,
    /// True if the partition has been written to, so that it has segment files.
    #[serde(default)]
    pub(crate) has_segments: bool,
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

/// The error for a file or directory that should exist.
fn missing(path: &Path, what: &str, give_up: &str) -> BrokerError {
    storage(path, format!("it is missing, {what}: restore it from a copy, or {give_up}"))
}

/// Writes a file so that a reader finds either all of the new content or the old one.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    fs::rename(&new, path)
}

impl DataDir {
    /// Opens a data directory. Creates it if it does not exist.
    ///
    /// # Errors
    /// A directory that cannot be read or written, that another broker uses, that has another format, or of which a
    /// part is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, BrokerError> {
        fs::create_dir_all(path).map_err(|error| storage(path, error))?;
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
        let topics_path = path.join("topics");
        match fs::read(&broker_path) {
            Ok(_) if !topics_path.exists() => {
                let give_up = format!("delete all of {} to begin anew", path.display());
                return Err(missing(&topics_path, "and a broker has run here before", &give_up));
            }
            Ok(text) => broker = serde_json::from_slice(&text).map_err(|error| storage(&broker_path, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::read_dir(&topics_path).is_ok_and(|mut entries| entries.next().is_some()) {
                    let give_up = format!("delete all of {} to begin anew", path.display());
                    return Err(missing(&broker_path, "and there are topics", &give_up));
                }
            }
            Err(error) => return Err(storage(&broker_path, error)),
        }
        for folder in [&topics_path, &path.join("known")] {
            fs::create_dir_all(folder).map_err(|error| storage(folder, error))?;
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

    /// The number of times that the directory was opened. Random ids depend on it, so that none is drawn twice.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    pub(crate) fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    pub(crate) fn has_saved(&self, id: Uuid) -> bool {
        self.saved.contains_key(&id)
    }

    fn topic_directory(&self, id: Uuid) -> PathBuf {
        self.path.join("topics").join(hex(id))
    }

    fn known_file(&self, id: Uuid) -> PathBuf {
        self.path.join("known").join(hex(id))
    }

    /// The directory of a partition's log.
    pub(crate) fn log_directory(&self, id: Uuid, partition: i32) -> PathBuf {
        self.topic_directory(id).join(partition.to_string())
    }

    /// Loads the topics. Removes topics whose deletion or creation was interrupted.
    ///
    /// # Errors
    /// A file that cannot be read, or that is missing.
    pub(crate) fn load(&mut self) -> Result<Vec<(Uuid, StoredTopic)>, BrokerError> {
        let directory = self.path.join("topics");
        let mut known: HashSet<Uuid> = ids(&self.path.join("known"))?.into_iter().map(|(id, _)| id).collect();
        let mut topics = Vec::new();
        for (id, path) in ids(&directory)? {
            let file = path.join("topic.json");
            let was_known = known.remove(&id);
            if path.extension().is_some() {
                fs::remove_dir_all(&path).map_err(|error| storage(&path, error))?;
                continue;
            }
            let text = match fs::read(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if was_known || has_partitions(&path) {
                        let give_up = format!("delete {} and {}", path.display(), self.known_file(id).display());
                        return Err(missing(&file, "and the topic's partitions are there", &give_up));
                    }
                    fs::remove_dir_all(&path).map_err(|error| storage(&path, error))?;
                    continue;
                }
                Err(error) => return Err(storage(&file, error)),
            };
            let topic: StoredTopic = serde_json::from_slice(&text).map_err(|error| storage(&file, error))?;
            for (index, partition) in (0..).zip(&topic.partitions) {
                let log = self.log_directory(id, index);
                if partition.has_segments && !log.exists() {
                    let what = format!("which has records of partition {index} of topic {}", topic.name);
                    let give_up = format!("make an empty directory there to lose them, or delete topic {}", topic.name);
                    return Err(missing(&log, &what, &give_up));
                }
            }
            self.set_known(id)?;
            self.saved.insert(id, topic.clone());
            topics.push((id, topic));
        }
        if let Some(&id) = known.iter().min() {
            let give_up = format!("delete {} to lose the topic", self.known_file(id).display());
            return Err(missing(&self.topic_directory(id), "which has a topic", &give_up));
        }
        // The order of directory entries is arbitrary.
        topics.sort_by(|(_, left), (_, right)| left.name.cmp(&right.name));
        Ok(topics)
    }

    fn set_known(&self, id: Uuid) -> Result<(), BrokerError> {
        let file = self.known_file(id);
        File::create(&file).map(drop).map_err(|error| storage(&file, error))
    }

    /// Saves a topic, if it has changed.
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
        if !self.saved.contains_key(&id) {
            self.set_known(id)?;
        }
        self.saved.insert(id, topic);
        Ok(())
    }

    /// Removes the files of a topic and its logs.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub(crate) fn remove(&mut self, id: Uuid) -> Result<(), BrokerError> {
        if !self.saved.contains_key(&id) {
            return Ok(());
        }
        let (directory, known) = (self.topic_directory(id), self.known_file(id));
        match fs::remove_file(&known) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(storage(&known, error)),
            _ => {}
        }
        // After the rename the next start removes the directory, whatever becomes of this attempt.
        let deleted = directory.with_extension("deleted");
        fs::rename(&directory, &deleted).map_err(|error| storage(&directory, error))?;
        self.saved.remove(&id);
        fs::remove_dir_all(&deleted).map_err(|error| storage(&deleted, error))
    }
}

/// The file of users, ACLs, client quotas and delegation tokens, and its mark in `known`.
const SECURITY: &str = "security";

impl DataDir {
    /// Loads the file of users, ACLs, client quotas and delegation tokens, and has `read` read it; `None` if there is
    /// none.
    ///
    /// # Errors
    /// A file that cannot be read, or that is missing.
    pub(crate) fn load_security<T>(
        &self,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, BrokerError> {
        let (path, known) = (self.path.join(SECURITY), self.path.join("known").join(SECURITY));
        let give_up = format!("delete {} and {}", path.display(), known.display());
        let what = "which has users, ACLs, client quotas and delegation tokens";
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => match known.exists() {
                true => return Err(missing(&path, what, &format!("delete {} to lose them", known.display()))),
                false => return Ok(None),
            },
            Err(error) => return Err(storage(&path, error)),
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| "it is no text".to_owned());
        let loaded = text.and_then(read).map_err(|problem| {
            storage(&path, format!("{what}: {problem}: restore it from a copy, or {give_up} to lose them"))
        })?;
        Ok(Some(loaded))
    }

    /// Writes the file of users, ACLs, client quotas and delegation tokens. Only its owner may read it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn save_security(&self, text: &str) -> Result<(), BrokerError> {
        let (path, known) = (self.path.join(SECURITY), self.path.join("known").join(SECURITY));
        write_private(&path, text.as_bytes()).map_err(|error| storage(&path, error))?;
        if known.exists() { Ok(()) } else { fs::write(&known, []).map_err(|error| storage(&known, error)) }
    }
}

/// Writes a file like [`write_whole`], readable for its owner only where the system has such permissions.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(content)?;
    fs::rename(&new, path)
}

/// The entries of a directory whose names, without an extension, are topic ids.
fn ids(directory: &Path) -> Result<Vec<(Uuid, PathBuf)>, BrokerError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| storage(directory, error))? {
        let path = entry.map_err(|error| storage(directory, error))?.path();
        let id = path.file_stem().and_then(|name| name.to_str()).and_then(id_of);
        found.extend(id.map(|id| (id, path)));
    }
    Ok(found)
}

fn has_partitions(topic: &Path) -> bool {
    fs::read_dir(topic).is_ok_and(|entries| entries.flatten().any(|entry| entry.path().is_dir()))
}
