//! A page as it is written: its blocks of code, what the comments above them say, and its prose.

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file of this repository.
pub(super) struct Page {
    /// Its path from the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    /// The line of its first fence, counted from 1.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) note: Option<Note>,
    pub(super) body: Vec<String>,
}

/// What the comment right above a block says. Readers do not see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Note {
    /// `<!-- terminal: NAME -->`: another terminal, where something goes on running.
    Terminal(String),
    /// `<!-- not run: WHY -->`.
    NotRun(String),
    /// `<!-- file: PATH -->`: the block is that file of the repository.
    File(String),
}

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

impl Page {
    pub(super) fn read(name: &str) -> Self {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        Self { name: name.to_owned(), text }
    }

    /// The README and everything in `docs`.
    pub(super) fn all() -> Vec<Self> {
        let mut names = vec!["README.md".to_owned()];
        markdown_below("docs", &mut names);
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut above = "";
        let mut lines = self.text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
                let body = inside.map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect();
                let language = info.trim().to_owned();
                blocks.push(Block { line: at + 1, language, note: note(above), body });
            }
            if !line.trim().is_empty() {
                above = line;
            }
        }
        blocks
    }

    /// The text outside of blocks, with line numbers.
    pub(super) fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut prose = Vec::new();
        for (at, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push((at + 1, line));
            }
        }
        prose
    }
}

fn markdown_below(dir: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(dir)).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = format!("{dir}/{}", entry.file_name().to_str().expect("a name"));
        if entry.file_type().expect("a type").is_dir() {
            markdown_below(&name, names);
        } else if Path::new(&name).extension().is_some_and(|e| e == "md") {
            names.push(name);
        }
    }
}

fn note(line: &str) -> Option<Note> {
    let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let (kind, value) = text.split_once(':')?;
    let value = value.trim().to_owned();
    match kind.trim() {
        "terminal" => Some(Note::Terminal(value)),
        "not run" => Some(Note::NotRun(value)),
        "file" => Some(Note::File(value)),
        _ => None,
    }
}

#[test]
fn blocks_are_read_with_what_stands_above_them() {
    let text = "a\n<!-- not run: needs a moon -->\n```sh\nls\n```\n- item\n\n  ```console\n  $ ls\n  ```\n";
    let page = Page { name: "x".into(), text: text.into() };
    let blocks = page.blocks();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].note, Some(Note::NotRun("needs a moon".into())));
    assert_eq!((blocks[1].line, &blocks[1].note, &blocks[1].body[..]), (8, &None, &["$ ls".to_owned()][..]));
    assert_eq!(page.prose().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 2, 6, 7]);
}
