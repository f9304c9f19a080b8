//! End of a consumer: closed by its user, or dropped.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Consumer;
use super::non_member_commits::NonMemberCommits;
use crate::fetch::buffer::FetchBuffer;
use crate::group::Leaving;
use crate::lock::lock;
use crate::net::network::Network;
use crate::tasks::block_until;

/// Time for which a member that is dropped without being closed tries to leave its group.
const FORGOTTEN_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which such a member checks that it has left.
const LEAVING_SLICE: Duration = Duration::from_millis(10);

impl Consumer {
    /// Leaves the group, if it is in one, ends every wait and closes the connections. Waits for that, at most
    /// `timeout`. Runs no callbacks: a caller that has some calls [`Self::start_close`] first. May be called again.
    pub fn close(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        self.leave(timeout);
        NonMemberCommits::finish(&self.non_member_commits, &self.runtime, until);
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish_by(&self.runtime, until);
        }
        self.base.registered_metrics.close();
        let tasks = self.take_tasks();
        end(&self.closed, &self.buffer, &self.base.network, &tasks);
        block_until(&self.runtime, until, async move {
            for task in tasks {
                let _ = task.await;
            }
        });
        self.base.log.finish();
    }

    /// Has `hook` get the task in which this consumer leaves its group, if it is dropped as a member. The task has to
    /// end before the runtime stops, or the other members wait for `session.timeout.ms`.
    pub fn on_leave_task(&self, hook: fn(JoinHandle<()>)) {
        let _ = self.on_leave_task.set(hook);
    }

    fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        drop(lock(&self.commands).take());
        std::mem::take(&mut *lock(&self.tasks))
    }
}

impl Drop for Consumer {
    /// A member that is dropped without [`Self::close`] still tries to commit and to leave the group, for a second and
    /// in the background. Nothing waits for that, unless the hook of [`Self::on_leave_task`] does.
    fn drop(&mut self) {
        let Some(group) = self.group.take().filter(|_| self.is_subscribed() && !self.is_closed()) else {
            return self.close(Duration::ZERO);
        };
        let until = Instant::now() + FORGOTTEN_LEAVE_TIMEOUT;
        if group.close(FORGOTTEN_LEAVE_TIMEOUT).is_ok() {
            group.abandon();
        }
        let tasks = self.take_tasks();
        let (closed, buffer, network) = (self.closed.clone(), self.buffer.clone(), self.base.network.clone());
        let leaving = self.runtime.spawn(async move {
            // A task waits, and not a thread: the system may have none.
            while matches!(buffer.leaving(Instant::now()), Leaving::Waiting) && Instant::now() < until {
                tokio::time::sleep(LEAVING_SLICE).await;
            }
            drop(group);
            end(&closed, &buffer, &network, &tasks);
        });
        if let Some(hook) = self.on_leave_task.get() {
            hook(leaving);
        }
    }
}

/// Ends every wait, and everything that runs.
fn end(closed: &watch::Sender<bool>, buffer: &FetchBuffer, network: &Network, tasks: &[JoinHandle<()>]) {
    closed.send_replace(true);
    buffer.close();
    for task in tasks {
        task.abort();
    }
    network.close();
}
