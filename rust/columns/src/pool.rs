//! Recycled memory for columns and network frames.
//!
//! Every new page costs a page fault; at a hundred bytes per record that is more than the walk of the record costs.
//! A [`PooledVec`] returns to its pool when it is dropped, on any thread and by any owner (an Arrow buffer in Python,
//! a `Bytes`); after the pool is closed it is freed instead.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::Buffer;
use bytes::Bytes;
use monedula_protocol::compression::OutputBuffer;

use crate::memory::{LINE_BYTES, Memory, OutOfMemory};

/// Buffers below this size are not kept: the allocator is as fast as the pool's lock.
const MIN_POOLED_BYTES: usize = 4 << 10;

/// A pool of byte buffers. Clones share it; dropping the last clone closes it.
#[derive(Clone, Debug)]
pub struct BufferPool {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max_total_bytes: usize,
    /// The process that created the pool. In a forked child, the shelves' lock may be held by a thread that exists only
    /// in the parent, so buffers that a child drops are freed without taking it.
    pid: u32,
    outstanding_bytes: AtomicUsize,
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    closed: bool,
    idle_bytes: usize,
    clock: u64,
    by_bytes: BTreeMap<usize, Shelf>,
}

#[derive(Default)]
struct Shelf {
    buffers: Vec<Memory>,
    last_used: u64,
}

impl std::fmt::Debug for Shelves {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shelves").field("idle_bytes", &self.idle_bytes).finish_non_exhaustive()
    }
}

impl BufferPool {
    /// A pool that keeps returned buffers while idle and outstanding buffers together have at most `max_total_bytes`.
    /// The limit never makes [`Self::take`] fail.
    pub fn new(max_total_bytes: usize) -> Self {
        let shared = Shared {
            max_total_bytes,
            pid: std::process::id(),
            outstanding_bytes: AtomicUsize::new(0),
            shelves: Mutex::default(),
        };
        Self { handle: Arc::new(Handle(Arc::new(shared))) }
    }

    /// An empty buffer of at least this capacity, recycled or new. Unwinds with [`OutOfMemory`] if there is no memory
    /// for it.
    pub fn take(&self, capacity: usize) -> PooledVec {
        PooledVec::take(&self.handle.0, capacity)
    }

    /// Like [`Self::take`], but returns the error.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the buffer cannot be allocated.
    pub fn try_take(&self, capacity: usize) -> Result<PooledVec, OutOfMemory> {
        PooledVec::try_take(&self.handle.0, capacity)
    }

    /// Capacity of all buffers in use, in bytes.
    pub fn outstanding_bytes(&self) -> usize {
        self.handle.0.outstanding_bytes.load(Ordering::Relaxed)
    }

    /// Capacity of all buffers that the pool keeps for reuse, in bytes.
    pub fn idle_bytes(&self) -> usize {
        self.handle.0.shelves().idle_bytes
    }

