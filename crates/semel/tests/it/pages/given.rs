//! What a page takes for granted: a comment `<!-- given: NAME -->` in it names a script of the directory `given`, which is
//! run on the page's machine before its commands.

use super::machine::Machine;
use super::page::{Page, root};

pub(super) fn prepare(page: &Page, machine: &Machine) {
    for line in page.text.lines() {
        let Some(name) = line.strip_prefix("<!-- given: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let script = root().join("crates/semel/tests/it/pages/given").join(format!("{name}.sh"));
        let ran = machine.command("bash").arg(script).output().expect("bash");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success(),
            "{}: given {name}: {}{told}",
            page.name,
            String::from_utf8_lossy(&ran.stdout)
        );
    }
}
