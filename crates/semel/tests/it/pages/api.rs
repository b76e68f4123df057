//! The reference of the API, made from `docs/openapi.json`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::generated;
use super::page::root;

const HEAD: &str = "\
# API reference

Made from [openapi.json](openapi.json), which the server makes from its code and serves at `/openapi.json`.

- JSON, spans of time in seconds, times in RFC 3339 (UTC). Requests carry `Authorization: Bearer sml_…`.
- Errors are problems with a stable `code`: [all of them](errors/README.md). `4XX` and `5XX` are left out below.
- A field that is not known is an error, so a typo does not go unnoticed. *Needed* fields must be there.

";

/// The order in which a newcomer meets them. A tag that is missing here comes last.
const ORDER: &[&str] =
    &["publish", "work", "jobs", "keys", "queues", "dead letters", "schedules", "api keys", "operate"];

/// One method of one path.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    told: &'a Value,
}

#[test]
fn the_reference_is_made_from_the_openapi_file() {
    let text = std::fs::read_to_string(root().join("docs/openapi.json")).expect("the file is committed");
    let api: Value = serde_json::from_str(&text).expect("JSON");
    generated::compare("docs/api.md", &reference(&api).expect("a string takes everything"));
}

fn reference(api: &Value) -> Result<String, std::fmt::Error> {
    let mut page = HEAD.to_owned();
    for (tag, operations) in by_tag(api) {
        writeln!(page, "## {}\n", title(&tag))?;
        for operation in operations {
            one(&mut page, &operation)?;
        }
    }
    writeln!(page, "## Objects\n")?;
    for (name, schema) in object(&api["components"]["schemas"]) {
        writeln!(page, "### {name} (object)\n\n{}\n", about(schema))?;
        fields(&mut page, schema)?;
    }
    Ok(page.trim_end().to_owned() + "\n")
}

fn by_tag(api: &Value) -> Vec<(String, Vec<Operation<'_>>)> {
    let mut tags: BTreeMap<(usize, String), Vec<Operation<'_>>> = BTreeMap::new();
    for (path, methods) in object(&api["paths"]) {
        for (method, told) in object(methods) {
            let tag = told["tags"][0].as_str().unwrap_or("others").to_owned();
            let place = ORDER.iter().position(|known| *known == tag).unwrap_or(ORDER.len());
            tags.entry((place, tag)).or_default().push(Operation { method, path, told });
        }
    }
    tags.into_iter().map(|((_, tag), operations)| (tag, operations)).collect()
}

fn one(page: &mut String, operation: &Operation<'_>) -> std::fmt::Result {
    let Operation { method, path, told } = operation;
    writeln!(
        page,
        "### {} {path}\n\n{}\n",
        method.to_uppercase(),
        told["summary"].as_str().unwrap_or_default()
    )?;
    parameters(page, told)?;
    if let Some(body) = told["requestBody"]["content"]["application/json"].get("schema") {
        writeln!(page, "Body: {}\n", kind(body))?;
    }
    let good = object(&told["responses"]).iter().filter(|(code, _)| !code.ends_with("XX"));
    let answers: Vec<_> = good.map(|(code, answer)| answered(code, answer)).collect();
    writeln!(page, "Answers: {}\n", answers.join("; "))
}

fn answered(code: &str, answer: &Value) -> String {
    let contents = answer["content"].as_object().into_iter().flatten();
    let schema = contents.filter_map(|(_, content)| content.get("schema")).map(kind).next();
    let schema = schema.map(|schema| format!(" {schema}")).unwrap_or_default();
    format!("`{code}`{schema} ({})", answer["description"].as_str().unwrap_or_default())
}

/// Those of the path speak for themselves.
fn parameters(page: &mut String, told: &Value) -> std::fmt::Result {
    let all = told["parameters"].as_array().into_iter().flatten();
    let shown: Vec<_> = all.filter(|parameter| parameter["in"] != "path").collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(page, "| parameter | in | type | |\n|---|---|---|---|")?;
    for parameter in shown {
        let [name, place] = ["name", "in"].map(|key| parameter[key].as_str().unwrap_or_default());
        let needed = if parameter["required"] == true { "*Needed.* " } else { "" };
        let schema = &parameter["schema"];
        writeln!(page, "| `{name}` | {place} | {} | {needed}{} |", kind(schema), about(parameter))?;
    }
    writeln!(page)
}

fn fields(page: &mut String, schema: &Value) -> std::fmt::Result {
    let parts = ["allOf", "oneOf"].iter().find_map(|key| schema[*key].as_array());
    if let Some(parts) = parts {
        let of = if schema["allOf"].is_array() { "All of" } else { "One of" };
        let named: Vec<_> = parts.iter().map(kind).collect();
        writeln!(page, "{of}: {}.\n", named.join(", "))?;
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        writeln!(page, "One of {}.\n", values.join(", "))?;
    }
    let own = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
    let properties: Vec<_> = own.filter(|part| part["properties"].is_object()).collect();
    if properties.is_empty() {
        return Ok(());
    }
    writeln!(page, "| field | type | |\n|---|---|---|")?;
    for part in properties {
        for (name, property) in object(&part["properties"]) {
            let needed = part["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            let needed = if needed { "*Needed.* " } else { "" };
            writeln!(page, "| `{name}` | {} | {needed}{} |", kind(property), about(property))?;
        }
    }
    writeln!(page)
}

/// The type of a value in words, with its limits.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{}-object)", name.to_lowercase());
    }
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().map(kind).collect::<Vec<_>>().join(" with ");
    }
    if let Some(any) = schema["oneOf"].as_array() {
        return any.iter().map(kind).filter(|one| one != "null").collect::<Vec<_>>().join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
    }
    plain(schema)
}

fn plain(schema: &Value) -> String {
    let types: Vec<_> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(some) => some.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        _ => return "any".into(),
    };
    let name = types.join(" or ");
    let name = match name.as_str() {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        "object" if schema["properties"].is_object() => "its own fields".into(),
        "string" if schema["format"] == "date-time" => "time".into(),
        _ => name,
    };
    name + &limits(schema)
}

fn limits(schema: &Value) -> String {
    let bound = |low: &str, high: &str| match (&schema[low], &schema[high]) {
        (Value::Null, Value::Null) => None,
        (low, Value::Null) => Some(format!(", at least {low}")),
        (Value::Null, high) => Some(format!(", at most {high}")),
        (low, high) => Some(format!(", {low} to {high}")),
    };
    // At least 0 is what a count is anyway.
    let number = bound("minimum", "maximum").filter(|limit| limit != ", at least 0");
    let length = bound("minLength", "maxLength").map(|limit| format!("{limit} characters"));
    number.or(length).unwrap_or_default()
}

/// The description of a schema, or of the one it wraps, on one line of a table.
fn about(schema: &Value) -> String {
    let wrapped = schema["oneOf"].as_array().into_iter().flatten().map(|one| &one["description"]);
    let text = [&schema["description"]].into_iter().chain(wrapped).find_map(Value::as_str);
    text.unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

fn title(tag: &str) -> String {
    let mut letters = tag.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object of the OpenAPI file")
}
