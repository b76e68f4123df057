//! The lines of groups: how many of their jobs are open, and who may open next.

use std::collections::BTreeMap;

use semel_core::ids::JobId;
use semel_core::name::Group;
use tokio_postgres::Row;

use super::super::Setback;
use super::Load;
use super::statements::{OPEN_IN_LINES, WAITING_IN_LINES};
use crate::catalog::queue_number;
use crate::fault::Fault;
use crate::row::{Cells, sql_count};

/// Lines by queue and group, with how many of their jobs the commands may end.
type Lines = BTreeMap<(i32, Group), u32>;

impl Load<'_, '_> {
    /// The third flight: the lines that jobs may join or leave. Where nothing limits the groups of a queue everybody is
    /// open, and there is nothing to know.
    pub(super) async fn lines(&mut self) -> Result<(), Setback> {
        let lines = self.wanted_lines();
        if lines.is_empty() {
            return Ok(());
        }
        let queues: Vec<i32> = lines.keys().map(|(queue, _)| *queue).collect();
        let groups: Vec<&str> = lines.keys().map(|(_, group)| group.as_str()).collect();
        let ends: Vec<i32> = lines.values().map(|ends| sql_count(*ends)).collect();
        let (mut flight, _) = self.work.flight();
        let open = flight.query(&OPEN_IN_LINES, vec![&queues, &groups]);
        let waiting = flight.query(&WAITING_IN_LINES, vec![&queues, &groups, &ends]);
        let landed = flight.land().await?;
        self.read_open(landed.rows(open))?;
        // Those that were loaded by their ids stay, with their traces.
        let before = std::mem::take(&mut self.jobs);
        self.read_live(landed.rows(waiting))?;
        self.jobs.extend(before);
        Ok(())
    }

    fn wanted_lines(&self) -> Lines {
        let mut lines = Lines::new();
        for (queue, group) in &self.wants.groups {
            if let Some(number) = self.work.names.get(queue).filter(|number| self.is_limited(**number)) {
                lines.entry((*number, group.clone())).or_default();
            }
        }
        for (id, stored) in &self.jobs {
            let number = queue_number(stored.queue);
            let spec = &stored.job.spec;
            if let Some(group) = spec.group.as_ref().filter(|_| spec.gated && self.is_limited(number)) {
                *lines.entry((number, group.clone())).or_default() += self.ends_of(*id);
            }
        }
        lines
    }

    fn is_limited(&self, queue: i32) -> bool {
        self.rules.get(&queue).is_some_and(|rules| rules.config.group_concurrency.is_some())
    }

    /// How often the commands may end a job: each that names it may.
    fn ends_of(&self, id: JobId) -> u32 {
        let named = self.wants.jobs.get(&id).copied().unwrap_or(0);
        let expired = self.wants.rescues > 0 && self.work.expired.contains(&id);
        named + u32::from(expired)
    }

    fn read_open(&mut self, rows: &[Row]) -> Result<(), Fault> {
        for row in rows {
            let mut cells = Cells::of(row);
            let (queue, group, open): (i32, &str, i64) = (cells.take()?, cells.take()?, cells.take()?);
            let name = self.queues.get(&queue).map(|row| row.record.name.clone());
            let group = Group::try_from(group).ok();
            let (name, group) = name
                .zip(group)
                .ok_or_else(|| Fault::Broken("a line was found that was not asked for".into()))?;
            self.lines.push((name, group, u32::try_from(open).unwrap_or(u32::MAX)));
        }
        Ok(())
    }
}
