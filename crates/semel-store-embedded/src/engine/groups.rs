//! Groups that gate: at most n of a group's jobs are open at once, in publish order.

use rusqlite::{OptionalExtension, params};
use semel_core::group;
use semel_core::ids::JobId;
use semel_core::name::Group;

use super::Engine;
use crate::db::{job_id, sql, sql_id};
use crate::fault::Fault;
use crate::leases::rank_of;

impl Engine<'_> {
    /// A job joins its group's line, by publish or by replay, and opens if there is room. The line is by the time of
    /// joining, then by id.
    pub(super) fn join_group(&mut self, queue: u32, group: &Group, id: JobId) -> Result<(), Fault> {
        self.db.conn.prepare_cached("INSERT INTO grouped VALUES(?1, ?2, 1, ?3, ?4)")?.execute(params![
            queue,
            group.as_str(),
            sql(self.now.millis()),
            sql_id(id)
        ])?;
        self.open_next(queue, group)
    }

    /// A job has ended: it leaves its group, and the next opens.
    pub(super) fn leave_group(&mut self, queue: u32, group: &Group, id: JobId) -> Result<(), Fault> {
        self.db
            .conn
            .prepare_cached("DELETE FROM grouped WHERE queue = ?1 AND grp = ?2 AND id = ?3")?
            .execute(params![queue, group.as_str(), sql_id(id)])?;
        self.open_next(queue, group)
    }

    /// The queue's limit may have been raised or lifted: every group opens what it now may. That can be much work at once,
    /// but it follows a person's change of a setting, not a job.
    pub(super) fn open_all_groups(&mut self, queue: u32) -> Result<(), Fault> {
        let groups: Vec<String> = self
            .db
            .conn
            .prepare_cached("SELECT DISTINCT grp FROM grouped WHERE queue = ?1 AND waiting = 1")?
            .query_map([queue], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for group in groups {
            let group = Group::try_from(group).map_err(|e| Fault::Broken(e.to_string()))?;
            self.open_next(queue, &group)?;
        }
        Ok(())
    }

    /// Whether a job waits in its group's line.
    pub(super) fn waits_in_group(&self, queue: u32, group: &Group, id: JobId) -> Result<bool, Fault> {
        let found = self
            .db
            .conn
            .prepare_cached(
                "SELECT 1 FROM grouped WHERE queue = ?1 AND grp = ?2 AND waiting = 1 AND id = ?3",
            )?
            .query_row(params![queue, group.as_str(), sql_id(id)], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    }

    /// Opens jobs of a group while the rule allows. A queue that no longer has a limit lets them all through.
    fn open_next(&mut self, queue: u32, group: &Group) -> Result<(), Fault> {
        let limit = self.queue(queue)?.rules.config.group_concurrency.unwrap_or(u32::MAX);
        let mut open: u32 = self
            .db
            .conn
            .prepare_cached("SELECT count(*) FROM grouped WHERE queue = ?1 AND grp = ?2 AND waiting = 0")?
            .query_row(params![queue, group.as_str()], |row| row.get(0))?;
        while group::opens(open, limit) {
            let Some((turn, id)) = self.first_waiting(queue, group)? else { break };
            self.open_job(queue, group, turn, id)?;
            open += 1;
        }
        Ok(())
    }

    fn first_waiting(&self, queue: u32, group: &Group) -> Result<Option<(i64, JobId)>, Fault> {
        let first = self
            .db
            .conn
            .prepare_cached(
                "SELECT turn, id FROM grouped WHERE queue = ?1 AND grp = ?2 AND waiting = 1 ORDER BY turn, id LIMIT 1",
            )?
            .query_row(params![queue, group.as_str()], |row| Ok((row.get(0)?, job_id(row.get(1)?)?)))
            .optional()?;
        Ok(first)
    }

    fn open_job(&mut self, queue: u32, group: &Group, turn: i64, id: JobId) -> Result<(), Fault> {
        self.db
            .conn
            .prepare_cached("UPDATE grouped SET waiting = 0 WHERE queue = ?1 AND grp = ?2 AND waiting = 1 AND turn = ?3 AND id = ?4")?
            .execute(params![queue, group.as_str(), turn, sql_id(id)])?;
        let (_, spec) =
            self.spec(id)?.ok_or_else(|| Fault::Broken(format!("group member {id} has no job row")))?;
        let due = self.stored_progress(id)?.map_or(spec.run_at, |(_, progress)| progress.due);
        self.put_in_order(queue, rank_of(&spec), due, id)
    }
}