    /// A gauge of the pool's size, which does not keep the pool open.
    pub fn gauge(&self) -> PoolGauge {
        PoolGauge(Arc::clone(&self.handle.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut shelves = self.0.shelves();
        shelves.closed = true;
        shelves.idle_bytes = 0;
        let idle = std::mem::take(&mut shelves.by_bytes);
        drop(shelves);
        drop(idle);
    }
}

/// The outstanding and idle bytes of a pool, readable also after the pool was closed.
#[derive(Clone, Debug)]
pub struct PoolGauge(Arc<Shared>);

impl PoolGauge {
    /// Capacity of all buffers in use, in bytes.
    pub fn outstanding_bytes(&self) -> usize {
        self.0.outstanding_bytes.load(Ordering::Relaxed)
    }

    /// Capacity of all buffers that the pool keeps for reuse, in bytes.
    pub fn idle_bytes(&self) -> usize {
        self.0.shelves().idle_bytes
    }
}

impl Shared {
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // Recovery from poison is safe: nothing panics while it holds the lock, and the shelves are consistent at every
        // step.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees idle buffers until a new buffer of this size fits within the pool's limit.
    fn make_room_for(&self, bytes: usize) {
        let outstanding = self.outstanding_bytes.load(Ordering::Relaxed);
        let room = self.max_total_bytes.saturating_sub(outstanding + bytes);
        if bytes >= MIN_POOLED_BYTES {
            let evicted = self.shelves().make_room(room);
            drop(evicted);
        }
    }

    fn put_back(&self, memory: Memory) {
        let bytes = memory.len();
        let outstanding = self.outstanding_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let Some(room) = self.max_total_bytes.checked_sub(outstanding + bytes) else { return };
        if bytes < MIN_POOLED_BYTES || self.pid != std::process::id() {
            return;
        }
        let mut shelves = self.shelves();
        if shelves.closed {
            return;
        }
        let evicted = shelves.make_room(room);
        shelves.idle_bytes += bytes;
        shelves.shelf(bytes).buffers.push(memory);
        drop(shelves);
        drop(evicted);
    }
}

impl Shelves {
    fn shelf(&mut self, bytes: usize) -> &mut Shelf {
        self.clock += 1;
        let shelf = self.by_bytes.entry(bytes).or_default();
        shelf.last_used = self.clock;
        shelf
    }

    /// An idle buffer of at least `bytes` and at most a quarter more. A larger one would waste memory, and a column
    /// that leaves a third of its buffer empty is copied into a smaller one when it is finished.
    fn take(&mut self, bytes: usize) -> Option<Memory> {
        let found = self.by_bytes.range(bytes..=bytes + bytes / 4).find(|(_, shelf)| !shelf.buffers.is_empty());
        let found = *found?.0;
        let memory = self.shelf(found).buffers.pop();
        self.idle_bytes -= found;
        memory
    }

    /// Removes buffers, of the least recently used sizes first, until at most `max_bytes` are idle.
    fn make_room(&mut self, max_bytes: usize) -> Vec<Memory> {
        let mut evicted = Vec::new();
        while self.idle_bytes > max_bytes {
            let oldest = self.by_bytes.iter().min_by_key(|(_, shelf)| shelf.last_used);
            let Some((&bytes, _)) = oldest else { break };
            let shelf = self.by_bytes.get_mut(&bytes).and_then(|shelf| shelf.buffers.pop());
            match shelf {
                Some(memory) => {
                    self.idle_bytes -= bytes;
                    evicted.push(memory);
                }
                None => drop(self.by_bytes.remove(&bytes)),
            }
        }
        evicted
    }
}

/// A byte buffer of a [`BufferPool`], to which it returns when it is dropped.
///
/// All of its capacity is initialised (zeroed when allocated, later with the bytes of its last user), so its length
/// may be set freely.
pub struct PooledVec {
    memory: Memory,
    len: usize,
    shared: Arc<Shared>,
}

impl PooledVec {
    /// Unwinds with [`OutOfMemory`] if there is no memory.
    fn take(shared: &Arc<Shared>, capacity: usize) -> Self {
        Self::try_take(shared, capacity).unwrap_or_else(|lack| resume_unwind(Box::new(lack)))
    }

    fn try_take(shared: &Arc<Shared>, capacity: usize) -> Result<Self, OutOfMemory> {
        let bytes = size_class(capacity);
        let recycled = if bytes < MIN_POOLED_BYTES { None } else { shared.shelves().take(bytes) };
        let memory = match recycled {
            Some(memory) => memory,
            None => {
                shared.make_room_for(bytes);
                // Retry after freeing the idle buffers, which may make enough room under a memory limit of the process.
                Memory::try_zeroed(bytes).or_else(|_| {
                    let evicted = shared.shelves().make_room(0);
                    drop(evicted);
                    Memory::try_zeroed(bytes)
                })?
            }
        };
        shared.outstanding_bytes.fetch_add(memory.len(), Ordering::Relaxed);
        Ok(Self { memory, len: 0, shared: Arc::clone(shared) })
    }

    /// Number of bytes in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// The bytes in use.
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// The bytes behind those in use: initialised, with arbitrary content.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.whole_mut()[len..]
    }

    /// All bytes up to the capacity, regardless of the length.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// Sets how many bytes are in use.
    ///
    /// # Panics
    /// If `len` is more than the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length {len} of a buffer of {}", self.capacity());
        self.len = len;
    }

    /// Makes the capacity at least this, by moving to a larger buffer of the pool if necessary. Unwinds with
    /// [`OutOfMemory`] if there is no memory for it.
    pub fn grow(&mut self, min_capacity: usize) {
        if min_capacity > self.capacity() {
            self.replace(min_capacity, self.len);
        }
    }

    /// Like [`Self::grow`], but returns the error and leaves the buffer unchanged.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the larger buffer cannot be allocated.
    pub fn try_grow(&mut self, min_capacity: usize) -> Result<(), OutOfMemory> {
        match min_capacity > self.capacity() {
            true => self.try_replace(min_capacity, self.len),
            false => Ok(()),
        }
    }

