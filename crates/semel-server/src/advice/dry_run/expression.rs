//! A key expression: text with placeholders that each job fills in, such as `order-{payload.order.id}`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use semel_core::job::JobSpec;
use semel_core::key::Key;
use semel_core::payload::Payload;
use serde_json::value::RawValue;

/// Longest expression, in characters. A key has 255.
const LENGTH_MAX: usize = 1000;

/// Most members of a path. Each reads what is below the one before once more.
const DEPTH_MAX: usize = 16;

/// What keys are to be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Payload(Vec<String>),
    Metadata(String),
    Group,
    Key,
}

/// What an expression gives for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evaluated {
    /// A key.
    Key(Key),
    /// Nothing: a placeholder has no value in this job.
    Nothing,
    /// Something that no key can be: too long, or with control characters.
    Unfit,
    /// The payload and the metadata are no longer kept.
    Gone,
}

impl Default for Expression {
    /// The keys as they are: what another window would do.
    fn default() -> Self {
        Self(vec![Part::Key])
    }
}

impl std::str::FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().count() > LENGTH_MAX {
            return Err(format!("must be 1 to {LENGTH_MAX} characters long"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            add_text(&mut parts, before);
            rest = match (from.strip_prefix("{{"), from.strip_prefix("}}")) {
                (Some(after), _) => (add_text(&mut parts, "{"), after).1,
                (_, Some(after)) => (add_text(&mut parts, "}"), after).1,
                _ => placeholder(&mut parts, from)?,
            };
        }
        add_text(&mut parts, rest);
        Ok(Self(parts))
    }
}

fn add_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(before)) => before.push_str(text),
        _ if text.is_empty() => {}
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Reads a placeholder at the beginning of `text`; what is behind it is left.
fn placeholder<'a>(parts: &mut Vec<Part>, text: &'a str) -> Result<&'a str, String> {
    let inside = text.strip_prefix('{').and_then(|text| text.split_once('}'));
    let (name, rest) =
        inside.ok_or("has a brace without its other half: write {{ or }} for a brace itself")?;
    parts.push(named(name)?);
    Ok(rest)
}

fn named(name: &str) -> Result<Part, String> {
    let unknown = || {
        format!(
            "{{{name}}} is no placeholder: there are {{payload.path.to.member}}, {{payload/path/to/member}} (a JSON \
             pointer), {{metadata.name}}, {{group}} and {{key}}"
        )
    };
    if let Some(pointer) = name.strip_prefix("payload/") {
        return path(pointer.split('/').map(unescaped).collect());
    }
    match name.split_once('.') {
        Some(("payload", dotted)) if dotted.split('.').all(|member| !member.is_empty()) => {
            path(dotted.split('.').map(str::to_owned).collect())
        }
        Some(("metadata", entry)) if !entry.is_empty() => Ok(Part::Metadata(entry.to_owned())),
        None if name == "group" => Ok(Part::Group),
        None if name == "key" => Ok(Part::Key),
        _ => Err(unknown()),
    }
}

fn path(members: Vec<String>) -> Result<Part, String> {
    match members.len() {
        ..=DEPTH_MAX => Ok(Part::Payload(members)),
        many => Err(format!("has a path of {many} members: {DEPTH_MAX} are the most")),
    }
}

/// A member of a JSON pointer (RFC 6901).
fn unescaped(member: &str) -> String {
    member.replace("~1", "/").replace("~0", "~")
}

impl Expression {
    /// What the key of a job would have been.
    pub(super) fn evaluate(&self, spec: &JobSpec) -> Evaluated {
        if spec.payload.is_none()
            && self.0.iter().any(|part| matches!(part, Part::Payload(_) | Part::Metadata(_)))
        {
            return Evaluated::Gone;
        }
        let values: Option<Vec<_>> = self.0.iter().map(|part| part.value(spec)).collect();
        let Some(values) = values else { return Evaluated::Nothing };
        let text = values.concat();
        match Key::try_from(text.as_str()) {
            Ok(key) => Evaluated::Key(key),
            Err(_) if text.is_empty() => Evaluated::Nothing,
            Err(_) => Evaluated::Unfit,
        }
    }
}

impl Part {
    fn value<'a>(&'a self, spec: &'a JobSpec) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text.as_str().into()),
            Self::Payload(path) => member(spec.payload.as_ref()?, path),
            Self::Metadata(name) => {
                let entry = spec.metadata.iter().find(|(known, _)| known == name);
                entry.map(|(_, value)| value.as_str().into())
            }
            Self::Group => spec.group.as_ref().map(|group| group.as_str().into()),
            Self::Key => spec.key.as_ref().map(|key| key.as_str().into()),
        }
    }
}

