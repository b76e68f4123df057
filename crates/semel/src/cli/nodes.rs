//! `semel nodes`: who shares a database.

use clap::Args;
use semel_core::time::Timestamp;
use semel_store::shared::{Exposure, NodeRecord};
use semel_store_postgres::{Roster, nodes};
use serde_json::{Value, json};

use super::{EXIT_CODES, Outcome, print, print_json};
use crate::failure::Failure;
use crate::opening;
use crate::table::columns;
use crate::text::printable;

const EXAMPLES: &str = "\
A node says every five seconds that it is there. One that has not been seen for 15 s is lost: what
it was delivering is delivered by another. It stays on the list for ten minutes. Roles are what one
node does for all of them. A server answers the same at /v1/nodes.

Exposed is a time of which the database may lack what was answered, because another of its servers
took over or a backup was restored; jobs from before it are delivered as possibly applied.

Examples:
  semel nodes --store postgres://semel@db/semel           a table
  semel nodes --store postgres://semel@db/semel --json    the same, for a program";

/// List the nodes that share a database
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct NodesArgs {
    /// The address of the database
    #[arg(long, value_name = "URL", env = "SEMEL_STORE", hide_env_values = true)]
    store: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl NodesArgs {
    /// Lists the nodes.
    pub(crate) fn run(self) -> Result<Outcome, Failure> {
        let name = opening::database_name(&self.store)?;
        let found = opening::database_runtime()?.block_on(nodes(&self.store));
        let found = found.map_err(Failure::database(&name))?;
        if self.json {
            print_json(&document(&name, &found))?;
        } else {
            print(&table(&name, &found))?;
        }
        Ok(Outcome::Good)
    }
}

fn document(name: &str, found: &Roster) -> Value {
    let nodes: Vec<_> = found.nodes.iter().map(object).collect();
    let exposure = found
        .exposure
        .map(|Exposure { since, until, .. }| json!({ "since": time(since), "until": time(until) }));
    json!({ "database": name, "nodes": nodes, "exposure": exposure })
}

fn object(node: &NodeRecord) -> Value {
    json!({
        "id": node.id.0,
        "name": node.name,
        "address": node.address,
        "version": node.version,
        "startedAt": time(node.started_at),
        "seenAt": time(node.seen_at),
        "lost": node.lost,
        "roles": node.roles,
    })
}

const HEAD: [&str; 7] = ["id", "name", "address", "version", "since", "seen", "roles"];

fn table(name: &str, found: &Roster) -> String {
    let exposed = found.exposure.map_or_else(String::new, |Exposure { since, until, .. }| {
        format!("  exposed from {} to {}: what was answered then may be missing\n", time(since), time(until))
    });
    match &found.nodes[..] {
        [] => format!("{name}: no nodes\n{exposed}"),
        nodes => format!("{name}\n{}{exposed}", columns(HEAD, nodes.iter().map(row))),
    }
}

fn row(node: &NodeRecord) -> [String; HEAD.len()] {
    let lost = if node.lost { " (lost)" } else { "" };
    [
        node.id.to_string(),
        printable(&node.name),
        printable(&node.address),
        printable(&node.version),
        time(node.started_at),
        format!("{}{lost}", time(node.seen_at)),
        printable(&node.roles.join(", ")),
    ]
}

fn time(at: Timestamp) -> String {
    let millis = i64::try_from(at.millis()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use semel_core::ids::JobId;
    use semel_core::time::Millis;
    use semel_store::shared::NodeId;

    use super::*;

    #[test]
    fn the_table_is_aligned_and_obeys_nobody() {
        let start = Timestamp::from_millis(1_794_744_000_000);
        let node = |id, name: &str, lost, roles: &[&str]| NodeRecord {
            id: NodeId(id),
            name: name.into(),
            address: "http://127.0.0.1:7477".into(),
            version: "0.1.0".into(),
            started_at: start,
            seen_at: start.plus(Millis::from_secs(5)),
            lost,
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        };
        let nodes = vec![node(0, "a", false, &["prune", "rescue"]), node(12, "b\u{1b}[2J", true, &[])];
        let shown = table("db/semel", &Roster { nodes, exposure: None });
        let expected = "db/semel
  id  name        address                version  since                 seen                         roles
  0   a           http://127.0.0.1:7477  0.1.0    2026-11-15T12:00:00Z  2026-11-15T12:00:05Z         prune, rescue
  12  b\\u{1b}[2J  http://127.0.0.1:7477  0.1.0    2026-11-15T12:00:00Z  2026-11-15T12:00:05Z (lost)\n";
        assert_eq!(shown, expected);
        assert_eq!(table("db/semel", &Roster { nodes: vec![], exposure: None }), "db/semel: no nodes\n");
    }

    #[test]
    fn what_may_be_missing_is_said() {
        let since = Timestamp::from_millis(1_794_744_000_000);
        let exposure = Some(Exposure { since, until: since.plus(Millis::from_secs(7)), newest: JobId::ZERO });
        let found = Roster { nodes: vec![], exposure };
        let expected = "db/semel: no nodes
  exposed from 2026-11-15T12:00:00Z to 2026-11-15T12:00:07Z: what was answered then may be missing\n";
        assert_eq!(table("db/semel", &found), expected);
        let exposed = json!({ "since": "2026-11-15T12:00:00Z", "until": "2026-11-15T12:00:07Z" });
        assert_eq!(document("db/semel", &found)["exposure"], exposed);
    }
}