    /// Moves the first `kept` bytes, in use or not, to a larger buffer.
    fn replace(&mut self, capacity: usize, kept: usize) {
        self.try_replace(capacity, kept).unwrap_or_else(|lack| resume_unwind(Box::new(lack)));
    }

    fn try_replace(&mut self, capacity: usize, kept: usize) -> Result<(), OutOfMemory> {
        let mut larger = Self::try_take(&self.shared, capacity)?;
        larger.whole_mut()[..kept].copy_from_slice(&self.memory.bytes()[..kept]);
        larger.len = self.len;
        *self = larger;
        Ok(())
    }

    /// Appends bytes, growing if they do not fit.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if end > self.capacity() {
            self.grow(end.max(self.capacity() * 2));
        }
        self.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        self.len = end;
    }

    /// The bytes in use as `Bytes`. The buffer returns to the pool when the last clone is dropped.
    pub fn into_bytes(self) -> Bytes {
        if self.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }

    /// The bytes in use as an Arrow buffer. The memory returns to the pool when the last reference is dropped.
    pub fn into_buffer(self) -> Buffer {
        let owner = Arc::new(self);
        let pointer = std::ptr::NonNull::from(owner.as_slice()).cast::<u8>();
        // SAFETY: the pointer is to `len` initialised bytes of `owner`, which neither moves them
        // (boxed or mapped) nor lets anyone write to them again.
        unsafe { Buffer::from_custom_allocation(pointer, owner.len, owner) }
    }
}

/// Rounds a capacity up to its size class: four classes per power of two, sixteen from 1 MiB on. So little is wasted,
/// and buffers of similar size can replace each other.
fn size_class(capacity: usize) -> usize {
    let capacity = capacity.max(LINE_BYTES);
    let steps = if capacity < 1 << 20 { 8 } else { 32 };
    let step = (capacity.next_power_of_two() / steps).max(LINE_BYTES);
    capacity.next_multiple_of(step)
}

impl Drop for PooledVec {
    fn drop(&mut self) {
        self.shared.put_back(std::mem::take(&mut self.memory));
    }
}

impl AsRef<[u8]> for PooledVec {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::ops::Deref for PooledVec {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::fmt::Debug for PooledVec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PooledVec")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

impl OutputBuffer for PooledVec {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.whole_mut()
    }

    fn grow(&mut self, min_len: usize) {
        if min_len > self.capacity() {
            // Keep the whole capacity: a codec writes beyond `len`, and sets it only at the end.
            self.replace(min_len, self.capacity());
        }
    }
}

// SAFETY: `chunk_mut` is the initialised memory behind `len`, and `advance_mut` checks its bound.
unsafe impl bytes::BufMut for PooledVec {
    fn remaining_mut(&self) -> usize {
        self.capacity() - self.len
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        self.set_len(self.len + count);
    }

    fn chunk_mut(&mut self) -> &mut bytes::buf::UninitSlice {
        bytes::buf::UninitSlice::new(self.spare_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_another_process_is_freed_without_the_shelves_lock() {
        let shared = Arc::new(Shared {
            max_total_bytes: 1 << 20,
            pid: std::process::id() + 1,
            outstanding_bytes: AtomicUsize::new(0),
            shelves: Mutex::default(),
        });
        let inherited = PooledVec::take(&shared, 8 << 10);
        let held = shared.shelves();
        drop(inherited);
        assert_eq!(held.idle_bytes, 0);
        assert_eq!(shared.outstanding_bytes.load(Ordering::Relaxed), 0);
    }

    /// Child process of the test below, with an address space limit of 600 MB.
    #[test]
    #[ignore = "needs a limit"]
    fn with_600_mb() {
        let pool = BufferPool::new(1 << 30);
        drop(pool.take(400 << 20));
        assert_eq!(pool.idle_bytes(), 400 << 20);
        let taken = pool.try_take(300 << 20);
        assert!(taken.is_ok(), "{taken:?}");
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn under_a_limit_idle_buffers_are_freed_for_a_new_one() {
        let limited = format!(
            "ulimit -v 600000; exec {} --exact --ignored pool::tests::with_600_mb",
            std::env::current_exe().expect("this test").display()
        );
        let ran = std::process::Command::new("sh").args(["-c", &limited]).output().expect("runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }
}