/// A text, a number or a truth value in a payload. Numbers are taken as they are written: as floats, large ids would become
/// their neighbours.
fn member<'a>(payload: &'a Payload, path: &[String]) -> Option<Cow<'a, str>> {
    let mut value: &RawValue = serde_json::from_slice(payload.bytes()).ok()?;
    for name in path {
        value = below(value, name)?;
    }
    match value.get().as_bytes().first()? {
        b'"' => {
            serde_json::from_str::<String>(value.get()).ok().filter(|text| !text.is_empty()).map(Cow::from)
        }
        b'{' | b'[' | b'n' => None,
        _ => Some(value.get().into()),
    }
}

fn below<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    match value.get().as_bytes().first()? {
        b'{' => serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()).ok()?.remove(name),
        b'[' => serde_json::from_str::<Vec<&RawValue>>(value.get())
            .ok()?
            .get(name.parse::<usize>().ok()?)
            .copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use semel_core::name::{Group, QueueName};
    use semel_core::publish::Draft;
    use semel_core::queue::{QueueConfig, Rules};
    use semel_core::time::Timestamp;

    use super::*;

    fn spec(payload: &str) -> JobSpec {
        let payload = Payload::from_json(payload.to_owned()).unwrap();
        let mut draft = Draft::new(QueueName::try_from("q").unwrap(), payload);
        draft.key = Some(Key::try_from("k-1").unwrap());
        draft.group = Some(Group::try_from("tenant-7").unwrap());
        draft.metadata = vec![("source".to_owned(), "web".to_owned())];
        let rules = Rules::new(QueueConfig::default()).unwrap();
        draft.check().unwrap().into_spec(&rules, Timestamp::from_millis(1_794_744_000_000))
    }

    fn key(expression: &str, payload: &str) -> Evaluated {
        expression.parse::<Expression>().unwrap().evaluate(&spec(payload))
    }

    #[test]
    fn placeholders_take_what_the_job_has() {
        let payload = r#"{"order": {"id": 9482, "lines": [{"sku": "a b"}]}, "big": 18446744073709551616, "a.b": {"c/d": true}}"#;
        for (expression, expected) in [
            ("order-{payload.order.id}", "order-9482"),
            ("{payload.order.lines.0.sku}", "a b"),
            ("{payload.big}", "18446744073709551616"),
            ("{payload/a.b/c~1d}", "true"),
            ("{group}/{metadata.source}/{key}", "tenant-7/web/k-1"),
            ("{{{key}}}", "{k-1}"),
            ("plain", "plain"),
        ] {
            assert_eq!(
                key(expression, payload),
                Evaluated::Key(Key::try_from(expected).unwrap()),
                "{expression}"
            );
        }
    }

    #[test]
    fn what_is_not_there_gives_no_key() {
        let payload = r#"{"order": {"id": null}, "text": "", "list": [1], "long": "LONG", "bell": "\u0007"}"#;
        let payload = payload.replace("LONG", &"x".repeat(300));
        for nothing in [
            "{payload.order.id}",
            "{payload.order}",
            "{payload.none}",
            "{payload.text}",
            "{payload.list.1}",
            "{payload.list.x}",
            "{metadata.none}",
        ] {
            assert_eq!(key(nothing, &payload), Evaluated::Nothing, "{nothing}");
        }
        for unfit in ["{payload.long}", "a{payload.bell}"] {
            assert_eq!(key(unfit, &payload), Evaluated::Unfit, "{unfit}");
        }
        let gone = spec("1").stripped();
        let evaluate = |text: &str| text.parse::<Expression>().unwrap().evaluate(&gone);
        assert_eq!([evaluate("{payload.a}"), evaluate("{metadata.a}")], [Evaluated::Gone, Evaluated::Gone]);
        assert_eq!(Expression::default().evaluate(&gone), Evaluated::Key(Key::try_from("k-1").unwrap()));
    }

    #[test]
    fn what_is_no_expression_is_explained() {
        for (wrong, words) in [
            ("", "1 to 1000"),
            ("order-{payload.id", "{{ or }}"),
            ("order-}", "{{ or }}"),
            ("{order}", "{order} is no placeholder"),
            ("{payload}", "is no placeholder"),
            ("{payload..a}", "is no placeholder"),
            ("{metadata.}", "is no placeholder"),
            ("{}", "is no placeholder"),
            ("{payload.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q}", "17 members"),
        ] {
            let problem = wrong.parse::<Expression>().unwrap_err();
            assert!(problem.contains(words), "{wrong}: {problem}");
        }
    }
}
