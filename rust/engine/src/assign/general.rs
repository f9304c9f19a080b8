//! The sticky assignment of members that subscribe to different topics.
//!
//! Members keep what they had; what is free goes to whoever has least; then partitions move from those with more to those with
//! less until no single move makes the group more even, which is where Java's algorithm ends too. It does not look back, ours does:
//! a partition that has moved goes home again where that costs no balance.

use super::claims::Claims;
use super::group::{Group, Owners};
use super::racks::Racks;

/// Who is to own what. `racks` are given only if they matter.
pub(super) fn owners(group: &Group<'_>, claims: &Claims, racks: Option<&Racks<'_>>) -> Owners {
    let mut balancing = Balancing::new(group, claims, racks);
    // Those that fewest can have come first.
    let mut topics: Vec<_> = (0..group.topic_count()).collect();
    topics.sort_by_key(|&topic| group.subscribers[topic].len());
    let all = topics.into_iter().flat_map(|topic| group.partitions(topic));
    let all: Vec<_> = all.filter(|&partition| !claims.reserved[partition]).collect();
    let free: Vec<_> = all.iter().copied().filter(|&partition| balancing.owners[partition].is_none()).collect();
    balancing.place(&free);
    let revoked =
        (0..group.partition_count()).any(|one| claims.owners[one].is_some() && balancing.homes[one].is_none());
    if !revoked {
        // New partitions are the ones that nobody misses.
        balancing.level(&free, claims);
    }
    balancing.level(&all, claims);
    while balancing.bring_home() && balancing.level(&all, claims) {}
    balancing.owners
}

struct Balancing<'g, 'a> {
    group: &'g Group<'a>,
    racks: Option<&'g Racks<'a>>,
    /// The topic of each partition.
    topics: Vec<usize>,
    /// Who had the partition and may keep it.
    homes: Owners,
    owners: Owners,
    /// Who had it before anything was moved for balance.
    origins: Owners,
    /// How many partitions each member has.
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

    /// Gives each of the partitions to whoever has least, in its rack if there is one.
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

    /// Moves partitions to members with less, until none of these can go where there are fewer by two or more. Every move brings
    /// two members closer, so it ends. Tells whether it moved any.
    fn level(&mut self, partitions: &[usize], claims: &Claims) -> bool {
        let mut moved = false;
        loop {
            let least = self.loads.iter().min().copied().unwrap_or(0);
            let mut again = false;
            for &partition in partitions {
                let Some(owner) = self.owners[partition] else { continue };
                // The least never gets less while this goes on.
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

    /// Who should have the partition rather than its owner: who had it in an earlier generation, else who has least.
    fn better(&self, partition: usize, owner: usize, claims: &Claims) -> Option<usize> {
        let lighter = |member: &usize| self.loads[owner] > self.loads[*member] + 1;
        let subscribes = |&member: &usize| self.group.subscribes(member, self.topics[partition]);
        let earlier = claims.earlier[partition].filter(subscribes).filter(lighter);
        earlier.or_else(|| self.least_loaded(partition, |_| true).filter(lighter))
    }

    /// Which partition of the same topic to move instead: one that came the other way.
    fn rather(&self, partition: usize, owner: usize, member: usize) -> usize {
        let back = |&other: &usize| self.owners[other] == Some(owner) && self.origins[other] == Some(member);
        if back(&partition) {
            return partition;
        }
        self.group.partitions(self.topics[partition]).find(back).unwrap_or(partition)
    }

    /// Brings partitions back to those who had them, alone or in exchange for one that its owner never had, where the group stays as
    /// even as it is. Each that comes home stays, so it ends. Tells whether it moved any.
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

    /// One of `strangers`, which `home` owns and never had, that `owner` can take; best one that is its own.
    fn exchange(&self, strangers: &[usize], owner: usize, home: usize) -> Option<usize> {
        let fits = |partition: &&usize| {
            let farther = |racks: &Racks<'_>| racks.mismatch(owner, **partition) && !racks.mismatch(home, **partition);
            self.group.subscribes(owner, self.topics[**partition]) && !self.racks.is_some_and(farther)
        };
        let own = |partition: &&usize| self.homes[**partition] == Some(owner);
        strangers.iter().filter(fits).max_by_key(own).copied()
    }
}
