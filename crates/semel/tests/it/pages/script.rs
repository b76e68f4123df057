//! A block of a terminal: commands, and what they print.

use super::page::Block;

/// One command and the lines it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The line in the page, counted from 1.
    pub(super) line: usize,
    /// Without the prompt. None when the block begins with output: more of what runs in that terminal.
    pub(super) command: Option<String>,
    pub(super) output: Vec<String>,
    /// Whether a Ctrl-C follows, shown as `^C`.
    pub(super) interrupted: bool,
}

/// What a block does: `$ ` begins a command, `> ` goes on with it, `^C` ends it, all else is output.
pub(super) fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (block.line + 1..).zip(&block.body) {
        let begun = |command| Step { line, command, output: Vec::new(), interrupted: false };
        if let Some(command) = text.strip_prefix("$ ") {
            steps.push(begun(Some(command.to_owned())));
            continue;
        }
        if steps.is_empty() {
            steps.push(begun(None));
        }
        let Some(step) = steps.last_mut() else { continue };
        match (text.strip_prefix("> "), &mut step.command) {
            (Some(more), Some(command)) if step.output.is_empty() => {
                command.push('\n');
                command.push_str(more);
            }
            _ if text == "^C" => step.interrupted = true,
            _ => step.output.push(text.trim_end().to_owned()),
        }
    }
    steps
}

#[test]
fn a_block_is_commands_and_what_they_print() {
    let body = ["$ cat <<END", "> one", "> END", "one", "$ semel dev", "hello", "^C"];
    let body = body.map(str::to_owned).to_vec();
    let block = Block { line: 10, language: "console".into(), note: None, body };
    let steps = steps(&block);
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].line, steps[0].command.as_deref()), (11, Some("cat <<END\none\nEND")));
    assert_eq!((&steps[0].output[..], steps[0].interrupted), (&["one".to_owned()][..], false));
    assert_eq!(
        (steps[1].line, &steps[1].output[..], steps[1].interrupted),
        (15, &["hello".to_owned()][..], true)
    );
}
