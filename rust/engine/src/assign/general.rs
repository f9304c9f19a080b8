//! The sticky assignment of members that subscribe to different topics.
//!
//! Members keep their partitions; each free one goes to the member with the fewest; then partitions move from members
//! with more to members with fewer until no single move improves the balance, which is also where Java's algorithm
//! ends. Unlike Java's, this one then moves partitions back to their previous owners where that does not affect the
//! balance.

use super::claims::Claims;
use super::group::{Group, Owners};
use super::racks::Racks;

/// Computes the owners. `racks` is `None` if racks make no difference.
pub(super) fn owners(group: &Group<'_>, claims: &Claims, racks: Option<&Racks<'_>>) -> Owners {
    let mut balancing = Balancing::new(group, claims, racks);
    // Partitions that the fewest members can be assigned come first.
    let mut topics: Vec<_> = (0..group.topic_count()).collect();
    topics.sort_by_key(|&topic| group.subscribers[topic].len());
    let all = topics.into_iter().flat_map(|topic| group.partitions(topic));
    let all: Vec<_> = all.filter(|&partition| !claims.reserved[partition]).collect();
    let free: Vec<_> = all.iter().copied().filter(|&partition| balancing.owners[partition].is_none()).collect();
    balancing.place(&free);
    let revoked =
        (0..group.partition_count()).any(|one| claims.owners[one].is_some() && balancing.homes[one].is_none());
    if !revoked {
        // New partitions come first: moving them takes none from a previous owner.
        balancing.level(&free, claims);
    }
    balancing.level(&all, claims);
    while balancing.bring_home() && balancing.level(&all, claims) {}
    balancing.owners
}

struct Balancing<'g, 'a> {
    group: &'g Group<'a>,
    racks: Option<&'g Racks<'a>>,
    /// The topic number of each partition.
    topics: Vec<usize>,
    /// The previous owners that may keep their partition.
    homes: Owners,
    owners: Owners,
    /// The owners before any partition was moved for balance.
    origins: Owners,
    loads: Vec<usize>,
}

impl<'g, 'a> Balancing<'g, 'a> {
    fn new(group: &'g Group<'a>, claims: &Claims, racks: Option<&'g Racks<'a>>) -> Self {
        let topics: Vec<_> =
            (0..group.topic_count()).flat_map(|topic| group.partitions(topic).map(move |_| topic)).collect();
        let mut loads = vec![0; group.members.len()];
        let mut homes = vec![None; topics.len()];
        for (partition, owner) in claims.owners.iter().enumerate() {
            let Some(owner) = *owner else { continue };
            if group.subscribes(owner, topics[partition])
                && !racks.is_some_and(|racks| racks.mismatch(owner, partition))
            {
                homes[partition] = Some(owner);
                loads[owner] += 1;
            }
        }
        Self { group, racks, topics, owners: homes.clone(), origins: Vec::new(), homes, loads }
    }

    /// Gives each of these partitions to the member with the fewest, in its rack if possible.
    fn place(&mut self, free: &[usize]) {
        let mut far = Vec::new();
        for &partition in free {
            let near = |&member: &usize| !self.racks.is_some_and(|racks| racks.mismatch(member, partition));
            match self.least_loaded(partition, near) {
                Some(member) => self.give(partition, member),
                None => far.push(partition),
            }
        }
        for partition in far {
            if let Some(member) = self.least_loaded(partition, |_| true) {
                self.give(partition, member);
            }
        }
        self.origins = self.owners.clone();
    }

    fn least_loaded(&self, partition: usize, fits: impl Fn(&usize) -> bool) -> Option<usize> {
        let subscribers = self.group.subscribers[self.topics[partition]].iter().copied();
        subscribers.filter(fits).min_by_key(|&member| self.loads[member])
    }

    fn give(&mut self, partition: usize, member: usize) {
        self.owners[partition] = Some(member);
        self.loads[member] += 1;
    }

    fn take(&mut self, partition: usize, member: usize) {
        if let Some(owner) = self.owners[partition] {
            self.loads[owner] -= 1;
        }
        self.give(partition, member);
    }

    /// Moves partitions to members with fewer, until none of them can go to a member that has at least two fewer. Every
    /// move brings two members closer, so this ends. Returns whether any partition moved.
    fn level(&mut self, partitions: &[usize], claims: &Claims) -> bool {
        let mut moved = false;
        loop {
            let least = self.loads.iter().min().copied().unwrap_or(0);
            let mut again = false;
            for &partition in partitions {
                let Some(owner) = self.owners[partition] else { continue };
                // The minimum does not decrease meanwhile.
                if self.loads[owner] <= least + 1 {
                    continue;
                }
                if let Some(member) = self.better(partition, owner, claims) {
                    let partition = self.rather(partition, owner, member);
                    self.take(partition, member);
                    again = true;
                }
            }
            if !again {
                return moved;
            }
            moved = true;
        }
    }

    /// The member that should own the partition instead: its owner in an earlier generation, else the member with the
    /// fewest.
    fn better(&self, partition: usize, owner: usize, claims: &Claims) -> Option<usize> {
        let lighter = |member: &usize| self.loads[owner] > self.loads[*member] + 1;
        let subscribes = |&member: &usize| self.group.subscribes(member, self.topics[partition]);
        let earlier = claims.earlier[partition].filter(subscribes).filter(lighter);
        earlier.or_else(|| self.least_loaded(partition, |_| true).filter(lighter))
    }

    /// The partition of the same topic to move instead, if there is one that moved in the opposite direction.
    fn rather(&self, partition: usize, owner: usize, member: usize) -> usize {
        let back = |&other: &usize| self.owners[other] == Some(owner) && self.origins[other] == Some(member);
        if back(&partition) {
            return partition;
        }
        self.group.partitions(self.topics[partition]).find(back).unwrap_or(partition)
    }

    /// Moves partitions back to their previous owners, alone or in exchange for one that was not that owner's before,
    /// as long as the balance stays the same. Each returned partition stays, so this ends. Returns whether any
    /// partition moved.
    fn bring_home(&mut self) -> bool {
        let mut owned: Vec<Vec<usize>> = vec![Vec::new(); self.loads.len()];
        for (partition, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = *owner
                && self.homes[partition] != Some(owner)
            {
                owned[owner].push(partition);
            }
        }
        let mut moved = false;
        loop {
            let mut again = false;
            for partition in 0..self.owners.len() {
                let (Some(owner), Some(home)) = (self.owners[partition], self.homes[partition]) else { continue };
                if owner == home {
                    continue;
                }
                if self.loads[owner] <= self.loads[home] {
                    let Some(other) = self.exchange(&owned[home], owner, home) else { continue };
                    self.take(other, owner);
                    owned[home].retain(|&one| one != other);
                    if self.homes[other] != Some(owner) {
                        owned[owner].push(other);
                    }
                }
                self.take(partition, home);
                owned[owner].retain(|&one| one != partition);
                again = true;
            }
            if !again {
                return moved;
            }
            moved = true;
        }
    }

    /// One of `strangers`, which `home` did not own before, that `owner` can take; preferably one that `owner` had.
    fn exchange(&self, strangers: &[usize], owner: usize, home: usize) -> Option<usize> {
        let fits = |partition: &&usize| {
            let farther = |racks: &Racks<'_>| racks.mismatch(owner, **partition) && !racks.mismatch(home, **partition);
            self.group.subscribes(owner, self.topics[**partition]) && !self.racks.is_some_and(farther)
        };
        let own = |partition: &&usize| self.homes[**partition] == Some(owner);
        strangers.iter().filter(fits).max_by_key(own).copied()
    }
}
